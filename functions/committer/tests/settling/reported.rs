//! What users reported of the Iceberg Kafka Connect sink (github.com/apache/iceberg), each situation rebuilt under the
//! report's number. Where that sink has a coordinator there is a committer here, where it has a control topic there is
//! the commit queue, and where it has offsets in a snapshot's summary there is the ledger.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use icefall_clock::Clock;
use icefall_committer::Report;
use icefall_manifest::BatchManifest;
use icefall_store::Location;
use icefall_testkit::{Call, Failure, Moment};

use crate::bench::{self, Bench, DAY, Letters, TABLE, VISIBILITY, records};
use crate::cases::expire_all_but_the_newest;
use crate::other_engine::{manifests, replace_manifests};

/// Sends a batch of these offsets of partition 0; gives it, for who sends it again.
async fn sent(bench: &Bench, offsets: Range<i64>) -> BatchManifest {
    let batch = bench.batch(records(0, offsets), Letters::none()).await;
    bench.send(&batch).await;
    batch
}

/// Sends batches from such offsets to such, and settles each by itself.
async fn settled(bench: &Bench, batches: &[(i64, i64)]) -> Vec<BatchManifest> {
    let mut all = Vec::new();
    for (from, to) in batches {
        all.push(sent(bench, *from..*to).await);
        bench.drain().await.expect("it drains");
    }
    all
}

/// Sends these once more, and settles all that is queued.
async fn drained_again(bench: &Bench, batches: &[BatchManifest]) -> Report {
    for batch in batches {
        bench.send(batch).await;
    }
    bench.drain().await.expect("it drains")
}

/// Each live file's path; fails where one is there twice.
async fn live_paths(bench: &Bench) -> BTreeSet<String> {
    let entries = bench.entries(TABLE).await;
    let paths: BTreeSet<_> = entries.iter().map(|file| file.file_path().to_owned()).collect();
    assert_eq!(paths.len(), entries.len(), "a file is in the table twice: {paths:?}");
    paths
}

/// 17551: a coordinator that failed to exit kept an old position in memory, and wrote it over the newer one when the
/// other had died and the control topic's retention had taken what lay between: lost for good. Here nothing that a
/// committer remembers is ever written without the table's own state beneath it.
#[tokio::test]
async fn iceberg_17551_a_committer_left_over_for_days_takes_nothing_back() {
    let bench = Bench::new().await;
    let held = sent(&bench, 0..5).await;
    let other = bench.another_committer();
    bench.before_commit(move || async move {
        other.send(&held).await;
        settled(&other, &[(5, 10), (10, 15)]).await;
        other.clock.advance(8 * DAY);
    });
    let _left_over = bench.drain().await;
    bench.clock.advance(VISIBILITY);
    let bench = bench.restarted();
    settled(&bench, &[(15, 20)]).await;
    assert_eq!(bench.rows().await, bench::keys(0, 0..20));
    assert!(bench.queue.is_empty() && bench.quarantine().is_empty());
}

/// 17552: the mended coordinator moves offsets forward only. Here a committer whose memory is three commits old adds to
/// what the others wrote and takes nothing from it: everything that comes again afterwards is known.
#[tokio::test]
async fn iceberg_17552_a_stale_memory_of_the_ledger_replaces_nothing_newer() {
    let stale = Bench::new().await;
    let mut batches = settled(&stale, &[(0, 5)]).await;
    let newer = stale.another_committer();
    batches.extend(settled(&newer, &[(5, 10), (10, 15), (15, 20)]).await);
    batches.extend(settled(&stale, &[(20, 25)]).await);
    let before = stale.snapshots(TABLE);
    let anew = stale.restarted();
    let report = drained_again(&anew, &batches).await;
    assert_eq!((report.settled, report.snapshots, anew.snapshots(TABLE)), (5, 0, before));
    assert_eq!(anew.rows().await, bench::keys(0, 0..25));
}

/// 17340: after a task's restart the control topic was read again from an earlier position, the position in the
/// snapshot moved backwards with it, and data files were committed a second time.
#[tokio::test]
async fn iceberg_17340_what_is_read_again_after_a_restart_moves_nothing_backwards() {
    let bench = Bench::new().await;
    let batches = settled(&bench, &[(0, 5), (5, 10), (10, 15)]).await;
    let bench = bench.restarted();
    bench.send(&batches[0]).await;
    sent(&bench, 15..20).await;
    bench.drain().await.expect("it drains");
    let bench = bench.restarted();
    let report = drained_again(&bench, &batches).await;
    assert_eq!((report.settled, report.snapshots), (3, 0));
    assert_eq!((bench.rows().await, live_paths(&bench).await.len()), (bench::keys(0, 0..20), 4));
}

/// 16282: the snapshot was made, the process died before the control topic's offset moved, and the next coordinator
/// committed the same data file in a second snapshot, together with what had come meanwhile.
#[tokio::test]
async fn iceberg_16282_a_crash_between_the_commit_and_the_delete_registers_no_file_twice() {
    let bench = Bench::with_shared_faults().await;
    let first = sent(&bench, 0..5).await;
    bench.queue_faults.outage(Call::Delete, Failure::Unreachable);
    let _died = bench.drain().await;
    bench.queue_faults.clear();
    assert_eq!((bench.snapshots(TABLE), bench.queue.len()), (1, 1), "committed, and still queued");
    bench.clock.advance(VISIBILITY);
    let bench = bench.restarted();
    let second = sent(&bench, 5..10).await;
    bench.drain().await.expect("it drains");
    let expected = [first, second].map(|batch| batch.files[0].data_file.path.clone());
    assert_eq!(live_paths(&bench).await, BTreeSet::from(expected));
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
}

/// 13763: one data file's path was found under several snapshots, with several coordinators alive. Here each of three
/// committers holds batches that one of the others holds as well, and all decide before any of them commits.
#[tokio::test]
async fn iceberg_13763_three_committers_put_no_path_into_two_snapshots() {
    let bench = Bench::of_many(Duration::from_secs(20)).await;
    let mut batches = Vec::new();
    for offset in 0..60 {
        batches.push(sent(&bench, offset..offset + 1).await);
    }
    for batch in &batches {
        bench.send(batch).await;
    }
    let others = [bench.another_committer(), bench.another_committer()];
    Box::pin(bench.drained_by_three(&others)).await;
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it drains");
    let expected = batches.iter().map(|batch| batch.files[0].data_file.path.clone()).collect();
    assert_eq!(live_paths(&bench).await, expected);
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..60), 0));
}

/// 18006: reading the control topic from its beginning recovers what was never committed, but the marker against the
/// rest is in snapshots, which expire. Here the ledger is not: of a history that is partly settled, only the rest lands.
#[tokio::test]
async fn iceberg_18006_a_history_that_is_read_again_after_expiry_adds_only_what_was_pending() {
    let bench = Bench::new().await;
    let mut history = settled(&bench, &[(0, 5), (5, 10)]).await;
    replace_manifests(&bench, manifests(&bench).await).await;
    expire_all_but_the_newest(&bench).await;
    assert_eq!(bench.snapshots(TABLE), 1, "maintenance's own");
    history.push(bench.batch(records(0, 10..15), Letters::none()).await);
    let bench = bench.restarted();
    let report = drained_again(&bench, &history).await;
    assert_eq!((report.settled, report.snapshots), (3, 1));
    assert_eq!((bench.rows().await, live_paths(&bench).await.len()), (bench::keys(0, 0..15), 3));
}

/// 18012: where a table was missing or had been replaced, its files were skipped with a warning and the offsets moved
/// on. Here they are kept with the reason, the other tables go on, and the table of that name is left alone.
#[tokio::test]
async fn iceberg_18012_files_of_a_replaced_table_are_kept_and_told_of() {
    let (replaced, other) = ("analytics.clicks", "analytics.orders");
    let bench = Bench::of_tables(&[replaced, other]).await;
    let batch = bench.batch_for(replaced, records(0, 0..5), Letters::none()).await;
    bench.send(&batch).await;
    bench.send(&bench.batch_for(other, records(0, 0..5), Letters::none()).await).await;
    assert!(bench.catalog.drop_table(&bench::ident(replaced)));
    bench.drain().await.expect("it drains");
    assert_eq!((bench.snapshots(replaced), bench.snapshots(other)), (0, 1));
    assert!(bench.quarantine().iter().any(|key| key.contains("/another-table/")));
    assert_eq!(bench.measured().value(None, "QuarantinedMessages"), Some(1), "the alarm");
    let path = Location::parse(&batch.files[0].data_file.path).expect("a location");
    assert!(bench.store.peek(&path).is_some(), "the rows are not lost");
}

/// 16360: a proposed remedy lowered the floor whenever offsets began anew, which lets anything older in again. Here
/// records that differ from what is settled at their offsets are neither filtered away nor let in: the source stops,
/// says so, and what came waits.
#[tokio::test]
async fn iceberg_16360_a_topic_that_begins_anew_is_neither_filtered_nor_let_in() {
    let bench = Bench::new().await;
    settled(&bench, &[(0, 100)]).await;
    bench.measured();
    let anew = records(0, 0..5).into_iter().map(bench::other).collect();
    bench.send(&bench.batch(anew, Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.measured().value(Some(TABLE), "SourcesStopped"), Some(1), "the alarm");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..100), 1));
}

/// 15293: after the Kafka cluster was made anew, all of its messages lay below the old position: files were written
/// for days and no snapshot was. Here such a cluster has a name of its own: its records land, in the first round.
#[tokio::test]
async fn iceberg_15293_a_new_cluster_under_a_name_of_its_own_lands_at_once() {
    let bench = Bench::new().await;
    settled(&bench, &[(0, 100)]).await;
    let anew = records(0, 0..5).into_iter().map(bench::other).collect();
    let mut batch = bench.batch(anew, Letters::none()).await;
    batch.source.cluster = "made-anew".try_into().expect("a name");
    batch.source.topic = "clicks-anew".try_into().expect("a topic");
    bench.send(&batch).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots), (1, 1));
    assert_eq!(bench.rows().await.len(), 105);
}

/// 13752: Glue failed while the coordinator loaded the table, and the messages of that cycle were dropped.
#[tokio::test]
async fn iceberg_13752_a_catalog_that_fails_at_the_load_drops_nothing() {
    for failure in [Failure::Unreachable, Failure::NoConnection, Failure::Throttled, Failure::Denied] {
        let bench = Bench::new().await;
        sent(&bench, 0..5).await;
        bench.catalog_faults.outage(Call::LoadTable, failure);
        bench.drain().await.expect_err("the invocation says so");
        assert_eq!(bench.queue.len(), 1, "{failure:?}");
        bench.catalog_faults.clear();
        bench.clock.advance(VISIBILITY);
        sent(&bench, 5..10).await;
        bench.drain().await.expect("it drains");
        assert_eq!(bench.rows().await, bench::keys(0, 0..10), "{failure:?}");
    }
}

/// 15878: Glue answered one commit with a conflict; the connector went on as RUNNING and wrote no row any more.
#[tokio::test]
async fn iceberg_15878_a_conflict_costs_another_attempt_and_is_counted() {
    let bench = Bench::new().await;
    sent(&bench, 0..5).await;
    bench.rivals(1);
    bench.drain().await.expect("the same invocation commits");
    assert_eq!(bench.measured().value(Some(TABLE), "CommitConflicts"), Some(1));
    settled(&bench, &[(5, 10)]).await;
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..10), 0));
}

/// 16237: commit failures were logged and swallowed, and a commit of unknown outcome was sent again in the next cycle:
/// if the first had landed, its rows were there twice. Here a failure fails the invocation, and an unknown outcome is
/// looked up before anything else is done.
#[tokio::test]
async fn iceberg_16237_failures_are_told_and_unknown_outcomes_are_looked_up() {
    for moment in [Moment::Before, Moment::After] {
        let bench = Bench::new().await;
        sent(&bench, 0..5).await;
        bench.catalog_faults.lose(Call::Commit, bench.catalog_faults.count(Call::Commit) + 1, moment);
        bench.drain().await.expect("the same invocation finds out");
        assert_eq!(bench.measured().value(Some(TABLE), "UnknownOutcomes"), Some(1), "{moment:?}");
        assert_eq!((bench.rows().await, bench.snapshots(TABLE)), (bench::keys(0, 0..5), 1), "{moment:?}");
        sent(&bench, 5..10).await;
        bench.catalog_faults.outage(Call::Commit, Failure::Denied);
        bench.drain().await.expect_err("the invocation fails");
        assert_eq!(bench.measured().value(Some(TABLE), "TableFailures"), Some(1), "{moment:?}");
        assert_eq!(bench.queue.len(), 1, "{moment:?}");
    }
}

/// 17811: tasks without records never answered, so each commit waited for the timeout and was partial. Here nobody is
/// asked: a round commits what there is, without waiting for partitions, topics or tables that are silent.
#[tokio::test]
async fn iceberg_17811_who_has_nothing_to_say_is_not_waited_for() {
    let bench = Bench::of_tables(&[TABLE, "analytics.silent"]).await;
    let timed = async || {
        let begun = bench.clock.now();
        let report = bench.drain().await.expect("it drains");
        assert_eq!(report.snapshots, 1);
        bench.clock.now().since(begun)
    };
    for partition in 0..64 {
        bench.send(&bench.batch(records(partition, 0..1), Letters::none()).await).await;
    }
    let all = timed().await;
    sent(&bench, 1..5).await;
    let few = timed().await;
    assert!(
        few < all + Duration::from_secs(1),
        "63 of 64 partitions and one of two tables had nothing to say: {few:?} after {all:?}"
    );
}

/// 13593: with several coordinators alive at once commits failed over and over, and nothing came of it. Here whoever is
/// slower is refused by the catalog, learns from the ledger what the other did, and both have ended in one invocation.
#[tokio::test]
async fn iceberg_13593_committers_that_meet_again_and_again_all_get_through() {
    let bench = Bench::of_many(Duration::from_secs(5)).await;
    let others = [bench.another_committer(), bench.another_committer()];
    for round in 0..4 {
        for offset in round * 120..(round + 1) * 120 {
            sent(&bench, offset..offset + 1).await;
        }
        Box::pin(bench.drained_by_three(&others)).await;
        assert_eq!(bench.queue.len(), 0, "round {round}");
    }
    assert_eq!(bench.rows().await, bench::keys(0, 0..480));
    live_paths(&bench).await;
}

/// 16016: writing to S3 failed inside the coordinator, which stayed alive as a zombie beside its successor; snapshots
/// ceased while offsets moved on.
#[tokio::test]
async fn iceberg_16016_a_committer_whose_puts_failed_goes_on_beside_its_successor() {
    let zombie = Bench::new().await;
    sent(&zombie, 0..5).await;
    zombie.store_faults.outage(Call::Put, Failure::Unreachable);
    zombie.drain().await.expect_err("the invocation says so");
    assert_eq!((zombie.snapshots(TABLE), zombie.queue.len()), (0, 1), "nothing is let go");
    zombie.store_faults.clear();
    zombie.clock.advance(VISIBILITY);
    let successor = zombie.another_committer();
    successor.drain().await.expect("it drains");
    settled(&zombie, &[(5, 10)]).await;
    settled(&successor, &[(10, 15)]).await;
    assert_eq!(zombie.rows().await, bench::keys(0, 0..15));
    live_paths(&zombie).await;
}
