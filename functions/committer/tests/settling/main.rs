//! The committer over fakes: what becomes of batch manifests, whatever happens around them.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

mod age;
mod bench;
mod branch;
mod cases;
mod held_up;
mod lake;
mod ledger_objects;
mod lineage;
mod measures;
mod merging;
mod other_engine;
mod parking;
mod queue_trigger;
mod register;
mod reported;
mod scale;
mod slow;
mod sources;
mod suspects;

use std::time::Duration;

use bytes::Bytes;
use icefall_clock::{Clock, Timestamp};
use icefall_committer::DrainError;
use icefall_manifest::BatchManifest;
use icefall_store::{Location, ObjectStore};
use icefall_testkit::{Call, Failure, Moment};

use crate::bench::{Bench, Letters, TABLE, records};

#[tokio::test]
async fn a_batch_becomes_rows_once_and_its_message_goes() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots, report.waiting), (1, 1, 0));
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn several_batches_become_one_snapshot() {
    let bench = Bench::new().await;
    for start in [0, 10, 20] {
        bench.send(&bench.batch(records(0, start..start + 10), Letters::none()).await).await;
    }
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..30));
    assert_eq!(bench.snapshots(TABLE), 1);
}

#[tokio::test]
async fn a_batch_manifest_that_comes_again_changes_nothing() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..10), Letters::none()).await;
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    bench.send(&bench.batch(records(0, 10..20), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..20));
    assert_eq!(bench.snapshots(TABLE), 2);
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn the_same_records_twice_in_one_round_land_once() {
    let bench = Bench::new().await;
    for _ in 0..2 {
        bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    }
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn records_that_come_again_in_other_boundaries_are_trimmed_away() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::of(0, 100..104)).await).await;
    bench.drain().await.expect("it drains");
    bench.send(&bench.batch(records(0, 5..15), Letters::of(0, 102..108)).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..15));
    assert_eq!(bench.dead_letters().await, bench::keys(0, 100..108));
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn offsets_out_of_order_both_land() {
    let bench = Bench::new().await;
    for start in [20, 0, 10] {
        bench.send(&bench.batch(records(0, start..start + 10), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
    }
    assert_eq!(bench.rows().await, bench::keys(0, 0..30));
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_the_ledger() {
    for moment in [Moment::Before, Moment::After] {
        let bench = Bench::new().await;
        bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
        bench.catalog_faults.lose(Call::Commit, 1, moment);
        bench.drain().await.expect("it drains");
        assert_eq!(bench.rows().await, bench::keys(0, 0..10), "{moment:?}");
        assert_eq!(bench.snapshots(TABLE), 1, "{moment:?}");
        assert!(bench.queue.is_empty(), "{moment:?}");
    }
}

#[tokio::test]
async fn a_conflict_is_decided_anew_on_what_the_catalog_shows() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.catalog_faults.fail(Call::Commit, 1..6, Moment::Before, Failure::Conflict);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert!(bench.catalog_faults.count(Call::LoadTable) >= 6, "each attempt loads the table");
}

#[tokio::test]
async fn an_unreachable_catalog_ends_the_invocation_soon_and_hides_nothing() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::LoadTable, Failure::NoConnection);
    let (asked, began) = (bench.catalog_faults.count(Call::LoadTable), bench.clock.now());
    let gone = bench.drain().await.expect_err("nobody is there");
    assert!(matches!(gone, DrainError::Catalog(_)), "{gone}");
    assert_eq!(bench.catalog_faults.count(Call::LoadTable) - asked, 1, "asked for one table, and no more");
    assert!(bench.clock.now().since(began) < Duration::from_secs(10));
    bench.catalog_faults.clear();
    bench.drain().await.expect("the messages are not hidden");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
}

/// The one message, of the first ten records.
async fn stays_queued_and_lands_when_it_is_over(bench: &Bench) {
    assert_eq!(bench.queue.len(), 1);
    bench.catalog_faults.clear();
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
}

#[tokio::test]
async fn a_catalog_that_goes_in_between_ends_the_invocation() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::Commit, Failure::NoConnection);
    let gone = bench.drain().await.expect_err("nothing can be committed");
    assert!(matches!(gone, DrainError::Tables { tables: 1, messages: 1 }), "{gone}");
    stays_queued_and_lands_when_it_is_over(&bench).await;
}

#[tokio::test]
async fn a_catalog_that_answers_no_commit_is_given_up_on() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::Commit, Failure::Unreachable);
    let began = bench.clock.now();
    bench.drain().await.expect_err("no commit is answered");
    assert!(bench.clock.now().since(began) < Duration::from_secs(20), "{:?}", bench.clock.now().since(began));
    stays_queued_and_lands_when_it_is_over(&bench).await;
    assert_eq!(bench.snapshots(TABLE), 1);
}

#[tokio::test]
async fn what_is_denied_stays_queued_and_lands_when_it_is_allowed_again() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::Commit, Failure::Denied);
    let denied = bench.drain().await.expect_err("nothing can be committed");
    assert!(matches!(denied, DrainError::Tables { tables: 1, messages: 1 }), "{denied}");
    stays_queued_and_lands_when_it_is_over(&bench).await;
}

#[tokio::test]
async fn a_message_that_can_not_be_deleted_comes_again_as_a_duplicate() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.queue_faults.lose(Call::Delete, 1, Moment::Before);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.queue.len(), 1);
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it drains");
    assert_eq!((bench.queue.len(), bench.snapshots(TABLE)), (0, 1));
}

#[tokio::test]
async fn dead_letters_reach_their_table_once_whatever_happens_to_its_commit() {
    for (nth, moment) in [(2, Moment::Before), (2, Moment::After), (1, Moment::After)] {
        let bench = Bench::new().await;
        bench.send(&bench.batch(records(0, 0..5), Letters::of(0, 5..8)).await).await;
        bench.catalog_faults.lose(Call::Commit, nth, moment);
        bench.drain().await.expect("it drains");
        bench.send(&bench.batch(records(0, 8..9), Letters::of(0, 9..10)).await).await;
        bench.drain().await.expect("it drains");
        let expected: Vec<_> = bench::keys(0, 5..8).into_iter().chain(bench::keys(0, 9..10)).collect();
        assert_eq!(bench.dead_letters().await, expected, "commit {nth} {moment:?}");
    }
}

#[tokio::test]
async fn dead_letters_wait_in_the_outbox_while_their_table_is_down() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(vec![], Letters::of(0, 0..3)).await).await;
    bench.catalog_faults.fail(Call::Commit, 2..3, Moment::Before, Failure::Denied);
    bench.drain().await.expect("a dead letter is settled by its own table's ledger");
    assert!(bench.queue.is_empty());
    assert_eq!(bench.dead_letters().await, []);
    bench.drain().await.expect("an empty queue is enough to deliver them");
    assert_eq!(bench.dead_letters().await, bench::keys(0, 0..3));
}

/// A file that is read as empty, or as another, holds back its entry: an entry that counted as delivered without its
/// dead letters would lose them.
#[tokio::test]
async fn dead_letters_that_are_read_in_part_wait_in_the_outbox() {
    let bench = Bench::new().await;
    let batch = bench.batch(vec![], Letters::of(0, 0..3)).await;
    let other = bench.batch(vec![], Letters::of(0, 0..2)).await;
    let file = |batch: &BatchManifest| {
        Location::s3("ops", batch.dead_letters.as_ref().expect("dead letters").key.clone())
    };
    let whole = bench.ops.peek(&file(&batch)).expect("it is there");
    let part = bench.ops.peek(&file(&other)).expect("it is there");
    bench.send(&batch).await;
    for wrong in [Bytes::new(), part] {
        bench.ops.put(&file(&batch), wrong).await.expect("it puts");
        bench.drain().await.expect("a dead letter is settled by its own table's ledger");
        assert_eq!((bench.dead_letters().await, bench.queue.len()), (vec![], 0));
    }
    bench.ops.put(&file(&batch), whole).await.expect("it puts");
    bench.drain().await.expect("an empty queue is enough to deliver them");
    assert_eq!(bench.dead_letters().await, bench::keys(0, 0..3));
}

#[tokio::test]
async fn a_table_made_again_under_its_name_takes_nothing_of_the_old_one() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..10), Letters::none()).await;
    bench.remake_table().await;
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, []);
    assert!(bench.queue.is_empty());
    let kept = bench.quarantine();
    assert_eq!(kept.iter().filter(|key| key.contains("/another-table/")).count(), 3, "{kept:?}");
}

#[tokio::test]
async fn a_message_that_is_no_batch_manifest_blocks_nobody() {
    let bench = Bench::new().await;
    bench.queue.inject("{\"format\":99}");
    bench.queue.inject("not json");
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert!(bench.queue.is_empty());
    assert_eq!(bench.quarantine().iter().filter(|key| key.contains("/no-batch-manifest/")).count(), 4);
}

#[tokio::test]
async fn another_record_at_a_settled_offset_stops_the_source() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let others = records(0, 5..15).into_iter().map(bench::other).collect();
    bench.send(&bench.batch(others, Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.clock.advance(Duration::from_mins(10));
    bench.send(&bench.batch(records(0, 20..30), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert_eq!(bench.queue.len(), 2, "both wait for an operator");
    assert!(bench.ledger_property().contains("other-record"));
}

#[tokio::test]
async fn a_ledger_that_went_missing_is_not_begun_anew() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.unset_ledger().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect_err("the table stops");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    assert_eq!(bench.queue.len(), 1);
}

#[tokio::test]
async fn segments_are_durable_before_the_commit_that_names_them() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.ops_faults.outage(Call::Put, Failure::Unreachable);
    bench.drain().await.expect_err("the segment can't be put");
    assert_eq!(bench.catalog_faults.count(Call::Commit), 0);
    assert_eq!(bench.queue.len(), 1);
}

#[tokio::test]
async fn a_platform_without_deadlines_gets_its_queue_drained() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    let report = bench.drain_until(Timestamp::from_unix_ms(600_000)).await.expect("it drains");
    assert_eq!((report.settled, report.waiting), (1, 0));
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
}

#[tokio::test]
async fn an_invocation_whose_time_is_up_takes_nothing() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    let report = bench.drain_until(bench.clock.now()).await.expect("nothing failed");
    assert_eq!((report.received, bench.queue.len()), (0, 1));
}

/// Writers refuse their batches when the heartbeat is old. A pipeline without records for a weekend has an empty
/// queue, and must still be told from one that nobody commits for: found by the fault simulation.
#[tokio::test]
async fn a_quiet_pipeline_has_a_fresh_heartbeat() {
    let bench = Bench::new().await;
    bench.clock.advance(Duration::from_hours(60));
    let began = bench.clock.now().unix_ms();
    bench.drain().await.expect("there is nothing to settle");
    assert!(bench.heartbeat_ms().await.expect("a heartbeat") >= began);
}

/// Every call that a drain makes fails once, done or not, and the process with it; the next
/// invocation finds whatever that left.
#[tokio::test]
async fn a_crash_at_any_call_loses_and_doubles_nothing() {
    let mut crashes = 0;
    for moment in [Moment::Before, Moment::After] {
        for nth in 1.. {
            let bench = Bench::with_shared_faults().await;
            bench.send(&bench.batch(records(0, 0..6), Letters::of(0, 6..8)).await).await;
            let begun = bench.catalog_faults.total();
            bench.catalog_faults.crash(begun + nth, moment);
            let _crashed = bench.drain().await;
            let struck = bench.catalog_faults.total() >= begun + nth;
            bench.catalog_faults.clear();
            bench.clock.advance(Duration::from_mins(10));
            let bench = bench.restarted();
            bench.drain().await.expect("the next invocation drains");
            assert_eq!(bench.rows().await, bench::keys(0, 0..6), "call {nth} {moment:?}");
            assert_eq!(bench.dead_letters().await, bench::keys(0, 6..8), "call {nth} {moment:?}");
            assert!(bench.queue.is_empty(), "call {nth} {moment:?}");
            if !struck {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 40, "only {crashes} calls were hit");
}
