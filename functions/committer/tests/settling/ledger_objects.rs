//! Segments and index nodes of a ledger that can't be read: nothing is decided without them.

use std::ops::Range;

use bytes::Bytes;
use icefall_queue::CommitQueue;
use icefall_store::{Location, ObjectStore};
use icefall_testkit::{Call, Failure};

use crate::bench::{self, Bench, Letters, TABLE, VISIBILITY, records};

const OTHER: &str = "analytics.orders";
/// More rounds than an index node has entries, and fewer than two have.
const ROUNDS: i64 = 140;

/// What somebody did to an object.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// It may not be read, or can't be reached.
    Refused(Failure),
    /// It is gone.
    Missing,
    /// It holds other bytes than its name promises.
    Damaged(fn(&Bytes) -> Bytes),
}

const HARMS: [Harm; 6] = [
    Harm::Refused(Failure::Denied),
    Harm::Refused(Failure::Unreachable),
    Harm::Missing,
    Harm::Damaged(|_| Bytes::new()),
    Harm::Damaged(|whole| whole.slice(..whole.len() / 2)),
    Harm::Damaged(|whole| whole.iter().map(|byte| byte ^ 1).collect()),
];

impl Harm {
    async fn strike(self, bench: &Bench, object: &str) {
        let place = Location::s3("ops", object);
        match self {
            Self::Refused(failure) => bench.ops_faults.outage_of(Call::Get, object, failure),
            Self::Missing => assert!(bench.ops.remove(&place)),
            Self::Damaged(damage) => {
                let whole = bench.ops.peek(&place).expect("it is there");
                bench.ops.put(&place, damage(&whole)).await.expect("it puts");
            }
        }
    }
}

/// The only ledger object of this kind.
fn only(bench: &Bench, magic: &[u8]) -> String {
    let kept = bench.ops.keys("ops", "segments/").into_iter().filter(|key| {
        let bytes = bench.ops.peek(&Location::s3("ops", key.clone())).expect("it is there");
        bytes.starts_with(magic)
    });
    let kept: Vec<_> = kept.collect();
    let [one] = kept.as_slice() else { panic!("one object, not {kept:?}") };
    one.clone()
}

/// Harms `object` in every way, each time for a new process. Settled records of `again` come with five new ones, from
/// offset `free` on: they wait, the table says so, and the other table goes on. When the object is whole again, the very
/// process that saw the harm settles them.
async fn holds_up_its_table_alone(mut bench: Bench, object: &str, again: Range<i64>, mut free: i64) -> Bench {
    let place = Location::s3("ops", object);
    let whole = bench.ops.peek(&place).expect("it is there");
    let held = again.end - again.start;
    for (round, harm) in (0..).zip(HARMS) {
        bench = bench.restarted();
        harm.strike(&bench, object).await;
        let before = (bench.metadata(TABLE), bench.total_records());
        let rows = [records(0, again.clone()), records(0, free..free + 5)].concat();
        bench.send(&bench.batch(rows, Letters::none()).await).await;
        let others = bench.batch_for(OTHER, records(0, round * 3..round * 3 + 3), Letters::none()).await;
        bench.send(&others).await;
        bench.measured();
        bench.drain().await.expect_err("the table can't be settled");
        let measured = bench.measured();
        assert_eq!(measured.value(Some(TABLE), "TableFailures"), Some(1), "{harm:?}: the alarm");
        assert_eq!(measured.value(Some(OTHER), "TableFailures"), None, "{harm:?}");
        assert_eq!((bench.metadata(TABLE), bench.queue.len()), (before.0, 1), "{harm:?}: it stays queued");
        assert_eq!(
            bench.rows_of(OTHER).await,
            bench::keys(0, 0..round * 3 + 3),
            "{harm:?}: the other goes on"
        );

        bench.ops_faults.clear();
        bench.ops.put(&place, whole.clone()).await.expect("it puts");
        bench.clock.advance(VISIBILITY);
        let report = bench.drain().await.expect("it drains");
        assert_eq!((report.settled, report.snapshots, bench.queue.len()), (1, 1, 0), "{harm:?}");
        let skipped = bench.measured().value(Some(TABLE), "RecordsSkipped");
        assert_eq!(skipped.map(u64::cast_signed), Some(held), "{harm:?}");
        assert_eq!(bench.total_records(), before.1 + 5, "{harm:?}");
        free += 5;
    }
    assert!(bench.quarantine().is_empty(), "what can't be read now may be readable later");
    bench
}

#[tokio::test]
async fn a_segment_that_can_not_be_read_holds_up_its_table_alone_until_it_is_whole() {
    let bench = Bench::of_tables(&[TABLE, OTHER]).await;
    bench.send(&bench.batch(records(0, 0..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let segment = only(&bench, b"IFLS");
    let bench = holds_up_its_table_alone(bench, &segment, 3..10, 10).await;
    assert_eq!(bench.rows().await, bench::keys(0, 0..10 + 5 * 6));
}

#[tokio::test]
async fn an_index_node_that_can_not_be_read_holds_up_its_table_alone_until_it_is_whole() {
    let bench = Bench::of_tables(&[TABLE, OTHER]).await;
    for body in bench.light_bodies(ROUNDS).await {
        bench.queue.send(&[body]).await.expect("it sends");
        bench.drain().await.expect("it drains");
    }
    assert_eq!((bench.snapshots(TABLE), bench.total_records()), (140, ROUNDS));
    let node = only(&bench, b"IFLN");
    holds_up_its_table_alone(bench, &node, 3..8, ROUNDS).await;
}
