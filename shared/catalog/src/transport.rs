//! One request over HTTP, and what is known about it afterwards.
//!
//! The distinction that matters is whether a request may have arrived: an error before the connection stood means
//! that nothing was sent, any later one that the answer was lost. The client is kept plain, so that the bytes that
//! were signed are the bytes that are sent: HTTP/1.1, no redirects, no compression, no proxy from the environment.

use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use bytes::{Bytes, BytesMut};
use icefall_clock::Clock;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use tracing::debug;
use uuid::Uuid;

use crate::answer::{Answer, Refusal, shorten};
use crate::config::{Limits, Signing};
use crate::dialect::{self, Dialect, Meaning};
use crate::error::{CatalogError, Operation, Reason};
use crate::sign::{Scope, Signable, sign};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request, to be signed anew whenever it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    /// The table, namespace or warehouse that it is about.
    pub(crate) subject: String,
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// JSON.
    pub(crate) body: Option<Bytes>,
    pub(crate) idempotency_key: Option<Uuid>,
}

impl Request {
    pub(crate) fn get(operation: Operation, subject: String, url: Url) -> Self {
        Self { operation, subject, method: Method::GET, url, body: None, idempotency_key: None }
    }

    pub(crate) fn post(operation: Operation, subject: String, url: Url, body: Vec<u8>) -> Self {
        let body = Some(Bytes::from(body));
        Self { operation, subject, method: Method::POST, url, body, idempotency_key: None }
    }

    /// A reason that this request's answer didn't give, or gave in its own way.
    pub(crate) fn reason(&self, message: impl Into<String>) -> Reason {
        let mut reason = Reason::new(self.operation, self.subject.clone(), message);
        reason.request = Some(self.line());
        reason
    }

    /// The request line, without the query.
    fn line(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        format!("{} {url}", self.method)
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let key = self.idempotency_key.and_then(|key| HeaderValue::try_from(key.to_string()).ok());
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        headers
    }

    fn bytes(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }
}

/// A try that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: CatalogError,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        Self { error, retry_after: None }
    }
}

/// Sends requests.
#[derive(Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    signing: Option<Signing>,
    dialect: &'static Dialect,
    clock: Arc<dyn Clock>,
    answer_bytes: usize,
}

impl Transport {
    pub(crate) fn new(
        signing: Option<Signing>,
        dialect: &'static Dialect,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .user_agent(concat!("icefall/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .no_proxy()
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .referer(false)
            .connect_timeout(limits.connect_timeout)
            .timeout(limits.request_timeout)
            // A function is frozen between invocations: connections that sat idle are not to be trusted.
            .pool_idle_timeout(Duration::from_secs(20))
            .build()?;
        Ok(Self { http, signing, dialect, clock, answer_bytes: limits.answer_bytes })
    }

    /// Sends `request` once. `Ok` is an answer of success, read to its end.
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer, Failure> {
        let credentials = self.credentials(request).await?;
        let headers = self.headers(request, credentials.as_ref())?;
        let started = self.clock.now();
        let result = self.exchange(request, headers).await;
        let answer =
            result.inspect_err(|failure| debug!(request = %request.line(), %failure, "no answer"))?;
        let took = self.clock.now().since(started);
        debug!(request = %request.line(), status = answer.status, bytes = answer.body.len(), ?took, "answered");
        if answer.is_success() {
            return Ok(answer);
        }
        let error = self.refused(request, &answer, credentials.as_ref());
        Err(Failure { error, retry_after: answer.retry_after })
    }

    async fn exchange(&self, request: &Request, headers: HeaderMap) -> Result<Answer, CatalogError> {
        let mut builder = self.http.request(request.method.clone(), request.url.clone()).headers(headers);
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        let response = builder.send().await.map_err(|error| unanswered(request, error))?;
        self.read(request, response).await
    }

    async fn read(&self, request: &Request, mut response: Response) -> Result<Answer, CatalogError> {
        let status = response.status().as_u16();
        let header = |name: HeaderName| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let error_type = header(HeaderName::from_static("x-amzn-errortype"));
        let retry_after = header(RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
        let mut body = BytesMut::new();
        let lost = |error| unanswered(request, error);
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            if body.len() + chunk.len() > self.answer_bytes {
                return Err(self.oversized(request, status));
            }
            body.extend_from_slice(&chunk);
        }
        let retry_after = retry_after.map(Duration::from_secs);
        Ok(Answer { status, error_type, retry_after, body: body.freeze() })
    }

    fn oversized(&self, request: &Request, status: u16) -> CatalogError {
        let message = format!("the answer is longer than {} bytes", self.answer_bytes);
        let reason = Reason { status: Some(status), ..request.reason(message) };
        CatalogError::Malformed(reason)
    }

    fn refused(&self, request: &Request, answer: &Answer, credentials: Option<&Credentials>) -> CatalogError {
        let refusal = Refusal::read(answer, credentials);
        let meaning = dialect::meaning(answer.status, &refusal);
        let reason = Reason {
            status: Some(answer.status),
            kind: refusal.kind,
            needs: self.dialect.permissions(request.operation),
            ..request.reason(refusal.message)
        };
        match meaning {
            Meaning::Conflict => conflict(reason),
            Meaning::NotFound => CatalogError::NotFound(reason),
            Meaning::Denied => CatalogError::Denied(reason),
            Meaning::Throttled => CatalogError::Throttled(reason),
            Meaning::Rejected => CatalogError::Rejected(reason),
            // Redirects are not followed: the signature is the host's, and credentials are not carried elsewhere.
            Meaning::Unclear if answer.status < 400 => CatalogError::Malformed(reason),
            Meaning::Unclear => CatalogError::Unavailable(reason),
        }
    }

    async fn credentials(&self, request: &Request) -> Result<Option<Credentials>, CatalogError> {
        let Some(signing) = &self.signing else { return Ok(None) };
        let provided = signing.credentials.provide_credentials().await;
        provided.map(Some).map_err(|error| {
            let message = format!("no credentials to sign with: {}", sources(&error));
            CatalogError::Denied(Reason {
                needs: self.dialect.permissions(request.operation),
                ..request.reason(message)
            })
        })
    }

    /// All headers, those of the signature last: it covers the others.
    fn headers(
        &self,
        request: &Request,
        credentials: Option<&Credentials>,
    ) -> Result<HeaderMap, CatalogError> {
        let mut headers = request.headers();
        if let (Some(signing), Some(credentials)) = (&self.signing, credentials) {
            let scope = Scope { name: &signing.name, region: &signing.region, time: self.clock.now() };
            let signature = signature(request, &headers, &scope, credentials)?;
            headers.extend(signature);
        }
        headers.insert(ACCEPT, JSON);
        Ok(headers)
    }
}

/// What a conflict is depends on what was asked: nothing that is only read can conflict.
fn conflict(reason: Reason) -> CatalogError {
    match reason.operation {
        Operation::Commit => CatalogError::Conflict(reason),
        Operation::CreateTable | Operation::CreateNamespace => CatalogError::AlreadyExists(reason),
        _ => CatalogError::Rejected(reason),
    }
}

fn signature(
    request: &Request,
    headers: &HeaderMap,
    scope: &Scope<'_>,
    credentials: &Credentials,
) -> Result<HeaderMap, CatalogError> {
    let headers: Vec<(&str, &str)> =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    let signable = Signable {
        method: request.method.as_str(),
        url: request.url.as_str(),
        headers: &headers,
        body: request.bytes(),
    };
    sign(&signable, scope, credentials)
        .map_err(|error| CatalogError::Misconfigured(request.reason(error.to_string())))
}

/// A request without a complete answer: nothing was sent when there was no connection, else anything is possible.
fn unanswered(request: &Request, error: reqwest::Error) -> CatalogError {
    let (connecting, unsendable) = (error.is_connect(), error.is_builder());
    // The URL is in the reason already, and there without its query.
    let reason = request.reason(shorten(&sources(&error.without_url())));
    if connecting {
        CatalogError::Unreachable(reason)
    } else if unsendable {
        CatalogError::Misconfigured(reason)
    } else {
        CatalogError::Unavailable(reason)
    }
}

/// An error with all that caused it.
fn sources(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = chain.map(ToString::to_string).collect();
    texts.join(": ")
}
