//! What the S3 adapter puts on the wire, and what it makes of every kind of answer.
//!
//! Object stores that are not AWS's refuse what the SDK sends by default: `aws-chunked` bodies and
//! trailing checksums (Alibaba OSS), headers beyond an allow-list (S3 Tables, which also answers
//! 403 to `Connection: keep-alive` and `Expect`). So the request's bytes are looked at as they arrive.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError, future};
use bytes::Bytes;
use icefall_aws::{CachedCredentials, CallLimits, http_client};
use icefall_clock::{Clock, SystemClock};
use icefall_store::{Location, ObjectLister, ObjectMeta, ObjectStore, S3Config, S3Store, StoreError};
use icefall_testkit::{FakeClock, Reply, Request, ScriptedServer};

const LIMITS: CallLimits = CallLimits {
    attempts: 3,
    backoff: Duration::from_millis(1),
    connect: Duration::from_millis(500),
    attempt: Duration::from_millis(500),
};

/// SHA-256 of `PAR1`, as `printf PAR1 | sha256sum` gives it.
const PAR1_SHA256: &str = "fbc62d3b511368ee275ddc74117d8689b430e1427220e25d30816201d89ca7b6";

fn credentials() -> CachedCredentials {
    let session = Some("session-token".to_owned());
    cached(Credentials::new("AKIDSTORE", "secret", session, None, "test"))
}

fn cached(provider: impl ProvideCredentials + 'static) -> CachedCredentials {
    CachedCredentials::new(provider, Arc::new(SystemClock))
}

fn store_at(endpoint: String, credentials: CachedCredentials) -> S3Store {
    let config = S3Config {
        endpoint: Some(endpoint),
        region: "eu-central-1".to_owned(),
        path_style: true,
        credentials,
    };
    S3Store::with_limits(config, http_client(), LIMITS)
}

async fn served(script: impl IntoIterator<Item = Reply>) -> (ScriptedServer, S3Store) {
    let server = ScriptedServer::start(script).await;
    let store = store_at(server.url(), credentials());
    (server, store)
}

fn place() -> Location {
    Location::parse("oss://lake/ns/t/data/h=1/a b.parquet").expect("a location")
}

#[tokio::test]
async fn a_put_is_one_plain_signed_request() {
    let (server, store) = served([Reply::empty(200)]).await;
    store.put(&place(), Bytes::from_static(b"PAR1")).await.expect("it stores");

    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert!(request.line().starts_with("PUT /lake/ns/t/data/h%3D1/a%20b.parquet"), "{}", request.line());
    assert_eq!(request.body, b"PAR1");
    assert_eq!(request.header("content-length"), Some("4"));
    assert_eq!(request.header("x-amz-content-sha256"), Some(PAR1_SHA256));
    assert_eq!(request.header("x-amz-security-token"), Some("session-token"));
    let authorization = request.header("authorization").expect("it is signed");
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDSTORE/"), "{authorization}");
    assert!(authorization.contains("/eu-central-1/s3/aws4_request"), "{authorization}");
    let head = request.head.to_lowercase();
    for forbidden in [
        "aws-chunked",
        "x-amz-trailer",
        "x-amz-checksum",
        "x-amz-sdk-checksum",
        "x-amz-decoded-content-length",
        "x-amz-meta",
        "x-amz-tagging",
        "transfer-encoding",
        "\nexpect:",
        "\nconnection:",
    ] {
        assert!(!head.contains(forbidden), "{forbidden} in {head}");
    }
}

/// As Alibaba's OSS answers what the SDK sends by default.
fn refuses_streaming(request: &Request) -> Reply {
    let hash = request.header("x-amz-content-sha256").unwrap_or_default();
    let chunked = request.header("content-encoding").is_some_and(|encoding| encoding.contains("aws-chunked"));
    if hash.starts_with("STREAMING-") || chunked || request.header("x-amz-trailer").is_some() {
        let body = "<Error><Code>InvalidArgument</Code><Message>aws-chunked encoding is not supported</Message></Error>";
        return Reply::xml(400, body);
    }
    Reply::empty(200)
}

/// Case T07: the settings have no flag for it.
#[tokio::test]
async fn t07_an_endpoint_without_streaming_payloads_takes_objects_of_every_size() {
    let server = ScriptedServer::deciding(refuses_streaming).await;
    let store = store_at(server.url(), credentials());
    for size in [0, 4, 70_000, 3_000_000] {
        store.put(&place(), vec![7; size].into()).await.expect("it stores");
    }
    let hashes = server.requests();
    let hashes = hashes.iter().map(|request| request.header("x-amz-content-sha256").unwrap_or_default());
    assert!(hashes.clone().all(|hash| hash.len() == 64), "{:?}", hashes.collect::<Vec<_>>());
    assert_eq!(server.requests().len(), 4, "one request each: nothing is sent in parts");
}

/// Another key each time it is asked.
#[derive(Debug, Default)]
struct Rotating(AtomicUsize);

impl ProvideCredentials for Rotating {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let key = format!("AKID{}", self.0.fetch_add(1, Ordering::SeqCst));
        future::ProvideCredentials::ready(Ok(Credentials::new(key, "s", None, None, "test")))
    }
}

#[tokio::test]
async fn t17_what_ended_on_the_way_is_tried_once_more_with_newer_keys() {
    let expired = || Reply::xml(400, "<Error><Code>ExpiredToken</Code><Message>why</Message></Error>");
    let clock = Arc::new(FakeClock::default());
    let credentials = CachedCredentials::new(Rotating::default(), Arc::clone(&clock) as Arc<dyn Clock>);
    let server = ScriptedServer::start([Reply::empty(200), expired(), Reply::empty(200), expired()]).await;
    let store = store_at(server.url(), credentials);
    store.put(&place(), Bytes::from_static(b"PAR1")).await.expect("it stores");
    clock.advance(Duration::from_mins(1));
    store.put(&place(), Bytes::from_static(b"PAR1")).await.expect("it stores with newer keys");
    clock.advance(Duration::from_mins(1));
    let denied = store.put(&place(), Bytes::from_static(b"PAR1")).await.expect_err("newer keys don't help");
    assert!(matches!(denied, StoreError::Denied { .. }), "{denied:?}");
    let keys: Vec<String> = server.requests().iter().map(signed_by).collect();
    assert_eq!(keys, ["AKID0", "AKID0", "AKID1", "AKID1", "AKID2"]);
}

/// The key that a request is signed with.
fn signed_by(request: &Request) -> String {
    let authorization = request.header("authorization").expect("it is signed");
    let scope = authorization.split("Credential=").nth(1).expect("a credential");
    scope.split('/').next().expect("a key").to_owned()
}

#[tokio::test]
async fn a_large_put_is_plain_too() {
    let (server, store) = served([Reply::empty(200)]).await;
    store.put(&place(), vec![7; 3_000_000].into()).await.expect("it stores");
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].body.len()), (1, 3_000_000));
    let head = requests[0].head.to_lowercase();
    assert!(!head.contains("aws-chunked") && !head.contains("\nexpect:"), "{head}");
}

#[tokio::test]
async fn reads_ask_for_no_checksum_and_name_their_range() {
    let body = |bytes: &[u8]| Reply::Answer(200, "application/octet-stream", bytes.to_vec());
    let (server, store) = served([body(b"abcdef"), body(b"bcd"), body(b"abcdef"), body(b"")]).await;
    assert_eq!(store.get(&place()).await.expect("it reads"), "abcdef");
    assert_eq!(store.get_range(&place(), 1..4).await.expect("it reads"), "bcd");
    let whole = store.get_range(&place(), 1..4).await.expect_err("the server ignored the range");
    assert!(matches!(whole, StoreError::Rejected { .. }), "{whole:?}");
    assert_eq!(store.head(&place()).await.expect("it looks up"), ObjectMeta { size: 0 });

    let requests = server.requests();
    assert_eq!(requests[1].header("range"), Some("bytes=1-3"));
    assert!(requests[3].line().starts_with("HEAD /lake/"));
    assert!(requests.iter().all(|request| request.header("x-amz-checksum-mode").is_none()));
}

/// An answer, the variant it must become, and how many requests it may cost.
fn answers() -> Vec<(Reply, &'static str, usize)> {
    let error = |code: &str| format!("<Error><Code>{code}</Code><Message>why</Message></Error>");
    vec![
        (Reply::xml(404, &error("NoSuchKey")), "NotFound", 1),
        (Reply::empty(404), "NotFound", 1),
        (Reply::xml(404, &error("NoSuchBucket")), "NoBucket", 1),
        (Reply::xml(403, &error("SignatureDoesNotMatch")), "Denied", 1),
        (Reply::xml(403, &error("S3TablesUnsupportedHeader")), "Denied", 1),
        (Reply::empty(403), "Denied", 1),
        (Reply::xml(400, &error("ExpiredToken")), "Denied", 1),
        (Reply::xml(400, &error("InvalidRequest")), "Rejected", 1),
        (Reply::Answer(400, "text/html", b"<html>no".to_vec()), "Rejected", 1),
        (Reply::xml(301, &error("PermanentRedirect")), "Rejected", 1),
        (Reply::xml(429, &error("TooManyRequestsException")), "Throttled", 3),
        (Reply::empty(429), "Throttled", 1),
        (Reply::xml(503, &error("SlowDown")), "Throttled", 3),
        (Reply::xml(500, &error("InternalError")), "Unreachable", 3),
        (Reply::Answer(502, "text/html", b"<html>bad gateway".to_vec()), "Unreachable", 3),
        (Reply::HangUp, "Unreachable", 3),
        (Reply::Silence, "Unreachable", 3),
    ]
}

fn variant(error: &StoreError) -> &'static str {
    match error {
        StoreError::NotFound { .. } => "NotFound",
        StoreError::NoBucket { .. } => "NoBucket",
        StoreError::Denied { .. } => "Denied",
        StoreError::Throttled { .. } => "Throttled",
        StoreError::Unreachable { .. } => "Unreachable",
        StoreError::Rejected { .. } => "Rejected",
        StoreError::Malformed { .. } => "Malformed",
    }
}

#[tokio::test]
async fn every_answer_becomes_what_its_caller_can_act_on() {
    for (reply, expected, requests) in answers() {
        let (server, store) = served([reply.clone()]).await;
        let put = store.put(&place(), Bytes::from_static(b"PAR1")).await.expect_err("it fails");
        assert_eq!(variant(&put), expected, "{reply:?} to a put: {put:?}");
        assert_eq!(server.requests().len(), requests, "{reply:?} to a put");
        let get = store.get(&place()).await.expect_err("it fails");
        assert_eq!(variant(&get), expected, "{reply:?} to a get: {get:?}");
    }
}

#[tokio::test]
async fn a_size_that_is_denied_or_missing_is_told_without_a_body() {
    for (status, expected) in [(404, "NotFound"), (403, "Denied"), (500, "Unreachable"), (400, "Rejected")] {
        let (_server, store) = served([Reply::empty(status)]).await;
        let error = store.head(&place()).await.expect_err("it fails");
        assert_eq!(variant(&error), expected, "{error:?}");
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let ok = Reply::Answer(200, "application/octet-stream", b"abc".to_vec());
    let (server, store) = served([Reply::empty(503), Reply::HangUp, ok]).await;
    assert_eq!(store.get(&place()).await.expect("the third try succeeds"), "abc");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_read_again_and_never_taken_for_whole() {
    let partial = Reply::Partial(2, b"abcdef".to_vec());
    let ok = Reply::Answer(200, "application/octet-stream", b"abcdef".to_vec());
    let (_server, store) = served([partial.clone(), ok]).await;
    assert_eq!(store.get(&place()).await.expect("the second try succeeds"), "abcdef");

    let (_server, store) = served([partial]).await;
    let error = store.get(&place()).await.expect_err("it never ends");
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
}

/// A company's proxy that wants somebody to sign in says so with 200.
#[tokio::test]
async fn a_page_of_something_on_the_way_is_no_success() {
    let page = Reply::Page("<html>Sign in</html>");
    let (_server, store) = served([page.clone()]).await;
    let put = store.put(&place(), Bytes::from_static(b"PAR1")).await.expect_err("nothing is stored");
    assert!(matches!(put, StoreError::Unreachable { .. }), "{put:?}");
    let get = store.get(&place()).await.expect_err("it is no object");
    assert!(matches!(get, StoreError::Unreachable { .. }), "{get:?}");
    let why = put.source().expect("a reason").to_string();
    assert!(why.contains("no object store's"), "{why}");

    let ok = Reply::Answer(200, "application/octet-stream", b"abc".to_vec());
    let (_server, store) = served([page, ok]).await;
    assert_eq!(store.get(&place()).await.expect("the second try succeeds"), "abc");
}

#[tokio::test]
async fn nobody_at_the_endpoint_is_unreachable() {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let error =
        store_at(format!("http://{port}"), credentials()).get(&place()).await.expect_err("nobody is there");
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
}

#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("none are set")))
    }
}

#[tokio::test]
async fn missing_credentials_are_a_denial_that_says_so() {
    let server = ScriptedServer::start([Reply::empty(200)]).await;
    let store = store_at(server.url(), cached(NoCredentials));
    assert_eq!(server.requests().len(), 0, "building a store sends nothing");
    let error = store.get(&place()).await.expect_err("it can't sign");
    assert!(matches!(error, StoreError::Denied { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_error_names_the_object_the_answer_and_what_to_do() {
    let body = "<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>";
    let (_server, store) = served([Reply::xml(403, body)]).await;
    let error = store.put(&place(), Bytes::new()).await.expect_err("it is denied");
    let text = error.to_string();
    assert!(
        text.starts_with("can't write oss://lake/ns/t/data/h=1/a b.parquet: access denied; check"),
        "{text}"
    );
    let source = error.source().expect("the answer").to_string();
    assert_eq!(source, "HTTP 403: AccessDenied: not yours");
}

#[tokio::test]
async fn a_listing_goes_on_over_all_pages() {
    let page = |keys: &[&str], next: &str| {
        let mut contents = String::new();
        for key in keys {
            contents.extend(["<Contents><Key>", key, "</Key></Contents>"]);
        }
        Reply::xml(200, &format!("<ListBucketResult>{contents}{next}</ListBucketResult>"))
    };
    let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t/1</NextContinuationToken>";
    let last = "<IsTruncated>false</IsTruncated>";
    let (server, store) = served([page(&["q/a", "q/b"], more), page(&["q/c"], last)]).await;
    let found = store.list(&Location::s3("ops", "q/")).await.expect("it lists");
    assert_eq!(found, ["q/a", "q/b", "q/c"].map(|key| Location::s3("ops", key)));
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[0].line().contains("list-type=2") && requests[0].line().contains("prefix=q%2F"));
    assert!(requests[1].line().contains("continuation-token=t%2F1"), "{}", requests[1].line());
}
