//! A branch beside main: it has rounds, a ledger and a history of its own.

use iceberg::TableUpdate;
use iceberg::spec::{SnapshotReference, SnapshotRetention};
use icefall_manifest::{BatchManifest, RecordId};

use crate::bench::{self, Bench, Letters, TABLE, records};

const BRANCH: &str = "audit";

/// What a writer would send whose settings name the branch.
async fn batch(bench: &Bench, rows: Vec<RecordId>, letters: Letters) -> BatchManifest {
    let branch = BRANCH.to_owned().try_into().expect("a branch");
    BatchManifest { branch, ..bench.batch(rows, letters).await }
}

async fn settle(bench: &Bench, batch: &BatchManifest) -> usize {
    bench.send(batch).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.waiting, bench.queue.len()), (1, 0, 0));
    report.snapshots
}

fn head(bench: &Bench, branch: &str) -> Option<i64> {
    bench.metadata(TABLE).snapshot_for_ref(branch).map(|head| head.snapshot_id())
}

async fn set(bench: &Bench, branch: &str, snapshot_id: i64) {
    let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
    bench.update(vec![TableUpdate::SetSnapshotRef { ref_name: branch.to_owned(), reference }]).await;
}

#[tokio::test]
async fn a_branch_settles_is_rolled_back_and_goes_on_while_main_stays_where_it_is() {
    let bench = Bench::declared("branch = 'audit',").await;
    assert_eq!(settle(&bench, &batch(&bench, records(0, 0..5), Letters::of(1, 0..2)).await).await, 1);
    let first = head(&bench, BRANCH).expect("the first round makes the branch");
    assert_eq!(head(&bench, "main"), None);
    let again = batch(&bench, records(0, 3..10), Letters::of(1, 1..4)).await;
    assert_eq!(settle(&bench, &again).await, 1);
    assert_eq!(bench.rows_in(BRANCH).await, bench::keys(0, 0..10));
    assert_eq!(bench.dead_letters().await, bench::keys(1, 0..4), "they have one table for all branches");

    // Main takes the same records, by a ledger of its own.
    assert_eq!(settle(&bench, &bench.batch(records(0, 0..4), Letters::none()).await).await, 1);
    let main = head(&bench, "main");
    assert_eq!((bench.rows().await, bench.rows_in(BRANCH).await.len()), (bench::keys(0, 0..4), 10));

    set(&bench, BRANCH, first).await;
    let bench = bench.restarted();
    assert_eq!(settle(&bench, &again).await, 0, "what was rolled back stays settled");
    let new = batch(&bench, records(0, 8..12), Letters::of(1, 3..5)).await;
    assert_eq!(settle(&bench, &new).await, 1);
    assert_eq!(bench.rows_in(BRANCH).await, [bench::keys(0, 0..5), bench::keys(0, 10..12)].concat());
    let metadata = bench.metadata(TABLE);
    let head_of_branch = metadata.snapshot_for_ref(BRANCH).expect("a snapshot");
    assert_eq!(
        head_of_branch.parent_snapshot_id(),
        Some(first),
        "it goes on from where it was rolled back to"
    );
    for batch in [&again, &new] {
        assert_eq!(settle(&bench, batch).await, 0, "it is settled");
    }
    assert_eq!(bench.dead_letters().await, bench::keys(1, 0..5));
    assert_eq!((head(&bench, "main"), bench.rows().await), (main, bench::keys(0, 0..4)));
    let ledgers: Vec<_> =
        metadata.properties().keys().filter(|key| key.starts_with("icefall.ledger.")).collect();
    assert_eq!(ledgers.len(), 2, "{ledgers:?}");
    assert!(bench.quarantine().is_empty());
}

/// Somebody commits to the branch while its round is decided: it is decided anew, on the branch as it is then.
#[tokio::test]
async fn a_branch_that_moves_while_it_is_decided_about_is_decided_anew() {
    let bench = Bench::declared("branch = 'audit',").await;
    settle(&bench, &batch(&bench, records(0, 0..5), Letters::none()).await).await;
    settle(&bench, &bench.batch(records(0, 0..3), Letters::none()).await).await;
    let (other, same) = (bench.another_committer(), batch(&bench, records(0, 4..9), Letters::none()).await);
    let send = same.clone();
    bench.before_commit(move || async move {
        other.send(&send).await;
        other.drain().await.expect("it drains");
    });
    bench.measured();
    assert_eq!(settle(&bench, &same).await, 0, "the other one was faster");
    assert_eq!(bench.measured().value(Some(TABLE), "CommitConflicts"), Some(1));
    assert_eq!(
        (bench.rows_in(BRANCH).await, bench.rows().await),
        (bench::keys(0, 0..9), bench::keys(0, 0..3))
    );
}
