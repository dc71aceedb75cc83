//! Merging of manifests: what a reader sees stays what it was, and few of them have to be read.

use std::collections::BTreeMap;
use std::ops::Range;

use iceberg::TableUpdate;
use iceberg::spec::{ManifestContentType, ManifestFile, Transform, UnboundPartitionSpec};
use icefall_store::{Location, ObjectStore, Operation};
use proptest::prelude::*;

use crate::bench::{self, Bench, Letters, TABLE, records};
use crate::other_engine::{delete_equal, delete_positions, entries, manifests, visible};

/// What an entry says of a file beside the file itself.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Standing {
    snapshot: Option<i64>,
    sequence: Option<i64>,
    file_sequence: Option<i64>,
    /// The ids of its rows, in a table that has them.
    row_ids: Option<Range<u64>>,
}

/// Every live data file with its standing.
async fn files(bench: &Bench) -> BTreeMap<String, Standing> {
    let mut files = BTreeMap::new();
    let mut inherited: BTreeMap<String, u64> = BTreeMap::new();
    for (manifest, entry) in entries(bench).await {
        if manifest.content == ManifestContentType::Deletes {
            continue;
        }
        let own = entry.data_file().first_row_id().map(|first| u64::try_from(first).expect("an id"));
        let row_ids = manifest.first_row_id.map(|first| {
            let next = inherited.entry(manifest.manifest_path.clone()).or_insert(first);
            let start = own.unwrap_or(*next);
            if own.is_none() {
                *next += entry.record_count();
            }
            start..start + entry.record_count()
        });
        let standing = Standing {
            snapshot: entry.snapshot_id(),
            sequence: entry.sequence_number(),
            file_sequence: entry.file_sequence_number,
            row_ids,
        };
        assert!(files.insert(entry.file_path().to_owned(), standing).is_none(), "no file stands twice");
    }
    files
}

fn declaration(version: u32, min_count: usize) -> String {
    format!(
        r#"properties = {{ "format-version" = "{version}", "commit.manifest.min-count-to-merge" = "{min_count}" }},"#
    )
}

/// Appends three rows of `partition`, the `round`th.
async fn append(bench: &Bench, partition: i64, round: i64) {
    bench.send(&bench.batch(records(partition, round * 3..round * 3 + 3), Letters::none()).await).await;
    bench.drain().await.expect("it drains");
}

/// Appends, and sees that every file stands as it stood, beside one more.
async fn append_and_compare(bench: &Bench, partition: i64, round: i64) -> bool {
    let before = files(bench).await;
    append(bench, partition, round).await;
    let after = files(bench).await;
    for (path, standing) in &before {
        assert_eq!(after.get(path), Some(standing), "{path}");
    }
    assert_eq!(after.len(), before.len() + 1);
    let head = bench.metadata(TABLE).current_snapshot_id();
    let is_merged =
        |one: &ManifestFile| Some(one.added_snapshot_id) == head && one.existing_files_count > Some(0);
    manifests(bench).await.iter().any(is_merged)
}

#[tokio::test]
async fn merging_keeps_every_file_with_its_numbers() {
    for version in [2, 3] {
        let bench = Bench::declared(&declaration(version, 4)).await;
        let mut merges = 0;
        for round in 0..24 {
            merges += usize::from(append_and_compare(&bench, 0, round).await);
            assert!(
                manifests(&bench).await.len() <= 6,
                "few manifests, those of one snapshot and its merge among them"
            );
        }
        assert!((4..=12).contains(&merges), "{merges} merges of 24 commits");
        assert_eq!(bench.rows().await, bench::keys(0, 0..72));
        let summary = bench.metadata(TABLE);
        let totals = &summary.current_snapshot().expect("a snapshot").summary().additional_properties;
        assert_eq!(totals.get("total-data-files").map(String::as_str), Some("24"));
    }
}

#[tokio::test]
async fn row_ids_stay_with_their_rows() {
    let bench = Bench::declared(&declaration(3, 3)).await;
    for round in 0..12 {
        append_and_compare(&bench, 0, round).await;
    }
    let mut ids: Vec<_> =
        files(&bench).await.into_values().map(|file| file.row_ids.expect("row ids")).collect();
    ids.sort_by_key(|ids| ids.start);
    assert!(ids.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ids:?}");
    let next = bench.metadata(TABLE).next_row_id();
    assert!(ids.iter().all(|ids| ids.end <= next), "{ids:?} {next}");
}

/// A table that another engine deletes rows of, by position and by equality, and whose partitioning
/// changes in between. Sequence numbers say which deletes apply to which files.
#[tokio::test]
async fn deletes_of_another_engine_apply_as_before() {
    let bench = Bench::declared(&declaration(2, 4)).await;
    let mut expected = Vec::new();
    for round in 0..3 {
        append(&bench, 0, round).await;
        append(&bench, 1, round).await;
    }
    let first = files(&bench).await.into_keys().next().expect("a file");
    let held: Vec<_> =
        entries(&bench).await.into_iter().map(|(_, entry)| entry.file_path().to_owned()).collect();
    assert!(held.contains(&first));
    let seen = visible(&bench).await;
    delete_positions(&bench, &[(&first, 1)]).await;
    assert_eq!(visible(&bench).await.len(), seen.len() - 1);
    delete_equal(&bench, 1).await;
    expected.extend(visible(&bench).await);
    assert!(expected.iter().all(|(partition, _)| *partition == 0) && expected.len() >= 8, "{expected:?}");
    let deletes: Vec<_> = delete_manifests(&bench).await;
    assert_eq!(deletes.len(), 2);
    repartition(&bench, 1).await;
    let mut merges = 0;
    for round in 3..15 {
        merges += usize::from(append_and_compare(&bench, 1, round).await);
        expected.extend(bench::keys(1, round * 3..round * 3 + 3));
        assert_eq!(visible(&bench).await, expected, "round {round}");
        assert_eq!(delete_manifests(&bench).await, deletes, "delete manifests stay as they are");
    }
    assert!(merges >= 3, "{merges} merges");
    let specs: Vec<_> = manifests(&bench).await.iter().map(|one| one.partition_spec_id).collect();
    assert!(specs.contains(&0) && specs.contains(&1), "{specs:?}");
}

async fn delete_manifests(bench: &Bench) -> Vec<ManifestFile> {
    let mut manifests = manifests(bench).await;
    manifests.retain(|one| one.content == ManifestContentType::Deletes);
    manifests
}

/// Manifests that the committer read so far.
fn reads(bench: &Bench) -> Vec<String> {
    let calls = bench.store.calls().into_iter().filter(|call| call.operation == Operation::Get);
    calls
        .map(|call| call.location.to_string())
        .filter(|path| path.contains("-m") && path.ends_with(".avro"))
        .collect()
}

/// Case T41: a table with thousands of manifests of another engine. An append reads none of them; they are
/// not even there.
#[tokio::test]
async fn appending_reads_no_manifest_of_another_engine() {
    let bench = Bench::new().await;
    append(&bench, 0, 0).await;
    let template = manifests(&bench).await.remove(0);
    let others = (0..5_000).map(|number| ManifestFile {
        manifest_path: format!("s3://lake/analytics/clicks/metadata/other-m{number}.avro"),
        manifest_length: 5_000,
        ..template.clone()
    });
    crate::other_engine::replace_manifests(&bench, others.collect()).await;
    let before = reads(&bench).len();
    for round in 1..4 {
        append(&bench, 0, round).await;
    }
    assert!(reads(&bench)[before..].is_empty());
    assert_eq!(manifests(&bench).await.len(), 5_003);
}

/// Case T41: our own manifests are read now and then, each commit a bounded number.
#[tokio::test]
async fn our_own_manifests_are_read_now_and_then() {
    let bench = Bench::declared(&declaration(2, 10)).await;
    let mut reading = 0;
    let mut total = 0;
    for round in 0..60 {
        let before = reads(&bench).len();
        append(&bench, 0, round).await;
        let read = reads(&bench).len() - before;
        assert!(read <= 12, "{read} manifests read in one commit");
        reading += usize::from(read > 0);
        total += read;
    }
    assert!((3..=8).contains(&reading), "{reading} of 60 commits read manifests");
    assert!(total <= 90, "{total} manifests read");
    let off = Bench::declared(r#"properties = { "commit.manifest-merge.enabled" = "false", "commit.manifest.min-count-to-merge" = "2" },"#).await;
    for round in 0..6 {
        append(&off, 0, round).await;
    }
    assert_eq!((reads(&off).len(), manifests(&off).await.len()), (0, 6));
}

/// A manifest that can't be read, or that is not what the list says, leaves all as it is.
#[tokio::test]
async fn a_merge_that_fails_never_fails_the_append() {
    for is_another in [false, true] {
        let bench = Bench::declared(&declaration(2, 4)).await;
        bench.send(&bench.batch(records(1, 0..5), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
        for round in 0..3 {
            append(&bench, 0, round).await;
        }
        let places: Vec<_> = manifests(&bench).await.into_iter().map(|one| one.manifest_path).collect();
        let place = |index: usize| Location::parse(&places[index]).expect("a location");
        let body = bench.store.peek(&place(1)).expect("it is there");
        bench.store.remove(&place(1));
        if is_another {
            let another = bench.store.peek(&place(3)).expect("it is there");
            bench.store.put(&place(1), another).await.expect("it puts");
        }
        append(&bench, 0, 3).await;
        let list = manifests(&bench).await;
        assert_eq!(list.len(), 5, "one more, none merged");
        assert!(places.iter().all(|place| list.iter().any(|one| &one.manifest_path == place)));
        bench.store.put(&place(1), body).await.expect("it puts");
        let expected = [bench::keys(0, 0..12), bench::keys(1, 0..5)].concat();
        assert_eq!(bench.rows().await, expected, "nothing is lost");
        assert!(append_and_compare(&bench, 0, 4).await, "merged once it can be read");
        assert_eq!(manifests(&bench).await.len(), 2);
    }
}

async fn repartition(bench: &Bench, buckets: u32) {
    let spec = UnboundPartitionSpec::builder().add_partition_field(
        2,
        format!("o_bucket_{buckets}"),
        Transform::Bucket(buckets),
    );
    let update = TableUpdate::AddSpec { spec: spec.expect("a spec").build() };
    bench.update(vec![update, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
}

async fn live_through(version: u32, steps: &[u8]) {
    let bench = Bench::declared(&declaration(version, 3)).await;
    let (mut expected, mut partitions) = (Vec::new(), 0);
    for (round, step) in (0_i64..).zip(steps) {
        match step {
            0 if version == 2 => {
                delete_equal(&bench, 0).await;
                expected.retain(|(partition, _)| *partition != 0);
            }
            1 => {
                partitions += 1;
                repartition(&bench, partitions).await;
            }
            partition => {
                let partition = i32::from(partition % 2);
                let before = files(&bench).await;
                append(&bench, partition.into(), round).await;
                let after = files(&bench).await;
                assert!(before.iter().all(|(path, standing)| after.get(path) == Some(standing)));
                expected.extend(bench::keys(partition, round * 3..round * 3 + 3));
            }
        }
        expected.sort_unstable();
        assert_eq!(visible(&bench).await, expected, "{version} {steps:?}, step {round}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Appends, deletes of another engine and new partitionings in any order: after each, every file that
    /// stood before stands as before, and a reader sees each row that is not deleted.
    #[test]
    fn files_stand_as_they_stood_whatever_happens(version in 2_u32..=3, steps in prop::collection::vec(0_u8..8, 4..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(live_through(version, &steps));
    }
}
