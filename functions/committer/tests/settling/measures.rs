//! What operators see of a drain: the metrics that alarms and the dashboard rest on.

use std::time::Duration;

use crate::bench::{Bench, Letters, TABLE, records};
use icefall_testkit::{Call, Failure, Moment};

const OF_TABLE: Option<&str> = Some(TABLE);

#[tokio::test]
async fn batches_are_counted_as_they_come_and_as_they_are_committed() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::of(0, 10..12)).await).await;
    bench.clock.advance(Duration::from_secs(90));
    bench.send(&bench.batch(records(1, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let measured = bench.measured();
    let of_table = |metric| measured.value(OF_TABLE, metric);
    assert_eq!(of_table("BatchesReceived"), Some(2));
    assert_eq!(of_table("BatchesCommitted"), Some(2));
    assert_eq!(of_table("RecordsCommitted"), Some(17));
    assert!(of_table("OldestBatchManifestAge") >= Some(90_000), "{measured:?}");
}

#[tokio::test]
async fn a_round_of_duplicates_receives_and_commits_nothing() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..10), Letters::none()).await;
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    bench.measured();
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    let measured = bench.measured();
    let of_table = |metric| measured.value(OF_TABLE, metric);
    assert_eq!((of_table("BatchesReceived"), of_table("DuplicateBatches")), (Some(1), Some(1)));
    assert_eq!((of_table("BatchesCommitted"), of_table("RecordsCommitted")), (None, None));
}

#[tokio::test]
async fn the_last_snapshot_ages_until_the_next_one_and_is_absent_before_the_first() {
    let bench = Bench::new().await;
    assert_eq!(bench.measured().value(OF_TABLE, "LastSnapshotAge"), None);
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.clock.advance(Duration::from_hours(2));
    bench.measured();
    bench.drain().await.expect("there is nothing to do");
    let age = bench.measured().value(OF_TABLE, "LastSnapshotAge").expect("there is a snapshot");
    assert!((7_200_000..7_300_000).contains(&age), "{age}");
}

#[tokio::test]
async fn the_size_of_the_metadata_grows_with_its_snapshots() {
    let bench = Bench::new().await;
    let size = |bench: &Bench| bench.measured().value(OF_TABLE, "TableMetadataSize");
    let empty = size(&bench).expect("it was loaded");
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.measured();
    bench.drain().await.expect("there is nothing to do");
    let later = size(&bench).expect("it was loaded");
    assert!(later > empty + 100, "{empty} and {later} bytes");
}

#[tokio::test]
async fn entries_wait_in_the_outbox_while_the_dead_letter_table_is_down() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(vec![], Letters::of(0, 0..3)).await).await;
    bench.catalog_faults.fail(Call::Commit, 2..3, Moment::Before, Failure::Denied);
    bench.drain().await.expect("a dead letter is settled by its own table's ledger");
    assert_eq!(bench.measured().value(None, "OutboxEntriesWaiting"), Some(1));
    bench.drain().await.expect("an empty queue is enough to deliver them");
    let measured = bench.measured();
    assert_eq!(measured.value(None, "OutboxEntriesWaiting"), Some(0));
    assert_eq!(measured.value(None, "DeadLettersCommitted"), Some(3));
}

#[tokio::test]
async fn ledger_objects_are_counted_when_they_are_read_and_not_when_they_are_remembered() {
    let bench = Bench::new().await;
    for start in [0, 20] {
        bench.send(&bench.batch(records(0, start..start + 10), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
    }
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.measured();
    bench.drain().await.expect("it drains");
    assert_eq!(bench.measured().value(OF_TABLE, "LedgerObjectsRead"), None, "both are remembered");
    let bench = bench.restarted();
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    assert!(bench.measured().value(OF_TABLE, "LedgerObjectsRead") >= Some(1));
}
