//! Messages that end the committer, and outages that must not look like one.

use std::time::Duration;

use icefall_clock::Clock;
use icefall_queue::CommitQueue;
use icefall_store::Location;
use icefall_testkit::{Call, Failure};

use crate::bench::{self, Bench, Letters, TABLE, VISIBILITY, records};

/// Drains with one process after another until the queue is empty; gives how many of them died.
async fn drain_with_new_processes(mut bench: Bench) -> (Bench, usize) {
    let mut deaths = 0;
    for _ in 0..20 {
        let _ended = bench.drain().await;
        deaths += usize::from(bench.ops_faults.is_dead());
        bench.ops_faults.revive();
        bench = bench.restarted();
        if bench.queue.is_empty() {
            return (bench, deaths);
        }
        bench.clock.advance(VISIBILITY);
    }
    panic!("{} messages are left", bench.queue.len());
}

#[tokio::test]
async fn a_message_that_ends_the_committer_blocks_nobody_and_is_parked_as_it_came() {
    let bench = Bench::with_shared_faults().await;
    for start in 0..10 {
        let batch = bench.batch(records(0, start..start + 1), Letters::none()).await;
        if start == 4 {
            let key = bench.send_spilled(&batch).await;
            bench.ops_faults.deadly(Call::Get, &key);
        } else {
            bench.send(&batch).await;
        }
    }
    let body = bench.queue.bodies()[4].clone();
    let (bench, deaths) = drain_with_new_processes(bench).await;
    assert_eq!(
        deaths, 5,
        "once with the others, three times alone, and once more when it stood in quarantine"
    );
    let mut expected = bench::keys(0, 0..10);
    expected.remove(4);
    assert_eq!(bench.rows().await, expected);
    let parked = bench.quarantine();
    assert!(
        parked.iter().all(|key| key.contains("/ended-the-committer/")) && parked.len() == 2,
        "{parked:?}"
    );
    let raw = parked.iter().find(|key| key.ends_with(".raw")).expect("the message itself");
    assert_eq!(bench.ops.peek(&Location::s3("ops", raw)).as_deref(), Some(body.as_bytes()));
    let counted = bench.counted();
    assert!(counted.contains("\"RoundsUnended\":4"), "{counted}");
    assert!(counted.contains("\"QuarantinedMessages\":1"), "{counted}");
}

/// The table's own clean-up removes what no snapshot names, and a release may come late.
#[tokio::test]
async fn what_ended_the_committer_is_kept_with_copies_of_its_files_where_it_can_be_opened_by_then() {
    let mut bench = Bench::with_shared_faults().await;
    let batch = bench.batch(records(0, 0..3), Letters::none()).await;
    let key = bench.send_spilled(&batch).await;
    bench.ops_faults.deadly(Call::Get, &key);
    for _ in 0..3 {
        bench.drain().await.expect_err("it dies");
        bench.ops_faults.revive();
        bench = bench.restarted();
        bench.clock.advance(VISIBILITY);
    }
    bench.ops_faults.clear();
    bench.drain().await.expect("it parks");
    let parked = bench.quarantine();
    let entry = parked.iter().find(|key| key.ends_with(".json")).expect("an entry");
    let entry = bench.ops.peek(&Location::s3("ops", entry)).expect("it is there");
    let entry: serde_json::Value = serde_json::from_slice(&entry).expect("JSON");
    let copy = entry["details"]["data-files"][0]["copy"].as_str().expect("a copy of its file");
    let file = Location::parse(&batch.files[0].data_file.path).expect("a location");
    assert_eq!(bench.ops.peek(&Location::s3("ops", copy)), bench.store.peek(&file), "{entry}");
    assert_eq!(entry["details"]["offsets"][0]["first"], 0, "{entry}");
    assert!(bench.queue.is_empty());
    assert!(bench.counted().contains("\"QuarantinedMessages\":1"), "it is one message");
}

#[tokio::test]
async fn two_messages_that_end_the_committer_are_both_found() {
    let bench = Bench::with_shared_faults().await;
    for start in 0..70 {
        let batch = bench.batch(records(0, start..start + 1), Letters::none()).await;
        if start == 20 || start == 50 {
            let key = bench.send_spilled(&batch).await;
            bench.ops_faults.deadly(Call::Get, &key);
        } else {
            bench.send(&batch).await;
        }
    }
    let (bench, deaths) = drain_with_new_processes(bench).await;
    assert!(deaths <= 12, "{deaths}");
    assert_eq!(bench.rows().await.len(), 68);
    assert_eq!(bench.quarantine().iter().filter(|key| key.ends_with(".raw")).count(), 2);
}

#[tokio::test]
async fn a_round_that_was_killed_from_outside_parks_nothing_and_costs_few_snapshots() {
    let bench = Bench::with_shared_faults().await;
    let bodies = bench.light_bodies(600).await;
    bench.queue.send(&bodies).await.expect("it sends");
    bench.catalog_faults.deadly(Call::Commit, TABLE);
    let _killed = bench.drain().await;
    assert!(bench.catalog_faults.is_dead());
    bench.catalog_faults.clear();
    bench.clock.advance(VISIBILITY * 2);
    let bench = bench.restarted();
    bench.drain().await.expect("it drains");
    assert_eq!(bench.total_records(), 600);
    assert!(bench.quarantine().is_empty());
    assert!(bench.snapshots(TABLE) < 100, "{} snapshots", bench.snapshots(TABLE));
}

/// T10, T35: an outage ends every round in order, so it makes nobody suspect.
#[tokio::test]
async fn thirty_minutes_of_403_with_20_000_messages_park_nothing_and_cost_tens_of_snapshots() {
    let bench = Bench::new().await;
    let bodies = bench.light_bodies(20_000).await;
    bench.queue.send(&bodies).await.expect("it sends");
    bench.catalog_faults.outage(Call::Commit, Failure::Denied);
    bench.catalog_faults.outage(Call::LoadTable, Failure::Denied);
    let begun = bench.clock.now();
    let mut refused = 0;
    while bench.clock.now().since(begun) < Duration::from_mins(30) {
        refused += u32::from(bench.drain().await.is_err());
        bench.clock.advance(Duration::from_mins(1));
    }
    assert!(refused > 4, "all of them were tried {refused} times");
    assert_eq!(bench.queue.len(), 20_000, "all of them stay queued");
    assert!(
        bench.measured().value(Some(TABLE), "TableFailures").is_some_and(|failures| failures > 0),
        "the alarm"
    );
    bench.catalog_faults.clear();
    let cleared = bench.clock.now();
    while !bench.queue.is_empty() {
        bench.clock.advance(Duration::from_mins(1));
        bench.drain().await.expect("it drains");
    }
    let recovered = bench.clock.now().since(cleared);
    assert!(recovered <= VISIBILITY + Duration::from_mins(5), "all was visible after {recovered:?}");
    assert_eq!(bench.total_records(), 20_000);
    assert!(bench.quarantine().is_empty());
    assert!(bench.snapshots(TABLE) < 100, "{} snapshots", bench.snapshots(TABLE));
    assert!(!bench.counted().contains("RoundsUnended"));
}

/// Several committers at once: one that is at work is not taken for dead, not even while it decides anew what another
/// was faster with.
#[tokio::test]
async fn committers_at_once_suspect_nobody() {
    let bench = Bench::of_many(Duration::from_secs(20)).await;
    for offset in 0..120 {
        bench.send(&bench.batch(records(0, offset..offset + 1), Letters::none()).await).await;
    }
    let others = [bench.another_committer(), bench.another_committer()];
    let counted = Box::pin(bench.drained_by_three(&others)).await;
    assert_eq!(bench.rows().await, bench::keys(0, 0..120));
    assert_eq!(counted.value(None, "RoundsUnended"), None);
    assert!(bench.queue.is_empty() && bench.quarantine().is_empty());
}
