//! What stands in a pipeline's tables, read from the files that their snapshots name.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use iceberg::TableIdent;
use iceberg::spec::{ManifestFile, ManifestList, SnapshotRef, TableMetadata};
use icefall_catalog::Snapshots;
use icefall_datafile::read;
use icefall_parts::Parts;
use icefall_store::{Location, file_io};

/// The event ids of a snapshot's rows, sorted; a doubled row stands twice.
///
/// # Panics
///
/// When something that the snapshot names can't be read.
pub async fn event_ids(parts: &Parts, table: &TableIdent, snapshot: &SnapshotRef) -> Vec<String> {
    let mut ids = Vec::new();
    let metadata = metadata(parts, table).await;
    for rows in files(parts, &metadata, snapshot).await {
        let column = rows.column_by_name("event_id").expect("the table has event ids");
        ids.extend(column.as_string::<i32>().iter().flatten().map(str::to_owned));
    }
    ids.sort_unstable();
    ids
}

/// A dead letter as a reader of its table sees it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DeadLetterRow {
    /// The record's partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its Kafka timestamp in milliseconds.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Why it is no row, by class.
    pub error_class: String,
    /// And in words.
    pub error_text: String,
}

/// Partition, offset and error class of all dead letters, sorted.
///
/// # Panics
///
/// When something that the table names can't be read.
pub async fn dead_letters(parts: &Parts) -> Vec<(i32, i64, String)> {
    let rows = dead_letter_rows(parts).await;
    rows.into_iter().map(|row| (row.partition, row.offset, row.error_class)).collect()
}

/// All dead letters, sorted.
///
/// # Panics
///
/// When something that the table names can't be read.
pub async fn dead_letter_rows(parts: &Parts) -> Vec<DeadLetterRow> {
    let name = &parts.settings.dead_letters;
    let namespace = iceberg::NamespaceIdent::from_vec(name.namespace().to_vec()).expect("a namespace");
    let metadata = metadata(parts, &TableIdent::new(namespace, name.name().to_owned())).await;
    let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
    let files = files(parts, &metadata, snapshot).await;
    let mut letters: Vec<_> =
        files.iter().flat_map(|rows| (0..rows.num_rows()).map(|row| dead_letter(rows, row))).collect();
    letters.sort_unstable();
    letters
}

fn dead_letter(rows: &RecordBatch, row: usize) -> DeadLetterRow {
    let column = |name| rows.column_by_name(name).expect("the table has this column");
    let bytes = |name| {
        let values = column(name).as_binary::<i64>();
        values.is_valid(row).then(|| values.value(row).to_vec())
    };
    let text = |name| column(name).as_string::<i32>().value(row).to_owned();
    let times = column("timestamp").as_primitive::<TimestampMicrosecondType>();
    DeadLetterRow {
        partition: column("partition").as_primitive::<Int32Type>().value(row),
        offset: column("offset").as_primitive::<Int64Type>().value(row),
        timestamp_ms: times.is_valid(row).then(|| times.value(row) / 1_000),
        key: bytes("key"),
        value: bytes("value"),
        error_class: text("error_class"),
        error_text: text("error_text"),
    }
}

/// The table's metadata, all snapshots included.
///
/// # Panics
///
/// When it can't be loaded.
pub async fn metadata(parts: &Parts, table: &TableIdent) -> Arc<TableMetadata> {
    parts.catalog.load_table(table, Snapshots::All).await.expect("the table loads").metadata
}

/// The manifests of the table's current snapshot.
///
/// # Panics
///
/// When their list can't be read.
pub async fn manifests(parts: &Parts, table: &TableIdent) -> Vec<ManifestFile> {
    let metadata = metadata(parts, table).await;
    let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
    manifests_of(parts, &metadata, snapshot).await
}

async fn manifests_of(parts: &Parts, metadata: &TableMetadata, snapshot: &SnapshotRef) -> Vec<ManifestFile> {
    let file_io = file_io(Arc::clone(&parts.tables));
    let list = file_io.new_input(snapshot.manifest_list()).expect("a list").read().await.expect("it reads");
    let list = ManifestList::parse_with_version(&list, metadata.format_version()).expect("a manifest list");
    list.consume_entries().into_iter().collect()
}

async fn files(parts: &Parts, metadata: &TableMetadata, snapshot: &SnapshotRef) -> Vec<RecordBatch> {
    let file_io = file_io(Arc::clone(&parts.tables));
    let mut files = Vec::new();
    for manifest in manifests_of(parts, metadata, snapshot).await {
        let manifest = manifest.load_manifest(&file_io).await.expect("a manifest");
        for entry in manifest.entries() {
            let location = Location::parse(entry.file_path()).expect("a location");
            let bytes = parts.tables.get(&location).await.expect("the file is there");
            files.push(read(bytes, metadata.current_schema()).expect("a data file"));
        }
    }
    files
}
