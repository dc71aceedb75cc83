//! What stands in the way of one message stands in no other's.

use std::time::Duration;

use icefall_committer::DrainError;
use icefall_manifest::{BatchManifest, TableUuid};
use icefall_testkit::{Call, Failure};
use uuid::Uuid;

use crate::bench::{self, Bench, DAY, Letters, TABLE, Taking, VISIBILITY, records};

/// From now on the batch manifest's file may not be read, which is also what a store says of one that is gone.
fn forbid(bench: &Bench, batch: &BatchManifest) {
    let path = batch.files[0].data_file.path.strip_prefix("s3://lake/").expect("a path of the lake");
    bench.store_faults.outage_of(Call::Get, path, Failure::Denied);
}

async fn of_another_table(bench: &Bench) -> BatchManifest {
    let batch = bench.batch(records(0, 0..5), Letters::none()).await;
    BatchManifest { table_uuid: TableUuid(Uuid::from_u128(9)), ..batch }
}

#[tokio::test]
async fn a_message_that_can_not_be_put_in_quarantine_holds_up_no_other() {
    let bench = Bench::new().await;
    let stray = of_another_table(&bench).await;
    forbid(&bench, &stray);
    bench.send(&stray).await;
    bench.send(&bench.batch(records(0, 10..20), Letters::none()).await).await;
    bench.drain().await.expect_err("it says so");
    assert_eq!((bench.queue.len(), bench.rows().await), (1, bench::keys(0, 10..20)));
    assert!(bench.quarantine().iter().all(|key| !key.ends_with(".raw")));
    bench.store_faults.clear();
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it drains");
    assert!(bench.queue.is_empty());
    assert!(bench.quarantine().iter().any(|key| key.contains("/another-table/") && key.ends_with(".raw")));
}

#[tokio::test]
async fn close_to_the_end_it_goes_to_quarantine_without_a_copy() {
    let bench = Bench::new().await;
    let stray = of_another_table(&bench).await;
    forbid(&bench, &stray);
    bench.send(&stray).await;
    bench.clock.advance(12 * DAY);
    bench.drain().await.expect_err("there is time yet");
    assert_eq!(bench.queue.len(), 1);
    bench.clock.advance(DAY);
    bench.drain().await.expect("it is parked");
    assert!(bench.queue.is_empty());
    let parked = bench.quarantine();
    assert!(parked.len() == 2 && parked.iter().all(|key| key.contains("/another-table/")), "{parked:?}");
}

#[tokio::test]
async fn a_file_that_may_not_be_read_holds_up_its_own_batch_alone() {
    for wait in [VISIBILITY, 2 * DAY] {
        let bench = Bench::new().await;
        bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
        let late = bench.batch(records(0, 3..9), Letters::none()).await;
        forbid(&bench, &late);
        bench.send(&late).await;
        bench.clock.advance(wait);
        bench.send(&bench.batch(records(0, 20..30), Letters::none()).await).await;
        bench.drain().await.expect_err("it says so");
        let landed = [bench::keys(0, 0..5), bench::keys(0, 20..30)].concat();
        assert_eq!((bench.queue.len(), bench.rows().await), (1, landed), "{wait:?}");
        assert!(bench.quarantine().is_empty(), "it may be readable later");
        bench.store_faults.clear();
        bench.clock.advance(VISIBILITY);
        bench.drain().await.expect("it drains");
        let landed = [bench::keys(0, 0..9), bench::keys(0, 20..30)].concat();
        assert_eq!((bench.queue.len(), bench.rows().await), (0, landed), "{wait:?}");
    }
}

#[tokio::test]
async fn a_batch_manifest_in_the_ops_bucket_that_can_not_be_read_raises_the_alarms_and_holds_up_no_other() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..3), Letters::none()).await;
    let key = bench.send_spilled(&batch).await;
    bench.ops_faults.outage_of(Call::Get, &key, Failure::Denied);
    bench.clock.advance(Duration::from_hours(1));
    bench.send(&bench.batch(records(0, 3..5), Letters::none()).await).await;
    let error = bench.drain().await.expect_err("it says so");
    assert!(matches!(error, DrainError::Tables { tables: 1, messages: 1 }), "{error}");
    let measured = bench.measured();
    assert_eq!(measured.value(Some(TABLE), "TableFailures"), Some(1));
    let oldest = measured.value(Some(TABLE), "OldestBatchManifestAge");
    assert!(oldest.is_some_and(|age| age >= 3_600_000), "{oldest:?}");
    assert_eq!((bench.queue.len(), bench.rows().await), (1, bench::keys(0, 3..5)));
    bench.ops_faults.clear();
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..5));
}

#[tokio::test]
async fn a_message_that_quarantine_can_not_take_fails_the_invocation() {
    let bench = Bench::new().await;
    bench.queue.inject("no batch manifest");
    bench.ops_faults.outage_of(Call::Put, "quarantine/", Failure::Denied);
    let error = bench.drain().await.expect_err("it says so");
    assert!(matches!(error, DrainError::Quarantine(1)), "{error}");
    assert_eq!(bench.queue.len(), 1);
    bench.ops_faults.clear();
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it drains");
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn batch_manifests_in_the_ops_bucket_that_are_too_many_for_one_round_are_taken_in_the_next() {
    const RECORDS: i64 = 100_000;
    let bench = Bench::set_to("max_bytes = '1 MiB'").await;
    for start in [0, RECORDS, 2 * RECORDS, 3 * RECORDS] {
        let batch = bench.batch(records(0, start..start + RECORDS), Letters::none()).await;
        bench.send_spilled(&batch).await;
    }
    bench.send(&bench.batch(records(1, 0..1), Letters::none()).await).await;
    let first = bench.drain().await.expect("waiting is no failure");
    assert!(first.waiting > 0 && first.settled > 1, "{first:?}");
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it drains");
    assert!(bench.queue.is_empty());
    assert_eq!(bench.total_records(), 4 * 100_000 + 1);
}

#[tokio::test]
async fn dead_letters_that_can_not_be_delivered_hold_up_no_table() {
    let bench = Bench::new().await;
    bench.catalog_faults.outage_of(Call::Commit, "dead_letters", Failure::Unreachable);
    for start in [0, 10] {
        bench.send(&bench.batch(records(0, start..start + 5), Letters::of(1, start..start + 2)).await).await;
        let before = bench.catalog_faults.count(Call::Commit);
        bench.drain().await.expect("the table is settled");
        let commits = bench.catalog_faults.count(Call::Commit) - before;
        assert!(commits <= 7, "a catalog whose outcomes stay unknown is not asked for ever: {commits}");
    }
    assert!(bench.queue.is_empty());
    assert_eq!(bench.rows().await, [bench::keys(0, 0..5), bench::keys(0, 10..15)].concat());
    assert_eq!(bench.dead_letters().await, [] as [bench::Key; 0]);
    bench.catalog_faults.clear();
    bench.drain().await.expect("it drains");
    assert_eq!(bench.dead_letters().await, [bench::keys(1, 0..2), bench::keys(1, 10..12)].concat());
}

/// One that answers nothing for hours costs the tables half of the time, and no more.
#[tokio::test]
async fn an_ops_bucket_that_is_slow_to_give_dead_letters_holds_up_no_table() {
    let bench = Bench::new().await;
    bench.catalog_faults.outage_of(Call::Commit, "dead_letters", Failure::Denied);
    for start in 0..40 {
        bench.send(&bench.batch(records(0, start..start + 1), Letters::of(1, start..start + 1)).await).await;
    }
    bench.drain().await.expect("the table is settled");
    bench.catalog_faults.clear();
    let bench = bench.taking(Taking { letters: Duration::from_mins(1), ..Taking::default() });
    bench.send(&bench.batch(records(0, 40..41), Letters::none()).await).await;
    let mut delivered = 0;
    for _ in 0..3 {
        bench.drain().await.expect("it drains");
        let found = bench.dead_letters().await.len();
        assert!(found > delivered, "each invocation delivers some: {found}");
        delivered = found;
    }
    assert_eq!(bench.rows().await, bench::keys(0, 0..41));
}
