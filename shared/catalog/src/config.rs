//! What has to be known about a catalog before it can be asked anything.
//!
//! [`CatalogConfig`] is this crate's own input, so that it depends on no settings file; the composition roots
//! fill it in. [`ServerConfig`] is the catalog's side: what it answers to `GET /v1/config`, of which the prefix,
//! the separator of namespace levels and the promise of idempotency matter here.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use icefall_aws::{CachedCredentials, Network};
use icefall_secret::Secret;
use serde::Deserialize;

/// A catalog, and how it is reached.
#[derive(Clone, Debug)]
pub struct CatalogConfig {
    /// The base of the REST API: `/v1/config` is right below it.
    pub uri: String,
    /// The warehouse's name, as the catalog wants it: an ARN, a bucket's location, an account. May be empty.
    pub warehouse: String,
    /// How requests prove who sends them.
    pub sign_in: SignIn,
    /// Whether tables are asked for together with credentials for their files.
    pub vended_credentials: bool,
    /// What stands between.
    pub network: Network,
    /// Time-outs, sizes and retries.
    pub limits: Limits,
}

/// How requests prove who sends them.
#[derive(Clone, Debug)]
pub enum SignIn {
    /// They don't.
    Unsigned,
    /// Each is signed.
    SigV4(Signing),
    /// Each carries this token, which never changes.
    Bearer(Secret),
    /// Each carries a token that is fetched for a client's id and secret.
    OAuth2(ClientCredentials),
}

/// A client that fetches tokens (OAuth 2.0, RFC 6749, section 4.4).
#[derive(Clone, Debug)]
pub struct ClientCredentials {
    /// Where tokens are fetched; `None`: `v1/oauth/tokens` below the catalog's base.
    pub token_endpoint: Option<String>,
    /// The client's id.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Secret,
    /// What the token is to be good for.
    pub scope: String,
    /// Whom the token is for, where the issuer wants to know.
    pub audience: Option<String>,
}

/// How requests are signed (AWS Signature Version 4).
#[derive(Clone)]
pub struct Signing {
    /// The service's signing name: `s3tables`, `osstables`, `glue`, `execute-api`.
    pub name: String,
    /// The region to sign for.
    pub region: String,
    /// Asked before every try.
    pub credentials: CachedCredentials,
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing")
            .field("name", &self.name)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// Bounds on time, size and number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// For making a connection.
    pub connect_timeout: Duration,
    /// For one request, from connecting to the last byte of the answer.
    pub request_timeout: Duration,
    /// Bytes of an answer; longer ones are not read to the end.
    pub answer_bytes: usize,
    /// How often a read is tried, and how often a connection is tried for anything else. At least once.
    pub tries: u32,
    /// The longest wait before the second try; it doubles with each further one.
    pub first_wait: Duration,
    /// No try begins later than this after the first one.
    pub retry_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_mins(1),
            // S3 Tables and Glue refuse metadata above 50 MB.
            answer_bytes: 128 << 20,
            tries: 4,
            first_wait: Duration::from_millis(200),
            retry_within: Duration::from_mins(1),
        }
    }
}

/// What the catalog says about itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ServerConfig {
    #[serde(default)]
    defaults: Option<HashMap<String, Option<String>>>,
    #[serde(default)]
    overrides: Option<HashMap<String, Option<String>>>,
    /// For how long it remembers keys; absent: it knows none.
    #[serde(default)]
    idempotency_key_lifetime: Option<String>,
    /// What can be asked of it; absent: what every catalog has.
    #[serde(default)]
    endpoints: Option<Vec<String>>,
}

/// The endpoint for a table's credentials alone, as catalogs list it.
const CREDENTIALS: &str = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";

impl ServerConfig {
    /// What goes between `/v1/` and the rest of every path. Never built by us: S3 Tables wants the encoded ARN
    /// of the bucket, SeaweedFS its name, Glue `catalogs/` and a name.
    pub(crate) fn prefix(&self) -> &str {
        self.setting("prefix").unwrap_or_default()
    }

    /// What joins the levels of a namespace in a path, encoded as it is to be sent.
    pub(crate) fn namespace_separator(&self) -> &str {
        self.setting("namespace-separator").filter(|separator| !separator.is_empty()).unwrap_or("%1F")
    }

    /// Whether the catalog promises to honour `Idempotency-Key`.
    pub(crate) fn honours_idempotency(&self) -> bool {
        self.idempotency_key_lifetime.is_some()
    }

    /// Whether a table's credentials can be asked for without the table.
    pub(crate) fn has_credentials(&self) -> bool {
        self.endpoints
            .as_ref()
            .is_some_and(|endpoints| endpoints.iter().any(|endpoint| endpoint == CREDENTIALS))
    }

    fn setting(&self, key: &str) -> Option<&str> {
        let overridden = self.overrides.as_ref().and_then(|settings| settings.get(key)?.as_deref());
        overridden.or_else(|| self.defaults.as_ref().and_then(|settings| settings.get(key)?.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_win_over_defaults() {
        let config: ServerConfig = serde_json::from_str(
            r#"{"defaults":{"prefix":"a","namespace-separator":"%2E"},"overrides":{"prefix":"b"},"endpoints":["GET /v1/x"],
                "idempotency-key-lifetime":"PT30M"}"#,
        )
        .unwrap();
        assert_eq!(config.prefix(), "b");
        assert_eq!(config.namespace_separator(), "%2E");
        assert!(config.honours_idempotency());
    }

    #[test]
    fn everything_is_optional() {
        for body in ["{}", r#"{"defaults":null,"overrides":{"prefix":null}}"#] {
            let config: ServerConfig = serde_json::from_str(body).unwrap();
            assert_eq!(config.prefix(), "");
            assert_eq!(config.namespace_separator(), "%1F");
            assert!(!config.honours_idempotency());
        }
    }
}
