//! Cases that users of other systems have reported, on real parts, each under its number.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use iceberg::{NamespaceIdent, TableIdent};
use icefall_tests::{Pipeline, TOPIC, WatchedCatalog, click, event, event_ids, event_of, metadata};
use tokio::sync::Barrier;

const VISIBILITY_S: u32 = 2;

fn clicks(from: u64, to: u64) -> Vec<String> {
    (from..to).map(click).collect()
}

fn ids(from: u64, to: u64) -> Vec<String> {
    let mut ids: Vec<_> = (from..to).map(|n| format!("e-{n}")).collect();
    ids.sort_unstable();
    ids
}

/// The event ids in the table's current snapshot.
async fn current(pipeline: &Pipeline, table: &TableIdent) -> Vec<String> {
    let parts = pipeline.parts().await;
    let metadata = metadata(&parts, table).await;
    event_ids(&parts, table, metadata.current_snapshot().expect("a snapshot")).await
}

/// T42: a lock or lease that is keyed by a table's short name lets two tables of that name disturb each other. There
/// is none: each commit carries its own requirements.
#[tokio::test]
async fn t42_two_tables_of_one_short_name_get_their_own_rows_once() {
    let table = |namespace| {
        format!(
            "[[table]]\nname = \"{namespace}.clicks\"\ncolumns = [\
             {{ name = \"event_id\", type = \"string\" }}, {{ name = \"user_id\", type = \"long\" }}]\n"
        )
    };
    let route =
        |topic, namespace| format!("[[route]]\ntopic = \"{topic}\"\ntable = \"{namespace}.clicks\"\n");
    let (one, other) = ("NAMESPACE", "NAMESPACE_other");
    let declared = [table(one), table(other), route(TOPIC, one), route("other_clicks", other)].concat();
    let pipeline = Pipeline::new("t42", VISIBILITY_S).await.declaring(&declared);
    pipeline.drain().await.expect("the tables are made");
    for from in (0..40).step_by(10) {
        pipeline.write(&event(0, from, &clicks(from, from + 10))).await.expect("it is taken in");
        let values = clicks(1_000 + from, 1_010 + from);
        pipeline.write(&event_of("other_clicks", 0, from, &values)).await.expect("it is taken in");
    }
    let (first, second) = tokio::join!(pipeline.drain(), pipeline.drain());
    first.expect("it is settled");
    second.expect("it is settled");
    tokio::time::sleep(Duration::from_secs(VISIBILITY_S.into())).await;
    pipeline.drain().await.expect("what is left is settled");
    let other = NamespaceIdent::new(format!("{}_other", pipeline.namespace().to_url_string()));
    assert_eq!(current(&pipeline, &pipeline.table()).await, ids(0, 40));
    assert_eq!(current(&pipeline, &TableIdent::new(other, "clicks".to_owned())).await, ids(1_000, 1_040));
}

/// T49: two committers build the first snapshot of an empty table. One creates `main`; the other finds its commit
/// refused and builds it again, as the first one's child.
#[tokio::test]
async fn t49_two_first_commits_race_and_one_becomes_the_others_child() {
    let one = Pipeline::new("t49", VISIBILITY_S).await;
    one.drain().await.expect("the tables are made");
    let other = one.with_queue("other", VISIBILITY_S).await;
    one.write(&event(0, 0, &clicks(0, 10))).await.expect("it is taken in");
    other.write(&event(0, 10, &clicks(10, 20))).await.expect("it is taken in");

    let meeting = Arc::new(Barrier::new(2));
    let (mut first, mut second) = (None, None);
    let (one_drained, other_drained) = tokio::join!(
        one.drain_through(|catalog| first.insert(WatchedCatalog::meeting(catalog, &meeting)).clone()),
        other.drain_through(|catalog| second.insert(WatchedCatalog::meeting(catalog, &meeting)).clone()),
    );
    one_drained.expect("a conflict is no failure");
    other_drained.expect("a conflict is no failure");

    let mut outcomes = BTreeMap::new();
    for watched in [first, second].into_iter().flatten().flat_map(|catalog| catalog.seen()) {
        assert_eq!(watched.table, one.table());
        *outcomes.entry(watched.outcome).or_insert(0) += 1;
    }
    assert_eq!(outcomes, BTreeMap::from([("committed", 2), ("conflict", 1)]));
    let metadata = metadata(&one.parts().await, &one.table()).await;
    let child = metadata.current_snapshot().expect("a snapshot");
    let parent = child.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id)).expect("its parent");
    assert_eq!((parent.parent_snapshot_id(), metadata.snapshots().count()), (None, 2));
    assert!(parent.sequence_number() < child.sequence_number());
    assert_eq!(current(&one, &one.table()).await, ids(0, 20));
}
