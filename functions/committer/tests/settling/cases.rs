//! Cases that users of other systems have reported, each under its number.

use std::time::Duration;

use iceberg::TableUpdate;
use iceberg::spec::{Transform, UnboundPartitionSpec};
use icefall_manifest::{Fingerprint, RecordId};
use icefall_store::Location;
use icefall_testkit::{Call, Moment};

use crate::bench::{self, Bench, Letters, TABLE, records};
use crate::other_engine::{manifests, replace_manifests};

/// Removes all snapshots of the table but the newest.
pub(crate) async fn expire_all_but_the_newest(bench: &Bench) {
    let metadata = bench.metadata(TABLE);
    let ids = metadata.snapshots().map(|snapshot| snapshot.snapshot_id());
    let snapshot_ids = ids.filter(|id| Some(*id) != metadata.current_snapshot_id()).collect();
    bench.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids }]).await;
}

/// T01: "an optimiser commits between our load and our commit, 5 times in a row: every retry reloads metadata, gets a
/// new parent and sequence number, keeps the data files; success inside one invocation".
#[tokio::test]
async fn t01_an_optimiser_that_is_faster_five_times_costs_five_conflicts_and_nothing_else() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let batch = bench.batch(records(0, 5..10), Letters::none()).await;
    bench.send(&batch).await;
    bench.rivals(5);
    let began = icefall_clock::Clock::now(bench.clock.as_ref());
    let report = bench.drain().await.expect("one invocation is enough");
    assert_eq!((report.settled, report.snapshots), (1, 1));
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    let metadata = bench.metadata(TABLE);
    assert_eq!((metadata.snapshots().len(), metadata.last_sequence_number()), (7, 7));
    let (head, commits) =
        (metadata.current_snapshot().expect("a snapshot"), bench.catalog_faults.count(Call::Commit));
    let parent = head.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id)).expect("its parent");
    assert_eq!(parent.sequence_number(), 6, "the optimiser's last one");
    let paths: Vec<_> = bench.entries(TABLE).await.iter().map(|file| file.file_path().to_owned()).collect();
    assert!(paths.contains(&batch.files[0].data_file.path), "the data file is kept");
    assert_eq!((commits, bench.measured().value(Some(TABLE), "CommitConflicts")), (7, Some(5)));
    assert!(
        icefall_clock::Clock::now(bench.clock.as_ref()).since(began) < Duration::from_secs(30),
        "backoff is bounded"
    );
}

/// T05: "committer A is frozen right before the catalog call; B takes over and commits the same manifests; A wakes up
/// and sends its call: A gets 409, re-reads the ledger, finds all files done, acks".
#[tokio::test]
async fn t05_a_committer_that_wakes_up_after_another_took_over_adds_nothing() {
    let bench = Bench::new().await;
    let batches = [
        bench.batch(records(0, 0..5), Letters::none()).await,
        bench.batch(records(1, 0..5), Letters::of(0, 5..6)).await,
    ];
    for batch in &batches {
        bench.send(batch).await;
    }
    let (other, again) = (bench.another_committer(), batches.clone());
    bench.before_commit(move || async move {
        for batch in &again {
            other.send(batch).await;
        }
        other.drain().await.expect("it drains");
    });
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots), (2, 0), "all is settled, by the other one");
    let expected: Vec<_> = bench::keys(0, 0..5).into_iter().chain(bench::keys(1, 0..5)).collect();
    assert_eq!(bench.rows().await, expected);
    assert_eq!(bench.dead_letters().await, bench::keys(0, 5..6));
    assert_eq!(
        (bench.snapshots(TABLE), bench.measured().value(Some(TABLE), "CommitConflicts")),
        (1, Some(1))
    );
    assert!(bench.queue.is_empty());
}

/// What the committer finds of a writer that died: a file that no message names, or two messages whose files hold the
/// same records. How the writer comes to leave that is tried with the writer itself, where the operator's tests are.
#[tokio::test]
async fn what_a_writer_left_that_died_before_or_after_its_message_lands_once() {
    for message_was_sent in [false, true] {
        let bench = Bench::new().await;
        let died = bench.batch(records(0, 0..10), Letters::none()).await;
        if message_was_sent {
            bench.send(&died).await;
        }
        let again = bench.batch(records(0, 0..10), Letters::none()).await;
        bench.send(&again).await;
        bench.drain().await.expect("it drains");
        assert_eq!(bench.rows().await, bench::keys(0, 0..10), "sent: {message_was_sent}");
        let visible: Vec<_> =
            bench.entries(TABLE).await.iter().map(|file| file.file_path().to_owned()).collect();
        let expected = if message_was_sent { &died } else { &again };
        assert_eq!(visible, [expected.files[0].data_file.path.clone()], "sent: {message_was_sent}");
        assert!(bench.queue.is_empty());
    }
}

/// T20: "table dropped and recreated under the same name while 5 manifests wait: UUID differs: parked with reason and
/// alarm, not skipped, not written to the new table".
#[tokio::test]
async fn t20_five_batches_for_a_table_that_was_made_again_are_parked() {
    let bench = Bench::new().await;
    for start in 0..5 {
        bench.send(&bench.batch(records(0, start * 10..start * 10 + 10), Letters::none()).await).await;
    }
    assert!(bench.catalog.drop_table(&bench::ident(TABLE)));
    bench.drain().await.expect("it drains");
    assert_eq!((bench.rows().await, bench.snapshots(TABLE)), (vec![], 0));
    let parked = bench.quarantine();
    let raw = parked.iter().filter(|key| key.contains("/another-table/") && key.ends_with(".raw"));
    assert_eq!((raw.count(), bench.queue.len()), (5, 0));
    assert_eq!(bench.measured().value(None, "QuarantinedMessages"), Some(5), "the alarm");
}

/// T34: "commit; maintenance keeps 1 snapshot (its own); redeliver the old manifest: no-op, because the ledger is not in
/// snapshots".
#[tokio::test]
async fn t34_what_expiry_leaves_no_trace_of_is_still_settled() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..10), Letters::none()).await;
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    replace_manifests(&bench, manifests(&bench).await).await;
    expire_all_but_the_newest(&bench).await;
    assert_eq!(bench.snapshots(TABLE), 1, "maintenance's own");
    let bench = bench.restarted();
    bench.send(&batch).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots, bench.snapshots(TABLE)), (1, 0, 1));
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    bench.send(&bench.batch(records(0, 10..12), Letters::none()).await).await;
    bench.drain().await.expect("it goes on");
    assert_eq!(bench.rows().await, bench::keys(0, 0..12));
}

/// T37: "mapping restarts at the earliest offset after 8 days: everything already held is skipped, record by record; 0
/// duplicates; `replayed N` is reported".
#[tokio::test]
async fn t37_a_trigger_that_begins_at_the_earliest_offset_again_brings_nothing_twice() {
    let bench = Bench::new().await;
    for start in [0, 10, 20] {
        bench.send(&bench.batch(records(0, start..start + 10), Letters::of(1, start..start + 2)).await).await;
        bench.drain().await.expect("it drains");
    }
    bench.clock.advance(Duration::from_hours(8 * 24));
    let bench = bench.restarted();
    bench.measured();
    // Of seven rows and five dead letters each, these were settled before.
    for (start, settled) in [(0, 7 + 2), (7, 7), (14, 7 + 2), (21, 7), (28, 2 + 2)] {
        let letters = Letters::of(1, start / 7 * 5..start / 7 * 5 + 5);
        bench.send(&bench.batch(records(0, start..start + 7), letters).await).await;
        bench.drain().await.expect("it drains");
        let measured = bench.measured();
        let counted = ["TrimmedBatches", "RecordsSkipped", "RecordsCommitted", "DuplicateBatches"]
            .map(|metric| measured.value(Some(TABLE), metric));
        assert_eq!(counted, [Some(1), Some(settled), Some(12 - settled), None], "from {start} on");
    }
    bench.send(&bench.batch(records(0, 2..32), Letters::of(1, 3..5)).await).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots), (1, 0));
    let measured = bench.measured();
    assert_eq!(measured.value(Some(TABLE), "DuplicateBatches"), Some(1));
    assert_eq!(measured.value(Some(TABLE), "RecordsSkipped"), Some(32), "all that it brings");
    assert_eq!(bench.rows().await, bench::keys(0, 0..35));
    assert_eq!(bench.dead_letters().await, bench::keys(1, 0..25));
    assert!(bench.queue.is_empty() && bench.quarantine().is_empty());
}

/// T50: "parent manifest list returns 404: stop this table, alarm, keep manifests; do not write over it".
#[tokio::test]
async fn t50_a_table_whose_manifest_list_is_gone_is_not_written_over() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    let before = bench.metadata(TABLE);
    let list = before.current_snapshot().expect("a snapshot").manifest_list().to_owned();
    let place = Location::parse(&list).expect("a location");
    let body = bench.store.peek(&place).expect("it is there");
    assert!(bench.store.remove(&place));
    bench.send(&bench.batch(records(0, 5..10), Letters::none()).await).await;
    bench.drain().await.expect_err("the table is damaged");
    assert_eq!((bench.metadata(TABLE), bench.queue.len()), (before, 1));
    assert_eq!(bench.measured().value(Some(TABLE), "TableFailures"), Some(1), "the alarm");
    icefall_store::ObjectStore::put(bench.store.as_ref(), &place, body).await.expect("it puts");
    bench.clock.advance(bench::VISIBILITY);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
}

/// T53: "offsets 200–299 arrive before 100–199: both land".
#[tokio::test]
async fn t53_later_offsets_that_come_first_keep_nobody_out() {
    for in_one_round in [true, false] {
        let bench = Bench::new().await;
        for start in [200, 100] {
            bench.send(&bench.batch(records(0, start..start + 100), Letters::none()).await).await;
            if !in_one_round {
                bench.drain().await.expect("it drains");
            }
        }
        bench.drain().await.expect("it drains");
        assert_eq!(bench.rows().await, bench::keys(0, 100..300), "in one round: {in_one_round}");
    }
}

/// T54: "route to table by rewritten topic name: ledger keyed by the source topic".
#[tokio::test]
async fn t54_two_topics_that_end_in_one_table_have_their_own_offsets() {
    let bench = Bench::new().await;
    for topic in ["shop.eu.clicks", "shop.us.clicks"] {
        let mut batch = bench.batch(records(0, 0..5), Letters::none()).await;
        batch.source.topic = topic.try_into().expect("a topic");
        bench.send(&batch).await;
        bench.send(&batch).await;
    }
    bench.drain().await.expect("it drains");
    let twice: Vec<_> = (0..5).flat_map(|offset| [(0, offset), (0, offset)]).collect();
    assert_eq!(bench.rows().await, twice, "each topic's once");
    let properties = bench.metadata(TABLE).properties().clone();
    for topic in ["shop.eu.clicks", "shop.us.clicks"] {
        assert!(
            properties.contains_key(&format!("icefall.ledger.main.demo/local/{topic}")),
            "{properties:?}"
        );
    }
}

/// S16: "partition added to the topic: no fixed count; each batch stands alone".
#[tokio::test]
async fn s16_a_partition_that_is_added_needs_no_word() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    bench.send(&bench.batch(records(7, 0..5), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, [bench::keys(0, 0..5), bench::keys(7, 0..5)].concat());
}

/// S17: "expiry removes the marker between load and commit: re-read, retry".
#[tokio::test]
async fn s17_expiry_between_load_and_commit_changes_nothing() {
    let bench = Bench::new().await;
    let first = bench.batch(records(0, 0..5), Letters::none()).await;
    bench.send(&first).await;
    bench.drain().await.expect("it drains");
    replace_manifests(&bench, manifests(&bench).await).await;
    bench.send(&bench.batch(records(0, 3..9), Letters::none()).await).await;
    let other = bench.another_committer();
    bench.before_commit(move || async move {
        expire_all_but_the_newest(&other).await;
    });
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..9));
    assert_eq!(bench.snapshots(TABLE), 2, "maintenance's and ours");
}

/// S18: "crash after commit, compaction commits, restart: walk ancestry and ledger".
#[tokio::test]
async fn s18_a_crash_after_the_commit_and_a_compaction_lead_to_no_second_append() {
    let bench = Bench::with_shared_faults().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    bench.catalog_faults.lose(Call::Commit, bench.catalog_faults.count(Call::Commit) + 1, Moment::After);
    bench.catalog_faults.outage(Call::Delete, icefall_testkit::Failure::Unreachable);
    let _drained = bench.drain().await;
    bench.catalog_faults.clear();
    assert_eq!(bench.snapshots(TABLE), 1, "the commit was made");
    replace_manifests(&bench, manifests(&bench).await).await;
    bench.clock.advance(bench::VISIBILITY);
    let bench = bench.restarted();
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots), (1, 0));
    assert_eq!(bench.rows().await, bench::keys(0, 0..5));
}

/// S21: "object event delivered again after OPTIMIZE removed the file from the live set: ledger survives compaction".
#[tokio::test]
async fn s21_a_file_that_is_no_longer_live_is_not_added_again() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..5), Letters::none()).await;
    bench.send(&batch).await;
    bench.drain().await.expect("it drains");
    replace_manifests(&bench, Vec::new()).await;
    assert_eq!(bench.rows().await, []);
    bench.send(&batch).await;
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.settled, report.snapshots), (1, 0));
    assert_eq!(bench.rows().await, []);
}

/// S26: "same record twice within one batch (producer retry without idempotence): both kept (different offsets)".
#[tokio::test]
async fn s26_one_content_at_two_offsets_is_two_records() {
    let bench = Bench::new().await;
    let alike = |record: RecordId| RecordId { fingerprint: Fingerprint(7), ..record };
    let rows: Vec<_> = records(0, 4..6).into_iter().map(alike).collect();
    for _ in 0..2 {
        bench.send(&bench.batch(rows.clone(), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
    }
    assert_eq!(bench.rows().await, bench::keys(0, 4..6));
}

/// S34: "operator edits config while manifests of the old config wait: manifests carry their own spec/schema ids and
/// still commit": the committer that takes them up reads other settings, and the table is partitioned otherwise.
#[tokio::test]
async fn s34_batches_of_settings_that_were_edited_since_commit_as_they_are() {
    let bench = Bench::new().await;
    let batch = bench.batch(records(0, 0..5), Letters::of(1, 0..2)).await;
    bench.send(&batch).await;
    let bench = bench.edited(&[TABLE], "partition_by = ['bucket(4, o)'],");
    let spec = UnboundPartitionSpec::builder().add_partition_field(2, "o_bucket", Transform::Bucket(4));
    let update = TableUpdate::AddSpec { spec: spec.expect("a spec").build() };
    bench.update(vec![update, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
    bench.send(&bench.batch(records(0, 5..10), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..10));
    let specs: Vec<_> = manifests(&bench).await.iter().map(|one| one.partition_spec_id).collect();
    assert!(specs.contains(&0) && specs.contains(&1), "{specs:?}");
    let paths: Vec<_> = bench.entries(TABLE).await.iter().map(|file| file.file_path().to_owned()).collect();
    assert!(paths.contains(&batch.files[0].data_file.path), "the file is the one that was written");
    assert_eq!(bench.dead_letters().await, bench::keys(1, 0..2));
}

/// S34, further: the topic is routed elsewhere while its batches wait, and the settings know the first table no more.
#[tokio::test]
async fn s34_batches_for_a_table_that_the_settings_no_longer_name_commit_as_they_are() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::of(1, 0..2)).await).await;
    let bench = bench.edited(&["analytics.elsewhere"], "");
    bench.drain().await.expect("the table of the new settings is made, and what waited is settled");
    assert_eq!((bench.rows().await, bench.queue.len()), (bench::keys(0, 0..5), 0));
    let elsewhere = bench.batch_for("analytics.elsewhere", records(0, 0..9), Letters::none()).await;
    bench.send(&elsewhere).await;
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows_of("analytics.elsewhere").await, bench::keys(0, 0..9), "a ledger of its own");
    assert_eq!(bench.rows().await, bench::keys(0, 0..5));
    assert_eq!(bench.dead_letters().await, bench::keys(1, 0..2));
    assert!(bench.quarantine().is_empty());
}
