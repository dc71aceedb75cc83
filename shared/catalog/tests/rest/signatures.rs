//! The signer against botocore: same requests, same signatures. The local catalog checks neither signing name,
//! region nor payload hash, so this is the proof. `../fixtures/make_sigv4.py` makes the fixtures.

use std::path::Path;

use crate::support::{Reply, Server, client_with, signing, table_body};
use aws_credential_types::Credentials;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::sign::{Scope, Signable, sign};
use icefall_catalog::{Catalog as _, Snapshots};
use icefall_clock::Timestamp;
use serde_json::{Value, json};

fn fixtures() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sigv4");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let fixtures: Vec<Value> =
        files.map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect();
    assert!(fixtures.len() >= 21, "fixtures are missing");
    fixtures
}

fn text<'a>(fixture: &'a Value, key: &str) -> &'a str {
    fixture[key].as_str().unwrap_or_default()
}

/// The headers that the client signs, besides those that signing adds.
fn signed_headers(fixture: &Value) -> Vec<(&str, &str)> {
    let mut headers = Vec::new();
    if text(fixture, "method") == "POST" && fixture["extra"]["content-type"].is_null() {
        headers.push(("content-type", "application/json"));
    }
    if let Some(key) = fixture["idempotency_key"].as_str() {
        headers.push(("idempotency-key", key));
    }
    let extra = fixture["extra"].as_object().into_iter().flatten();
    headers.extend(extra.map(|(name, value)| (name.as_str(), value.as_str().unwrap())));
    headers
}

/// Case T30: prefixes with `:` and `/`, namespaces of several levels, names with `%` and spaces.
#[test]
fn t30_signatures_equal_botocores() {
    for fixture in fixtures() {
        let token = fixture["token"].as_str().map(str::to_owned);
        let credentials =
            Credentials::new(text(&fixture, "access_key"), text(&fixture, "secret_key"), token, None, "test");
        let headers = [signed_headers(&fixture), vec![("user-agent", "another one")]].concat();
        let request = Signable {
            method: text(&fixture, "method"),
            url: text(&fixture, "url"),
            headers: &headers,
            body: text(&fixture, "body").as_bytes(),
        };
        let time = Timestamp::from_unix_ms(fixture["unix_seconds"].as_u64().unwrap() * 1000);
        let scope = Scope { name: text(&fixture, "service"), region: text(&fixture, "region"), time };
        let signed = sign(&request, &scope, &credentials).unwrap();
        let canonical = text(&fixture, "canonical_request");
        assert_eq!(
            signed["authorization"],
            text(&fixture, "authorization"),
            "{}: botocore signed\n{canonical}",
            fixture["name"]
        );
        let expected = fixture["headers"].as_object().unwrap();
        for (name, value) in expected {
            assert_eq!(signed[name], value.as_str().unwrap(), "{}: {name}", fixture["name"]);
        }
        assert_eq!(signed.len(), expected.len() + 1, "{}: more headers than signed", fixture["name"]);
    }
}

/// Path and query of the fixture's URL, without its base.
fn target(fixture: &Value) -> &str {
    text(fixture, "url").strip_prefix(text(fixture, "base")).unwrap()
}

fn server_config(fixture: &Value) -> Value {
    let mut overrides = json!({ "prefix": fixture["prefix"] });
    if let Some(separator) = fixture["separator"].as_str() {
        overrides["namespace-separator"] = separator.into();
    }
    json!({ "defaults": {}, "overrides": overrides })
}

/// The bytes that arrive are the bytes that were signed, and they are the URL that Python built.
#[tokio::test(flavor = "multi_thread")]
async fn t30_the_wire_carries_the_url_that_was_signed() {
    let loads = |fixture: &Value| text(fixture, "method") == "GET" && fixture["table"].is_string();
    for fixture in fixtures().into_iter().filter(loads) {
        let server =
            Server::with_config(&server_config(&fixture), vec![Reply::json(200, &table_body(false))]);
        let (catalog, _) = client_with(server.uri(), Some(signing(text(&fixture, "service"))));
        let levels: Vec<String> = serde_json::from_value(fixture["namespace"].clone()).unwrap();
        let namespace = NamespaceIdent::from_vec(levels).unwrap();
        let table = TableIdent::new(namespace, text(&fixture, "table").to_owned());
        let refs = fixture["query"]["snapshots"] == "refs";
        let snapshots = if refs { Snapshots::Refs } else { Snapshots::All };
        catalog.load_table(&table, snapshots).await.unwrap();

        let received = &server.received()[0];
        assert_eq!(received.target, format!("/iceberg{}", target(&fixture)), "{}", fixture["name"]);
        assert_signed_as_received(received, text(&fixture, "service"));
    }
}

/// Signs what arrived, and finds the signature that arrived with it.
fn assert_signed_as_received(received: &crate::support::Received, service: &str) {
    let url = format!("http://{}{}", received.header("host").unwrap(), received.target);
    let content_type = received.header("content-type").map(|value| ("content-type", value));
    let key = received.header("idempotency-key").map(|value| ("idempotency-key", value));
    let headers: Vec<_> = content_type.into_iter().chain(key).collect();
    let request = Signable { method: &received.method, url: &url, headers: &headers, body: &received.body };
    let time = Timestamp::from_unix_ms(1_788_093_360_000);
    let scope = Scope { name: service, region: "us-east-1", time };
    let signed = sign(&request, &scope, &crate::support::credentials()).unwrap();
    for name in ["authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"] {
        assert_eq!(received.header(name), signed[name].to_str().ok(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commits_body_and_key_are_signed() {
    let config = json!({"overrides": {"prefix": "lake"}, "idempotency-key-lifetime": "PT30M"});
    let server = Server::with_config(&config, vec![Reply::json(200, &table_body(true))]);
    let (catalog, _) = client_with(server.uri(), Some(signing("s3tables")));
    let outcome = catalog.commit(&crate::support::table(), &crate::support::commit()).await;
    assert_eq!(outcome.name(), "committed", "{outcome:?}");
    let received = &server.received()[0];
    assert_eq!(received.header("idempotency-key"), Some(crate::support::commit().key().to_string().as_str()));
    assert_signed_as_received(received, "s3tables");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warehouse_is_asked_for_as_botocore_would() {
    let server = Server::start(vec![Reply::json(200, &table_body(false))]);
    let (catalog, _) = client_with(server.uri(), Some(signing("s3tables")));
    catalog.load_table(&crate::support::table(), Snapshots::All).await.unwrap();
    let config = &server.received_configs()[0];
    assert_eq!(config.target, "/iceberg/v1/config?warehouse=s3%3A%2F%2Flake");
    assert_signed_as_received(config, "s3tables");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_signing_nothing_is_signed() {
    let server = Server::start(vec![Reply::json(200, &table_body(false))]);
    let (catalog, _) = client_with(server.uri(), None);
    catalog.load_table(&crate::support::table(), Snapshots::All).await.unwrap();
    let received = &server.received()[0];
    for name in ["authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"] {
        assert_eq!(received.header(name), None);
    }
    assert_eq!(received.header("accept"), Some("application/json"));
    assert!(received.header("user-agent").unwrap().starts_with("icefall/"));
}
