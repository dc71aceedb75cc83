//! AWS Signature Version 4 for what no SDK signs, as a pure function: REST catalogs, and the two services that keep
//! secrets.
//!
//! The signature covers the request's bytes as they go over the wire, so it is made last, anew for every try, from
//! nothing but its arguments. What catalogs need beyond the common case (see
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>): the path, encoded
//! once on the wire, is encoded a second time in the canonical request; the payload's hash is sent as
//! `x-amz-content-sha256`, in hex and never `UNSIGNED-PAYLOAD`, which S3 Tables refuses; a session token is sent and
//! signed. `User-Agent` stays unsigned since proxies change it, and `Host` is left to the HTTP client, which sends the
//! same host and port that are signed here, once.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SignatureLocation, SigningSettings,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use http::{HeaderMap, HeaderName, HeaderValue};
use icefall_clock::Timestamp;

/// A request to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The complete URL, percent-encoded as it is sent.
    pub url: &'a str,
    /// The headers to sign besides `Host` and those that signing adds.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, empty when there is none.
    pub body: &'a [u8],
}

/// What a signature is valid for, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The service's signing name.
    pub name: &'a str,
    /// The region.
    pub region: &'a str,
    /// The time of signing; servers accept some minutes of difference.
    pub time: Timestamp,
}

/// Why a request can't be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The URL or a header is not one.
    #[error("the request can't be signed: {0}")]
    Request(#[from] aws_sigv4::http_request::SigningError),
    /// The parameters of the signature are incomplete.
    #[error("the signature's parameters are incomplete: {0}")]
    Parameters(#[from] v4::signing_params::BuildError),
    /// The URL is none.
    #[error("the URL to be signed is none")]
    Url,
    /// The credentials hold what a header can't.
    #[error("the credentials hold characters that a header can't")]
    Credentials,
}

/// The headers that make `request` a signed one: `authorization`, `x-amz-date`, `x-amz-content-sha256` and, for temporary
/// credentials, `x-amz-security-token`.
pub fn sign(
    request: &Signable<'_>,
    scope: &Scope<'_>,
    credentials: &Credentials,
) -> Result<HeaderMap, SignError> {
    let identity: Identity = credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.name)
        .time(scope.time.to_system_time())
        .settings(settings())
        .build()?
        .into();
    let signable = SignableRequest::new(
        request.method,
        request.url,
        request.headers.iter().copied(),
        SignableBody::Bytes(request.body),
    )?;
    let (instructions, _) = aws_sigv4::http_request::sign(signable, &parameters)?.into_parts();
    instructions.headers().map(|(name, value)| header(name, value)).collect()
}

/// The URL of a `GET` that is signed by its query, for whoever is handed it: good for `expires_in` from the scope's time.
pub fn presign(
    url: &str,
    scope: &Scope<'_>,
    expires_in: Duration,
    credentials: &Credentials,
) -> Result<String, SignError> {
    let identity: Identity = credentials.clone().into();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(expires_in);
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.name)
        .time(scope.time.to_system_time())
        .settings(settings)
        .build()?
        .into();
    let signable = SignableRequest::new("GET", url, std::iter::empty(), SignableBody::Bytes(&[]))?;
    let (instructions, _) = aws_sigv4::http_request::sign(signable, &parameters)?.into_parts();
    let mut request = http::Request::builder().uri(url).body(()).map_err(|_| SignError::Url)?;
    instructions.apply_to_request_http1x(&mut request);
    Ok(request.uri().to_string())
}

/// The crate's defaults are those of all services but S3: the path encoded twice and normalised, the token included.
fn settings() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SignError> {
    let name = HeaderName::try_from(name).map_err(|_| SignError::Credentials)?;
    let mut value = HeaderValue::try_from(value).map_err(|_| SignError::Credentials)?;
    value.set_sensitive(matches!(name.as_str(), "authorization" | "x-amz-security-token"));
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's documentation of presigned requests is S3's, which signs differently; this is held against
    /// the parts that every such URL has, and against itself.
    #[test]
    fn a_presigned_url_names_who_signed_it_for_what_and_until_when() {
        let keys = Credentials::new("AKID", "hush", Some("token/+".to_owned()), None, "test");
        let time = Timestamp::from_unix_ms(1_709_251_199_000);
        let scope = Scope { name: "kafka-cluster", region: "eu-central-1", time };
        let url = "https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect";
        let signed = presign(url, &scope, Duration::from_mins(15), &keys).expect("it is signed");
        for part in [
            "Action=kafka-cluster%3AConnect",
            "X-Amz-Algorithm=AWS4-HMAC-SHA256",
            "X-Amz-Credential=AKID%2F20240229%2Feu-central-1%2Fkafka-cluster%2Faws4_request",
            "X-Amz-Date=20240229T235959Z",
            "X-Amz-Expires=900",
            "X-Amz-SignedHeaders=host",
            "X-Amz-Security-Token=token%2F%2B",
            "X-Amz-Signature=",
        ] {
            assert!(signed.contains(part), "{part} is not in {signed}");
        }
        assert!(!signed.contains("hush"));
        let later = Scope { time: Timestamp::from_unix_ms(1_709_251_200_000), ..scope };
        assert_ne!(presign(url, &later, Duration::from_mins(15), &keys).expect("signed"), signed);
    }
}
