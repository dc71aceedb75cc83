//! Cases that users of other systems have reported, on real parts, each under its number.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::future::pending;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_clock::{Clock, SystemClock};
use icefall_committer::Committer;
use icefall_parts::Parts;
use icefall_store::{Location, ObjectMeta, ObjectStore, StoreError};
use icefall_testkit::{Call, Faults, FaultyCatalog, Moment};
use icefall_tests::{
    Pipeline, TOPIC, WatchedCatalog, click, dead_letter_rows, event, event_ids, event_of, metadata,
};
use icefall_writer::Writer;
use tokio::sync::{Barrier, Notify};

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

async fn pipeline(name: &str) -> Pipeline {
    let pipeline = Pipeline::new(name, VISIBILITY_S).await;
    pipeline.drain().await.expect("the tables are made");
    pipeline
}

/// T04: 1,000 records, number 500 broken, once as JSON and once as a value that no column takes: 999 rows, and one row
/// among the dead letters with all that is known of the record; the invocation succeeds.
#[tokio::test]
async fn t04_one_bad_record_of_a_thousand_stops_nothing() {
    let broken = [
        ("malformed-json", "{\"event_id\": \"e-500\"".to_owned()),
        ("wrong-type", click(500).replace("\"user_id\":500", "\"user_id\":[500]")),
    ];
    for (class, value) in broken {
        let pipeline = pipeline("case-t04").await;
        let mut values = clicks(0, 1_000);
        values.splice(500..501, [value.clone()]);
        let report = pipeline.write(&event(2, 7_000, &values)).await.expect("the invocation succeeds");
        assert_eq!((report.rows, report.dead_letters), (999, 1));
        pipeline.drain().await.expect("it is settled");
        let found = current(&pipeline, &pipeline.table()).await;
        assert_eq!(found.len(), 999);
        assert!(!found.contains(&"e-500".to_owned()));
        let letters = dead_letter_rows(&pipeline.parts().await).await;
        let [letter] = letters.as_slice() else { panic!("one dead letter, not {letters:?}") };
        assert_eq!((letter.partition, letter.offset, letter.error_class.as_str()), (2, 7_500, class));
        assert_eq!(letter.timestamp_ms, Some(1_772_000_007_500));
        assert_eq!(letter.key.as_deref(), Some(b"7500".as_slice()));
        assert_eq!(letter.value.as_deref(), Some(value.as_bytes()));
        assert!(!letter.error_text.is_empty());
    }
}

/// T16: the catalog applies the commit and its answer is lost: the table is loaded and its ledger read; no file is
/// deleted and no second snapshot made.
#[tokio::test]
async fn t16_a_commit_whose_answer_is_lost_counts_once() {
    let pipeline = pipeline("case-t16").await;
    pipeline.write(&event(0, 0, &clicks(0, 50))).await.expect("it is taken in");
    let faults = Faults::new();
    faults.lose(Call::Commit, 1, Moment::After);
    let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } = pipeline.parts().await;
    let catalog = Arc::new(FaultyCatalog::new(catalog, Arc::clone(&faults)));
    let ports = icefall_committer::Ports { catalog, tables, ops, queue, clock, entropy, metrics };
    let committer = Committer::new(settings, ports).expect("a committer");
    let deadline = SystemClock.now().plus(Duration::from_mins(2));
    let report = committer.drain(deadline).await.expect("it is settled");
    assert_eq!((report.settled, report.waiting), (1, 0));
    assert_eq!(faults.count(Call::Commit), 1, "what is in the ledger is not sent again");
    assert_eq!(current(&pipeline, &pipeline.table()).await, ids(0, 50));
    let parts = pipeline.parts().await;
    assert_eq!(metadata(&parts, &pipeline.table()).await.snapshots().len(), 1);
}

/// A store whose uploads hang from the `n`-th on, as the process does that is killed at its time limit.
#[derive(Debug)]
struct Hanging {
    inner: Arc<dyn ObjectStore>,
    left: AtomicU32,
    hangs: Notify,
}

#[async_trait::async_trait]
impl ObjectStore for Hanging {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.hangs.notify_one();
            pending::<()>().await;
        }
        self.inner.put(location, body).await
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        self.inner.get(location).await
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.inner.get_range(location, range).await
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        self.inner.head(location).await
    }
}

/// S24: the writer is killed at its time limit while it uploads: nothing of it is ever visible, and the next delivery
/// succeeds.
#[tokio::test]
async fn s24_a_writer_killed_while_it_uploads_leaves_nothing_to_see() {
    let pipeline = pipeline("case-s24").await;
    let event = event(0, 0, &clicks(0, 48));
    let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } = pipeline.parts().await;
    let store = Arc::new(Hanging { inner: tables, left: AtomicU32::new(5), hangs: Notify::new() });
    let tables = Arc::clone(&store) as Arc<dyn ObjectStore>;
    let writer =
        Writer::new(settings, icefall_writer::Ports { catalog, tables, ops, queue, clock, entropy, metrics });
    tokio::select! {
        ended = writer.write(&event, "killed") => panic!("it should hang: {ended:?}"),
        () = store.hangs.notified() => {}
    }
    pipeline.drain().await.expect("there is nothing to settle");
    assert!(metadata(&pipeline.parts().await, &pipeline.table()).await.current_snapshot().is_none());
    pipeline.write(&event).await.expect("the next delivery succeeds");
    pipeline.drain().await.expect("it is settled");
    assert_eq!(current(&pipeline, &pipeline.table()).await, ids(0, 48));
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
            one.drain_through(
                |catalog| Arc::clone(first.insert(WatchedCatalog::meeting(catalog, &meeting))) as _
            ),
            other.drain_through(|catalog| Arc::clone(
                second.insert(WatchedCatalog::meeting(catalog, &meeting))
            ) as _),
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
