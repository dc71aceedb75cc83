//! Tables that hold the records of several sources: topics, and clusters under names of their own.

use iceberg::TableUpdate;
use icefall_ledger::property_name;
use icefall_manifest::{BatchManifest, Branch, Source};
use icefall_tables::MAX_SOURCES;
use icefall_testkit::{Call, Failure};

use crate::bench::{self, Bench, Letters, TABLE, VISIBILITY, records};

/// More than one commit may have, under names so long that few of them fit into a snapshot's summary.
const TOPICS: usize = 2 * MAX_SOURCES + 5;

/// So many records of each of them.
fn total(of_each: usize) -> i64 {
    i64::try_from(of_each * TOPICS).expect("a few")
}

/// Records of the `number`-th topic.
async fn of_topic(bench: &Bench, number: usize, offsets: std::ops::Range<i64>) -> BatchManifest {
    let mut batch = bench.batch(records(0, offsets), Letters::none()).await;
    let name = format!("{number:02}.{}", "a-topic-with-a-long-name.".repeat(5));
    batch.source.topic = name.as_str().try_into().expect("a topic");
    batch
}

/// Records under the name of another cluster.
async fn of_cluster(bench: &Bench, cluster: &str, offsets: std::ops::Range<i64>) -> BatchManifest {
    let anew = records(0, offsets).into_iter().map(bench::other).collect();
    let mut batch = bench.batch(anew, Letters::none()).await;
    batch.source.cluster = cluster.try_into().expect("a name");
    batch
}

fn property(bench: &Bench, source: &Source) -> (String, String) {
    let name = property_name(&Branch::main(), source);
    let value = bench.metadata(TABLE).properties().get(&name).cloned().expect("a ledger");
    (name, value)
}

#[tokio::test]
async fn a_table_of_many_topics_takes_as_many_in_a_commit_as_its_summary_can_name() {
    let bench = Bench::new().await;
    for number in 0..TOPICS {
        bench.send(&of_topic(&bench, number, 0..3).await).await;
    }
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots, bench.snapshots(TABLE)), (TOPICS, 3, 3));
    assert_eq!(bench.total_records(), total(3));
    for snapshot in bench.metadata(TABLE).snapshots() {
        let summary = serde_json::to_string(snapshot.summary()).expect("JSON");
        assert!(summary.len() <= 1_024, "{} bytes: {summary}", summary.len());
    }
}

/// What the snapshots since have settled would land a second time.
#[tokio::test]
async fn an_old_value_of_the_property_stops_each_of_many_topics() {
    let bench = Bench::new().await;
    let mut old = Vec::new();
    for offsets in [0..3, 3..6] {
        for number in 0..TOPICS {
            let batch = of_topic(&bench, number, offsets.clone()).await;
            if offsets.start == 3 {
                old.push(property(&bench, &batch.source));
            }
            bench.send(&batch).await;
        }
        bench.drain().await.expect("it drains");
    }
    for (number, (name, value)) in old.into_iter().enumerate() {
        let (_, new) = property(&bench, &of_topic(&bench, number, 3..6).await.source);
        let set =
            |value: &str| TableUpdate::SetProperties { updates: [(name.clone(), value.to_owned())].into() };
        bench.update(vec![set(&value)]).await;
        bench.send(&of_topic(&bench, number, 3..6).await).await;
        bench.drain().await.expect_err("the table stops");
        assert_eq!((bench.total_records(), bench.queue.len()), (total(6), 1), "topic {number}");
        bench.update(vec![set(&new)]).await;
        bench.clock.advance(VISIBILITY);
        bench.drain().await.expect("it goes on");
        assert_eq!((bench.total_records(), bench.queue.len()), (total(6), 0), "topic {number}");
    }
}

/// One that is merely called otherwise would bring all of its records a second time.
#[tokio::test]
async fn a_topic_under_another_name_of_the_cluster_waits_for_a_person_until_both_names_are_known() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.send(&of_cluster(&bench, "anew", 0..3).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!((bench.total_records(), bench.queue.len()), (5, 0));
    assert!(
        bench.quarantine().iter().all(|key| key.contains("/another-cluster/")),
        "{:?}",
        bench.quarantine()
    );
    let bench = bench.knowing(&["anew"]);
    for cluster in ["anew", "anew", "local"] {
        bench.send(&of_cluster(&bench, cluster, 10..13).await).await;
        bench.drain().await.expect("it drains");
    }
    assert_eq!(
        (bench.total_records(), bench.queue.len()),
        (5 + 3 + 3, 0),
        "each name has a ledger of its own"
    );
    let entries = bench.quarantine().iter().filter(|key| key.ends_with(".raw")).count();
    assert_eq!(entries, 1, "the first one alone");
}

/// A committer died between its commit and the register, somebody unset the property, and the cluster got another name.
#[tokio::test]
async fn a_ledger_that_only_a_snapshot_tells_of_is_missed_under_another_clusters_name_too() {
    let bench = Bench::new().await;
    bench.ops_faults.outage_of(Call::Put, "register/", Failure::Denied);
    bench.ops_faults.outage_of(Call::Put, "clusters/", Failure::Denied);
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect_err("it is committed, and not registered");
    bench.unset_ledger().await;
    bench.ops_faults.clear();
    let bench = bench.knowing(&["anew"]);
    bench.send(&of_cluster(&bench, "anew", 0..5).await).await;
    bench.drain().await.expect_err("nothing begins anew");
    assert_eq!((bench.total_records(), bench.queue.len()), (5, 2));
    assert!(bench.quarantine().is_empty());
}
