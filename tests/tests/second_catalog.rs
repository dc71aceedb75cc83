//! What only Apache Iceberg's own catalog does. The promises are tried on it by their own tests, see
//! `ICEFALL_STACK_CATALOG`.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

#[path = "second_catalog/merging.rs"]
mod merging;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use icefall_catalog::{CatalogError, Commit, CommitOutcome, NewTable, Snapshots};
use icefall_tests::{Around, Pipeline, Stack, Watched, WatchedCatalog, click, event, event_ids, metadata};
use serde_json::{Value, json};

const VISIBILITY_S: u32 = 2;
const OTHER_TABLE: &str = "00000000-0000-4000-8000-000000000000";

async fn pipeline(name: &str) -> Pipeline {
    Pipeline::on(Stack::from_env().on_second_catalog(), name, VISIBILITY_S).await
}

/// The URL of a pipeline's table, as the catalog without a prefix has it.
fn url(pipeline: &Pipeline) -> String {
    let (uri, namespace) = (&pipeline.stack().catalog.endpoint, pipeline.namespace().to_url_string());
    format!("{uri}/v1/namespaces/{namespace}/tables/clicks")
}

/// Its answers, as they come over the wire: what the client's own tests are scripted after.
#[tokio::test]
async fn it_answers_as_the_clients_tests_say_it_does() {
    let pipeline = pipeline("second-answers").await;
    pipeline.drain().await.expect("the tables are made");
    let (http, uri) = (reqwest::Client::new(), &pipeline.stack().catalog.endpoint);
    let config: Value =
        http.get(format!("{uri}/v1/config")).send().await.expect("sent").json().await.expect("JSON");
    assert_eq!(config["overrides"], json!({ "namespace-separator": "%2E" }), "no prefix");
    assert_eq!(config.get("idempotency-key-lifetime"), None);

    let loaded = http.get(url(&pipeline)).send().await.expect("sent");
    let etag = loaded.headers().get("etag").expect("an ETag").to_str().expect("text");
    assert!(!etag.contains('"'), "{etag} is not quoted");

    let commit = |body: Value| http.post(url(&pipeline)).json(&body).send();
    let unknown = json!({ "requirements": [{ "type": "assert-nothing" }], "updates": [] });
    let unknown = commit(unknown).await.expect("sent");
    assert_eq!(unknown.status(), 500, "a request that it can't read is a failure of the server's");
    assert!(unknown.text().await.expect("text").contains("<html"));

    let other =
        json!({ "requirements": [{ "type": "assert-table-uuid", "uuid": OTHER_TABLE }], "updates": [] });
    let conflict = commit(other).await.expect("sent");
    assert_eq!(conflict.status(), 409);
    let conflict: Value = conflict.json().await.expect("JSON");
    assert!(conflict["error"]["stack"].is_array(), "it tells where in its code: {conflict}");

    let prefixed = http.get(format!("{uri}/v1/lake/namespaces")).send().await.expect("sent");
    assert_eq!(prefixed.status(), 400, "there is no prefix to be made up");
}

/// Levels of a namespace are joined by the separator that it names, and its errors are told without its stacks.
#[tokio::test]
async fn namespaces_of_several_levels_are_found_by_its_own_separator() {
    let pipeline = pipeline("second-levels").await;
    let catalog = pipeline.parts().await.catalog;
    let outer = pipeline.namespace();
    let inner =
        NamespaceIdent::from_vec(vec![outer.to_url_string(), "inner".to_owned()]).expect("two levels");
    let table = TableIdent::new(inner.clone(), "clicks".to_owned());
    for namespace in [&outer, &inner] {
        assert!(!catalog.namespace_exists(namespace).await.expect("an answer"));
        catalog.create_namespace(namespace).await.expect("created");
        assert_eq!(&catalog.load_namespace(namespace).await.expect("loaded").name, namespace);
    }
    let missing = catalog.load_table(&table, Snapshots::All).await.expect_err("it isn't there");
    assert!(matches!(missing, CatalogError::NotFound(_)), "{missing:?}");
    assert!(!missing.to_string().contains(".java"), "{missing}");
    catalog.create_table(&table, &NewTable::new(schema())).await.expect("created");
    catalog.load_table(&table, Snapshots::Refs).await.expect("loaded");
    assert_eq!(catalog.list_tables(&inner).await.expect("listed"), [table]);
    assert_eq!(catalog.list_tables(&outer).await.expect("listed"), []);
}

fn schema() -> Schema {
    let column = NestedField::optional(1, "event_id", Type::Primitive(PrimitiveType::String));
    Schema::builder().with_fields([Arc::new(column)]).build().expect("a schema")
}

/// Rounds at most until a commit has failed and landed; about one of thirty does.
const MOST_ROUNDS: u64 = 100;
const RECORDS: u64 = 5;

/// T16, by a server that does it of its own accord: a commit is answered with 500 and had landed. Each record stands
/// in the table once, whatever else fails meanwhile.
#[tokio::test]
async fn t16_a_commit_that_was_answered_with_500_and_had_landed_counts_once() {
    let stack = Stack::from_env().on_failing_catalog();
    let pipeline = Pipeline::on(stack, "second-failing", VISIBILITY_S).await;
    let pipeline = pipeline.with("ICEFALL__COMMITTER__LINGER", "100ms");
    drained_while_busy(&pipeline).await;
    let (mut failed, mut rounds) = (HashSet::new(), 0);
    while rounds < MOST_ROUNDS && !has_landed(&pipeline, &failed).await {
        let values: Vec<_> = (0..RECORDS).map(|n| click(rounds * RECORDS + n)).collect();
        pipeline.write(&event(0, rounds * RECORDS, &values)).await.expect("the catalog was well at last");
        for watched in drained_while_busy(&pipeline).await {
            match (snapshot_id(&watched.commit), watched.outcome) {
                (Some(id), "unknown") => drop(failed.insert(id)),
                (Some(id), "committed") => drop(failed.remove(&id)),
                _ => {}
            }
        }
        rounds += 1;
    }
    assert!(has_landed(&pipeline, &failed).await, "none of {rounds} commits failed and had landed");
    let parts = pipeline.parts().await;
    let metadata = metadata(&parts, &pipeline.table()).await;
    let snapshot = metadata.current_snapshot().expect("a snapshot");
    let mut expected: Vec<_> = (0..rounds * RECORDS).map(|n| format!("e-{n}")).collect();
    expected.sort_unstable();
    assert_eq!(event_ids(&parts, &pipeline.table(), snapshot).await, expected);
}

/// Drains until nothing is left, as the schedule does, while the database is asked for something else beside every
/// commit: where its first connection is at work, the server goes on with one that knows no tables. The commits that
/// were sent.
async fn drained_while_busy(pipeline: &Pipeline) -> Vec<Watched> {
    let url = question(pipeline);
    let around: Around = Arc::new({
        let url = url.clone();
        move |commit| Box::pin(beside_questions(commit, url.clone()))
    });
    let mut seen = Vec::new();
    loop {
        until_well(&url).await;
        let mut watched = None;
        let outcome = pipeline
            .drain_through(|catalog| {
                Arc::clone(watched.insert(WatchedCatalog::within(catalog, &around))) as _
            })
            .await;
        seen.extend(watched.iter().flat_map(|catalog| catalog.seen()));
        if outcome.is_ok_and(|report| report.waiting == 0 && report.failed_tables == 0) {
            return seen;
        }
    }
}

/// What only the database can answer.
fn question(pipeline: &Pipeline) -> String {
    format!("{}/v1/namespaces", pipeline.stack().catalog.endpoint)
}

/// Long enough that most steps of a commit find the connection free.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(2);

async fn beside_questions(commit: BoxFuture<'_, CommitOutcome>, url: String) -> CommitOutcome {
    let asking = Arc::new(AtomicBool::new(true));
    let (still, of) = (Arc::clone(&asking), url.clone());
    let others = tokio::spawn(async move {
        while still.load(Ordering::Relaxed) {
            is_answered(&of).await;
            tokio::time::sleep(BETWEEN_QUESTIONS).await;
        }
    });
    let outcome = commit.await;
    asking.store(false, Ordering::Relaxed);
    others.await.expect("they end");
    until_well(&url).await;
    outcome
}

/// A request takes the connection that was given back last. Requests at once give them back in another order.
async fn until_well(url: &str) {
    while !is_answered(url).await {
        futures::join!(is_answered(url), is_answered(url), is_answered(url));
    }
}

async fn is_answered(url: &str) -> bool {
    reqwest::get(url).await.is_ok_and(|answer| answer.status().is_success())
}

/// Whether the table has a snapshot whose every commit failed.
async fn has_landed(pipeline: &Pipeline, failed: &HashSet<i64>) -> bool {
    until_well(&question(pipeline)).await;
    let catalog = pipeline.parts().await.catalog;
    let loaded = catalog.load_table(&pipeline.table(), Snapshots::All).await.expect("loaded");
    loaded.metadata.snapshots().any(|snapshot| failed.contains(&snapshot.snapshot_id()))
}

fn snapshot_id(commit: &Commit) -> Option<i64> {
    commit.updates().iter().find_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id()),
        _ => None,
    })
}
