//! What stands in a pipeline's tables, read from the files that their snapshots name.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use iceberg::TableIdent;
use iceberg::spec::{ManifestList, SnapshotRef, TableMetadata};
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

/// Partition, offset and error class of all dead letters, sorted.
///
/// # Panics
///
/// When something that the table names can't be read.
pub async fn dead_letters(parts: &Parts) -> Vec<(i32, i64, String)> {
    let name = &parts.settings.dead_letters;
    let namespace = iceberg::NamespaceIdent::from_vec(name.namespace().to_vec()).expect("a namespace");
    let metadata = metadata(parts, &TableIdent::new(namespace, name.name().to_owned())).await;
    let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
    let mut letters = Vec::new();
    for rows in files(parts, &metadata, snapshot).await {
        let column = |name| rows.column_by_name(name).expect("the table has this column");
        let partitions = column("partition").as_primitive::<Int32Type>().values();
        let offsets = column("offset").as_primitive::<Int64Type>().values();
        let classes = column("error_class").as_string::<i32>();
        let places = partitions.iter().zip(offsets).zip(classes.iter().flatten());
        letters.extend(places.map(|((partition, offset), class)| (*partition, *offset, class.to_owned())));
    }
    letters.sort_unstable();
    letters
}

/// The table's metadata, all snapshots included.
///
/// # Panics
///
/// When it can't be loaded.
pub async fn metadata(parts: &Parts, table: &TableIdent) -> Arc<TableMetadata> {
    parts.catalog.load_table(table, Snapshots::All).await.expect("the table loads").metadata
}

async fn files(
    parts: &Parts,
    metadata: &TableMetadata,
    snapshot: &SnapshotRef,
) -> Vec<arrow::array::RecordBatch> {
    let file_io = file_io(Arc::clone(&parts.tables));
    let list = file_io.new_input(snapshot.manifest_list()).expect("a list").read().await.expect("it reads");
    let list = ManifestList::parse_with_version(&list, metadata.format_version()).expect("a manifest list");
    let mut files = Vec::new();
    for manifest in list.entries() {
        let manifest = manifest.load_manifest(&file_io).await.expect("a manifest");
        for entry in manifest.entries() {
            let location = Location::parse(entry.file_path()).expect("a location");
            let bytes = parts.tables.get(&location).await.expect("the file is there");
            files.push(read(bytes, metadata.current_schema()).expect("a data file"));
        }
    }
    files
}
