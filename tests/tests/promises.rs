//! The README's guarantees, one test each, on real parts. Each test's comment is the sentence that it bears.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use iceberg::{TableIdent, TableUpdate};
use icefall_catalog::{Commit, CommitOutcome};
use icefall_clock::{Clock, Entropy, SystemClock, SystemEntropy};
use icefall_committer::{Committer, DrainError, Ports, Report};
use icefall_parts::Parts;
use icefall_testkit::{Call, Failure, Faults, FaultyCatalog, Moment};
use icefall_tests::{
    OTHER_TOPIC, Pipeline, TOPIC, click, closed_port, dead_letters, event, event_ids, event_of, metadata,
};

/// Short, so that what a failed committer had received comes back soon.
const VISIBILITY_S: u32 = 2;

/// The values of records `from..to`; every fifth is no JSON.
fn values(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|n| if is_bad(n) { format!("no JSON {n}") } else { click(n) }).collect()
}

fn is_bad(n: u64) -> bool {
    n % 5 == 4
}

/// A pipeline whose tables are there.
async fn pipeline(name: &str) -> Pipeline {
    let pipeline = Pipeline::new(name, VISIBILITY_S).await;
    pipeline.drain().await.expect("the tables are made");
    pipeline
}

/// Records `0..count` stand once each, as a row or as a dead letter, and never twice in any snapshot.
async fn assert_exactly_once(pipeline: &Pipeline, count: u64) {
    let parts = pipeline.parts().await;
    let metadata = metadata(&parts, &pipeline.table()).await;
    for snapshot in metadata.snapshots() {
        let mut ids = event_ids(&parts, &pipeline.table(), snapshot).await;
        let rows = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), rows, "a record stands twice in snapshot {}", snapshot.snapshot_id());
    }
    let current = metadata.current_snapshot().expect("a snapshot");
    let mut expected: Vec<String> = (0..count).filter(|n| !is_bad(*n)).map(|n| format!("e-{n}")).collect();
    expected.sort_unstable();
    assert_eq!(event_ids(&parts, &pipeline.table(), current).await, expected);
    let offsets: Vec<i64> = dead_letters(&parts).await.into_iter().map(|(_, offset, _)| offset).collect();
    let bad = (0..count).filter(|n| is_bad(*n)).map(|n| i64::try_from(n).expect("a small number"));
    assert_eq!(offsets, bad.collect::<Vec<_>>());
}

/// A committer whose catalog fails as `faults` say.
async fn drain_with(pipeline: &Pipeline, faults: &Arc<Faults>) -> Result<Report, DrainError> {
    drain_and_alarms(pipeline, faults).await.0
}

/// The same, with the metrics that it wrote.
async fn drain_and_alarms(pipeline: &Pipeline, faults: &Arc<Faults>) -> (Result<Report, DrainError>, String) {
    let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } = pipeline.parts().await;
    let catalog = Arc::new(FaultyCatalog::new(catalog, Arc::clone(faults)));
    let ports = Ports { catalog, tables, ops, queue, clock, entropy, metrics: Arc::clone(&metrics) };
    let committer = Committer::new(settings, ports).expect("a committer");
    let drained = committer.drain(SystemClock.now().plus(Duration::from_mins(2))).await;
    let mut written = Vec::new();
    metrics.flush(SystemClock.now(), &mut written).expect("a vector takes everything");
    (drained, String::from_utf8(written).expect("metrics are text"))
}

/// "In every snapshot, each record stands at most once. Once its batch manifest is settled it stands exactly
/// once, or it is a dead letter, exactly once, never both."
#[tokio::test]
async fn each_record_stands_exactly_once_whatever_is_delivered_again() {
    let pipeline = pipeline("promise-once").await;
    for (from, to) in [(0, 20), (0, 20), (10, 30), (5, 40), (0, 40)] {
        pipeline.write(&event(0, from, &values(from, to))).await.expect("it is taken in");
        pipeline.drain().await.expect("it is settled");
    }
    assert_exactly_once(&pipeline, 40).await;
}

/// "Nothing is acknowledged before it is durable: the writer succeeds when the queue has every batch manifest of
/// the batch; a message leaves the queue when each of its records is in the ledger of the table's current
/// metadata."
#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_durable() {
    let pipeline = pipeline("promise-durable").await;
    let no_queue = pipeline.with("ICEFALL__QUEUE__ENDPOINT", closed_port());
    no_queue.write(&event(0, 0, &values(0, 20))).await.expect_err("the queue did not accept it");
    pipeline.write(&event(0, 0, &values(0, 20))).await.expect("the queue accepted it");
    let no_ops = pipeline.with("ICEFALL__OPS__ENDPOINT", closed_port());
    no_ops.drain().await.expect_err("the ledger's segment could not be put");
    tokio::time::sleep(Duration::from_secs(VISIBILITY_S.into())).await;
    let report = pipeline.drain().await.expect("it is settled");
    assert_eq!(report.settled, 1, "the message was still queued");
    assert_exactly_once(&pipeline, 20).await;
}

/// "Ledger and snapshot change in one catalog commit, a compare-and-swap on the metadata whose ledger was
/// consulted."
#[tokio::test]
async fn ledger_and_snapshot_change_together() {
    let pipeline = pipeline("promise-together").await;
    let parts = pipeline.parts().await;
    for (from, to) in [(0, 10), (10, 20)] {
        pipeline.write(&event(0, from, &values(from, to))).await.expect("it is taken in");
        pipeline.drain().await.expect("it is settled");
        let metadata = metadata(&parts, &pipeline.table()).await;
        let head = metadata.current_snapshot().expect("a snapshot");
        let mut ledgers = metadata.properties().iter().filter(|(key, _)| key.starts_with("icefall.ledger."));
        let (_, ledger) = ledgers.next().expect("a ledger");
        assert!(ledger.contains(&head.snapshot_id().to_string()), "{ledger} names the head");
        assert!(ledger.contains(&format!("[0,{}]", to - 1)), "{ledger} holds the last offset");
    }
}

/// "An unknown outcome (time-out, 5xx, lost answer) is settled by loading the table and reading its ledger. It is
/// never guessed, and no data file is ever deleted because of it."
#[tokio::test]
async fn an_unknown_outcome_is_settled_by_the_ledger() {
    for moment in [Moment::Before, Moment::After] {
        let pipeline = pipeline("promise-unknown").await;
        pipeline.write(&event(0, 0, &values(0, 20))).await.expect("it is taken in");
        let faults = Faults::new();
        faults.lose(Call::Commit, 1, moment);
        faults.lose(Call::Commit, 2, moment);
        drain_with(&pipeline, &faults).await.expect("it is settled");
        assert!(faults.count(Call::Commit) >= 2, "the fault struck");
        assert_exactly_once(&pipeline, 20).await;
    }
}

/// "Duplicates, delays and any order of batch manifests do not matter, nor do several committers at once."
#[tokio::test]
async fn several_committers_at_once_do_no_harm() {
    let pipeline = pipeline("promise-several").await;
    for from in [50, 40, 30, 20, 10, 0] {
        for _ in 0..2 {
            pipeline.write(&event(0, from, &values(from, from + 10))).await.expect("it is taken in");
        }
    }
    let drains = vec![pipeline.drain(), pipeline.drain(), pipeline.drain()];
    for drained in futures::future::join_all(drains).await {
        drained.expect("a conflict is no failure");
    }
    tokio::time::sleep(Duration::from_secs(VISIBILITY_S.into())).await;
    pipeline.drain().await.expect("what is left is settled");
    assert_exactly_once(&pipeline, 60).await;
}

/// "A bad record never blocks good ones and never vanishes: it lands whole in the dead-letter table, with its
/// topic, partition, offset, the column and the rule."
#[tokio::test]
async fn a_bad_record_lands_among_the_dead_letters_and_the_rest_goes_on() {
    let pipeline = pipeline("promise-bad").await;
    let bad = [
        ("malformed-json", "{\"event_id\":".to_owned()),
        ("not-an-object", "[1,2]".to_owned()),
        ("wrong-type", click(1).replace("\"user_id\":1", "\"user_id\":\"one\"")),
        ("out-of-range", click(1).replace("\"user_id\":1", "\"user_id\":9223372036854775808")),
        ("missing-required", "{\"event_id\":\"e-1\"}".to_owned()),
        ("bad-format", click(1).replace("2026-03-01T01:30:00Z", "yesterday")),
    ];
    let mut all: Vec<String> = bad.iter().map(|(_, value)| value.clone()).collect();
    all.push(click(7));
    let report = pipeline.write(&event(3, 100, &all)).await.expect("it is taken in");
    assert_eq!((report.rows, report.dead_letters), (1, bad.len()));
    pipeline.drain().await.expect("it is settled");
    let parts = pipeline.parts().await;
    let found = dead_letters(&parts).await;
    let expected: Vec<_> =
        (100..).zip(bad).map(|(offset, (class, _))| (3, offset, class.to_owned())).collect();
    assert_eq!(found, expected);
}

/// "A bad table never blocks other tables."
#[tokio::test]
async fn a_table_that_cannot_be_settled_blocks_no_other() {
    let pipeline = Pipeline::new("promise-beside", VISIBILITY_S).await.with_other_table();
    pipeline.drain().await.expect("the tables are made");
    let (good, bad, parts) = (pipeline.table(), pipeline.other_table(), pipeline.parts().await);
    let write = async |from| {
        let values: Vec<String> = (from..from + 10).map(click).collect();
        for topic in [TOPIC, OTHER_TOPIC] {
            pipeline.write(&event_of(topic, 0, from, &values)).await.expect("it is taken in");
        }
    };
    let rows = async |table| {
        let metadata = metadata(&parts, table).await;
        event_ids(&parts, table, metadata.current_snapshot().expect("a snapshot")).await.len()
    };
    write(0).await;
    pipeline.drain().await.expect("both are settled");
    let (key, ledger) = ledger_property(&parts, &bad).await;
    set_property(&parts, &bad, &key, "{\"format\":1000}").await;
    write(10).await;
    let (drained, alarms) = drain_and_alarms(&pipeline, &Faults::new()).await;
    drained.expect_err("the other table's ledger is of a version that is not known");
    assert!(alarms.contains("TableFailures"), "{alarms}");
    assert_eq!((rows(&good).await, rows(&bad).await), (20, 10));
    set_property(&parts, &bad, &key, &ledger).await;
    tokio::time::sleep(Duration::from_secs(VISIBILITY_S.into())).await;
    pipeline.drain().await.expect("what stayed queued is settled");
    assert_eq!((rows(&good).await, rows(&bad).await), (20, 20));
}

async fn ledger_property(parts: &Parts, table: &TableIdent) -> (String, String) {
    let metadata = metadata(parts, table).await;
    let mut ledgers = metadata.properties().iter().filter(|(key, _)| key.starts_with("icefall.ledger."));
    let (key, value) = ledgers.next().expect("a ledger");
    (key.clone(), value.clone())
}

async fn set_property(parts: &Parts, table: &TableIdent, key: &str, value: &str) {
    let updates = [(key.to_owned(), value.to_owned())].into();
    let commit = Commit::new(Vec::new(), vec![TableUpdate::SetProperties { updates }], SystemEntropy.uuid());
    let outcome = parts.catalog.commit(table, &commit).await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
}

/// "What can't be decided is quarantined with the reason. What merely fails stays queued. Both raise an alarm."
#[tokio::test]
async fn what_merely_fails_stays_queued_and_what_is_undecidable_is_put_aside() {
    let pipeline = pipeline("promise-aside").await;
    let parts = pipeline.parts().await;
    parts.queue.send(&["{\"format\":1}".to_owned()]).await.expect("it sends");
    pipeline.write(&event(0, 0, &values(0, 10))).await.expect("it is taken in");
    let faults = Faults::new();
    faults.outage(Call::Commit, Failure::Denied);
    let (drained, alarms) = drain_and_alarms(&pipeline, &faults).await;
    drained.expect_err("the catalog denies the commit");
    for alarm in ["QuarantinedMessages", "TableFailures", "MessagesLeft"] {
        assert!(alarms.contains(alarm), "{alarm} is not in {alarms}");
    }
    tokio::time::sleep(Duration::from_secs(VISIBILITY_S.into())).await;
    let report = pipeline.drain().await.expect("it is settled");
    assert_eq!((report.received, report.settled), (1, 1), "the odd message was put aside in the first round");
    assert_exactly_once(&pipeline, 10).await;
}
