//! Sources that stand still: what an operator says about them, and what becomes of their records.

use std::time::Duration;

use icefall_cli::CliError;
use icefall_testkit::{Call, Failure, Moment};
use serde_json::Value;

use crate::bench::{Bench, SOURCE, TABLE};

/// A table that holds `count` records of a topic that was made again since, with as many others: its batches came
/// shuffled, and nothing of them landed.
async fn made_again(count: i64) -> Bench {
    let bench = Bench::new().await;
    bench.write(0..count).await;
    bench.drain().await.expect("it drains");
    let size = (count / 10).max(1);
    for start in [7, 2, 9, 0, 4, 1, 8, 3, 6, 5] {
        bench.write_others(start * size..(start + 1) * size).await;
    }
    bench.drain().await.expect("the source stops");
    assert_eq!(bench.rows().await, (0..count).collect::<Vec<_>>());
    assert!(!bench.queue.is_empty(), "they wait");
    bench
}

async fn stops(bench: &Bench) -> Vec<Value> {
    let listed = bench.command(&["stops", "list", "--json"]).await.expect("a list");
    serde_json::from_str(&listed).expect("JSON")
}

async fn decide(bench: &Bench, decision: &str) -> Result<String, CliError> {
    bench
        .command(&["stops", decision, TABLE, SOURCE, "--because", "the topic was made again on March 3rd"])
        .await
}

async fn drain_later(bench: &Bench) {
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it drains");
}

/// The records that were written as others, beside those of the same offsets.
fn both(count: i64) -> Vec<i64> {
    (0..count).chain((0..count).map(Bench::other)).collect()
}

#[tokio::test]
async fn what_stands_still_is_listed_and_shown_with_what_can_be_done() {
    let bench = made_again(10).await;
    let listed = stops(&bench).await;
    assert_eq!((listed.len(), &listed[0]["table"], &listed[0]["source"]), (1, &TABLE.into(), &SOURCE.into()));
    let id = listed[0]["id"].as_str().expect("an id");
    let shown = bench.command(&["stops", "show", id]).await.expect("it is there");
    for said in [TABLE, SOURCE, "partition 0 offset", "stops accept", "stops discard", "is settled as record"]
    {
        assert!(shown.contains(said), "{said:?} is not in: {shown}");
    }
    let text = bench.command(&["stops", "list"]).await.expect("a list");
    assert!(text.contains(id) && text.contains("1 stand still"), "{text}");
    let error = bench.command(&["stops", "show", "nobody"]).await.expect_err("there is none");
    assert!(error.to_string().contains("stops list"), "{error}");
}

#[tokio::test]
async fn where_nothing_stands_still_nothing_is_decided() {
    let bench = Bench::new().await;
    assert_eq!(bench.command(&["stops", "list"]).await.expect("a list"), "no source stands still\n");
    let error = decide(&bench, "accept").await.expect_err("nothing stands still");
    assert!(matches!(error, CliError::NothingStands { .. }), "{error}");
    let bench = made_again(10).await;
    let blank = bench.command(&["stops", "accept", TABLE, SOURCE, "--because", " "]).await;
    assert!(matches!(blank, Err(CliError::NoWords)));
    assert_eq!(stops(&bench).await.len(), 1);
}

/// T21: "topic deleted and recreated, 100 new records from offset 0; and 200,000 over 200,000, batches shuffled:
/// recognised by fingerprints that differ; the source stops; after `accept` all new rows land once".
#[tokio::test]
async fn t21_records_of_a_topic_that_was_made_again_land_once_when_they_are_accepted() {
    for count in [100, 200_000] {
        let bench = made_again(count).await;
        let snapshots = bench.metadata().snapshots().len();
        let said = decide(&bench, "accept").await.expect("it is accepted");
        assert!(said.contains("incarnation 2"), "{said}");
        let head = bench.metadata();
        let summary = &head.current_snapshot().expect("a snapshot").summary().additional_properties;
        assert_eq!(
            (summary["icefall.operator"].as_str(), head.snapshots().len()),
            ("stops accept", snapshots + 1)
        );
        assert!(summary["icefall.because"].contains("March 3rd"), "{summary:?}");
        assert!(stops(&bench).await.is_empty());
        drain_later(&bench).await;
        assert!(bench.queue.is_empty());
        for _ in 0..2 {
            assert_eq!(bench.rows().await, both(count));
            bench.write_others(0..count).await;
            bench.write(0..count).await;
            drain_later(&bench).await;
        }
        let all = bench.command(&["stops", "list", "--all"]).await.expect("a list");
        assert!(all.contains("accept at") && all.contains("March 3rd"), "{all}");
    }
}

/// T21: "after `discard` none; never filtered away in silence".
#[tokio::test]
async fn t21_copies_that_are_discarded_stand_in_quarantine_and_nothing_of_them_lands() {
    for count in [100, 200_000] {
        let bench = made_again(count).await;
        decide(&bench, "discard").await.expect("it is discarded");
        drain_later(&bench).await;
        assert_eq!(bench.rows().await, (0..count).collect::<Vec<_>>());
        assert!(bench.queue.is_empty() && stops(&bench).await.is_empty());
        let kept = bench.listed(&["--reason", "discarded-copy"]).await;
        let records: u64 = kept.iter().filter_map(|entry| entry["records"].as_u64()).sum();
        assert_eq!((kept.len(), i64::try_from(records)), (10, Ok(count)));
        bench.write_others(count..count + 5).await;
        bench.drain().await.expect("it goes on");
        assert_eq!(bench.rows().await.len() as u64, records + 5, "what is no copy lands");
    }
}

#[tokio::test]
async fn a_batch_of_copies_and_others_lands_with_the_others_alone() {
    let bench = made_again(10).await;
    decide(&bench, "discard").await.expect("it is discarded");
    drain_later(&bench).await;
    bench.write_others(5..15).await;
    bench.drain().await.expect("it drains");
    let expected: Vec<_> = (0..10).chain((10..15).map(Bench::other)).collect();
    assert_eq!(bench.rows().await, expected);
    let kept = bench.listed(&["--reason", "discarded-copy"]).await;
    let of_five = kept.iter().filter(|entry| entry["records"] == 5).count();
    assert_eq!((kept.len(), of_five), (11, 1), "the entry names the copies: {kept:?}");
    bench.write_thirds(10..12).await;
    bench.drain().await.expect("the source stops");
    assert_eq!(stops(&bench).await.len(), 1, "what came after the decision is no business of it");
}

#[tokio::test]
async fn a_discarded_copy_that_was_none_is_released_and_lands_beside() {
    let bench = Bench::new().await;
    bench.write(0..5).await;
    bench.drain().await.expect("it drains");
    bench.write_others(0..5).await;
    bench.drain().await.expect("the source stops");
    decide(&bench, "discard").await.expect("it is discarded");
    drain_later(&bench).await;
    let id = bench.only_id().await;
    bench.icefall(&["release", &id, "--reason-overruled", "discarded-copy"]).await.expect("it is released");
    drain_later(&bench).await;
    assert_eq!(bench.rows().await, both(5));
    assert!(bench.queue.is_empty() && stops(&bench).await.is_empty());
}

/// Whatever becomes of the commit's answer, it is one decision.
#[tokio::test]
async fn a_decision_whose_answer_is_lost_is_found_out_and_made_once() {
    for moment in [Moment::Before, Moment::After] {
        let bench = made_again(10).await;
        let snapshots = bench.metadata().snapshots().len();
        bench.catalog_faults.lose(Call::Commit, bench.catalog_faults.count(Call::Commit) + 1, moment);
        decide(&bench, "accept").await.expect("it is accepted");
        assert_eq!(bench.metadata().snapshots().len(), snapshots + 1, "{moment:?}");
        drain_later(&bench).await;
        assert_eq!(bench.rows().await, both(10), "{moment:?}");
        let error = decide(&bench, "accept").await.expect_err("it is decided");
        assert!(matches!(error, CliError::NothingStands { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_decision_that_meets_a_conflict_is_made_on_what_the_catalog_shows() {
    let bench = made_again(10).await;
    let next = bench.catalog_faults.count(Call::Commit) + 1;
    bench.catalog_faults.fail(Call::Commit, next..next + 3, Moment::Before, Failure::Conflict);
    decide(&bench, "discard").await.expect("it is discarded");
    assert!(stops(&bench).await.is_empty());
    let denied = made_again(10).await;
    denied.catalog_faults.outage(Call::Commit, Failure::Denied);
    let error = decide(&denied, "accept").await.expect_err("it may not");
    assert!(error.chain().contains("the commit was not made (denied)"), "{}", error.chain());
    assert_eq!(stops(&denied).await.len(), 1);
}

/// What was parked while nobody decided is released, and decided as the rest.
#[tokio::test]
async fn what_was_parked_in_the_meantime_lands_when_it_is_released() {
    let bench = Bench::new().await;
    bench.write(0..5).await;
    bench.drain().await.expect("it drains");
    bench.write_others(0..5).await;
    bench.drain().await.expect("the source stops");
    bench.clock.advance(Duration::from_hours(13 * 24));
    bench.drain().await.expect("it is parked");
    let id = bench.only_id().await;
    decide(&bench, "accept").await.expect("it is accepted");
    let reason = bench.listed(&[]).await[0]["reason"].as_str().expect("a reason").to_owned();
    bench.icefall(&["release", &id, "--reason-overruled", &reason]).await.expect("it is released");
    drain_later(&bench).await;
    assert_eq!(bench.rows().await, both(5));
    assert!(bench.queue.is_empty() && bench.listed(&[]).await.is_empty());
}
