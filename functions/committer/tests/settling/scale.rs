//! Numbers that the cases name: how many messages, tables and files, and how fast.

use std::sync::Arc;
use std::time::Duration;

use icefall_clock::Clock;
use icefall_queue::CommitQueue;
use icefall_testkit::{Call, Failure};

use crate::bench::{self, Bench, Letters, TABLE, records};

/// S28: "3,000 waiting: the committer drains by polling more itself; one commit per table per run".
#[tokio::test]
async fn s28_three_thousand_waiting_messages_are_one_commit() {
    let bench = Bench::new().await;
    let bodies = bench.light_bodies(3_000).await;
    bench.queue.send(&bodies).await.expect("it sends");
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.received, report.settled, report.snapshots), (3_000, 3_000, 1));
    assert_eq!((bench.total_records(), bench.snapshots(TABLE)), (3_000, 1));
    assert!(bench.queue.is_empty());
}

/// S29: "every record of a batch went to dead letter: the dead letters land; the table's ledger advances".
#[tokio::test]
async fn s29_a_batch_of_dead_letters_alone_advances_the_ledger_with_an_empty_snapshot() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(vec![], Letters::of(0, 0..500)).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.dead_letters().await, bench::keys(0, 0..500));
    assert_eq!((bench.rows().await.len(), bench.snapshots(TABLE)), (0, 1));
    let metadata = bench.metadata(TABLE);
    let summary = &metadata.current_snapshot().expect("a snapshot").summary().additional_properties;
    assert_eq!(summary["icefall.valid-through-ms"], "1", "freshness advances");
    assert_eq!(summary["icefall.dead-letters"], "500");
    assert!(bench.ledger_property().contains("[0,499]"), "{}", bench.ledger_property());
    assert!(bench.queue.is_empty());
}

/// S30: "1 table of 500 answers 403: 499 commit on time; the one is retried alone".
#[tokio::test]
async fn s30_one_table_of_500_that_is_denied_holds_up_none_of_the_others() {
    let names: Vec<String> = (0..500).map(|n| format!("analytics.t{n}")).collect();
    let tables: Vec<&str> = names.iter().map(String::as_str).collect();
    let bench = Bench::of_tables(&tables).await;
    for table in &tables {
        bench.send(&bench.batch_for(table, records(0, 0..2), Letters::none()).await).await;
    }
    let denied = "analytics.t123";
    bench.catalog_faults.outage_of(Call::LoadTable, denied, Failure::Denied);
    bench.catalog_faults.outage_of(Call::Commit, denied, Failure::Denied);
    let begun = bench.clock.now();
    bench.drain().await.expect_err("the invocation says that one table was not settled");
    let took = bench.clock.now().since(begun);
    assert!(took < Duration::from_mins(1), "within one interval of the schedule: {took:?}");
    let committed = tables.iter().filter(|table| bench.snapshots(table) == 1).count();
    assert_eq!((committed, bench.snapshots(denied), bench.queue.len()), (499, 0, 1));
    bench.catalog_faults.clear();
    bench.clock.advance(bench::VISIBILITY);
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.received, bench.snapshots(denied), bench.queue.len()), (1, 1, 0));
}

/// T18: "the queue delivers one manifest again after 3 further commits: acknowledged, no snapshot,
/// `duplicate_manifest` +1".
#[tokio::test]
async fn t18_a_batch_manifest_that_comes_again_after_three_commits_is_counted_and_let_go() {
    let bench = Bench::new().await;
    let first = bench.batch(records(0, 0..10), Letters::none()).await;
    bench.send(&first).await;
    bench.drain().await.expect("it drains");
    for start in [10, 20, 30] {
        bench.send(&bench.batch(records(0, start..start + 10), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
    }
    bench.counted();
    bench.send(&first).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots, bench.snapshots(TABLE)), (1, 0, 4));
    assert_eq!(bench.rows().await, bench::keys(0, 0..40));
    let counted = bench.counted();
    assert!(counted.contains("\"DuplicateBatches\":1"), "{counted}");
    assert!(bench.queue.is_empty());
}

/// T32: "batch that makes 3,000 files: body goes to the store, the queue carries a pointer".
#[tokio::test]
async fn t32_a_batch_of_3_000_files_comes_by_way_of_the_ops_bucket() {
    let bench = Bench::new().await;
    let mut batch = bench.batch(records(0, 0..1), Letters::none()).await;
    let model = batch.files.pop().expect("a file");
    for offset in 0..3_000 {
        let mut file = model.clone();
        file.records = records(0, offset..offset + 1).into_iter().collect();
        file.data_file.path = format!("{}-{offset}", model.data_file.path);
        batch.files.push(file);
    }
    bench.send_spilled(&batch).await;
    let body = bench.queue.bodies().pop().expect("a message");
    assert!(body.len() < 2_000, "the message only points: {} bytes", body.len());
    bench.drain().await.expect("it drains");
    assert_eq!((bench.total_records(), bench.snapshots(TABLE)), (3_000, 1));
    assert!(bench.queue.is_empty());
}

/// T39: "200 messages/s while the committer has concurrency 1 and a commit takes 20 s: the receive count of
/// healthy messages never reaches the limit".
#[tokio::test]
async fn t39_a_committer_that_takes_20_s_a_commit_keeps_up_with_200_messages_a_second() {
    const SECONDS: u64 = 90;
    let bench = Bench::of_slow_catalog(Duration::from_secs(20)).await;
    let bodies = bench.light_bodies(i64::try_from(SECONDS).expect("few") * 200).await;
    let (clock, queue) = (Arc::clone(&bench.clock), Arc::clone(&bench.queue));
    let producer = tokio::spawn(async move {
        for second in bodies.chunks(200) {
            queue.send(second).await.expect("it sends");
            clock.sleep(Duration::from_secs(1)).await;
        }
    });
    while !(producer.is_finished() && bench.queue.is_empty()) {
        bench.drain().await.expect("it drains");
        bench.clock.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.total_records(), i64::try_from(SECONDS).expect("few") * 200);
    assert_eq!(bench.queue.most_receives(), 1, "no message was ever delivered twice");
    assert!(bench.quarantine().is_empty());
}
