//! Ledgers that are rewound after a rollback, and ledgers that were lost and are put back.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use icefall_cli::CliError;
use icefall_queue::CommitQueue;
use icefall_store::{Location, ObjectStore};

use crate::bench::{Bench, SOURCE, TABLE};

async fn settle(bench: &Bench, offsets: Range<i64>) {
    bench.write(offsets).await;
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it drains");
}

async fn ledger(bench: &Bench, command: &str) -> Result<String, CliError> {
    bench.command(&["ledger", command, TABLE, SOURCE, "--because", "a bad deployment was rolled back"]).await
}

/// The error's whole text.
async fn refused(bench: &Bench, command: &str) -> String {
    ledger(bench, command).await.expect_err("it is refused").chain()
}

#[tokio::test]
async fn what_a_rollback_took_out_lands_again_after_a_rewind_and_not_before() {
    let bench = Bench::new().await;
    settle(&bench, 0..10).await;
    let kept = bench.metadata().current_snapshot_id().expect("a snapshot");
    settle(&bench, 10..20).await;
    bench.set_main(kept).await;
    settle(&bench, 20..30).await;
    settle(&bench, 5..25).await;
    let gap: Vec<_> = (0..10).chain(20..30).collect();
    assert_eq!(bench.rows().await, gap, "what was rolled back stays settled");
    let said = ledger(&bench, "rewind").await.expect("it is rewound");
    assert!(said.contains("10 rows"), "{said}");
    settle(&bench, 0..30).await;
    assert_eq!(bench.rows().await, (0..30).collect::<Vec<_>>());
    settle(&bench, 0..30).await;
    assert_eq!(bench.rows().await, (0..30).collect::<Vec<_>>());
    assert!(bench.queue.is_empty());
    assert!(refused(&bench, "rewind").await.contains("nothing to rewind"));
}

/// Iceberg's libraries remove the files that a snapshot outside the branch's history added as soon as it expires.
#[tokio::test]
async fn files_that_a_rolled_back_snapshot_named_are_not_committed_again_after_a_rewind() {
    let bench = Bench::new().await;
    settle(&bench, 0..10).await;
    let kept = bench.metadata().current_snapshot_id().expect("a snapshot");
    let data = |bench: &Bench| {
        let keys = bench.store.keys("lake", "").into_iter();
        keys.filter(|key| key.contains("/data/")).collect::<BTreeSet<_>>()
    };
    let before = data(&bench);
    bench.write(10..20).await;
    let named: Vec<_> = data(&bench).difference(&before).cloned().collect();
    let body = bench.queue.bodies().pop().expect("its message");
    bench.drain().await.expect("it drains");
    bench.set_main(kept).await;
    ledger(&bench, "rewind").await.expect("it is rewound");
    // As if it had not been deleted.
    bench.queue.inject(&body);
    bench.queue.receive(1, Duration::ZERO).await.expect("it is there");
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it drains");
    assert!(named.iter().all(|key| bench.store.remove(&Location::s3("lake", key.as_str()))), "{named:?}");
    assert_eq!(bench.rows().await, (0..20).collect::<Vec<_>>());
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn a_branch_from_before_the_rewind_stops_the_table() {
    let bench = Bench::new().await;
    settle(&bench, 0..10).await;
    let kept = bench.metadata().current_snapshot_id().expect("a snapshot");
    settle(&bench, 10..20).await;
    let undone = bench.metadata().current_snapshot_id().expect("a snapshot");
    bench.set_main(kept).await;
    ledger(&bench, "rewind").await.expect("it is rewound");
    bench.set_main(undone).await;
    bench.write(10..20).await;
    assert!(bench.drain().await.is_none(), "its rows would land twice");
    assert_eq!((bench.rows().await, bench.queue.len()), ((0..20).collect::<Vec<_>>(), 1));
}

#[tokio::test]
async fn a_ledger_that_was_lost_is_put_back_from_the_metadata_log() {
    let bench = Bench::new().await;
    settle(&bench, 0..10).await;
    bench.write_bad(10..12).await;
    bench.drain().await.expect("it drains");
    assert!(refused(&bench, "restore").await.contains("there is nothing to restore"));
    bench.keep_metadata().await;
    bench.unset_ledger().await;
    bench.write(5..10).await;
    bench.write_bad(10..12).await;
    bench.write(12..15).await;
    assert!(bench.drain().await.is_none(), "nothing is begun anew");
    ledger(&bench, "restore").await.expect("it is put back");
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it goes on");
    let expected: Vec<_> = (0..10).chain(12..15).collect();
    assert_eq!(bench.rows().await, expected, "what it held is skipped, dead letters too");
    bench.write_bad(20..23).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.dead_letter_count(), 5, "numbers go on where the dead-letter table is");
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn what_can_not_be_proved_is_not_put_back() {
    let bench = Bench::new().await;
    settle(&bench, 0..10).await;
    bench.keep_metadata().await;
    let old = bench.metadata_file().await;
    settle(&bench, 10..20).await;
    let newest = bench.metadata_file().await;
    bench.unset_ledger().await;
    let said = refused(&bench, "restore").await;
    assert!(said.contains("can't be proved"), "{said}");
    let body = bench.store.peek(&Location::parse(&old).expect("a location")).expect("it was kept");
    bench.store.put(&Location::parse(&newest).expect("a location"), body).await.expect("it puts");
    let said = refused(&bench, "restore").await;
    assert!(said.contains("an old value of the ledger's property"), "{said}");
    let said = bench.command(&["ledger", "restore", TABLE, "nobody", "--because", "x"]).await;
    assert!(matches!(said, Err(CliError::NoSource(_))));
}
