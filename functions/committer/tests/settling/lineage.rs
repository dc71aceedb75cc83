//! Histories: what the committer does with a branch that is not as it left it.

use iceberg::TableUpdate;
use iceberg::spec::{MAIN_BRANCH, SnapshotReference, SnapshotRetention};
use icefall_testkit::{Call, Failure};

use crate::bench::{self, Bench, DEAD_LETTERS, Letters, TABLE, VISIBILITY, records};
use crate::other_engine::{manifests, replace_manifests};

async fn settle(bench: &Bench, offsets: std::ops::Range<i64>) {
    bench.send(&bench.batch(records(0, offsets), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
}

fn head(bench: &Bench) -> i64 {
    bench.metadata(TABLE).current_snapshot_id().expect("a snapshot")
}

/// Sets the main branch to a snapshot, as an operator does.
pub(crate) async fn set_main(bench: &Bench, snapshot_id: i64) {
    let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
    bench.update(vec![TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference }]).await;
}

/// The stream goes on; what was rolled back stays settled, so that it does not come back by itself.
#[tokio::test]
async fn a_rolled_back_branch_goes_on_without_what_was_rolled_back() {
    let bench = Bench::new().await;
    settle(&bench, 0..5).await;
    let first = head(&bench);
    settle(&bench, 5..10).await;
    set_main(&bench, first).await;
    let bench = bench.restarted();
    settle(&bench, 3..7).await;
    assert_eq!(bench.rows().await, bench::keys(0, 0..5), "it stays settled");
    settle(&bench, 10..12).await;
    assert_eq!(bench.rows().await, [bench::keys(0, 0..5), bench::keys(0, 10..12)].concat());
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn a_branch_that_others_committed_to_goes_on() {
    let bench = Bench::new().await;
    settle(&bench, 0..5).await;
    replace_manifests(&bench, manifests(&bench).await).await;
    let loads = bench.catalog_faults.count(Call::LoadTable);
    settle(&bench, 5..10).await;
    let first = bench.catalog_faults.count(Call::LoadTable) - loads;
    settle(&bench, 10..15).await;
    let second = bench.catalog_faults.count(Call::LoadTable) - loads - first;
    assert_eq!(
        first,
        second + 1,
        "all snapshots are asked for where the head is another's, and not otherwise"
    );
    assert_eq!(bench.rows().await, bench::keys(0, 0..15));
}

/// Without the stop, the records that the old value does not account for would land a second time.
#[tokio::test]
async fn an_old_value_of_the_property_stops_the_table_until_the_new_one_is_back() {
    let bench = Bench::new().await;
    settle(&bench, 0..5).await;
    let old = bench.ledger_property();
    settle(&bench, 5..10).await;
    let new = bench.ledger_property();
    bench.set_ledger(&old).await;
    let bench = bench.restarted();
    bench.send(&bench.batch(records(0, 5..12), Letters::none()).await).await;
    bench.drain().await.expect_err("the table stops");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..10), 1));
    assert_eq!(bench.measured().value(Some(TABLE), "TableFailures"), Some(1), "the alarm");
    bench.set_ledger(&new).await;
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it goes on");
    assert_eq!(bench.rows().await, bench::keys(0, 0..12));
}

/// By such a value, dead letters that the table holds would be delivered to it a second time.
#[tokio::test]
async fn an_old_value_in_the_dead_letter_table_holds_dead_letters_back_until_the_new_one_is_there() {
    let bench = Bench::new().await;
    let name = "icefall.applied.demo".to_owned();
    let value = |bench: &Bench| bench.metadata(DEAD_LETTERS).properties().get(&name).cloned();
    let set = |value: &str| TableUpdate::SetProperties { updates: [(name.clone(), value.to_owned())].into() };
    bench.send(&bench.batch(records(0, 0..2), Letters::of(1, 0..2)).await).await;
    bench.drain().await.expect("it drains");
    let old = value(&bench).expect("how far it is");
    bench.send(&bench.batch(records(0, 2..4), Letters::of(1, 2..4)).await).await;
    bench.drain().await.expect("it drains");
    let new = value(&bench).expect("how far it is");
    for broken in [Some(old.as_str()), None] {
        let update =
            broken.map_or_else(|| TableUpdate::RemoveProperties { removals: vec![name.clone()] }, set);
        bench.update_table(DEAD_LETTERS, vec![update]).await;
        let cold = bench.another_committer();
        let next = cold.total_records();
        cold.send(&cold.batch(records(0, next..next + 1), Letters::of(1, next..next + 1)).await).await;
        cold.drain().await.expect("the table itself is settled");
        assert_eq!(bench.dead_letters().await, bench::keys(1, 0..4), "{broken:?}");
        assert!(bench.measured().value(Some(DEAD_LETTERS), "TableFailures") > Some(0), "the alarm");
    }
    bench.update_table(DEAD_LETTERS, vec![set(&new)]).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.dead_letters().await, bench::keys(1, 0..6), "what waited comes, once");
}

/// REPLACE TABLE keeps the table's uuid and its properties, and begins a history without a parent.
#[tokio::test]
async fn a_replaced_table_stops() {
    let bench = Bench::new().await;
    settle(&bench, 0..5).await;
    crate::other_engine::replace_table(&bench).await;
    bench.send(&bench.batch(records(0, 0..8), Letters::none()).await).await;
    bench.drain().await.expect_err("nobody can tell what it holds");
    assert_eq!((bench.rows().await, bench.queue.len()), (vec![], 1));
}

/// A catalog that does not show all snapshots now is no reason to guess.
#[tokio::test]
async fn a_history_that_can_not_be_loaded_leaves_the_messages_queued() {
    let bench = Bench::new().await;
    settle(&bench, 0..5).await;
    replace_manifests(&bench, manifests(&bench).await).await;
    bench.send(&bench.batch(records(0, 5..8), Letters::none()).await).await;
    let next = bench.catalog_faults.count(Call::LoadTable);
    // Two tables are looked at first, the dead-letter table's progress is asked for, then the table is loaded twice.
    bench.catalog_faults.fail(
        Call::LoadTable,
        next + 5..next + 6,
        icefall_testkit::Moment::Before,
        Failure::Denied,
    );
    bench.drain().await.expect_err("it can't be loaded");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..5), 1));
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it goes on");
    assert_eq!(bench.rows().await, bench::keys(0, 0..8));
}
