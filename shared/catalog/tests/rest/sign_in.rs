//! How requests prove who sends them: tokens, signatures, and what is put right when one is refused.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    NOW, Received, Reply, Server, StillClock, client_by, commit, signing, table, table_body,
};
use icefall_catalog::{Catalog as _, CatalogError, ClientCredentials, RestCatalog, SignIn, Snapshots};
use icefall_secret::Secret;
use serde_json::{Value, json};

const CLIENT_SECRET: &str = "hush-client+secret/=";

fn good() -> Reply {
    Reply::json(200, &table_body(true))
}

fn unauthorized() -> Reply {
    Reply::error(401, "NotAuthorizedException", "the token has ended")
}

fn token(name: &str, seconds: &Value) -> Reply {
    Reply::json(200, &json!({"access_token": name, "token_type": "bearer", "expires_in": seconds}))
}

fn oauth2(token_endpoint: Option<String>) -> SignIn {
    SignIn::OAuth2(ClientCredentials {
        token_endpoint,
        client_id: "an id".to_owned(),
        client_secret: Secret::new(CLIENT_SECRET.to_owned()),
        scope: "catalog".to_owned(),
        audience: None,
    })
}

fn signed_in(server: &Server, sign_in: SignIn) -> (RestCatalog, Arc<StillClock>) {
    let clock = StillClock::at(NOW);
    (client_by(server.uri(), sign_in, false, &clock), clock)
}

fn bearers(requests: &[Received]) -> Vec<&str> {
    requests.iter().map(|request| request.header("authorization").unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_carried_and_prints_nowhere() {
    let server = Server::start(vec![good(), Reply::error(401, "NotAuthorized", "not with hush-token")]);
    let (catalog, _) = signed_in(&server, SignIn::Bearer(Secret::new("hush-token".to_owned())));
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    assert_eq!(
        bearers(&server.received()),
        ["Bearer hush-token"; 2],
        "a token that never changes is tried once"
    );
    assert_eq!(server.received_configs()[0].header("authorization"), Some("Bearer hush-token"));
    assert!(error.to_string().contains("check catalog.token"), "{error}");
    let printed = format!("{catalog:?} {error} {error:?}");
    assert!(!printed.contains("hush"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_fetched_as_a_form_and_kept() {
    let issuer = Server::start(vec![token("one", &json!(3600))]);
    let server = Server::start(vec![good()]);
    let (catalog, _) = signed_in(&server, oauth2(Some(format!("{}/token?tenant=a", issuer.uri()))));
    for _ in 0..2 {
        catalog.load_table(&table(), Snapshots::All).await.unwrap();
    }
    assert_eq!(bearers(&server.received()), ["Bearer one"; 2]);
    let asked = issuer.received();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("POST", "/iceberg/token?tenant=a"));
    assert_eq!(asked[0].header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(asked[0].header("authorization"), None);
    assert_eq!(
        String::from_utf8(asked[0].body.clone()).unwrap(),
        "grant_type=client_credentials&scope=catalog&client_id=an+id&client_secret=hush-client%2Bsecret%2F%3D"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_itself_issues_tokens_unless_somebody_else_is_named() {
    let server = Server::start(vec![token("one", &json!(3600)), good()]);
    let (catalog, _) = signed_in(&server, oauth2(None));
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    let targets: Vec<_> = server.received().into_iter().map(|request| request.target).collect();
    assert_eq!(targets[0], "/iceberg/v1/oauth/tokens");
    assert_eq!(server.received_configs()[0].header("authorization"), Some("Bearer one"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_ahead_of_its_end_and_once_when_it_is_refused() {
    let issuer = Server::start(vec![
        token("one", &json!(900)),
        token("two", &json!("900")),
        token("three", &json!(null)),
    ]);
    let server = Server::start(vec![good(), good(), unauthorized(), good(), unauthorized()]);
    let (catalog, clock) = signed_in(&server, oauth2(Some(issuer.uri())));
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    clock.advance(Duration::from_mins(10));
    catalog.load_table(&table(), Snapshots::All).await.unwrap();
    clock.advance(Duration::from_mins(1));
    let outcome = catalog.commit(&table(), &commit()).await;
    assert_eq!(
        outcome.name(),
        "committed",
        "a refused commit changed nothing and is sent again: {outcome:?}"
    );
    let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::Denied(_)), "{error}");
    assert!(error.to_string().contains("check catalog.oauth2"), "{error}");
    let expected = ["Bearer one", "Bearer two", "Bearer two", "Bearer three", "Bearer three"];
    assert_eq!(bearers(&server.received()), expected);
    assert_eq!(issuer.received().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_issued_says_why_and_leaves_no_commit_unknown() {
    let refusals = [
        (
            Reply::json(
                401,
                &json!({"error": "invalid_client", "error_description": format!("no {CLIENT_SECRET}")}),
            ),
            "denied",
            "401 invalid_client: no ***",
        ),
        (Reply::json(400, &json!({"error": "invalid_scope"})), "denied", "400 invalid_scope"),
        (Reply::text(503, "<h1>down</h1>"), "unreachable", "503 down"),
        (Reply::HangUp, "unreachable", "POST "),
        (Reply::text(200, "hello"), "rejected", "holds no access_token"),
        (Reply::json(200, &json!({"access_token": "a\nb"})), "rejected", "holds no access_token"),
    ];
    for (reply, outcome, says) in refusals {
        let issuer = Server::start(vec![reply]);
        let server = Server::start(vec![good()]);
        let (catalog, _) = signed_in(&server, oauth2(Some(issuer.uri())));
        let error = catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("fetching a token for catalog s3://lake: ") && text.contains(says),
            "{text}"
        );
        assert_eq!(catalog.commit(&table(), &commit()).await.name(), outcome, "{text}");
        assert!(server.received().is_empty() && server.received_configs().is_empty(), "{text}");
        let printed = format!("{text} {error:?} {catalog:?}");
        assert!(!printed.contains("hush"), "{printed}");
    }
}

/// Refuses what is signed for a time that is not 15 minutes ahead of the tests' clock.
fn skewed(date: &str) -> Reply {
    let headers = vec![("date", date.to_owned())];
    Reply::Answer(
        403,
        headers,
        br#"{"message":"Signature expired: 20260830T123600Z is now earlier"}"#.to_vec(),
    )
}

/// Case T30: a clock that is wrong is corrected by the server's, once.
#[tokio::test(flavor = "multi_thread")]
async fn t30_a_wrong_clock_is_corrected_once_by_the_servers_date() {
    let server = Server::start(vec![skewed("Sun, 30 Aug 2026 12:51:00 GMT"), good(), good()]);
    let (catalog, _) = signed_in(&server, SignIn::SigV4(signing("s3tables")));
    for _ in 0..2 {
        catalog.load_table(&table(), Snapshots::All).await.unwrap();
    }
    let dates: Vec<_> =
        server.received().iter().map(|request| request.header("x-amz-date").unwrap().to_owned()).collect();
    assert_eq!(dates, ["20260830T123600Z", "20260830T125100Z", "20260830T125100Z"], "and it stays corrected");

    for date in ["Sun, 30 Aug 2026 12:36:05 GMT", "yesterday"] {
        let server = Server::start(vec![skewed(date)]);
        let (catalog, _) = signed_in(&server, SignIn::SigV4(signing("s3tables")));
        catalog.load_table(&table(), Snapshots::All).await.unwrap_err();
        assert_eq!(server.received().len(), 1, "{date}: the clock is not what is wrong");
    }
    let server = Server::start(vec![skewed("Sun, 30 Aug 2026 12:51:00 GMT")]);
    let (catalog, _) = signed_in(&server, SignIn::SigV4(signing("s3tables")));
    assert_eq!(catalog.commit(&table(), &commit()).await.name(), "denied");
    assert_eq!(server.received().len(), 2, "once");
}

fn keys(id: &str) -> Value {
    json!([{"prefix": "s3://lake/analytics", "config": {"s3.access-key-id": id, "s3.secret-access-key": "s"}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_asked_for_with_the_table_and_then_alone_where_that_is_possible() {
    let endpoint = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials";
    let with_keys = || {
        let mut body = table_body(true);
        body["storage-credentials"] = keys("FIRST");
        Reply::json(200, &body)
    };
    for (endpoints, path) in
        [(json!([endpoint]), "/clicks/credentials"), (json!(null), "/clicks?snapshots=refs")]
    {
        let config = json!({"overrides": {"prefix": "lake"}, "endpoints": endpoints});
        let alone = Reply::json(200, &json!({"storage-credentials": keys("SECOND")}));
        let second = if endpoints.is_null() { with_keys() } else { alone };
        let server = Server::with_config(&config, vec![with_keys(), second]);
        let clock = StillClock::at(NOW);
        let catalog = client_by(server.uri(), SignIn::SigV4(signing("s3tables")), true, &clock);
        let loaded = catalog.load_table(&table(), Snapshots::Refs).await.unwrap();
        assert_eq!(loaded.credentials()[0].prefix, "s3://lake/analytics");
        let newer = catalog.storage_credentials(&table()).await.unwrap();
        let expected = if endpoints.is_null() { "FIRST" } else { "SECOND" };
        assert_eq!(newer[0].config["s3.access-key-id"], expected);
        let received = server.received();
        assert_eq!(received[0].header("x-iceberg-access-delegation"), Some("vended-credentials"));
        let signed = received[0].header("authorization").unwrap();
        assert!(signed.contains(";x-iceberg-access-delegation"), "{signed}");
        assert!(received[1].target.ends_with(path), "{}", received[1].target);
    }
    let server = Server::start(vec![good()]);
    let (catalog, _) = signed_in(&server, SignIn::Unsigned);
    catalog.load_table(&table(), Snapshots::Refs).await.unwrap();
    assert_eq!(server.received()[0].header("x-iceberg-access-delegation"), None, "only when asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_the_tables_configuration_are_good_for_its_location() {
    let mut body = table_body(true);
    body["config"] =
        json!({"s3.access-key-id": "OLD", "s3.secret-access-key": "s", "s3.region": "us-east-1"});
    let server = Server::start(vec![Reply::json(200, &body)]);
    let (catalog, _) = signed_in(&server, SignIn::Unsigned);
    let loaded = catalog.load_table(&table(), Snapshots::All).await.unwrap();
    let credentials = loaded.credentials();
    assert_eq!(credentials[0].prefix, "s3://lake/analytics/clicks");
    assert!(!format!("{loaded:?} {credentials:?}").contains("OLD"), "values do not print");
}
