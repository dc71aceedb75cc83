//! What an audit finds: a pipeline that is well is proved, and each kind of damage is named.

use std::collections::BTreeMap;
use std::sync::Mutex;

use iceberg::spec::Operation;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_cli::{CliError, Extent, Reader, Seen, TopicError, Topics};
use icefall_manifest::{Offset, Partition, Topic};
use icefall_records::fingerprint::{Time, compute};
use icefall_records::{Form, Payload};
use icefall_store::ObjectStore;
use serde_json::Value;

use crate::bench::{Bench, TABLE};

/// A topic of one partition.
#[derive(Debug, Default)]
pub(crate) struct FakeTopic {
    values: Mutex<BTreeMap<i64, String>>,
    /// Where a transaction begins that is still open.
    held_from: Mutex<Option<i64>>,
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

    /// A transaction that begins there is still open.
    fn hold_from(&self, offset: i64) {
        self.held_from.lock().expect("nobody panicked").replace(offset);
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
        let (partition, high) = (Partition::new(0).expect("a partition"), last + 1);
        let end = self.held_from.lock().expect("nobody panicked").unwrap_or(high);
        Ok(vec![Extent { partition, start: *start, end, high }])
    }

    fn reader(&self, _: &Topic, extents: &[Extent]) -> Result<Box<dyn Reader>, TopicError> {
        let mut values = self.values.lock().expect("nobody panicked").clone();
        values.retain(|offset, _| extents.iter().any(|extent| *offset < extent.end));
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

/// What is said where nothing is known to be wrong, and not all can be proved.
async fn doubts(bench: &Bench, more: &[&str]) -> String {
    let error = bench.command(&[&["audit", "clicks"], more].concat()).await.expect_err("it is not proved");
    assert!(matches!(error, CliError::Unproved), "{}", error.chain());
    let said = bench.said.lock().expect("nobody panicked").clone();
    holds(&said, &["not proved, though nothing is known to be wrong:"]);
    said
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
    holds(&said, &["exactly once. Nothing is proved of 8 records that are not settled yet"]);
    holds(&faults(&bench, &["--drained"]).await, &["NOT proved:\n  8 are newer than all that is settled"]);
    bench.drain().await.expect("it drains");
    holds(&audit(&bench, &["--drained"]).await, &["is there exactly once\n"]);
}

#[tokio::test]
async fn where_nothing_is_settled_nothing_is_proved() {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    let said = doubts(&bench, &[]).await;
    holds(&said, &["WARNING: nothing at all is settled of partition 0", "no record of the topic is settled"]);
    bench.drain().await.expect("it drains");
    audit(&bench, &["--drained"]).await;
    bench.remake_table().await;
    doubts(&bench, &[]).await;
    holds(&faults(&bench, &["--drained"]).await, &["10 are newer than all that is settled"]);
}

#[tokio::test]
async fn what_an_open_transaction_holds_back_is_not_called_gone() {
    let bench = settled().await;
    bench.topic.hold_from(120);
    let said = audit(&bench, &[]).await;
    holds(&said, &["WARNING: partition 0 was read up to offset 120 and not to 152: a transaction"]);
    holds(&said, &["120 are rows", "32 are settled, and newer than what was read of the topic"]);
    holds(&doubts(&bench, &["--drained"]).await, &["was read up to offset 120 and not to 152"]);
}

#[tokio::test]
async fn a_data_file_that_the_store_lacks_is_named_with_its_rows() {
    let bench = settled().await;
    let file = bench.newest_file().await;
    let body = bench.store.peek(&file).expect("it is there");
    holds(&audit(&bench, &[]).await, &["data files: the store was asked for 2, and 0 are not there"]);
    bench.store.put(&file, body.slice(..10)).await.expect("it puts");
    let said = faults(&bench, &[]).await;
    holds(&said, &[&format!("{file} has 10 bytes and not {}: 50 rows", body.len())]);
    assert!(bench.store.remove(&file));
    let said = faults(&bench, &[]).await;
    holds(&said, &[&format!("{file} is MISSING: 50 rows, of sequence number 2 (snapshot ")]);
    holds(&said, &["1 data files of shop.clicks are not in the store as the table names them, with 50 rows"]);
    let said: Value = serde_json::from_str(&faults(&bench, &["--json"]).await).expect("JSON");
    assert_eq!((&said["proved"], &said["data_files"]["broken"][0]["rows"]), (&false.into(), &50.into()));
    // Whoever takes the metadata at its word is told so.
    let said = audit(&bench, &["--files-by-metadata"]).await;
    holds(&said, &["exactly once; by metadata only: the store was not asked"]);
}

#[tokio::test]
async fn delete_files_may_hide_rows_so_nothing_is_proved_until_they_are_known() {
    let bench = settled().await;
    bench.delete_some().await;
    holds(
        &doubts(&bench, &[]).await,
        &["1 delete files of shop.clicks may hide rows", "--deletes-are-known"],
    );
    let said: Value = serde_json::from_str(&{
        let error = bench.command(&["audit", "clicks", "--json"]).await.expect_err("it is not proved");
        assert!(matches!(error, CliError::Unproved), "{}", error.chain());
        bench.said.lock().expect("nobody panicked").clone()
    })
    .expect("JSON");
    assert_eq!((&said["proved"], said["faults"].as_array().map(Vec::len)), (&false.into(), Some(0)));
    let said = audit(&bench, &["--deletes-are-known"]).await;
    holds(&said, &["is there exactly once; but for rows that others' delete files hide"]);
}

#[tokio::test]
async fn a_rewrite_that_keeps_all_rows_is_proved_and_an_overwrite_is_not() {
    let bench = settled().await;
    bench.others(Operation::Replace, true, true).await;
    let said = audit(&bench, &[]).await;
    holds(&said, &["by snapshots that keep all rows, and hold as many as were settled in total", "proved:"]);
    let bench = settled().await;
    bench.others(Operation::Overwrite, true, true).await;
    let said = doubts(&bench, &[]).await;
    holds(&said, &["others overwrote 50 settled rows of shop.clicks", "they do NOT agree"]);
    holds(&said, &["overwrite, of somebody else took out files of 50 such rows"]);
}

#[tokio::test]
async fn rows_that_were_seen_to_be_deleted_are_made_up_for_by_no_other() {
    let bench = settled().await;
    // Where they come from can't be seen any more: they may be anybody's.
    bench.append_copy().await;
    let theirs = bench.metadata().current_snapshot_id().expect("a snapshot");
    bench.write(152..155).await;
    bench.drain().await.expect("it drains");
    bench.expire(theirs).await;
    holds(&faults(&bench, &[]).await, &["hold 50 rows more than its ledgers"]);
    bench.others(Operation::Delete, true, false).await;
    let said = faults(&bench, &[]).await;
    holds(&said, &["hold 3 rows fewer than its ledgers", "hold 50 rows more than its ledgers"]);
}

#[tokio::test]
async fn a_rewrite_that_expired_is_a_weaker_proof_and_says_so() {
    let bench = settled().await;
    bench.others(Operation::Replace, true, true).await;
    let rewrite = bench.metadata().current_snapshot_id().expect("a snapshot");
    bench.write(152..155).await;
    bench.drain().await.expect("it drains");
    bench.expire(rewrite).await;
    let said = audit(&bench, &[]).await;
    holds(&said, &["by snapshots that are no longer shown", "in shop.clicks by the total of its rows alone"]);
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

/// Ten records in quarantine, since their table was made again, and ten rows of the present one.
async fn half_in_quarantine() -> Bench {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    bench.remake_table().await;
    bench.drain().await.expect("it drains");
    bench.write(10..20).await;
    bench.drain().await.expect("it drains");
    bench
}

#[tokio::test]
async fn what_stands_in_quarantine_is_told_from_what_is_missing() {
    let bench = half_in_quarantine().await;
    let said = audit(&bench, &[]).await;
    holds(&said, &["10 stand in quarantine", "partition 0 offset 0-9", "10 are rows", "proved:"]);
    // What no ledger and no entry holds is missing still.
    bench.topic.replace(3, r#"{"n":33}"#);
    holds(&faults(&bench, &[]).await, &["9 stand in quarantine", "1 are MISSING", "partition 0 offset 3\n"]);
}

#[tokio::test]
async fn what_was_released_is_on_its_way_and_no_longer_in_quarantine() {
    let bench = half_in_quarantine().await;
    let id = bench.only_id().await;
    bench.icefall(&["release", &id, "--reason-overruled", "another-table"]).await.expect("it is released");
    let said = audit(&bench, &[]).await;
    holds(&said, &["10 were released from quarantine and are settled nowhere yet", "partition 0 offset 0-9"]);
    holds(&said, &["Nothing is proved of 10 records that were released from quarantine"]);
    holds(
        &faults(&bench, &["--drained"]).await,
        &["10 were released from quarantine and are settled nowhere"],
    );
    bench.drain().await.expect("it drains");
    holds(&audit(&bench, &["--drained"]).await, &["20 are rows", "is there exactly once\n"]);
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
async fn rows_that_do_not_say_which_record_they_are_are_no_proof_by_value() {
    let bench = Bench::new().await;
    bench.write(0..3).await;
    bench.write_places(3..20).await;
    bench.drain().await.expect("it drains");
    let said = doubts(&bench, &["--offset-columns", "p,o"]).await;
    holds(&said, &["3 were not found by value: they may be", "3 rows don't say which record they are"]);
    assert!(!said.contains("LOST"), "{said}");
    audit(&bench, &[]).await;
}

/// A file that the store lacks has none of its rows by value, and each of them is named.
#[tokio::test]
async fn rows_of_a_file_that_is_gone_are_lost_by_value() {
    let bench = Bench::new().await;
    bench.write_places(0..20).await;
    bench.drain().await.expect("it drains");
    assert!(bench.store.remove(&bench.newest_file().await));
    let said = faults(&bench, &["--offset-columns", "p,o"]).await;
    holds(
        &said,
        &["20 are LOST rows", "partition 0 offset 0-19: 0 times in the files", "is MISSING: 20 rows"],
    );
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
