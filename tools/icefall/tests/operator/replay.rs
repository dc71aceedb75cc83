//! Dead letters that become rows.

use std::time::Duration;

use icefall_cli::CliError;
use icefall_testkit::{Call, Moment};

use crate::bench::{Bench, TABLE};

/// A table of 1,000 records of which two did not fit: one lacks what the table requires, one is broken.
async fn with_dead_letters() -> Bench {
    let bench = Bench::new().await;
    bench.write(0..500).await;
    bench.write_empty(500..501).await;
    bench.write_broken(501..502).await;
    bench.write(502..1_000).await;
    bench.drain().await.expect("it drains");
    assert_eq!((bench.rows().await.len(), bench.dead_letter_count()), (998, 2));
    bench
}

async fn drain_later(bench: &Bench) {
    bench.clock.advance(Duration::from_mins(10));
    bench.drain().await.expect("it drains");
}

async fn replay(bench: &Bench, more: &[&str]) -> String {
    bench.command(&[&["replay", TABLE], more].concat()).await.expect("it replays")
}

/// T04: "1,000 records, number 500 is broken JSON (also: valid JSON that does not convert): 999 rows in the table; 1 row
/// in a queryable dead-letter table; replay works".
#[tokio::test]
async fn t04_a_record_that_fits_the_table_by_now_is_replayed_into_a_row_once() {
    let bench = with_dead_letters().await;
    let said = replay(&bench, &[]).await;
    assert!(
        said.contains("0 of 2 dead letters") && said.contains("1 still can't be converted: missing-required"),
        "{said}"
    );
    bench.make_n_optional();
    let dry = replay(&bench, &["--dry-run"]).await;
    assert!(dry.contains("1 of 2 dead letters can be rows now"), "{dry}");
    assert!(bench.queue.is_empty());
    for _ in 0..2 {
        replay(&bench, &["--class", "missing-required", "--offsets", "400-500"]).await;
    }
    drain_later(&bench).await;
    assert!(bench.queue.is_empty() && bench.listed(&[]).await.is_empty());
    assert_eq!(bench.row_count(), 999, "once, however often");
    assert_eq!(bench.dead_letter_count(), 2, "their table is a history");
    let said = replay(&bench, &[]).await;
    assert!(said.contains("1 are rows already"), "{said}");
    bench.write_empty(500..501).await;
    drain_later(&bench).await;
    assert_eq!((bench.row_count(), bench.dead_letter_count()), (999, 2), "delivered again");
}

/// A ledger that does not hold the dead letter any more has nothing that could be flipped.
#[tokio::test]
async fn a_replay_for_another_table_is_quarantined_and_can_not_be_released() {
    let bench = with_dead_letters().await;
    bench.make_n_optional();
    replay(&bench, &[]).await;
    bench.remake_table().await;
    assert!(bench.queue.is_empty());
    let id = bench.only_id().await;
    let error = bench.icefall(&["release", &id, "--reason-overruled", "another-table"]).await;
    let error = error.expect_err("its rows would land though no ledger holds their dead letters");
    assert!(matches!(error, CliError::WasReplay(_)), "{error}");
    let said = replay(&bench, &[]).await;
    assert!(said.contains("0 of 2") && said.contains("2 can't be told"), "{said}");
}

#[tokio::test]
async fn a_replay_whose_commit_is_lost_is_settled_by_the_ledger() {
    for moment in [Moment::Before, Moment::After] {
        let bench = with_dead_letters().await;
        bench.make_n_optional();
        replay(&bench, &[]).await;
        bench.catalog_faults.lose(Call::Commit, bench.catalog_faults.count(Call::Commit) + 1, moment);
        drain_later(&bench).await;
        assert_eq!(bench.row_count(), 999, "{moment:?}");
        assert!(bench.queue.is_empty());
    }
}
