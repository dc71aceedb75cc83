//! Wrong keys, unreachable parts, missing tables: each is one clear error that names what and says what to do, prints
//! no secret, and loses nothing. Once it is put right, the same records land, once.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use icefall_catalog::{CatalogError, Snapshots};
use icefall_tests::{Log, Pipeline, SECRETS, click, closed_port, event, reasons};

const RECORDS: u64 = 20;
/// Short, so that what a failed committer had received comes back soon.
const VISIBILITY_S: u32 = 2;
const WRONG: &str = "not-the-secret";

fn records() -> Vec<u8> {
    event(0, 100, &(0..RECORDS).map(click).collect::<Vec<_>>())
}

/// The rows that the table's current snapshot counts.
async fn rows(pipeline: &Pipeline) -> u64 {
    let table = pipeline.parts().await.catalog.load_table(&pipeline.table(), Snapshots::All).await.unwrap();
    let Some(snapshot) = table.metadata.current_snapshot() else { return 0 };
    snapshot.summary().additional_properties["total-records"].parse().unwrap()
}

/// The committer creates the tables when it begins.
async fn with_tables(name: &str) -> Pipeline {
    let pipeline = Pipeline::new(name, VISIBILITY_S).await;
    pipeline.drain().await.unwrap();
    pipeline
}

/// The writer fails and says so; put right, the same event lands once, though it is delivered twice more.
async fn fails_then_lands(good: &Pipeline, bad: &Pipeline, says: &[&str]) {
    let error = reasons(&bad.write(&records()).await.unwrap_err());
    assert_says(&error, says);
    assert_eq!(rows(good).await, 0);
    for _ in 0..2 {
        assert_eq!(good.write(&records()).await.unwrap().rows as u64, RECORDS);
    }
    good.drain().await.unwrap();
    assert_eq!(rows(good).await, RECORDS);
}

/// The committer fails and its log says why; put right, what was queued lands.
async fn stays_queued_then_lands(good: &Pipeline, bad: &Pipeline, says: &[&str]) {
    good.write(&records()).await.unwrap();
    let (drained, log) = Log::of(bad.drain()).await;
    let error = reasons(&drained.unwrap_err());
    assert_says(&format!("{error}\n{log}"), says);
    assert_eq!(rows(good).await, 0);
    tokio::time::sleep(std::time::Duration::from_secs(VISIBILITY_S.into())).await;
    good.drain().await.unwrap();
    assert_eq!(rows(good).await, RECORDS);
}

fn assert_says(error: &str, says: &[&str]) {
    for what in says {
        assert!(error.contains(what), "{what:?} is not in: {error}");
    }
    assert!(!error.contains(WRONG), "a secret is in: {error}");
}

#[tokio::test]
async fn the_catalogs_secret_is_wrong() {
    let good = with_tables("refuse-catalog-key").await;
    let bad = good.with(SECRETS[0], WRONG);
    let (table, remedy) = (good.table().to_string(), "check access key, secret");
    let error = bad.parts().await.catalog.load_table(&good.table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::Denied(_)), "{error:?}");
    assert_says(&error.to_string(), &[remedy]);
    fails_then_lands(&good, &bad, &[&table, "403", remedy]).await;
}

#[tokio::test]
async fn the_catalog_is_unreachable() {
    let good = with_tables("refuse-catalog-gone").await;
    let bad = good.with("ICEFALL__CATALOG__URI", closed_port());
    let error = bad.parts().await.catalog.load_table(&good.table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::Unreachable(_)), "{error:?}");
    fails_then_lands(&good, &bad, &[&good.table().to_string(), "unreachable: check catalog.uri"]).await;
}

#[tokio::test]
async fn the_table_is_missing() {
    let declared = Pipeline::new("refuse-no-table", VISIBILITY_S).await;
    let bad = declared.undeclared();
    let table = declared.table().to_string();
    let error = bad.parts().await.catalog.load_table(&declared.table(), Snapshots::All).await.unwrap_err();
    assert!(matches!(error, CatalogError::NotFound(_)), "{error:?}");
    assert_says(&error.to_string(), &[&table, "create it, or correct its name"]);
    let (drained, log) = Log::of(bad.drain()).await;
    drained.unwrap_err();
    assert_says(&log, &[&table, "create it, or correct its name"]);
    let written = reasons(&bad.write(&records()).await.unwrap_err());
    assert_says(&written, &[&table, "create it, or correct its name"]);
    declared.drain().await.unwrap();
    let unreachable = declared.with("ICEFALL__CATALOG__URI", closed_port());
    fails_then_lands(&declared, &unreachable, &["unreachable: check catalog.uri"]).await;
}

#[tokio::test]
async fn the_stores_secret_is_wrong() {
    let good = with_tables("refuse-store-key").await;
    let says = [good.table().to_string(), "check the store's credentials".to_owned()];
    fails_then_lands(&good, &good.with(SECRETS[1], WRONG), &says.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn the_ops_buckets_secret_is_wrong() {
    let good = with_tables("refuse-ops-key").await;
    let says = ["ops bucket", "icefall-ops", "check the store's credentials"];
    fails_then_lands(&good, &good.with(SECRETS[2], WRONG), &says).await;
}

#[tokio::test]
async fn the_store_is_unreachable() {
    let good = with_tables("refuse-store-gone").await;
    let bad = good.with("ICEFALL__STORE__ENDPOINT", closed_port());
    fails_then_lands(&good, &bad, &[&good.table().to_string(), "check the endpoint and the network"]).await;
}

#[tokio::test]
async fn the_queue_is_unreachable() {
    let good = with_tables("refuse-queue-gone").await;
    let bad = good.with("ICEFALL__QUEUE__ENDPOINT", closed_port());
    fails_then_lands(&good, &bad, &["refuse-queue-gone", "check the endpoint and the network"]).await;
}

#[tokio::test]
async fn the_queue_is_missing() {
    let good = with_tables("refuse-queue-name").await;
    let bad = good
        .with("ICEFALL__QUEUE__URL", format!("{}/000000000000/no-such-queue", good.stack().queue.endpoint));
    fails_then_lands(&good, &bad, &["no-such-queue", "check its URL and region"]).await;
}

#[tokio::test]
async fn the_committers_catalog_secret_is_wrong() {
    let good = with_tables("commit-catalog-key").await;
    let says = [good.table().to_string(), "check access key, secret".to_owned()];
    stays_queued_then_lands(&good, &good.with(SECRETS[0], WRONG), &says.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn the_committers_catalog_is_unreachable() {
    let good = with_tables("commit-catalog-gone").await;
    let bad = good.with("ICEFALL__CATALOG__URI", closed_port());
    stays_queued_then_lands(&good, &bad, &["batch manifests wait in the queue", "check catalog.uri"]).await;
}

#[tokio::test]
async fn the_committers_table_store_refuses() {
    let good = with_tables("commit-store-key").await;
    let says = [good.table().to_string(), "check the store's credentials".to_owned()];
    stays_queued_then_lands(&good, &good.with(SECRETS[1], WRONG), &says.each_ref().map(String::as_str)).await;
}

#[tokio::test]
async fn the_committers_ops_bucket_refuses() {
    let good = with_tables("commit-ops-key").await;
    let says = ["icefall-ops", "check the store's credentials"];
    stays_queued_then_lands(&good, &good.with(SECRETS[2], WRONG), &says).await;
}
