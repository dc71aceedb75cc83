//! The register: which ledgers there are, for whoever finds one of their properties missing.

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
