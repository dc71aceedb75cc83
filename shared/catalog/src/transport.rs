//! One request over HTTP, and what is known about it afterwards.
//!
//! The distinction that matters is whether a request may have arrived: an error before the connection stood means
//! that nothing was sent, any later one that the answer was lost. The client is kept plain, so that the bytes that
//! were signed are the bytes that are sent: HTTP/1.1, no redirects, no compression, no proxy from the environment.

use std::sync::Arc;
use std::time::Duration;

use aws_smithy_types::date_time::{DateTime, Format};
use bytes::{Bytes, BytesMut};
use icefall_clock::{Clock, Timestamp};
use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use tracing::debug;
use uuid::Uuid;

use crate::answer::{Answer, Refusal, shorten};
use crate::config::{CatalogConfig, Limits};
use crate::dialect::{self, Dialect, Meaning};
use crate::error::{CatalogError, Operation, Reason};
use crate::route::Base;
use crate::sign_in::{Authorizer, Proof, Refused};

const ACCESS_DELEGATION: HeaderName = HeaderName::from_static("x-iceberg-access-delegation");
const VENDED_CREDENTIALS: HeaderValue = HeaderValue::from_static("vended-credentials");
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
    /// Whether credentials for the table's files are asked for as well.
    pub(crate) with_credentials: bool,
}

impl Request {
    pub(crate) fn get(operation: Operation, subject: String, url: Url) -> Self {
        let (body, idempotency_key, with_credentials) = (None, None, false);
        Self { operation, subject, method: Method::GET, url, body, idempotency_key, with_credentials }
    }

    pub(crate) fn post(operation: Operation, subject: String, url: Url, body: Vec<u8>) -> Self {
        let body = Some(Bytes::from(body));
        Self { method: Method::POST, body, ..Self::get(operation, subject, url) }
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
        if self.with_credentials {
            headers.insert(ACCESS_DELEGATION, VENDED_CREDENTIALS);
        }
        headers
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }
}

/// A try that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: CatalogError,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// What may be put right about it.
    pub(crate) refused: Option<Refused>,
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        Self { error, retry_after: None, refused: None }
    }
}

/// Sends requests.
#[derive(Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    authorizer: Authorizer,
    dialect: &'static Dialect,
    clock: Arc<dyn Clock>,
    answer_bytes: usize,
}

impl Transport {
    /// For the catalog at `base`. The error says what is wrong with the settings.
    pub(crate) fn new(config: CatalogConfig, base: &Base, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let CatalogConfig { sign_in, network, limits, warehouse, .. } = config;
        let http = network.reqwest().map_err(|error| error.to_string())?;
        let http = client(http, &limits).map_err(|error| sources(&error))?;
        let authorizer = Authorizer::new(sign_in, base, &http, &warehouse, Arc::clone(&clock));
        let authorizer = authorizer.map_err(|error| error.to_string())?;
        let dialect = authorizer.dialect();
        Ok(Self { http, authorizer, dialect, clock, answer_bytes: limits.answer_bytes })
    }

    /// What is particular to this catalog.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// Puts right what may have been wrong with a refused request; `false`: there is nothing to try again with.
    pub(crate) async fn correct(&self, refused: &Refused) -> bool {
        self.authorizer.correct(refused).await
    }

    /// Sends `request` once. `Ok` is an answer of success, read to its end.
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer, Failure> {
        let mut headers = request.headers();
        let proof = self.authorizer.prove(request, &headers).await;
        let proof = proof.map_err(|error| self.unproven(request, error))?;
        headers.extend(proof.headers.clone());
        headers.insert(ACCEPT, JSON);
        let started = self.clock.now();
        let result = self.exchange(request, headers).await;
        let answer =
            result.inspect_err(|failure| debug!(request = %request.line(), %failure, "no answer"))?;
        let took = self.clock.now().since(started);
        debug!(request = %request.line(), status = answer.status, bytes = answer.body.len(), ?took, "answered");
        if answer.is_success() {
            return Ok(answer);
        }
        let error = self.refused(request, &answer, &proof);
        let refused = matches!(error, CatalogError::Denied(_)).then(|| Refused::new(&proof, &answer));
        Err(Failure { error, retry_after: answer.retry_after, refused })
    }

    /// Keys or a token that are missing are most likely a lack of permissions too.
    fn unproven(&self, request: &Request, error: CatalogError) -> CatalogError {
        match error {
            CatalogError::Denied(reason) if reason.operation == request.operation => {
                CatalogError::Denied(Reason { needs: self.dialect.permissions(request.operation), ..reason })
            }
            other => other,
        }
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
        let date = header(DATE).and_then(|date| DateTime::from_str(&date, Format::HttpDate).ok());
        let date =
            date.and_then(|date| u64::try_from(date.to_millis().ok()?).ok()).map(Timestamp::from_unix_ms);
        let read =
            body(&mut response, self.answer_bytes).await.map_err(|error| unanswered(request, error))?;
        let body = read.ok_or_else(|| self.oversized(request, status))?;
        let retry_after = retry_after.map(Duration::from_secs);
        Ok(Answer { status, error_type, retry_after, date, body })
    }

    fn oversized(&self, request: &Request, status: u16) -> CatalogError {
        let message = format!("the answer is longer than {} bytes", self.answer_bytes);
        let reason = Reason { status: Some(status), ..request.reason(message) };
        CatalogError::Malformed(reason)
    }

    fn refused(&self, request: &Request, answer: &Answer, proof: &Proof) -> CatalogError {
        let refusal = Refusal::read(answer, &proof.secrets);
        let meaning = dialect::meaning(answer.status, &refusal);
        let reason = Reason {
            status: Some(answer.status),
            kind: refusal.kind,
            needs: self.dialect.permissions(request.operation),
            check: self.authorizer.check(),
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
}

/// The client is kept plain, so that what is sent is what was signed.
fn client(http: reqwest::ClientBuilder, limits: &Limits) -> Result<reqwest::Client, reqwest::Error> {
    http.user_agent(concat!("icefall/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .http1_only()
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .referer(false)
        .connect_timeout(limits.connect_timeout)
        .timeout(limits.request_timeout)
        // A function is frozen between invocations: connections that sat idle are not to be trusted.
        .pool_idle_timeout(Duration::from_secs(20))
        .build()
}

/// An answer's body; `None` when it is longer than `limit`.
pub(crate) async fn body(response: &mut Response, limit: usize) -> Result<Option<Bytes>, reqwest::Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.freeze()))
}

/// What a conflict is depends on what was asked: nothing that is only read can conflict.
fn conflict(reason: Reason) -> CatalogError {
    match reason.operation {
        Operation::Commit => CatalogError::Conflict(reason),
        Operation::CreateTable | Operation::CreateNamespace => CatalogError::AlreadyExists(reason),
        _ => CatalogError::Rejected(reason),
    }
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
pub(crate) fn sources(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = chain.map(ToString::to_string).collect();
    texts.join(": ")
}
