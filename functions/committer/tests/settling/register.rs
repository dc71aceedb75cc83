//! The register: which ledgers there are, for whoever finds one of their properties missing.

use iceberg::TableUpdate;
use icefall_manifest::BatchManifest;
use icefall_store::Location;

use crate::bench::{self, Bench, Letters, TABLE, records};

/// A committer may die between its commit and the register. Whoever settles anything of the table next, of
/// whichever source, makes that good: otherwise a property that is unset afterwards would be taken for one that
/// never was, and its records would land twice.
#[tokio::test]
async fn the_register_is_made_good_by_the_next_commit_of_any_source() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let entries = bench.ops.keys("ops", "register/");
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(bench.ops.remove(&Location::s3("ops", entries[0].as_str())));
    let bench = bench.restarted();
    let mut other = bench.batch(records(0, 0..3), Letters::none()).await;
    other.source.topic = "another".try_into().expect("a topic");
    bench.send(&other).await;
    bench.drain().await.expect("it drains");
    let now = bench.ops.keys("ops", "register/");
    assert!(now.len() == 2 && now.contains(&entries[0]), "{now:?}");
}

/// Nothing may come of that table any more, and a property can be unset, and snapshots can expire, as soon as they are there.
#[tokio::test]
async fn the_register_is_made_good_by_an_invocation_that_settles_nothing() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let entries = bench.ops.keys("ops", "register/");
    assert!(entries.len() == 1 && bench.ops.remove(&Location::s3("ops", entries[0].as_str())));
    let bench = bench.restarted();
    let report = bench.drain().await.expect("there is nothing to do");
    assert_eq!((report.rounds, bench.ops.keys("ops", "register/")), (0, entries));
}

/// What was consulted and never written is no ledger that could go missing.
#[tokio::test]
async fn a_source_whose_first_batch_is_quarantined_is_not_registered() {
    let bench = Bench::new().await;
    let damaged = bench.batch(records(0, 0..5), Letters::none()).await;
    let path = &damaged.files[0].data_file.path;
    assert!(bench.store.remove(&Location::parse(path).expect("a location")));
    bench.send(&damaged).await;
    bench.clock.advance(std::time::Duration::from_hours(96));
    bench.drain().await.expect("it drains");
    assert_eq!(bench.ops.keys("ops", "register/"), Vec::<String>::new());
    bench.send(&bench.batch(records(0, 5..9), Letters::none()).await).await;
    bench.drain().await.expect("its ledger is not missed");
    assert_eq!((bench.rows().await, bench.snapshots(TABLE)), (bench::keys(0, 5..9), 1));
}

/// A table that holds a topic under neither of two names of its cluster takes it in under one of them, even when
/// both come in one round.
#[tokio::test]
async fn two_names_of_a_cluster_in_one_round_land_once() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..5), Letters::none()).await;
    let mut renamed = bench.batch(records(0, 0..5), Letters::none()).await;
    renamed.source.cluster = "renamed".try_into().expect("a name");
    bench.send(&batch).await;
    bench.send(&renamed).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..5));
    assert!(bench.quarantine().iter().any(|key| key.contains("/another-cluster/")));
}

/// A topic whose property was unset is not begun anew under another name of its cluster: its records would land twice.
#[tokio::test]
async fn a_topic_whose_ledger_is_missing_does_not_land_under_another_name_of_its_cluster() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    unset_ledgers(&bench).await;
    let bench = bench.restarted();
    let mut renamed = bench.batch(records(0, 0..5), Letters::none()).await;
    renamed.source.cluster = "renamed".try_into().expect("a name");
    bench.send(&renamed).await;
    let failed = bench.drain().await.expect_err("the ledger is missed").to_string();
    assert!(failed.contains("could not be settled"), "{failed}");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..5), 1));
}

/// A committer died before the register, another engine committed on top, and the property was unset: an earlier
/// snapshot of the branch still tells that there was a ledger.
#[tokio::test]
async fn a_ledger_that_an_earlier_snapshot_tells_of_is_missed_too() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    for key in [bench.ops.keys("ops", "register/"), bench.ops.keys("ops", "clusters/")].concat() {
        assert!(bench.ops.remove(&Location::s3("ops", key)));
    }
    let list = crate::other_engine::manifests(&bench).await;
    crate::other_engine::replace_manifests(&bench, list).await;
    unset_ledgers(&bench).await;
    let bench = bench.restarted();
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect_err("the ledger is missed");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..5), 1));
}

/// The same after a rollback: no branch leads to that snapshot any more, and its dead letters stand in their table already.
#[tokio::test]
async fn a_ledger_that_a_snapshot_beside_the_branch_tells_of_is_missed_too() {
    let (bench, batch) = rolled_back_and_unset().await;
    bench.send(&batch).await;
    bench.drain().await.expect_err("the ledger is missed");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(1, 0..3), 1));
    assert_eq!(bench.dead_letters().await, bench::keys(0, 5..7), "they are there once");
}

/// What no branch leads to may have been another branch's, if the topic has a ledger there.
#[tokio::test]
async fn a_snapshot_beside_the_branch_tells_nothing_where_another_branch_has_the_ledger() {
    let (bench, batch) = rolled_back_and_unset().await;
    let ingest = "ingest".to_owned().try_into().expect("a branch");
    let name = icefall_ledger::property_name(&ingest, &batch.source);
    bench.update(vec![TableUpdate::SetProperties { updates: [(name, "{}".to_owned())].into() }]).await;
    let bench = bench.restarted();
    bench.send(&batch).await;
    bench.drain().await.expect("main's ledger is begun");
    assert_eq!(bench.rows().await, [bench::keys(0, 0..5), bench::keys(1, 0..3)].concat());
}

/// A committer has settled a batch, delivered its dead letters, and died before the register knew; then the table was rolled
/// back, and the property unset.
async fn rolled_back_and_unset() -> (Bench, BatchManifest) {
    let bench = Bench::new().await;
    let mut other = bench.batch(records(1, 0..3), Letters::none()).await;
    other.source.topic = "another".try_into().expect("a topic");
    bench.send(&other).await;
    bench.drain().await.expect("it drains");
    let before = bench.metadata(TABLE).current_snapshot_id().expect("a snapshot");
    let batch = bench.batch(records(0, 0..5), Letters::of(0, 5..7)).await;
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    bench.drain().await.expect("the dead letters are delivered");
    for key in [bench.ops.keys("ops", "register/"), bench.ops.keys("ops", "clusters/")].concat() {
        assert!(bench.ops.remove(&Location::s3("ops", key)));
    }
    crate::lineage::set_main(&bench, before).await;
    unset_ledgers(&bench).await;
    (bench.restarted(), batch)
}

async fn unset_ledgers(bench: &Bench) {
    let metadata = bench.metadata(TABLE);
    let removals = metadata.properties().keys().filter(|name| name.starts_with("icefall.ledger.")).cloned();
    bench.update(vec![TableUpdate::RemoveProperties { removals: removals.collect() }]).await;
}
