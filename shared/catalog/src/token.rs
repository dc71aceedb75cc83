//! Tokens for a client's id and secret (OAuth 2.0, RFC 6749, section 4.4).
//!
//! The request is the one that Iceberg's own clients make: a form with id and secret in it, sent to the
//! catalog itself or to whoever issues its tokens. A token that can't be fetched means that the catalog was not
//! asked at all, so a failure here never leaves an outcome unknown.

use async_trait::async_trait;
use icefall_aws::{Issuer, Lent};
use icefall_clock::{Clock, Timestamp};
use icefall_secret::Secret;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, Url};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Answer, Refusal, shorten};
use crate::config::ClientCredentials;
use crate::error::{CatalogError, Operation, Reason};
use crate::transport::{body, sources};

/// Longest answer that is read.
const ANSWER_BYTES: usize = 1 << 20;
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CHECK: &str = "catalog.oauth2: token_endpoint, client_id, client_secret and scope";

/// Where tokens are fetched.
pub(crate) struct TokenEndpoint {
    pub(crate) http: reqwest::Client,
    pub(crate) url: Url,
    pub(crate) client: ClientCredentials,
    pub(crate) clock: Arc<dyn Clock>,
    /// The catalog's warehouse, for errors.
    pub(crate) subject: String,
}

/// The answer, as far as it matters.
#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    /// Seconds; some issuers write them as text.
    #[serde(default)]
    expires_in: Option<Value>,
}

impl TokenBody {
    fn expires(&self, now: Timestamp) -> Option<Timestamp> {
        let seconds = match self.expires_in.as_ref()? {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_u64(),
        };
        seconds.map(|seconds| now.plus(Duration::from_secs(seconds)))
    }
}

#[async_trait]
impl Issuer for TokenEndpoint {
    /// The token, and never the header: it must not print.
    type Value = Secret;
    type Error = CatalogError;

    async fn issue(&self) -> Result<Lent<Secret>, CatalogError> {
        let asked = self.clock.now();
        let request = self.http.post(self.url.clone()).header(CONTENT_TYPE, FORM).header(ACCEPT, JSON);
        let response = request.body(self.form()).send().await.map_err(|error| self.unanswered(error))?;
        let answer = self.read(response).await?;
        if !answer.is_success() {
            return Err(self.refused(&answer));
        }
        let body = serde_json::from_slice::<TokenBody>(&answer.body).ok();
        let body = body.filter(|body| is_token(&body.access_token)).ok_or_else(|| {
            let message = "the answer holds no access_token; check catalog.oauth2.token_endpoint";
            CatalogError::Misconfigured(Reason { status: Some(answer.status), ..self.reason(message) })
        })?;
        let expires = body.expires(asked);
        Ok(Lent { value: Secret::new(body.access_token), expires })
    }
}

impl TokenEndpoint {
    /// Written with the encoding that forms have, which `Url` knows.
    fn form(&self) -> String {
        let ClientCredentials { client_id, client_secret, scope, audience, .. } = &self.client;
        let mut url = self.url.clone();
        url.set_query(None);
        url.query_pairs_mut()
            .append_pair("grant_type", "client_credentials")
            .append_pair("scope", scope)
            .append_pair("client_id", client_id)
            .append_pair("client_secret", client_secret.expose())
            .extend_pairs(audience.iter().map(|audience| ("audience", audience)));
        url.query().unwrap_or_default().to_owned()
    }

    async fn read(&self, mut response: Response) -> Result<Answer, CatalogError> {
        let status = response.status().as_u16();
        let read = body(&mut response, ANSWER_BYTES).await.map_err(|error| self.unanswered(error))?;
        let body = read.ok_or_else(|| {
            let message = "the answer is no token: it is too long; check catalog.oauth2.token_endpoint";
            CatalogError::Misconfigured(Reason { status: Some(status), ..self.reason(message) })
        })?;
        Ok(Answer { status, error_type: None, retry_after: None, date: None, body })
    }

    fn refused(&self, answer: &Answer) -> CatalogError {
        let refusal = Refusal::read(answer, std::slice::from_ref(&self.client.client_secret));
        let reason =
            Reason { status: Some(answer.status), kind: refusal.kind, ..self.reason(refusal.message) };
        match answer.status {
            429 => CatalogError::Throttled(reason),
            408 | 500.. => CatalogError::Unreachable(reason),
            _ => CatalogError::Denied(reason),
        }
    }

    /// The catalog itself was asked nothing, whatever happened here.
    fn unanswered(&self, error: reqwest::Error) -> CatalogError {
        CatalogError::Unreachable(self.reason(shorten(&sources(&error.without_url()))))
    }

    fn reason(&self, message: impl Into<String>) -> Reason {
        let mut reason = Reason::new(Operation::SignIn, self.subject.clone(), message);
        reason.request = Some(format!("POST {}", self.url));
        reason.check = CHECK;
        reason
    }
}

/// Whether it can stand in a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Debug for TokenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenEndpoint")
            .field("url", &self.url.as_str())
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
