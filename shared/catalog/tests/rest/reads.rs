//! Loading, creating and listing: what is tried again, what is tolerated, and how failures read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    NOW, Reply, Server, StillClock, client, client_by, client_with, signing, signing_with, table, table_body,
};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError, future};
use iceberg::NamespaceIdent;
use icefall_catalog::{Catalog as _, CatalogError, NewTable, SignIn, Snapshots};
use serde_json::json;

fn good() -> Reply {
    Reply::json(200, &table_body(true))
}

fn new_table() -> NewTable {
    NewTable::new(crate::support::parsed_metadata().current_schema().as_ref().clone())
}

fn namespace() -> NamespaceIdent {
    NamespaceIdent::new("analytics".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_failures_of_a_read_are_waited_out() {
    let script = vec![Reply::HangUp, Reply::text(503, ""), Reply::error(429, "Throttled", "slow"), good()];
    let server = Server::start(script);
    let (catalog, clock) = client(server.uri());
    let loaded = catalog.load_table(&table(), Snapshots::All).await.unwrap();
    assert_eq!(loaded.metadata.current_snapshot_id(), Some(crate::support::SNAPSHOT));
    assert_eq!(server.received().len(), 4);
    assert_eq!(clock.slept().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_try_is_signed_anew() {
    let server =
        Server::start(vec![Reply::Answer(503, vec![("retry-after", "7".to_owned())], Vec::new()), good()]);
    let (catalog, clock) = client(server.uri());
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    assert_eq!(clock.slept(), [Duration::from_secs(7)], "the server's own wait is obeyed");
    let received = server.received();
    assert_eq!(received[0].header("x-amz-date"), Some("20260830T123600Z"));
    assert_eq!(received[1].header("x-amz-date"), Some("20260830T123607Z"));
    assert_ne!(received[0].header("authorization"), received[1].header("authorization"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lasting_failures_end_the_read_with_what_to_do() {
    let expectations = [
        (Reply::error(404, "NoSuchTableException", "no such table"), 1, "create it"),
        (Reply::error(403, "ForbiddenException", "no"), 1, "s3tables:GetTableMetadataLocation"),
        (Reply::text(400, ""), 1, "refused"),
        (Reply::text(500, "<html>Oops</html>"), 4, "500 Oops"),
        (Reply::error(429, "Throttled", "slow"), 4, "throttled"),
        (Reply::text(200, "hello"), 1, "base of an Iceberg REST catalog"),
        (Reply::Answer(302, vec![("location", "http://127.0.0.1:1/".to_owned())], Vec::new()), 1, "302"),
        (Reply::Endless(200), 1, "longer than"),
        (Reply::Truncated(200, b"{".to_vec()), 4, "failing or slow"),
    ];
    for (reply, tries, says) in expectations {
        let server = Server::start(vec![reply]);
        let (catalog, _) = client(server.uri());
        let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err().to_string();
        assert!(error.contains(says), "{says:?} is not in: {error}");
        assert!(error.starts_with("loading table analytics.clicks: "), "{error}");
        assert!(
            error.contains(&format!("(GET {}/v1/lake/namespaces/analytics/tables/clicks)", server.uri()))
        );
        assert!(!error.contains("secret.Place"), "a stack: {error}");
        assert_eq!(server.received().len(), tries, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_catalog_is_given_up_on() {
    let server = Server::start(vec![Reply::Silence]);
    let (catalog, _) = client(server.uri());
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::Unavailable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_failed_is_asked_for_again() {
    let config = vec![Reply::text(403, ""), Reply::json(200, &json!({"overrides": {"prefix": "p"}}))];
    let server = Server::with_config_replies(config, vec![good()]);
    let (catalog, _) = client(server.uri());
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    assert!(error.to_string().contains("reading the configuration of catalog s3://lake"), "{error}");
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    assert_eq!(server.received_configs().len(), 2, "once it has answered, it is kept");
    assert!(server.received()[0].target.starts_with("/iceberg/v1/p/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn referenced_snapshots_are_asked_for_where_that_is_understood() {
    let server = Server::start(vec![Reply::text(400, ""), good()]);
    let (catalog, _) = client(server.uri());
    catalog.load_table(&table(), Snapshots::Refs).await.unwrap();
    let targets: Vec<_> = server.received().into_iter().map(|request| request.target).collect();
    assert!(targets[0].ends_with("?snapshots=refs"), "{targets:?}");
    assert!(targets[1].ends_with("/clicks"), "{targets:?}");

    let server = Server::start(vec![good()]);
    let (catalog, _) = client_with(server.uri(), Some(signing("glue")));
    catalog.load_table(&table(), Snapshots::Refs).await.unwrap();
    assert!(server.received()[0].target.ends_with("/clicks"));
}

/// Another key each time it is asked.
#[derive(Debug, Default)]
struct Rotating(Arc<AtomicUsize>);

impl ProvideCredentials for Rotating {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let key = format!("AKID{}", self.0.fetch_add(1, Ordering::SeqCst));
        future::ProvideCredentials::ready(Ok(Credentials::new(key, "s", None, None, "test")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t17_expired_keys_are_renewed_once_and_otherwise_asked_for_once() {
    let expired = || Reply::error(403, "ExpiredTokenException", "The security token included is expired");
    let asked: Arc<AtomicUsize> = Arc::default();
    let server = Server::start(vec![good(), good(), expired(), good(), expired()]);
    let clock = StillClock::at(NOW);
    let rotating = Rotating(Arc::clone(&asked));
    let signing = signing_with("s3tables", rotating, Arc::<StillClock>::clone(&clock));
    let catalog = client_by(server.uri(), SignIn::SigV4(signing), false, &clock);
    for _ in 0..2 {
        catalog.load_table(&table(), Snapshots::All).await.unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "keys are kept between requests");
    clock.advance(Duration::from_mins(1));
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    clock.advance(Duration::from_mins(1));
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::Denied(_)), "{error}");
    let keys: Vec<_> =
        server.received().iter().map(|request| key_of(request.header("authorization"))).collect();
    assert_eq!(keys, ["AKID0", "AKID0", "AKID0", "AKID1", "AKID1", "AKID2"]);
}

fn key_of(authorization: Option<&str>) -> String {
    let scope = authorization.unwrap().split("Credential=").nth(1).unwrap();
    scope.split('/').next().unwrap().to_owned()
}

#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("no role is attached")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_a_denial_and_nothing_is_sent() {
    let server = Server::start(vec![good()]);
    let signing = signing_with("s3tables", NoCredentials, StillClock::at(NOW));
    let (catalog, _) = client_with(server.uri(), Some(signing));
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::Denied(_)), "{error}");
    assert!(error.to_string().contains("no role is attached"), "{error}");
    assert_eq!(catalog.commit(&table(), &crate::support::commit()).await.name(), "denied");
    assert!(server.received_configs().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_nowhere_to_be_read() {
    let echo = format!("signature mismatch for {} with {}", crate::support::SECRET, crate::support::TOKEN);
    let server = Server::start(vec![Reply::error(403, "SignatureDoesNotMatch", &echo)]);
    let (catalog, _) = client(server.uri());
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    let outcome = catalog.commit(&table(), &crate::support::commit()).await;
    let texts = format!("{error} {error:?} {outcome:?} {catalog:?} {:?}", signing("s3tables"));
    assert!(texts.contains("signature mismatch"), "{texts}");
    assert!(!texts.contains(crate::support::SECRET) && !texts.contains(crate::support::TOKEN), "{texts}");
    let sent = &server.received()[0];
    assert_eq!(sent.header("x-amz-security-token"), Some(crate::support::TOKEN), "it was sent, though");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_is_sent_once_and_an_odd_answer_loaded() {
    let server = Server::start(vec![Reply::json(200, &json!({"metadata": null})), good()]);
    let (catalog, _) = client(server.uri());
    catalog.create_table(&table(), &new_table()).await.unwrap();
    let received = server.received();
    assert_eq!((received[0].method.as_str(), received[1].method.as_str()), ("POST", "GET"));
    let body: serde_json::Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(body["name"], "clicks");
    assert_eq!(body["stage-create"], false);
    assert_eq!(body["partition-spec"], json!({"spec-id": 0, "fields": []}), "Java's catalogs want its id");

    let server = Server::start(vec![Reply::text(500, "")]);
    let (catalog, _) = client(server.uri());
    let error = catalog.create_table(&table(), &new_table()).await.unwrap_err();
    assert!(matches!(error, CatalogError::Unavailable(_)), "{error}");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_already_is_told_apart() {
    let server = Server::start(vec![Reply::error(409, "AlreadyExistsException", "it exists")]);
    let (catalog, _) = client(server.uri());
    let table_error = catalog.create_table(&table(), &new_table()).await.unwrap_err();
    assert!(matches!(table_error, CatalogError::AlreadyExists(_)), "{table_error}");
    let namespace_error = catalog.create_namespace(&namespace()).await.unwrap_err();
    assert!(matches!(namespace_error, CatalogError::AlreadyExists(_)), "{namespace_error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn glue_is_not_asked_for_a_table_without_a_location() {
    let server = Server::start(vec![good()]);
    let (catalog, _) = client_with(server.uri(), Some(signing("glue")));
    let error = catalog.create_table(&table(), &new_table()).await.unwrap_err();
    assert!(matches!(error, CatalogError::Misconfigured(_)), "{error}");
    assert!(server.received().is_empty());
    let placed = NewTable { location: Some("s3://bucket/clicks".to_owned()), ..new_table() };
    catalog.create_table(&table(), &placed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_of_tables_are_read() {
    let page = |names: &[&str], next: Option<&str>| {
        let identifiers: Vec<_> =
            names.iter().map(|name| json!({"namespace": ["analytics"], "name": name})).collect();
        Reply::json(200, &json!({"identifiers": identifiers, "next-page-token": next}))
    };
    let server = Server::start(vec![page(&["a"], Some("x/y=")), page(&["b", "c"], None)]);
    let (catalog, _) = client(server.uri());
    let tables = catalog.list_tables(&namespace()).await.unwrap();
    let names: Vec<_> = tables.iter().map(|table| table.name().to_owned()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(server.received()[1].target.ends_with("?pageToken=x%2Fy%3D"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespaces_absence_is_an_answer_and_its_denial_is_not() {
    let server = Server::start(vec![Reply::error(404, "NoSuchNamespaceException", "no")]);
    let (catalog, _) = client(server.uri());
    assert!(!catalog.namespace_exists(&namespace()).await.unwrap());
    let server = Server::start(vec![Reply::json(200, &json!({"namespace": ["analytics"]}))]);
    let (catalog, _) = client(server.uri());
    assert!(catalog.namespace_exists(&namespace()).await.unwrap());
    let server = Server::start(vec![Reply::text(403, "")]);
    let (catalog, _) = client(server.uri());
    assert!(catalog.namespace_exists(&namespace()).await.is_err());
}
