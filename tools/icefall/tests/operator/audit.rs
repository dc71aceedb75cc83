//! What an audit finds: a pipeline that is well is proved, and each kind of damage is named.

use std::collections::BTreeMap;
use std::sync::Mutex;

use iceberg::{NamespaceIdent, TableIdent};
use icefall_cli::{CliError, Extent, Reader, Seen, TopicError, Topics};
use icefall_manifest::{Offset, Partition, Topic};
use icefall_records::fingerprint::{Time, compute};
use icefall_records::{Form, Payload};
use serde_json::Value;

use crate::bench::{Bench, TABLE};

/// A topic of one partition.
#[derive(Debug, Default)]
pub(crate) struct FakeTopic {
    values: Mutex<BTreeMap<i64, String>>,
}

impl FakeTopic {
    /// Puts a record there, unless the offset has one.
    pub(crate) fn produce(&self, offset: i64, value: &str) {
        self.values.lock().expect("nobody panicked").entry(offset).or_insert_with(|| value.to_owned());
    }

    /// Puts another record in its place.
    fn replace(&self, offset: i64, value: &str) {
        self.values.lock().expect("nobody panicked").insert(offset, value.to_owned());
    }

    /// The topic was made again, and is shorter.
    fn forget_from(&self, offset: i64) {
        self.values.lock().expect("nobody panicked").retain(|position, _| *position < offset);
    }

    /// Retention.
    fn forget_below(&self, offset: i64) {
        self.values.lock().expect("nobody panicked").retain(|position, _| *position >= offset);
    }
}

impl Topics for FakeTopic {
    fn extents(&self, topic: &Topic) -> Result<Vec<Extent>, TopicError> {
        let values = self.values.lock().expect("nobody panicked");
        let (Some((start, _)), Some((last, _))) = (values.first_key_value(), values.last_key_value()) else {
            return Err(TopicError::NoTopic(topic.clone()));
        };
        Ok(vec![Extent { partition: Partition::new(0).expect("a partition"), start: *start, end: last + 1 }])
    }

    fn reader(&self, _: &Topic, _: &[Extent]) -> Result<Box<dyn Reader>, TopicError> {
        let values = self.values.lock().expect("nobody panicked").clone();
        Ok(Box::new(FakeReader(values.into_iter().map(|(offset, value)| seen(offset, &value)).collect())))
    }
}

#[derive(Debug)]
struct FakeReader(std::collections::VecDeque<Seen>);

impl Reader for FakeReader {
    fn read(&mut self, _: Partition, end: i64, each: &mut dyn FnMut(Seen)) -> Result<(), TopicError> {
        while let Some(seen) = self.0.pop_front_if(|seen| seen.offset.position() < end) {
            each(seen);
        }
        Ok(())
    }
}

/// As the bench's writer is given it.
fn seen(offset: i64, value: &str) -> Seen {
    let value = Payload { form: Form::Bytes, bytes: value.as_bytes() };
    let fingerprint = compute(Time::Millis(1_700_000_000_000), None, Some(value));
    Seen { offset: Offset::new(offset).expect("an offset"), fingerprint, tombstone: false }
}

async fn audit(bench: &Bench, more: &[&str]) -> String {
    bench.command(&[&["audit", "clicks"], more].concat()).await.expect("it is proved")
}

/// What is said of something that is not as it should be.
async fn faults(bench: &Bench, more: &[&str]) -> String {
    let error = bench.command(&[&["audit", "clicks"], more].concat()).await.expect_err("it is not proved");
    assert!(matches!(error, CliError::NotProved), "{}", error.chain());
    bench.said.lock().expect("nobody panicked").clone()
}

fn holds(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
}

/// Rows of two snapshots, and two dead letters.
async fn settled() -> Bench {
    let bench = Bench::new().await;
    bench.write(0..100).await;
    bench.drain().await.expect("it drains");
    bench.write(100..150).await;
    bench.write_bad(150..152).await;
    bench.drain().await.expect("it drains");
    bench
}

#[tokio::test]
async fn a_pipeline_that_is_well_is_proved() {
    let bench = settled().await;
    let said = audit(&bench, &[]).await;
    holds(&said, &["demo/local/clicks: 152 records of 1 partitions, against shop.clicks", "proved:"]);
    holds(
        &said,
        &["150 are rows, by offset and fingerprint", "2 are dead letters, by offset and fingerprint"],
    );
    holds(&said, &["150 in the ledgers of shop.clicks, 150 in its files: each snapshot's files"]);
    bench.write(152..160).await;
    let said = audit(&bench, &[]).await;
    holds(&said, &["8 are newer than all that is settled", "partition 0 offset 152-159", "proved:"]);
}

#[tokio::test]
async fn for_machines_it_is_a_document() {
    let bench = settled().await;
    let said: Value = serde_json::from_str(&audit(&bench, &["--json"]).await).expect("JSON");
    assert_eq!((&said["proved"], &said["records_read"]), (&true.into(), &152.into()), "{said}");
    assert_eq!((&said["counts"]["row"], &said["counts"]["missing"]), (&150.into(), &0.into()));
    assert_eq!(said["files"][0]["proof"], "by_snapshot");
    assert_eq!(said["partitions"][0]["end"], 152);
}

#[tokio::test]
async fn a_record_that_nothing_holds_is_named() {
    let bench = Bench::new().await;
    bench.write(0..4).await;
    bench.write(5..10).await;
    bench.drain().await.expect("it drains");
    bench.topic.produce(4, r#"{"n":4}"#);
    let said = faults(&bench, &[]).await;
    holds(&said, &["1 are MISSING", "partition 0 offset 4\n", "NOT proved:"]);
    let said: Value = serde_json::from_str(&faults(&bench, &["--json"]).await).expect("JSON");
    let listed = &said["listed"][0];
    assert_eq!(
        (&listed["kind"], &listed["first"], &listed["last"]),
        (&"missing".into(), &4.into(), &4.into())
    );
}

#[tokio::test]
async fn another_record_at_a_settled_offset_is_named() {
    let bench = settled().await;
    bench.topic.replace(7, r#"{"n":8}"#);
    let said = faults(&bench, &[]).await;
    holds(&said, &["1 are ALTERED", "partition 0 offset 7: settled as "]);
    // Once a batch with it came, the source stands still, and the audit says how to go on.
    bench.write_others(7..8).await;
    bench.drain().await;
    holds(&faults(&bench, &[]).await, &["stands still in shop.clicks: icefall stops show "]);
}

#[tokio::test]
async fn rows_that_a_rollback_took_out_are_named_by_their_snapshot() {
    let bench = settled().await;
    let metadata = bench.metadata();
    let head = metadata.current_snapshot().expect("a snapshot");
    bench.set_main(head.parent_snapshot_id().expect("an earlier one")).await;
    let said = faults(&bench, &[]).await;
    holds(&said, &["150 in the ledgers of shop.clicks, 100 in its files: they do NOT agree"]);
    holds(&said, &["50 settled, 0 in files", "the files of shop.clicks hold 50 rows fewer than its ledgers"]);
}

#[tokio::test]
async fn rows_that_somebody_appended_are_named_and_are_no_fault_where_others_write() {
    let bench = settled().await;
    bench.append_copy().await;
    let said = faults(&bench, &[]).await;
    holds(
        &said,
        &["the files of shop.clicks hold 50 rows that others appended", "append): 0 settled, 50 in files"],
    );
    holds(
        &audit(&bench, &["--others-append"]).await,
        &["150 in the ledgers of shop.clicks, 200 in its files"],
    );
}

#[tokio::test]
async fn what_the_topic_has_no_longer_is_no_fault() {
    let bench = settled().await;
    bench.topic.forget_below(60);
    let said = audit(&bench, &[]).await;
    holds(&said, &["60 are settled, and the topic has them no longer", "partition 0 offset 0-59", "proved:"]);
}

#[tokio::test]
async fn what_stands_in_quarantine_is_told_from_what_is_missing() {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    bench.remake_table().await;
    bench.drain().await.expect("it drains");
    bench.write(10..20).await;
    bench.drain().await.expect("it drains");
    let said = audit(&bench, &[]).await;
    holds(&said, &["10 stand in quarantine", "partition 0 offset 0-9", "10 are rows", "proved:"]);
    // What no ledger and no entry holds is missing still.
    bench.topic.replace(3, r#"{"n":33}"#);
    holds(&faults(&bench, &[]).await, &["9 stand in quarantine", "1 are MISSING", "partition 0 offset 3\n"]);
}

#[tokio::test]
async fn an_entry_that_nobody_can_read_is_mentioned() {
    let bench = settled().await;
    bench.queue.inject("no batch manifest");
    bench.drain().await.expect("it drains");
    holds(&audit(&bench, &[]).await, &["nobody can say whose records these entries", "no-batch-manifest/"]);
}

#[tokio::test]
async fn dead_letters_that_their_table_lacks_are_named() {
    let bench = settled().await;
    let table = TableIdent::new(NamespaceIdent::new("icefall".to_owned()), "dead_letters".to_owned());
    bench.write(152..155).await;
    bench.drain().await.expect("it drains, and forgets which dead letters are in their table by now");
    assert!(bench.catalog.drop_table(&table));
    holds(&faults(&bench, &[]).await, &["2 are LOST dead letters", "partition 0 offset 150-151"]);
}

#[tokio::test]
async fn dead_letters_that_became_rows_are_there_once() {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    bench.write_empty(10..12).await;
    bench.drain().await.expect("it drains");
    bench.make_n_optional();
    bench.command(&["replay", TABLE]).await.expect("it replays");
    bench.clock.advance(std::time::Duration::from_mins(10));
    bench.drain().await.expect("it drains");
    holds(
        &audit(&bench, &[]).await,
        &["2 were dead letters and are rows by now", "12 in its files", "proved:"],
    );
}

#[tokio::test]
async fn other_records_of_a_topic_that_was_made_again_stand_beside_the_older_ones() {
    let bench = settled().await;
    bench.write_others(0..5).await;
    let _ = bench.drain().await;
    let accepted = ["stops", "accept", TABLE, crate::bench::SOURCE, "--because", "the topic was made again"];
    bench.command(&accepted).await.expect("they are accepted");
    bench.clock.advance(std::time::Duration::from_mins(10));
    bench.drain().await.expect("it drains");
    for offset in 0..5 {
        bench.topic.replace(offset, &format!(r#"{{"n":{}}}"#, Bench::other(offset)));
    }
    bench.topic.forget_from(5);
    let said = audit(&bench, &[]).await;
    holds(&said, &["5 are rows, by offset and fingerprint", "147 are settled, and newer than what was read"]);
}

#[tokio::test]
async fn rows_are_found_by_value_where_the_table_has_columns_for_it() {
    let bench = Bench::new().await;
    bench.write_places(0..20).await;
    bench.drain().await.expect("it drains");
    let columns = ["--offset-columns", "p,o"];
    let said = audit(&bench, &columns).await;
    holds(&said, &["rows by value: 20 say which record they are, 0 don't", "proved:"]);
    // A record whose row says that it is another one.
    bench.write_place(20, 7).await;
    bench.drain().await.expect("it drains");
    let said = faults(&bench, &columns).await;
    holds(&said, &["1 are LOST rows", "partition 0 offset 20: 0 times in the files, 1 in the ledger"]);
    holds(&said, &["1 are DOUBLED rows", "partition 0 offset 7: 2 times in the files, 1 in the ledger"]);
}

#[tokio::test]
async fn what_can_not_be_audited_is_no_proof_of_anything() {
    let bench = Bench::new().await;
    let error = bench.command(&["audit", "clicks"]).await.expect_err("there is no such topic");
    assert!(error.chain().contains("the cluster has no topic clicks"), "{}", error.chain());
    let bench = settled().await;
    let error = bench.command(&["audit", "a/b"]).await.expect_err("no topic's name").chain();
    assert!(error.contains("letters, digits"), "{error}");
    let error = bench.command(&["audit", "clicks", "--offset-columns", "x,o"]).await.expect_err("no columns");
    assert!(error.chain().contains("no column \"x\""), "{}", error.chain());
    bench.keep_metadata().await;
    bench.unset_ledger().await;
    let error = bench.command(&["audit", "clicks"]).await.expect_err("the ledger is lost").chain();
    assert!(error.contains("icefall ledger restore"), "{error}");
}
