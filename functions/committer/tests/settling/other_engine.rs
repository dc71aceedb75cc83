//! Another engine that deletes rows of our table, and a reader that knows about deletes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use bytes::Bytes;
use iceberg::TableUpdate;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, MAIN_BRANCH, ManifestContentType,
    ManifestEntryRef, ManifestFile, ManifestList, ManifestListWriter, ManifestWriterBuilder, Operation,
    Snapshot, SnapshotReference, SnapshotRetention, Summary,
};
use icefall_datafile::read;
use icefall_store::{Location, ObjectStore, file_io};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::bench::{Bench, Key, TABLE};

const PATH_ID: i32 = i32::MAX - 101;
const POSITION_ID: i32 = i32::MAX - 102;

pub(crate) fn tables(bench: &Bench) -> FileIO {
    file_io(Arc::clone(&bench.store) as Arc<dyn ObjectStore>)
}

/// The manifests of the table's current snapshot.
pub(crate) async fn manifests(bench: &Bench) -> Vec<ManifestFile> {
    let metadata = bench.metadata(TABLE);
    let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
    let bytes =
        tables(bench).new_input(snapshot.manifest_list()).expect("a list").read().await.expect("it reads");
    let list = ManifestList::parse_with_version(&bytes, metadata.format_version()).expect("a manifest list");
    list.consume_entries().into_iter().collect()
}

/// Live entries, each with its manifest.
pub(crate) async fn entries(bench: &Bench) -> Vec<(ManifestFile, ManifestEntryRef)> {
    let mut found = Vec::new();
    for file in manifests(bench).await {
        let manifest = file.load_manifest(&tables(bench)).await.expect("a manifest");
        let live = manifest.entries().iter().filter(|entry| entry.is_alive());
        found.extend(live.map(|entry| (file.clone(), Arc::clone(entry))));
    }
    found
}

/// Deletes rows of data files by their positions.
pub(crate) async fn delete_positions(bench: &Bench, rows: &[(&str, i64)]) {
    let paths: ArrayRef = Arc::new(rows.iter().map(|(path, _)| Some(*path)).collect::<StringArray>());
    let positions: ArrayRef = Arc::new(rows.iter().map(|(_, position)| *position).collect::<Int64Array>());
    let fields = [field("file_path", DataType::Utf8, PATH_ID), field("pos", DataType::Int64, POSITION_ID)];
    let mut file = put(bench, fields.to_vec(), vec![paths, positions]).await;
    commit(bench, file.content(DataContentType::PositionDeletes).build().expect("a file")).await;
}

/// Deletes the rows whose `p` is `p`, wherever they are.
pub(crate) async fn delete_equal(bench: &Bench, p: i32) {
    let values: ArrayRef = Arc::new(Int32Array::from(vec![p]));
    let mut file = put(bench, vec![field("p", DataType::Int32, 1)], vec![values]).await;
    let file = file.content(DataContentType::EqualityDeletes).equality_ids(Some(vec![1]));
    commit(bench, file.build().expect("a file")).await;
}

/// Rows that a reader sees, sorted, by the rules of the specification ("Scan Planning").
pub(crate) async fn visible(bench: &Bench) -> Vec<Key> {
    let entries = entries(bench).await;
    let schema = Arc::clone(bench.metadata(TABLE).current_schema());
    let sequence = |entry: &ManifestEntryRef| entry.sequence_number().expect("a sequence number");
    let mut positions: HashMap<(String, i64), i64> = HashMap::new();
    let mut equal: HashMap<i32, i64> = HashMap::new();
    for (_, entry) in &entries {
        let rows = || raw_rows(bench, entry.file_path());
        match entry.content_type() {
            DataContentType::Data => {}
            DataContentType::PositionDeletes => {
                let rows = rows();
                let places = rows.column(0).as_string::<i32>().iter().flatten().map(str::to_owned);
                for place in places.zip(rows.column(1).as_primitive::<Int64Type>().values().iter().copied()) {
                    let newest = positions.entry(place).or_default();
                    *newest = sequence(entry).max(*newest);
                }
            }
            DataContentType::EqualityDeletes => {
                for p in rows().column(0).as_primitive::<Int32Type>().values() {
                    let newest = equal.entry(*p).or_default();
                    *newest = sequence(entry).max(*newest);
                }
            }
        }
    }
    let mut visible = Vec::new();
    for (_, entry) in entries.iter().filter(|(_, entry)| entry.content_type() == DataContentType::Data) {
        let body = bench.store.peek(&Location::parse(entry.file_path()).expect("a location"));
        let rows = read(body.expect("it is there"), &schema).expect("a data file");
        let keys = rows.column(0).as_primitive::<Int32Type>().values().iter().copied();
        for (position, key) in
            (0_i64..).zip(keys.zip(rows.column(1).as_primitive::<Int64Type>().values().iter().copied()))
        {
            let by_position = positions.get(&(entry.file_path().to_owned(), position));
            let is_deleted = by_position.is_some_and(|deleted| sequence(entry) <= *deleted)
                || equal.get(&key.0).is_some_and(|deleted| sequence(entry) < *deleted);
            visible.extend((!is_deleted).then_some(key));
        }
    }
    visible.sort_unstable();
    visible
}

fn field(name: &str, kind: DataType, id: i32) -> Field {
    let metadata = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
    Field::new(name, kind, false).with_metadata(metadata)
}

fn raw_rows(bench: &Bench, path: &str) -> RecordBatch {
    let body = bench.store.peek(&Location::parse(path).expect("a location")).expect("it is there");
    let mut reader =
        ParquetRecordBatchReaderBuilder::try_new(body).expect("Parquet").build().expect("a reader");
    reader.next().expect("rows").expect("rows")
}

async fn put(bench: &Bench, fields: Vec<Field>, columns: Vec<ArrayRef>) -> DataFileBuilder {
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("rows");
    let mut body = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut body, rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("it writes");
    writer.close().expect("it closes");
    let path = format!("{}/data/deletes-{}.parquet", bench.metadata(TABLE).location(), bench.uuid());
    let size = body.len() as u64;
    bench.store.put(&Location::parse(&path).expect("a location"), Bytes::from(body)).await.expect("it puts");
    let mut file = DataFileBuilder::default();
    file.file_path(path)
        .file_format(DataFileFormat::Parquet)
        .partition_spec_id(0)
        .record_count(rows.num_rows() as u64)
        .file_size_in_bytes(size)
        .column_sizes(HashMap::new())
        .value_counts(HashMap::new())
        .null_value_counts(HashMap::new())
        .nan_value_counts(HashMap::new())
        .lower_bounds(HashMap::new())
        .upper_bounds(HashMap::new());
    file
}

/// Commits a file of deletes, of the unpartitioned spec, as another engine does.
async fn commit(bench: &Bench, file: DataFile) {
    let metadata = bench.metadata(TABLE);
    let snapshot_id = metadata.next_sequence_number() + 1_000;
    let spec = metadata.partition_spec_by_id(0).expect("the first spec").as_ref().clone();
    let folder = format!("{}/metadata/other-{snapshot_id}", metadata.location());
    let output = tables(bench).new_output(format!("{folder}-m0.avro")).expect("a path");
    let builder =
        ManifestWriterBuilder::new(output, Some(snapshot_id), Arc::clone(metadata.current_schema()), spec);
    let mut writer = builder.build_v2_deletes();
    writer.add_file(file, -1).expect("an entry");
    let mut list = vec![writer.write_manifest_file().await.expect("a manifest")];
    assert_eq!(list[0].content, ManifestContentType::Deletes);
    list.extend(manifests(bench).await);
    replace_manifests_in(bench, snapshot_id, list).await;
}

/// Makes a snapshot of `list` the table's, as an engine that rewrites manifests does.
pub(crate) async fn replace_manifests(bench: &Bench, list: Vec<ManifestFile>) {
    replace_manifests_in(bench, bench.metadata(TABLE).next_sequence_number() + 1_000, list).await;
}

/// Makes the table anew, empty and without a history, as `REPLACE TABLE` does.
pub(crate) async fn replace_table(bench: &Bench) {
    let snapshot_id = bench.metadata(TABLE).next_sequence_number() + 1_000;
    add_snapshot(bench, snapshot_id, None, Vec::new()).await;
}

async fn replace_manifests_in(bench: &Bench, snapshot_id: i64, list: Vec<ManifestFile>) {
    add_snapshot(bench, snapshot_id, bench.metadata(TABLE).current_snapshot_id(), list).await;
}

async fn add_snapshot(bench: &Bench, snapshot_id: i64, parent: Option<i64>, list: Vec<ManifestFile>) {
    let metadata = bench.metadata(TABLE);
    let sequence_number = metadata.next_sequence_number();
    let folder = format!("{}/metadata/other-{snapshot_id}", metadata.location());
    let location = format!("{folder}-list.avro");
    let output = tables(bench).new_output(&location).expect("a path").writer().await.expect("a writer");
    let mut writer = ManifestListWriter::v2(output, snapshot_id, parent, sequence_number);
    writer.add_manifests(list.into_iter()).expect("manifests");
    writer.close().await.expect("it closes");
    let snapshot = Snapshot::builder()
        .with_snapshot_id(snapshot_id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(sequence_number)
        .with_timestamp_ms(metadata.last_updated_ms())
        .with_manifest_list(location)
        .with_summary(Summary { operation: Operation::Delete, additional_properties: HashMap::new() })
        .with_schema_id(metadata.current_schema_id())
        .build();
    let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
    let main = TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference };
    bench.update(vec![TableUpdate::AddSnapshot { snapshot }, main]).await;
}
