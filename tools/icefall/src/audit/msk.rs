//! Signing in to MSK by IAM: the token is a presigned URL, as MSK's own signers make it
//! (<https://github.com/aws/aws-msk-iam-sasl-signer-python>).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use icefall_aws::CachedCredentials;
use icefall_aws::sign::{Scope, presign};
use icefall_clock::{Clock, Timestamp};
use icefall_secret::Secret;
use tokio::runtime::Handle;

/// How long a token is good for: MSK takes no more.
const LIFETIME: Duration = Duration::from_mins(15);

/// Keys that a cluster of MSK knows, through IAM.
#[derive(Clone, Debug)]
pub struct MskKeys {
    /// The keys.
    pub keys: CachedCredentials,
    /// The cluster's region.
    pub region: String,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where the keys are fetched: librdkafka asks on threads of its own.
    pub runtime: Handle,
}

/// What a client shows.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) text: Secret,
    /// Its end, in milliseconds since the epoch.
    pub(crate) ends_ms: i64,
}

impl MskKeys {
    /// A token from now on.
    pub(crate) fn token(&self) -> Result<Token, Box<dyn std::error::Error>> {
        let (keys, runtime) = (self.keys.clone(), self.runtime.clone());
        // A thread of its own: the one that asks may be one of the runtime's.
        let keys = std::thread::spawn(move || runtime.block_on(async move { keys.current().await }));
        let (keys, _) = keys.join().map_err(|_| "the keys can't be fetched")??;
        token(&keys, &self.region, self.clock.now())
    }
}

fn token(
    keys: &aws_credential_types::Credentials,
    region: &str,
    now: Timestamp,
) -> Result<Token, Box<dyn std::error::Error>> {
    let url = format!("https://kafka.{region}.amazonaws.com/?Action=kafka-cluster%3AConnect");
    let scope = Scope { name: "kafka-cluster", region, time: now };
    let signed = presign(&url, &scope, LIFETIME, keys)?;
    let signed = Secret::new(format!("{signed}&User-Agent=icefall-audit"));
    let text = Secret::new(URL_SAFE_NO_PAD.encode(signed.expose()));
    Ok(Token { text, ends_ms: now.plus(LIFETIME).unix_ms_signed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_the_signed_url_of_a_connection() {
        let keys = aws_credential_types::Credentials::new("AKID", "hush", None, None, "test");
        let made = token(&keys, "eu-central-1", Timestamp::from_unix_ms(1_709_251_199_000)).expect("a token");
        assert_eq!(made.ends_ms, 1_709_252_099_000);
        let url = URL_SAFE_NO_PAD.decode(made.text.expose()).expect("it is base64 without padding");
        let url = String::from_utf8(url).expect("a URL");
        assert!(url.starts_with("https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect&"));
        for part in ["X-Amz-Expires=900", "%2Fkafka-cluster%2Faws4_request", "&User-Agent=icefall-audit"] {
            assert!(url.contains(part), "{part} is not in {url}");
        }
        assert!(!format!("{made:?}").contains(made.text.expose()));
    }
}
