//! `icefall audit` on real parts: what is well is proved from the broker's own records, and each kind of damage is named.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use iceberg::TableUpdate;
use iceberg::spec::{MAIN_BRANCH, SnapshotReference, SnapshotRetention};
use icefall_catalog::Commit;
use icefall_cli::{Arguments, CliError, Desk, run};
use icefall_clock::{Entropy, SystemEntropy};
use icefall_parts::ops_lister;
use icefall_store::{Location, file_io};
use icefall_tests::{Pipeline, TopicOnBroker, click, event_of, manifests, metadata};
use serde_json::Value;

/// A pipeline with a topic of its own on the broker.
struct Audited {
    pipeline: Pipeline,
    topic: String,
    broker: TopicOnBroker,
}

impl Audited {
    async fn new(name: &str) -> Self {
        let topic = format!("{name}-{:08x}", SystemEntropy.bits() >> 32);
        let tables = format!(
            r#"
            [[table]]
            name = "NAMESPACE.clicks"
            columns = [
              {{ name = "event_id", type = "string", required = true }},
              {{ name = "user_id", type = "long" }},
              {{ name = "event_time", type = "timestamptz", required = true }},
            ]
            [[route]]
            topic = "{topic}"
            table = "NAMESPACE.clicks"
            "#
        );
        let pipeline = Pipeline::new(name, 2).await.declaring(&tables);
        let broker = TopicOnBroker::new(pipeline.stack(), &topic, 2).await;
        pipeline.drain().await.expect("the tables are made");
        Self { pipeline, topic, broker }
    }

    /// Records that are produced, delivered and settled.
    async fn settle(&self, partition: i32, first: u64, values: &[String]) {
        self.broker.produce(partition, first, values);
        self.deliver(&self.pipeline, partition, first, values).await;
    }

    /// Records that are delivered and settled, whatever was produced.
    async fn deliver(&self, pipeline: &Pipeline, partition: i32, first: u64, values: &[String]) {
        pipeline.write(&event_of(&self.topic, partition, first, values)).await.expect("it is taken in");
        pipeline.drain().await.expect("it is settled");
    }

    /// `icefall <arguments> --json`: what it says, or why it fails, with what it said by then.
    async fn command(&self, arguments: &[&str]) -> Result<Value, (CliError, Value)> {
        let parts = self.pipeline.parts().await;
        let lister = ops_lister(&parts.settings).await.expect("a lister");
        let desk = Desk::new(parts, lister);
        let line = ["icefall"].iter().chain(arguments).chain(&["--json"]);
        let arguments = Arguments::try_parse_from(line).expect("a command line");
        let mut out = Vec::new();
        let done = run(&desk, arguments, &mut out).await;
        let said: Value = serde_json::from_slice(&out).unwrap_or_default();
        done.map(|()| said.clone()).map_err(|fault| (fault, said))
    }

    /// What `icefall audit` says, and what it amounts to.
    async fn audit(&self, more: &[&str]) -> (Value, Outcome) {
        let brokers = &self.pipeline.stack().kafka_bootstrap;
        match self.command(&[&["audit", &self.topic, "--kafka", brokers], more].concat()).await {
            Ok(said) => (said, Outcome::Proved),
            Err((CliError::NotProved, said)) => (said, Outcome::Faulty),
            Err((CliError::Unproved, said)) => (said, Outcome::Unproved),
            Err((fault, _)) => panic!("it could not be audited: {}", fault.chain()),
        }
    }

    /// What is said when it amounts to that.
    async fn said(&self, outcome: Outcome, more: &[&str]) -> Value {
        let (said, found) = self.audit(more).await;
        assert_eq!(found, outcome, "{said:#}");
        assert_eq!(said.get("proved"), Some(&(outcome == Outcome::Proved).into()), "{said:#}");
        said
    }

    /// What is said when all is proved.
    async fn proved(&self) -> Value {
        self.said(Outcome::Proved, &[]).await
    }

    /// What is said when something is not as it should be.
    async fn faulty(&self) -> Value {
        self.said(Outcome::Faulty, &[]).await
    }
}

/// What an audit amounts to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Proved,
    Unproved,
    Faulty,
}

fn count(said: &Value, kind: &str) -> u64 {
    said.pointer(&format!("/counts/{kind}")).and_then(Value::as_u64).expect("every kind has its count")
}

/// The stretches of this kind: partition, first and last offset.
fn listed(said: &Value, kind: &str) -> Vec<(i64, i64, i64)> {
    let all = said.get("listed").and_then(Value::as_array).expect("a list");
    let of_kind = all.iter().filter(|run| run.get("kind").and_then(Value::as_str) == Some(kind));
    let number = |run: &Value, name| run.get(name).and_then(Value::as_i64).expect("a number");
    of_kind.map(|run| (number(run, "partition"), number(run, "first"), number(run, "last"))).collect()
}

fn values(from: u64, to: u64) -> Vec<String> {
    (from..to).map(click).collect()
}

#[tokio::test]
async fn rows_dead_letters_and_what_is_still_to_come_are_proved() {
    let audited = Audited::new("audit-well").await;
    audited.settle(0, 0, &values(0, 50)).await;
    audited.settle(1, 0, &[values(50, 60), vec!["no JSON".to_owned()]].concat()).await;
    audited.settle(0, 50, &values(60, 70)).await;
    audited.broker.produce(1, 11, &values(70, 75));
    let said = audited.proved().await;
    assert_eq!((count(&said, "row"), count(&said, "dead_letter"), count(&said, "unsettled")), (70, 1, 5));
    assert_eq!(listed(&said, "unsettled"), [(1, 11, 15)]);
    assert_eq!(said.pointer("/files/0/proof"), Some(&"by_snapshot".into()), "{said:#}");
    assert_eq!(said.get("records_read"), Some(&76.into()));
    // Once the pipeline is said to have drained, nothing is still to come.
    let said = audited.said(Outcome::Faulty, &["--drained"]).await;
    assert_eq!(said.pointer("/faults").and_then(Value::as_array).map(Vec::len), Some(1), "{said:#}");
    audited.deliver(&audited.pipeline, 1, 11, &values(70, 75)).await;
    audited.said(Outcome::Proved, &["--drained"]).await;
}

/// A table that was made again, or a mapping that never read, leaves a topic of which nothing is settled.
#[tokio::test]
async fn where_nothing_is_settled_nothing_is_called_proved() {
    let audited = Audited::new("audit-unbegun").await;
    audited.broker.produce(0, 0, &values(0, 10));
    audited.said(Outcome::Unproved, &[]).await;
    audited.said(Outcome::Faulty, &["--drained"]).await;
    // One partition is read, and the other never is.
    audited.deliver(&audited.pipeline, 0, 0, &values(0, 10)).await;
    audited.broker.produce(1, 0, &values(10, 20));
    let said = audited.proved().await;
    let warned = said.pointer("/warnings/0").and_then(Value::as_str).unwrap_or_default();
    assert!(warned.contains("nothing at all is settled of partition 1"), "{said:#}");
}

/// The metadata says nothing of the files themselves.
#[tokio::test]
async fn a_data_file_that_is_not_what_was_written_is_named() {
    let audited = Audited::new("audit-files").await;
    audited.settle(0, 0, &values(0, 10)).await;
    audited.settle(0, 10, &values(10, 15)).await;
    let said = audited.proved().await;
    assert_eq!(said.pointer("/data_files/asked"), Some(&2.into()), "{said:#}");
    let parts = audited.pipeline.parts().await;
    let newest = manifests(&parts, &audited.pipeline.table()).await;
    let newest = newest.iter().max_by_key(|manifest| manifest.sequence_number).expect("a manifest");
    let newest = newest.load_manifest(&file_io(Arc::clone(&parts.tables))).await.expect("it reads");
    let file = Location::parse(newest.entries().first().expect("an entry").file_path()).expect("a location");
    parts.tables.put(&file, Bytes::from_static(b"cut off")).await.expect("it puts");
    let said = audited.faulty().await;
    assert_eq!(said.pointer("/data_files/broken/0/rows"), Some(&5.into()), "{said:#}");
    assert_eq!(said.pointer("/data_files/broken/0/found"), Some(&7.into()), "{said:#}");
    assert_eq!(said.pointer("/data_files/broken/0/path"), Some(&file.to_string().into()), "{said:#}");
    audited.said(Outcome::Proved, &["--files-by-metadata"]).await;
}

#[tokio::test]
async fn what_the_ledger_lacks_or_holds_otherwise_is_named() {
    let audited = Audited::new("audit-altered").await;
    audited.broker.produce(0, 0, &values(0, 20));
    audited.deliver(&audited.pipeline, 0, 0, &values(0, 10)).await;
    audited.deliver(&audited.pipeline, 0, 12, &[vec![click(99)], values(13, 20)].concat()).await;
    let said = audited.faulty().await;
    assert_eq!(listed(&said, "missing"), [(0, 10, 11)], "{said:#}");
    assert_eq!(listed(&said, "altered"), [(0, 12, 12)], "{said:#}");
    assert_eq!(count(&said, "row"), 17);
}

#[tokio::test]
async fn a_row_that_a_rollback_took_out_is_missed_by_its_snapshot() {
    let audited = Audited::new("audit-rollback").await;
    audited.settle(0, 0, &values(0, 10)).await;
    let parts = audited.pipeline.parts().await;
    let table = audited.pipeline.table();
    let first = metadata(&parts, &table).await.current_snapshot_id().expect("a snapshot");
    audited.settle(0, 10, &values(10, 15)).await;
    audited.proved().await;
    let reference = SnapshotReference::new(first, SnapshotRetention::branch(None, None, None));
    let update = TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference };
    let commit =
        Commit::new(Vec::new(), vec![update], uuid::Uuid::from_u128(u128::from(SystemEntropy.bits())));
    parts.catalog.commit(&table, &commit).await.into_result().expect("it is set back");
    let said = audited.faulty().await;
    assert_eq!(count(&said, "row"), 15, "the ledger holds them all");
    assert_eq!(said.pointer("/files/0/lost"), Some(&5.into()), "{said:#}");
    assert_eq!(said.pointer("/files/0/uneven/0/settled"), Some(&5.into()), "{said:#}");
}

/// The topic holds records that an operator said are copies: they stand in quarantine, and nothing is missing.
#[tokio::test]
async fn what_stands_in_quarantine_is_told_from_what_is_missing() {
    let audited = Audited::new("audit-aside").await;
    let copies = values(100, 105);
    audited.broker.produce(0, 0, &[copies.clone(), values(5, 10)].concat());
    audited.deliver(&audited.pipeline, 0, 0, &values(0, 10)).await;
    assert_eq!(count(&audited.faulty().await, "altered"), 5);
    audited.pipeline.write(&event_of(&audited.topic, 0, 0, &copies)).await.expect("it is taken in");
    // The source stands still, which the committer says in its own way.
    let _ = audited.pipeline.drain().await;
    let table = audited.pipeline.table();
    let table = format!("{}.{}", table.namespace().to_url_string(), table.name());
    let parts = audited.pipeline.parts().await;
    let source = format!("{}/local/{}", parts.settings.pipeline, audited.topic);
    let said = audited.command(&["stops", "discard", &table, &source, "--because", "sent twice"]).await;
    said.expect("it is decided");
    let mut quarantined = Vec::new();
    for _ in 0..20 {
        let _ = audited.pipeline.drain().await;
        quarantined = listed(&audited.audit(&[]).await.0, "quarantined");
        if !quarantined.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(quarantined, [(0, 0, 4)]);
    assert_eq!(count(&audited.proved().await, "row"), 5);
}
