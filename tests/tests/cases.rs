//! What people reported of the systems that they use today, as inputs with the right results, on real parts. Each
//! test's name ends with the case's number.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::future::pending;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use icefall_clock::{Clock, SystemClock};
use icefall_committer::Committer;
use icefall_parts::Parts;
use icefall_store::{Location, ObjectMeta, ObjectStore, StoreError};
use icefall_testkit::{Call, Faults, FaultyCatalog, Moment};
use icefall_tests::{Pipeline, click, dead_letter_rows, event, event_ids, metadata};
use icefall_writer::Writer;
use tokio::sync::Notify;

/// Short, so that what a process that died had received comes back soon.
const VISIBILITY_S: u32 = 2;

async fn pipeline(name: &str) -> Pipeline {
    let pipeline = Pipeline::new(name, VISIBILITY_S).await;
    pipeline.drain().await.expect("the tables are made");
    pipeline
}

async fn ids(pipeline: &Pipeline) -> Vec<String> {
    let parts = pipeline.parts().await;
    let metadata = metadata(&parts, &pipeline.table()).await;
    let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
    event_ids(&parts, &pipeline.table(), snapshot).await
}

fn sorted_ids(range: Range<u64>) -> Vec<String> {
    let mut ids: Vec<String> = range.map(|n| format!("e-{n}")).collect();
    ids.sort_unstable();
    ids
}

/// 1,000 records, number 500 broken, once as JSON and once as a value that no column takes: 999 rows, and one row
/// among the dead letters with all that is known of the record; the invocation succeeds.
#[tokio::test]
async fn one_bad_record_of_a_thousand_stops_nothing_t04() {
    let broken = [
        ("malformed-json", "{\"event_id\": \"e-500\"".to_owned()),
        ("wrong-type", click(500).replace("\"user_id\":500", "\"user_id\":[500]")),
    ];
    for (class, value) in broken {
        let pipeline = pipeline("case-t04").await;
        let mut values: Vec<String> = (0..1_000).map(click).collect();
        values.splice(500..501, [value.clone()]);
        let report = pipeline.write(&event(2, 7_000, &values)).await.expect("the invocation succeeds");
        assert_eq!((report.rows, report.dead_letters), (999, 1));
        pipeline.drain().await.expect("it is settled");
        let found = ids(&pipeline).await;
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

/// The catalog applies the commit and its answer is lost: the table is loaded and its ledger read; no file is
/// deleted and no second snapshot made.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_counts_once_t16() {
    let pipeline = pipeline("case-t16").await;
    pipeline.write(&event(0, 0, &(0..50).map(click).collect::<Vec<_>>())).await.expect("it is taken in");
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
    assert_eq!(ids(&pipeline).await, sorted_ids(0..50));
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

/// The writer is killed at its time limit while it uploads: nothing of it is ever visible, and the next delivery
/// succeeds.
#[tokio::test]
async fn a_writer_killed_while_it_uploads_leaves_nothing_to_see_s24() {
    let pipeline = pipeline("case-s24").await;
    let event = event(0, 0, &(0..48).map(click).collect::<Vec<_>>());
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
    assert_eq!(ids(&pipeline).await, sorted_ids(0..0));
    pipeline.write(&event).await.expect("the next delivery succeeds");
    pipeline.drain().await.expect("it is settled");
    assert_eq!(ids(&pipeline).await, sorted_ids(0..48));
}
