//! Messages that waited: files that the table's clean-up may take, schemas and specs that are gone, and
//! what is parked before the queue drops it.

use std::time::Duration;

use iceberg::spec::TableMetadata;
use icefall_queue::CommitQueue;
use icefall_store::Location;
use icefall_testkit::{Call, Failure};
use serde_json::{Value, json};

use crate::bench::{self, Bench, DAY, Letters, TABLE, VISIBILITY, records};

const HOUR: Duration = Duration::from_hours(1);

/// The paths of the files that the table's newest snapshot names.
async fn committed(bench: &Bench) -> Vec<String> {
    bench.entries(TABLE).await.iter().map(|file| file.file_path().to_owned()).collect()
}

/// Changes the table's metadata as a maintenance job would, or an engine that Icefall knows nothing of.
fn edit(bench: &Bench, change: impl FnOnce(&mut Value)) {
    let mut json = serde_json::to_value(bench.metadata(TABLE).as_ref()).expect("JSON");
    change(&mut json);
    let metadata: TableMetadata = serde_json::from_value(json).expect("metadata");
    bench.catalog.replace(&bench::ident(TABLE), metadata);
}

/// S27: "manifest waits 4 days on S3 Tables: alarm; its files are rewritten before the commit".
#[tokio::test]
async fn s27_files_that_waited_four_days_are_committed_in_new_ones() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..10), Letters::of(0, 10..12)).await;
    bench.send(&batch).await;
    bench.clock.advance(4 * DAY);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert_eq!(bench.dead_letters().await, bench::keys(0, 10..12));
    let paths = committed(&bench).await;
    assert!(paths.len() == 1 && paths[0] != batch.files[0].data_file.path, "{paths:?}");
    assert!(
        bench.store.peek(&Location::parse(&batch.files[0].data_file.path).expect("a location")).is_some()
    );
    let counted = bench.counted();
    assert!(counted.contains("\"RenewedBatches\":1"), "{counted}");
    assert!(counted.contains("\"OldestBatchManifestAge\":3456"), "the alarm: {counted}");
}

#[tokio::test]
async fn files_are_old_after_half_of_the_tables_own_limit() {
    let limit = |days: u64| json!((days * 24 * 3_600_000).to_string());
    for (limit, wait, renewed) in [
        (None, 11 * HOUR, false),
        (None, 12 * HOUR, true),
        (Some(limit(3)), 35 * HOUR, false),
        (Some(limit(3)), 36 * HOUR, true),
        (Some(json!("soon")), 12 * HOUR, true),
    ] {
        let bench = Bench::new().await;
        if let Some(limit) = &limit {
            edit(&bench, |table| table["properties"]["icefall.unreferenced-file-age-ms"] = limit.clone());
        }
        let batch = bench.batch(records(0, 0..3), Letters::none()).await;
        bench.send(&batch).await;
        bench.clock.advance(wait);
        bench.drain().await.expect("it drains");
        let paths = committed(&bench).await;
        assert_eq!(paths[0] != batch.files[0].data_file.path, renewed, "{limit:?} {wait:?}");
        assert_eq!(bench.rows().await, bench::keys(0, 0..3));
    }
}

#[tokio::test]
async fn an_old_batch_that_is_settled_in_part_lands_with_its_free_rows_in_new_files() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    let late = bench.batch(records(0, 3..9), Letters::none()).await;
    bench.drain().await.expect("it drains");
    bench.clock.advance(2 * DAY);
    bench.send(&late).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..9));
    assert!(!committed(&bench).await.contains(&late.files[0].data_file.path));
}

#[tokio::test]
async fn an_old_batch_whose_file_is_gone_is_quarantined_with_its_offsets() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(3, 40..50), Letters::none()).await;
    bench.send(&batch).await;
    assert!(bench.store.remove(&Location::parse(&batch.files[0].data_file.path).expect("a location")));
    bench.clock.advance(4 * DAY);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.snapshots(TABLE), 0, "never a commit that points at nothing");
    let entries = bench.quarantine();
    let entry = entries.iter().find(|key| key.contains("/file-damaged/") && key.ends_with(".json"));
    let text = bench.ops.peek(&Location::s3("ops", entry.expect("an entry"))).expect("it is there");
    let text: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(
        text["details"]["offsets"],
        json!([{ "partition": 3, "first": 40, "count": 10, "encoding": 1 }])
    );
    assert!(bench.queue.is_empty());
}

/// S19: "partition spec changed between write and commit: spec id travels in the manifest; file rejected or
/// rewritten if the spec is gone".
#[tokio::test]
async fn s19_files_of_a_spec_that_is_gone_are_partitioned_anew() {
    let bench = Bench::new().await;
    let rows: Vec<_> = records(0, 0..4).into_iter().chain(records(1, 0..4)).collect();
    bench.send(&bench.batch(rows, Letters::none()).await).await;
    edit(&bench, |table| {
        let field = json!({ "source-id": 1, "field-id": 1000, "name": "p", "transform": "identity" });
        table["partition-specs"] = json!([{ "spec-id": 1, "fields": [field] }]);
        table["default-spec-id"] = json!(1);
        table["last-partition-id"] = json!(1000);
    });
    bench.drain().await.expect("it drains");
    let expected: Vec<_> = bench::keys(0, 0..4).into_iter().chain(bench::keys(1, 0..4)).collect();
    assert_eq!(bench.rows().await, expected);
    let entries = bench.entries(TABLE).await;
    let partitions: Vec<String> = entries.iter().map(|file| format!("{:?}", file.partition())).collect();
    assert!(entries.len() == 2 && partitions[0] != partitions[1], "{partitions:?}");
}

#[tokio::test]
async fn files_of_a_schema_that_is_gone_become_rows_of_the_present_one() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
    edit(&bench, |table| {
        let fields = json!([
            { "id": 3, "name": "note", "required": false, "type": "string" },
            { "id": 2, "name": "o", "required": true, "type": "long" },
            { "id": 1, "name": "p", "required": true, "type": "int" },
        ]);
        table["schemas"] = json!([{ "type": "struct", "schema-id": 4, "fields": fields }]);
        table["current-schema-id"] = json!(4);
        table["last-column-id"] = json!(3);
    });
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..6));
}

#[tokio::test]
async fn a_column_that_the_present_schema_requires_and_the_file_lacks_is_a_persons_business() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
    edit(&bench, |table| {
        let fields = json!([
            { "id": 1, "name": "p", "required": true, "type": "int" },
            { "id": 2, "name": "o", "required": true, "type": "long" },
            { "id": 3, "name": "must", "required": true, "type": "string" },
        ]);
        table["schemas"] = json!([{ "type": "struct", "schema-id": 4, "fields": fields }]);
        table["current-schema-id"] = json!(4);
        table["last-column-id"] = json!(3);
    });
    bench.drain().await.expect("it drains");
    assert_eq!(bench.snapshots(TABLE), 0);
    assert!(bench.quarantine().iter().any(|key| key.contains("/file-damaged/")));
}

#[tokio::test]
async fn a_commit_that_is_refused_for_hours_does_not_write_the_same_rows_at_each_round() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
    bench.clock.advance(DAY);
    bench.catalog_faults.outage(Call::Commit, Failure::Denied);
    for _ in 0..5 {
        bench.drain().await.expect_err("it is denied");
        bench.clock.advance(VISIBILITY);
    }
    let written = bench.store.keys("lake", "").iter().filter(|key| key.contains("/data/")).count();
    assert_eq!(written, 2, "the writer's file and one more");
    bench.catalog_faults.clear();
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..6));
}

#[tokio::test]
async fn a_trim_that_is_refused_for_hours_is_written_once() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.send(&bench.batch(records(0, 3..9), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::Commit, Failure::Denied);
    for _ in 0..5 {
        bench.drain().await.expect_err("it is denied");
        bench.clock.advance(VISIBILITY);
    }
    let written = bench.store.keys("lake", "").iter().filter(|key| key.contains("/data/")).count();
    assert_eq!(written, 3, "the writer's two files and the free rows of the second");
    bench.catalog_faults.clear();
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..9));
}

#[tokio::test]
async fn what_can_not_be_settled_is_parked_before_the_queue_drops_it() {
    let bench = Bench::new().await;
    bench.queue.keep_for(14 * DAY);
    bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::Commit, Failure::Denied);
    bench.clock.advance(10 * DAY);
    bench.drain().await.expect_err("it is denied");
    assert_eq!((bench.queue.len(), bench.quarantine().len()), (1, 0));
    bench.clock.advance(DAY / 2);
    bench.drain().await.expect_err("it is denied still");
    let parked = bench.quarantine();
    assert!(bench.queue.is_empty());
    assert!(parked.iter().all(|key| key.contains("/waited-too-long/")) && parked.len() == 3, "{parked:?}");
    assert!(parked.iter().any(|key| key.ends_with(".parquet")), "with a copy of its file");
}

#[tokio::test]
async fn the_queues_own_retention_says_when() {
    for failure in EVERY_FAILURE {
        let bench = Bench::new().await;
        bench.queue.keep_for(4 * DAY);
        bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
        bench.clock.advance(3 * DAY);
        bench.send(&bench.batch(records(0, 6..9), Letters::none()).await).await;
        bench.catalog_faults.outage(Call::LoadTable, failure);
        bench.drain().await.expect_err("the catalog is gone");
        assert_eq!((bench.queue.len(), bench.quarantine().len()), (1, 3), "{failure:?}");
        bench.catalog_faults.clear();
        bench.clock.advance(VISIBILITY);
        bench.drain().await.expect("it drains");
        assert_eq!(bench.rows().await, bench::keys(0, 6..9), "{failure:?}");
    }
}

const EVERY_FAILURE: [Failure; 4] =
    [Failure::Unreachable, Failure::NoConnection, Failure::Throttled, Failure::Denied];

/// An outage costs few requests, hides nothing, and keeps no writer from standing still after a while.
#[tokio::test]
async fn a_queue_that_is_looked_through_without_a_catalog_is_as_it_was() {
    let bench = Bench::new().await;
    let heartbeat = bench.heartbeat_ms().await;
    bench.clock.advance(DAY);
    bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::LoadTable, Failure::NoConnection);
    bench.drain().await.expect_err("the catalog is gone");
    let receives = bench.queue_faults.count(Call::Receive);
    assert!(receives > 0);
    for _ in 0..30 {
        bench.clock.advance(Duration::from_mins(1));
        bench.drain().await.expect_err("the catalog is gone");
    }
    assert_eq!(bench.queue_faults.count(Call::Receive), receives, "not at each invocation");
    assert_eq!(bench.queue.receive(10, Duration::ZERO).await.expect("it receives").len(), 1);
    assert_eq!(bench.heartbeat_ms().await, heartbeat);
}

#[tokio::test]
async fn close_to_the_end_a_message_is_parked_though_its_files_can_not_be_read() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..6), Letters::none()).await).await;
    bench.store_faults.outage(Call::Get, Failure::Denied);
    bench.clock.advance(11 * DAY);
    bench.drain().await.expect_err("its file can't be read");
    assert_eq!((bench.queue.len(), bench.quarantine().len()), (1, 0), "there is time yet");
    bench.clock.advance(2 * DAY);
    bench.drain().await.expect("it is parked");
    assert!(bench.queue.is_empty());
    let parked = bench.quarantine();
    assert_eq!(parked.len(), 2, "the message and why: {parked:?}");
}

#[tokio::test]
async fn messages_of_a_source_that_stood_still_for_that_long_are_parked_young_ones_too() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let others = records(0, 5..15).into_iter().map(bench::other).collect();
    bench.send(&bench.batch(others, Letters::none()).await).await;
    bench.drain().await.expect("the source stops");
    bench.clock.advance(10 * DAY);
    bench.send(&bench.batch(records(0, 20..30), Letters::none()).await).await;
    bench.drain().await.expect("both wait");
    assert_eq!((bench.queue.len(), bench.quarantine().len()), (2, 0));
    bench.clock.advance(DAY);
    bench.drain().await.expect("both are parked");
    assert!(bench.queue.is_empty());
    let parked = bench.quarantine();
    let raw = parked.iter().filter(|key| key.contains("/stopped-too-long/") && key.ends_with(".raw"));
    assert_eq!(raw.count(), 2, "{parked:?}");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
}
