//! What only Apache Iceberg's own catalog does. The promises are tried on it by their own tests, see
//! `ICEFALL_STACK_CATALOG`.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

#[path = "second_catalog/merging.rs"]
mod merging;

use std::collections::HashSet;
use std::sync::Arc;

use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use icefall_catalog::{CatalogError, NewTable, Snapshots};
use icefall_tests::{Pipeline, Stack, Watched, WatchedCatalog, click, event, event_ids, metadata};
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

const ROUNDS: u64 = 6;
const RECORDS: u64 = 5;

/// T16, by a server whose commits fail now and then when they have been made: each is answered with 500, and the table
/// has its snapshot. Each record stands in the table once, and each such commit was found by looking.
#[tokio::test]
async fn t16_a_commit_that_was_answered_with_500_and_had_landed_counts_once() {
    let stack = Stack::from_env().on_failing_catalog();
    let pipeline = Pipeline::on(stack, "second-failing", VISIBILITY_S).await;
    drained(&pipeline).await;
    let mut failed = HashSet::new();
    for round in 0..ROUNDS {
        let values: Vec<_> = (0..RECORDS).map(|n| click(round * RECORDS + n)).collect();
        pipeline.write(&event(0, round * RECORDS, &values)).await.expect("written");
        let commits = drained(&pipeline).await;
        failed.extend(commits.iter().filter(|sent| sent.outcome == "unknown").filter_map(snapshot_id));
    }
    let parts = pipeline.parts().await;
    let metadata = metadata(&parts, &pipeline.table()).await;
    assert!(!failed.is_empty(), "no commit was answered with 500");
    for snapshot in failed {
        assert!(metadata.snapshot_by_id(snapshot).is_some(), "{snapshot} had landed");
    }
    let snapshot = metadata.current_snapshot().expect("a snapshot");
    let mut expected: Vec<_> = (0..ROUNDS * RECORDS).map(|n| format!("e-{n}")).collect();
    expected.sort_unstable();
    assert_eq!(event_ids(&parts, &pipeline.table(), snapshot).await, expected);
}

/// Drains until nothing is left, as the schedule does. The commits that were sent.
async fn drained(pipeline: &Pipeline) -> Vec<Watched> {
    let mut seen = Vec::new();
    loop {
        let mut watched = None;
        let outcome = pipeline
            .drain_through(|catalog| Arc::clone(watched.insert(WatchedCatalog::new(catalog))) as _)
            .await;
        seen.extend(watched.iter().flat_map(|catalog| catalog.seen()));
        if outcome.is_ok_and(|report| report.waiting == 0 && report.failed_tables == 0) {
            return seen;
        }
    }
}

fn snapshot_id(sent: &Watched) -> Option<i64> {
    sent.commit.updates().iter().find_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id()),
        _ => None,
    })
}
