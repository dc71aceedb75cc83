//! What only Apache Iceberg's own catalog does, and what it does to those who trust an answer. The promises are tried
//! on it by their own tests, see `ICEFALL_STACK_CATALOG`.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{CatalogError, NewTable, Snapshots};
use icefall_parts::Parts;
use icefall_tests::{
    Pipeline, Stack, Watched, WatchedCatalog, WhichCatalog, click, event, event_ids, metadata,
};
use serde_json::{Value, json};

const VISIBILITY_S: u32 = 2;
const OTHER_TABLE: &str = "00000000-0000-4000-8000-000000000000";

async fn on(which: WhichCatalog, name: &str) -> Pipeline {
    Pipeline::on(Stack::from_env().on(which), name, VISIBILITY_S).await
}

/// The URL of a pipeline's table, as the catalog without a prefix has it.
fn url(pipeline: &Pipeline) -> String {
    let (uri, namespace) = (&pipeline.stack().catalog.endpoint, pipeline.namespace().to_url_string());
    format!("{uri}/v1/namespaces/{namespace}/tables/clicks")
}

/// Its answers, as they come over the wire: what the client's own tests are scripted after.
#[tokio::test]
async fn it_answers_as_the_clients_tests_say_it_does() {
    let pipeline = on(WhichCatalog::Second, "second-answers").await;
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
    let pipeline = on(WhichCatalog::Second, "second-levels").await;
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

/// Messages of one attempt to see it happen, each of these records.
const MESSAGES: u64 = 20;
const RECORDS: u64 = 3;
const ATTEMPTS: u64 = 15;
const PATIENCE: Duration = Duration::from_mins(8);

/// Two databases that lack each other's tables answer 500 to every other request, and to commits that have landed.
/// Whatever it answers, each record stands once.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_answered_500_and_had_landed_is_settled_by_the_ledger() {
    let pipeline = on(WhichCatalog::Split, "second-split").await;
    let pipeline = pipeline
        .with("ICEFALL__COMMITTER__MAX_MESSAGES", "1")
        .with("ICEFALL__COMMITTER__COMMIT_INTERVAL", "0s");
    let noise = Noise::on(&pipeline);
    tokio::time::timeout(PATIENCE, until_one_has_landed(&pipeline)).await.expect("it is settled in time");
    noise.stop().await;
}

async fn until_one_has_landed(pipeline: &Pipeline) {
    while pipeline.drain().await.is_err() {}
    let (mut records, mut landed) = (0, 0);
    while landed == 0 {
        assert!(records < ATTEMPTS * MESSAGES * RECORDS, "no commit answered 500 and had landed");
        for _ in 0..MESSAGES {
            let values: Vec<_> = (records..records + RECORDS).map(click).collect();
            while pipeline.write(&event(0, records, &values)).await.is_err() {}
            records += RECORDS;
        }
        landed = settle(pipeline, records).await;
    }
}

/// Drains until each of the records stands, once; says how many commits had landed though their answer was 500.
async fn settle(pipeline: &Pipeline, records: u64) -> usize {
    let mut expected: Vec<_> = (0..records).map(|n| format!("e-{n}")).collect();
    expected.sort_unstable();
    let parts = pipeline.parts().await;
    let mut sent = Vec::new();
    loop {
        let mut watched = None;
        let drained =
            pipeline.drain_through(|catalog| watched.insert(WatchedCatalog::new(catalog)).clone()).await;
        sent.extend(watched.into_iter().flat_map(|catalog| catalog.seen()));
        let found = rows(&parts, &pipeline.table()).await;
        if drained.is_ok() && found == expected {
            break;
        }
        let mut distinct = found.clone();
        distinct.dedup();
        assert_eq!(found, distinct, "no record stands twice, settled or not");
        tokio::time::sleep(Duration::from_secs(VISIBILITY_S.into())).await;
    }
    let metadata = metadata(&parts, &pipeline.table()).await;
    let shown = |watched: &&Watched| watched.outcome == "unknown" && watched.commit.shown_by(&metadata);
    sent.iter().filter(|watched| watched.table == pipeline.table()).filter(shown).count()
}

async fn rows(parts: &Parts, table: &TableIdent) -> Vec<String> {
    match metadata(parts, table).await.current_snapshot() {
        Some(head) => event_ids(parts, table, head).await,
        None => Vec::new(),
    }
}

/// Requests that keep both connections of the catalog in use.
struct Noise {
    stopping: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Noise {
    fn on(pipeline: &Pipeline) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let tasks = (0..3).map(|_| tokio::spawn(load_again_and_again(url(pipeline), Arc::clone(&stopping))));
        Self { tasks: tasks.collect(), stopping }
    }

    async fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("it ends");
        }
    }
}

async fn load_again_and_again(url: String, stopping: Arc<AtomicBool>) {
    let http = reqwest::Client::new();
    while !stopping.load(Ordering::Relaxed) {
        http.get(&url).send().await.expect("it answers, be it 500");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}
