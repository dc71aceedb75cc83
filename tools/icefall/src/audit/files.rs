//! The table's own files: how many rows each snapshot's files hold, held against the ledgers' rows; and, where the table
//! keeps the records' partitions and offsets in columns, which records those rows are.
//!
//! An Icefall snapshot's rows stand in data files of its sequence number, so ledger and files can be compared snapshot by
//! snapshot. Where others have rewritten files since, only the sums can be; where others append rows, theirs are told apart
//! by their snapshots as long as these are still known.

use std::collections::BTreeMap;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use bytes::Bytes;
use iceberg::spec::{ManifestContentType, Operation, PrimitiveLiteral, Schema, SnapshotRef, TableMetadata};
use icefall_ledger::SequenceNumber;
use icefall_manifest::{Offset, Partition, Topic};
use icefall_store::Location;
use icefall_tables::{SOURCES_KEY, Table};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ProjectionMask};
use serde::Serialize;

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
struct File {
    path: String,
    rows: u64,
    sequence_number: SequenceNumber,
    /// The lowest and highest offset in it, if its metrics have them.
    offsets: Option<(i64, i64)>,
}

/// What a branch's newest snapshot names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    files: Vec<File>,
    delete_files: u64,
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
                    rows: entry.record_count(),
                    sequence_number: SequenceNumber(entry.sequence_number().unwrap_or_default()),
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
        for file in self.files.iter().filter(meets) {
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

/// What the counts of rows could prove.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CountProof {
    /// The files of each snapshot hold as many rows as the ledgers say that it settled.
    BySnapshot,
    /// Files were rewritten since: those that are left hold as many rows as the ledgers say, in total.
    InTotal,
    /// They don't.
    None,
}

/// A snapshot whose files hold more or fewer rows than it settled.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Uneven {
    pub(crate) sequence_number: SequenceNumber,
    /// The snapshot's id, while the table still knows it.
    pub(crate) snapshot: Option<i64>,
    /// What it did, as its summary says.
    pub(crate) operation: Option<&'static str>,
    pub(crate) settled: u64,
    pub(crate) in_files: u64,
}

/// The table's files, counted.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Counted {
    pub(crate) table: String,
    pub(crate) proof: CountProof,
    /// Rows that the ledgers of all sources hold for this branch.
    pub(crate) settled: u64,
    /// Rows in its files.
    pub(crate) in_files: u64,
    /// Rows that the files lack.
    pub(crate) lost: u64,
    /// Rows that the files have and no ledger does.
    pub(crate) surplus: u64,
    /// Rows that others appended in snapshots of their own.
    pub(crate) appended_by_others: u64,
    /// Delete files: rows that they hide are still counted.
    pub(crate) delete_files: u64,
    pub(crate) uneven: Vec<Uneven>,
}

/// What is known of a snapshot by its sequence number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Known {
    pub(crate) id: i64,
    pub(crate) operation: &'static str,
    pub(crate) is_ours: bool,
}

/// The snapshots that `metadata` shows.
pub(crate) fn known(metadata: &TableMetadata) -> BTreeMap<SequenceNumber, Known> {
    let one = |snapshot: &SnapshotRef| {
        let summary = snapshot.summary();
        let operation = match summary.operation {
            Operation::Append => "append",
            Operation::Replace => "replace",
            Operation::Overwrite => "overwrite",
            Operation::Delete => "delete",
        };
        let is_ours = summary.additional_properties.contains_key(SOURCES_KEY);
        let known = Known { id: snapshot.snapshot_id(), operation, is_ours };
        (SequenceNumber(snapshot.sequence_number()), known)
    };
    metadata.snapshots().map(one).collect()
}

/// Holds the rows in `files` against those that were `settled` here, and those that other branches settled, whose files
/// this one may have inherited.
pub(crate) fn counted(
    table: String,
    settled: &RowsBySnapshot,
    inherited: &RowsBySnapshot,
    files: &Files,
    known: &BTreeMap<SequenceNumber, Known>,
) -> Counted {
    let in_files = files.rows();
    let mut uneven = Vec::new();
    let (mut lacking, mut having, mut appended_by_others) = (0_u64, 0_u64, 0_u64);
    let mut numbers: Vec<_> = settled.keys().chain(in_files.keys()).copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    for sequence_number in numbers {
        let of = |rows: &RowsBySnapshot| rows.get(&sequence_number).copied().unwrap_or_default();
        let (here, there) = (of(settled), of(&in_files));
        if here == there || (here == 0 && of(inherited) == there) {
            continue;
        }
        let snapshot = known.get(&sequence_number);
        if here == 0 && snapshot.is_some_and(|snapshot| !snapshot.is_ours && snapshot.operation == "append") {
            appended_by_others += there;
        } else {
            lacking += here;
            having += there;
        }
        uneven.push(Uneven {
            sequence_number,
            snapshot: snapshot.map(|snapshot| snapshot.id),
            operation: snapshot.map(|snapshot| snapshot.operation),
            settled: here,
            in_files: there,
        });
    }
    let (lost, surplus) = (lacking.saturating_sub(having), having.saturating_sub(lacking));
    let proof = match (lost + surplus, lacking) {
        (0, 0) => CountProof::BySnapshot,
        (0, _) => CountProof::InTotal,
        _ => CountProof::None,
    };
    Counted {
        table,
        proof,
        settled: settled.values().sum(),
        in_files: in_files.values().sum(),
        lost,
        surplus,
        appended_by_others,
        delete_files: files.delete_files,
        uneven,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(i64, u64)]) -> RowsBySnapshot {
        of.iter().map(|(number, rows)| (SequenceNumber(*number), *rows)).collect()
    }

    fn files(of: &[(i64, u64)]) -> Files {
        let file = |(number, rows): &(i64, u64)| File {
            path: String::new(),
            rows: *rows,
            sequence_number: SequenceNumber(*number),
            offsets: None,
        };
        Files { files: of.iter().map(file).collect(), delete_files: 0 }
    }

    fn compared(settled: &[(i64, u64)], in_files: &[(i64, u64)], others: &[(i64, &'static str)]) -> Counted {
        let other = |(number, operation): &(i64, &'static str)| {
            (SequenceNumber(*number), Known { id: *number, operation, is_ours: false })
        };
        let known = others.iter().map(other).collect();
        counted("a.b".to_owned(), &rows(settled), &rows(&[(9, 4)]), &files(in_files), &known)
    }

    #[test]
    fn as_many_rows_in_each_snapshot_is_the_best_proof() {
        let all = compared(&[(1, 5), (2, 7)], &[(1, 2), (1, 3), (2, 7)], &[]);
        assert_eq!((all.proof, all.settled, all.in_files), (CountProof::BySnapshot, 12, 12));
        assert!(all.uneven.is_empty());
        assert_eq!(compared(&[(1, 5)], &[(1, 5), (9, 4)], &[]).proof, CountProof::BySnapshot, "inherited");
    }

    #[test]
    fn compacted_files_are_compared_by_their_sum() {
        let all = compared(&[(1, 5), (2, 7), (4, 1)], &[(3, 12), (4, 1)], &[(3, "replace")]);
        assert_eq!((all.proof, all.lost, all.surplus), (CountProof::InTotal, 0, 0));
    }

    #[test]
    fn what_is_lost_doubled_or_somebody_elses_is_told_apart() {
        let lost = compared(&[(1, 5), (2, 7)], &[(1, 5)], &[]);
        assert_eq!((lost.proof, lost.lost, lost.uneven.len()), (CountProof::None, 7, 1));
        let doubled = compared(&[(1, 5)], &[(1, 5), (2, 5)], &[]);
        assert_eq!((doubled.proof, doubled.surplus), (CountProof::None, 5));
        let theirs = compared(&[(1, 5)], &[(1, 5), (2, 5)], &[(2, "append")]);
        assert_eq!((theirs.proof, theirs.appended_by_others), (CountProof::BySnapshot, 5));
        let both = compared(&[(1, 5)], &[(1, 0), (2, 5)], &[(2, "append")]);
        assert_eq!((both.proof, both.lost, both.appended_by_others), (CountProof::None, 5, 5));
    }
}
