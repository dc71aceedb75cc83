//! The table's own files: how many rows each snapshot's files hold, which rows others' snapshots took out, and, where
//! the table keeps the records' partitions and offsets in columns, which records the rows are.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use bytes::Bytes;
use iceberg::spec::{
    ManifestContentType, ManifestEntryRef, ManifestFile, ManifestList, ManifestStatus, PrimitiveLiteral,
    Schema, SnapshotRef, TableMetadata,
};
use icefall_ledger::SequenceNumber;
use icefall_manifest::{Offset, Partition, Topic};
use icefall_store::{Location, file_io};
use icefall_tables::Table;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ProjectionMask};

use super::counts::{Removal, SnapshotsKnown};
use super::ledgers::RowsBySnapshot;
use super::window::Stretch;
use crate::live_files::live_files;
use crate::{CliError, Desk};

/// The columns of a table that say which record a row is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OffsetColumns {
    pub(crate) partition: i32,
    pub(crate) offset: i32,
    /// Where several topics share the table.
    pub(crate) topic: Option<i32>,
}

impl OffsetColumns {
    /// Those of these names.
    pub(crate) fn of(schema: &Schema, named: &[String]) -> Result<Self, CliError> {
        let id = |name: &String| {
            let field = schema.as_struct().fields().iter().find(|field| field.name == *name);
            field.map(|field| field.id).ok_or_else(|| {
                CliError::Asked(format!("the table has no column {name:?}; --offset-columns takes its names"))
            })
        };
        match named {
            [partition, offset] => Ok(Self { partition: id(partition)?, offset: id(offset)?, topic: None }),
            [partition, offset, topic] => {
                Ok(Self { partition: id(partition)?, offset: id(offset)?, topic: Some(id(topic)?) })
            }
            _ => Err(CliError::Asked(
                "--offset-columns takes PARTITION,OFFSET or PARTITION,OFFSET,TOPIC".to_owned(),
            )),
        }
    }
}

/// A data file of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    /// Its size in bytes, as the manifest says.
    pub(crate) size: u64,
    pub(crate) rows: u64,
    /// Of the snapshot that added this very file. (Rows that were rewritten may keep an older number as data.)
    pub(crate) sequence_number: SequenceNumber,
    /// The lowest and highest offset in it, if its metrics have them.
    offsets: Option<(i64, i64)>,
    /// Whether the store has another object there, or none: then its rows can't be read.
    pub(crate) is_broken: bool,
}

/// What a branch's newest snapshot names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    pub(crate) files: Vec<File>,
    pub(crate) delete_files: u64,
}

impl Files {
    /// The files of `table`.
    pub(crate) async fn of(
        desk: &Desk,
        table: &Table,
        columns: Option<&OffsetColumns>,
    ) -> Result<Self, CliError> {
        let metadata: &TableMetadata = &table.metadata;
        let Some(snapshot) = metadata.snapshot_for_ref(table.branch.as_str()) else {
            return Ok(Self::default());
        };
        let mut found = Self::default();
        for (content, entry) in live_files(desk, metadata, snapshot, |_| true).await? {
            match content {
                ManifestContentType::Deletes => found.delete_files += 1,
                ManifestContentType::Data => found.files.push(File {
                    path: entry.file_path().to_owned(),
                    size: entry.file_size_in_bytes(),
                    rows: entry.record_count(),
                    sequence_number: added_by(&entry),
                    is_broken: false,
                    offsets: columns.and_then(|columns| bounds(entry.data_file(), columns.offset)),
                }),
            }
        }
        Ok(found)
    }

    /// How many rows there are, by the sequence number of the snapshot that added them.
    pub(crate) fn rows(&self) -> RowsBySnapshot {
        self.files.iter().fold(RowsBySnapshot::new(), |mut rows, file| {
            *rows.entry(file.sequence_number).or_default() += file.rows;
            rows
        })
    }

    /// Which records of `window` the rows are, per partition in the order of offsets.
    pub(crate) async fn named_rows(
        &self,
        desk: &Desk,
        columns: &OffsetColumns,
        topic: &Topic,
        window: &[Stretch],
    ) -> Result<NamedRows, CliError> {
        let mut named = NamedRows::default();
        let meets = |file: &&File| {
            let Some((lowest, highest)) = file.offsets else { return true };
            window.iter().any(|stretch| lowest < stretch.positions.end && stretch.positions.start <= highest)
        };
        for file in self.files.iter().filter(|file| !file.is_broken).filter(meets) {
            let location = Location::parse(&file.path)
                .map_err(|fault| CliError::Asked(format!("{}: {fault}", file.path)))?;
            let bytes = desk.tables.get(&location).await.map_err(CliError::Tables)?;
            let unreadable = |why: Box<dyn std::error::Error + Send + Sync>| CliError::File {
                path: file.path.clone(),
                why,
            };
            named.take(bytes, columns, topic, window).map_err(unreadable)?;
        }
        named.offsets.values_mut().for_each(|offsets| offsets.sort_unstable());
        Ok(named)
    }
}

/// The snapshot that added the file, by its sequence number.
fn added_by(entry: &ManifestEntryRef) -> SequenceNumber {
    SequenceNumber(entry.file_sequence_number.or(entry.sequence_number()).unwrap_or_default())
}

/// What others' snapshots on the branch took out, as far as its metadata still shows them.
pub(crate) async fn removals(
    desk: &Desk,
    table: &Table,
    known: &SnapshotsKnown,
) -> Result<Vec<Removal>, CliError> {
    let metadata: &TableMetadata = &table.metadata;
    let mut found = Vec::new();
    let mut next = metadata.snapshot_for_ref(table.branch.as_str());
    while let Some(snapshot) = next {
        let by = known.get(&SequenceNumber(snapshot.sequence_number()));
        if let Some(by) = by.filter(|by| !by.is_ours && by.operation != "append") {
            let rows = removed(desk, metadata, snapshot).await?;
            found.push(Removal { snapshot: snapshot.snapshot_id(), operation: by.operation, rows });
        }
        next = snapshot.parent_snapshot_id().and_then(|parent| metadata.snapshot_by_id(parent));
    }
    Ok(found)
}

/// How many rows lay in the files that `snapshot` removed, by the snapshot that had added these.
async fn removed(
    desk: &Desk,
    metadata: &TableMetadata,
    snapshot: &SnapshotRef,
) -> Result<RowsBySnapshot, CliError> {
    let file_io = file_io(Arc::clone(&desk.tables));
    let list = file_io.new_input(snapshot.manifest_list())?.read().await?;
    let list = ManifestList::parse_with_version(&list, metadata.format_version())?;
    let id = snapshot.snapshot_id();
    let is_meant = |manifest: &&ManifestFile| {
        manifest.content == ManifestContentType::Data
            && manifest.added_snapshot_id == id
            && manifest.deleted_files_count != Some(0)
    };
    let mut rows = RowsBySnapshot::new();
    for manifest in list.entries().iter().filter(is_meant) {
        let manifest = manifest.load_manifest(&file_io).await?;
        for entry in manifest.entries().iter().filter(|entry| entry.status() == ManifestStatus::Deleted) {
            *rows.entry(added_by(entry)).or_default() += entry.record_count();
        }
    }
    Ok(rows)
}

fn bounds(file: &iceberg::spec::DataFile, field: i32) -> Option<(i64, i64)> {
    let of =
        |bounds: &std::collections::HashMap<i32, iceberg::spec::Datum>| match bounds.get(&field)?.literal() {
            PrimitiveLiteral::Long(value) => Some(*value),
            PrimitiveLiteral::Int(value) => Some(i64::from(*value)),
            _ => None,
        };
    Some((of(file.lower_bounds())?, of(file.upper_bounds())?))
}

/// Rows by what their offset columns say.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedRows {
    pub(crate) offsets: BTreeMap<Partition, Vec<Offset>>,
    /// Rows whose columns say nothing: older than the columns, perhaps.
    pub(crate) unnamed: u64,
}

impl NamedRows {
    fn take(
        &mut self,
        file: Bytes,
        columns: &OffsetColumns,
        topic: &Topic,
        window: &[Stretch],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let root = |id: i32| {
            let id = id.to_string();
            let fields = builder.schema().fields();
            fields.iter().position(|field| field.metadata().get(PARQUET_FIELD_ID_META_KEY) == Some(&id))
        };
        let roots = (root(columns.partition), root(columns.offset), columns.topic.map(root));
        let (Some(partition), Some(offset), None | Some(Some(_))) = roots else {
            self.unnamed += u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or_default();
            return Ok(());
        };
        let topic_root = roots.2.flatten();
        let mask = ProjectionMask::roots(
            builder.parquet_schema(),
            [partition, offset].into_iter().chain(topic_root),
        );
        // What is read keeps the order that it has in the file.
        let place = |root: usize| {
            [Some(partition), Some(offset), topic_root]
                .into_iter()
                .flatten()
                .filter(|other| *other < root)
                .count()
        };
        for batch in builder.with_projection(mask).build()? {
            let batch: RecordBatch = batch?;
            let topics = topic_root.map(|root| batch.column(place(root)));
            let (partitions, offsets) = (batch.column(place(partition)), batch.column(place(offset)));
            for row in 0..batch.num_rows() {
                let of_topic = topics.is_none_or(|topics| text(topics, row) == Some(topic.as_str()));
                let named = (number(partitions, row), number(offsets, row));
                match named {
                    (Some(partition), Some(offset)) if of_topic => self.put(partition, offset, window),
                    (Some(_), Some(_)) => {}
                    _ => self.unnamed += 1,
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, partition: i64, offset: i64, window: &[Stretch]) {
        let is_meant = |stretch: &&Stretch| {
            i64::from(stretch.partition.number()) == partition && stretch.positions.contains(&offset)
        };
        if let (Some(stretch), Some(offset)) = (window.iter().find(is_meant), Offset::new(offset)) {
            self.offsets.entry(stretch.partition).or_default().push(offset);
        }
    }
}

fn number(column: &ArrayRef, row: usize) -> Option<i64> {
    if column.is_null(row) {
        return None;
    }
    let long = column.as_primitive_opt::<Int64Type>().map(|values| values.value(row));
    long.or_else(|| column.as_primitive_opt::<Int32Type>().map(|values| values.value(row).into()))
}

fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    let short = column.as_string_opt::<i32>().filter(|values| values.is_valid(row));
    let long = column.as_string_opt::<i64>().filter(|values| values.is_valid(row));
    short.map(|values| values.value(row)).or_else(|| long.map(|values| values.value(row)))
}
