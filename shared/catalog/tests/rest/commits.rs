//! What each kind of answer makes of a commit: committed only when it shows the snapshot, refused only when that is
//! clear, unknown in all other cases, and never sent twice.

use crate::support::{Reply, Server, client, commit, property_commit, table, table_body};
use icefall_catalog::{Catalog as _, CommitOutcome, RestCatalog};
use serde_json::json;

/// The outcome of one commit that is answered so, and how often it arrived.
async fn outcome_of(reply: Reply) -> (CommitOutcome, usize) {
    let server = Server::start(vec![reply]);
    let (catalog, _) = client(server.uri());
    let outcome = catalog.commit(&table(), &commit()).await;
    (outcome, server.received().len())
}

async fn assert_outcome(reply: Reply, expected: &str) -> CommitOutcome {
    let told = format!("{reply:.200?}");
    let (outcome, arrived) = outcome_of(reply).await;
    assert_eq!(outcome.name(), expected, "{told} gave {outcome:?}");
    assert_eq!(arrived, 1, "a commit is sent once: {told}");
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_is_what_shows_the_snapshot() {
    let outcome = assert_outcome(Reply::json(200, &table_body(true)), "committed").await;
    let CommitOutcome::Committed(answered) = outcome else { unreachable!() };
    assert_eq!(answered.metadata.current_snapshot_id(), Some(crate::support::SNAPSHOT));
    assert!(answered.metadata_location.unwrap().ends_with("v1.metadata.json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_does_not_show_the_snapshot_is_unknown() {
    assert_outcome(Reply::json(200, &table_body(false)), "unknown").await;
    assert_outcome(Reply::json(200, &json!({"metadata": null})), "unknown").await;
    assert_outcome(Reply::text(200, ""), "unknown").await;
    assert_outcome(Reply::text(200, "<html>all is well</html>"), "unknown").await;
    assert_outcome(Reply::text(204, ""), "unknown").await;
    assert_outcome(Reply::json(202, &json!({})), "unknown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_failures_are_unknown() {
    for status in [500, 502, 503, 504, 507, 599, 408] {
        assert_outcome(Reply::error(status, "ServerError", "oops"), "unknown").await;
    }
    let outcome = assert_outcome(Reply::text(500, "<html><h1>Oops</h1></html>"), "unknown").await;
    assert_eq!(outcome.reason().unwrap().message, "Oops");
    let retry_after = Reply::Answer(503, vec![("retry-after", "1".to_owned())], Vec::new());
    assert_outcome(retry_after, "unknown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_are_unknown() {
    assert_outcome(Reply::HangUp, "unknown").await;
    assert_outcome(Reply::Silence, "unknown").await;
    assert_outcome(Reply::Truncated(200, b"{\"metadata\":".to_vec()), "unknown").await;
    assert_outcome(Reply::Truncated(409, b"{}".to_vec()), "unknown").await;
    assert_outcome(Reply::Endless(200), "unknown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed_and_prove_nothing() {
    let elsewhere = Server::start(vec![Reply::json(200, &table_body(true))]);
    for status in [301, 302, 307, 308] {
        let reply = Reply::Answer(status, vec![("location", elsewhere.uri())], Vec::new());
        assert_outcome(reply, "unknown").await;
    }
    assert!(elsewhere.received().is_empty(), "credentials are not carried elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn clear_refusals_are_told_apart() {
    assert_outcome(Reply::error(409, "CommitFailedException", "branch main has changed"), "conflict").await;
    assert_outcome(Reply::error(400, "BadRequestException", "bad snapshot"), "rejected").await;
    assert_outcome(Reply::text(400, ""), "rejected").await;
    assert_outcome(Reply::error(413, "TooLarge", "metadata above 50 MB"), "rejected").await;
    assert_outcome(Reply::error(401, "NotAuthorizedException", "who?"), "denied").await;
    assert_outcome(Reply::error(403, "ForbiddenException", "no"), "denied").await;
    assert_outcome(Reply::error(404, "NoSuchTableException", "gone"), "not found").await;
    assert_outcome(Reply::error(429, "TooManyRequestsException", "slow"), "throttled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_stale_commits_are_conflicts_in_every_wording() {
    let stale = "Cannot add snapshot with sequence number 3 older than last sequence number 4";
    for reply in [
        Reply::error(400, "BadRequestException", stale),
        Reply::error(409, "ValidationException", stale),
        Reply::error(400, "INVALID_PARAMETER_VALUE", "Commit validation failed: requirement"),
        Reply::json(400, &json!({"__type": "ConflictException", "message": "version token"})),
    ] {
        assert_outcome(reply, "conflict").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_tried_again_and_then_known_to_be_nothing() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (catalog, clock) = client(format!("http://127.0.0.1:{port}"));
    let outcome = catalog.commit(&table(), &commit()).await;
    assert_eq!(outcome.name(), "unreachable", "{outcome:?}");
    assert_eq!(clock.slept().len(), 3);
    let (catalog, _) = client("http://no-such-host.invalid".to_owned());
    assert_eq!(catalog.commit(&table(), &commit()).await.name(), "unreachable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_configuration_could_not_be_read_was_not_sent() {
    let server = Server::with_config_replies(vec![Reply::text(500, "")], vec![Reply::HangUp]);
    let (catalog, _) = client(server.uri());
    assert_eq!(catalog.commit(&table(), &commit()).await.name(), "unreachable");
    assert!(server.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_snapshot_is_shown_by_what_it_sets() {
    let server = Server::start(vec![Reply::json(200, &table_body(false))]);
    let (catalog, _) = client(server.uri());
    assert_eq!(catalog.commit(&table(), &property_commit("a", "b")).await.name(), "committed");
    assert_eq!(catalog.commit(&table(), &property_commit("a", "c")).await.name(), "unknown");
}

async fn key_sent(config: serde_json::Value, commits: usize) -> Vec<Option<String>> {
    let server = Server::with_config(&config, vec![Reply::text(503, "")]);
    let (catalog, _): (RestCatalog, _) = client(server.uri());
    let same = commit();
    for _ in 0..commits {
        catalog.commit(&table(), &same).await;
    }
    let keys = server
        .received()
        .iter()
        .map(|request| request.header("idempotency-key").map(str::to_owned))
        .collect();
    let bodies: Vec<_> = server.received().into_iter().map(|request| request.body).collect();
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "one key, one body");
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_sent_to_catalogs_that_promise_to_honour_them() {
    let promised = json!({"defaults": {}, "overrides": {}, "idempotency-key-lifetime": "PT30M"});
    let expected = Some(commit().key().to_string());
    assert_eq!(key_sent(promised, 2).await, [expected.clone(), expected]);
    assert_eq!(key_sent(json!({"defaults": {}, "overrides": {}}), 1).await, [None]);
}
