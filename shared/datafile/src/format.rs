//! A table made ready to write files of.

use std::collections::HashMap;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::error::ArrowError;
use bytes::Bytes;
use iceberg::spec::{PartitionSpec, Schema};
use icefall_manifest::DataFileEntry;
use parquet::errors::ParquetError;
use thiserror::Error;

use crate::checksum::checksum;
use crate::metrics::{ColumnMetrics, MetricsPlan};
use crate::parquet_file::{ParquetSettings, WrittenParquet};
use crate::partition::{Group, Partitioning};

/// Why no file can be written for a table, whatever the rows.
#[derive(Debug, Error)]
pub enum UnsupportedTable {
    /// A transform that this version does not compute.
    #[error("partition field {field} uses {transform}, which can't be written: {rule}")]
    Transform {
        /// The partition field.
        field: String,
        /// Its transform.
        transform: String,
        /// What stands against it.
        rule: String,
    },
    /// A partition field on a column that is not in the schema, or within a list or a map.
    #[error(
        "partition field {0} is on no column of the schema and on no field of a struct, so a row has no one value of it"
    )]
    NestedSource(String),
    /// A table property that asks for something else than this version writes.
    #[error("table property {key} = {value:?}: {rule}")]
    Property {
        /// The property's key.
        key: String,
        /// Its value.
        value: String,
        /// What it may be.
        rule: &'static str,
    },
    /// The table's metadata contradicts itself.
    #[error("the table's metadata can't be used")]
    Metadata(#[source] Box<iceberg::Error>),
    /// The schema has no counterpart in Parquet.
    #[error("the schema has no counterpart in Parquet")]
    Parquet(#[source] ParquetError),
}

/// The rows could not be made into files. It takes rows of another schema, or a fault in this crate.
#[derive(Debug, Error)]
pub enum DataFileError {
    /// The batch has not the columns of the table.
    #[error("the rows have no column for field {0}")]
    MissingColumn(i32),
    /// A value so far from the epoch that the transform has no result for it, or a column of a type that the
    /// table's schema does not give it.
    #[error("a row has no partition: {transform} of partition field {field} has no result for its value")]
    NoPartition {
        /// The partition field.
        field: String,
        /// Its transform.
        transform: String,
    },
    /// A batch of more rows than a file can trace.
    #[error("{0} rows are too many for one batch")]
    TooManyRows(usize),
    /// Not the bytes that were written.
    #[error("the file is damaged: it has {found} bytes that don't add up to what was written as {expected}")]
    Damaged {
        /// Bytes that were written.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// The table's schema has no counterpart in Arrow.
    #[error("the schema has no counterpart in Arrow")]
    Schema(#[source] Box<iceberg::Error>),
    /// Arrow refused.
    #[error("the rows can't be split by partition")]
    Arrow(#[from] ArrowError),
    /// The Parquet writer refused.
    #[error("the Parquet file can't be written")]
    Parquet(#[from] ParquetError),
}

/// A data file that is not stored yet.
#[derive(Clone, Debug)]
pub struct NewDataFile {
    /// What a manifest says about it.
    pub entry: DataFileEntry,
    /// Its content.
    pub bytes: Bytes,
    /// Which rows of the batch it holds: row `i` of the file is row `rows[i]` of the batch.
    pub rows: Vec<u32>,
}

/// A table's schema, partition spec and write properties.
#[derive(Debug)]
pub struct FileFormat {
    partitioning: Partitioning,
    parquet: ParquetSettings,
    metrics: MetricsPlan,
}

impl FileFormat {
    /// Makes ready to write files with `schema` and `spec`.
    ///
    /// Of the table's `properties` these count: `write.parquet.compression-codec`, `-level`,
    /// `write.parquet.row-group-limit`, `write.metadata.metrics.default` and `….column.<name>`.
    pub fn new(
        schema: &Schema,
        spec: &PartitionSpec,
        properties: &HashMap<String, String>,
    ) -> Result<Self, UnsupportedTable> {
        Ok(Self {
            partitioning: Partitioning::new(schema, spec)?,
            parquet: ParquetSettings::new(schema, properties)?,
            metrics: MetricsPlan::new(schema, properties)?,
        })
    }

    /// The files of `batch`, one per partition that occurs in it, in the order of their first rows.
    ///
    /// A file lies at `<location>/data/<partition>/<name>.parquet`; `name` gives a new unique name at
    /// each call.
    pub fn write(
        &self,
        batch: &RecordBatch,
        location: &str,
        mut name: impl FnMut() -> String,
    ) -> Result<Vec<NewDataFile>, DataFileError> {
        let root = format!("{}/data", location.trim_end_matches('/'));
        let groups = self.partitioning.split(batch)?;
        let whole = groups.len() == 1;
        let files = groups.into_iter().map(|group| {
            let folder = group.path.as_ref().map_or_else(|| root.clone(), |path| format!("{root}/{path}"));
            let path = format!("{folder}/{}.parquet", name());
            if whole {
                return self.file(batch, path, group);
            }
            let rows = take_record_batch(batch, &UInt32Array::from(group.rows.clone()))?;
            self.file(&rows, path, group)
        });
        files.collect()
    }

    fn file(&self, rows: &RecordBatch, path: String, group: Group) -> Result<NewDataFile, DataFileError> {
        let WrittenParquet { bytes, columns, split_offsets } = self.parquet.write(rows)?;
        let ColumnMetrics { null_value_counts, nan_value_counts, lower_bounds, upper_bounds } =
            self.metrics.measure(rows);
        let mut entry = DataFileEntry {
            path,
            record_count: rows.num_rows() as u64,
            file_size_in_bytes: bytes.len() as u64,
            checksum: checksum(&bytes),
            partition: group.values,
            column_sizes: columns.iter().map(|column| (column.field_id, column.size)).collect(),
            value_counts: columns.iter().map(|column| (column.field_id, column.values)).collect(),
            null_value_counts: columns
                .iter()
                .filter_map(|column| Some((column.field_id, column.nulls?)))
                .chain(null_value_counts)
                .collect(),
            nan_value_counts,
            lower_bounds,
            upper_bounds,
            split_offsets,
        };
        self.metrics.keep_counts(&mut entry);
        Ok(NewDataFile { entry, bytes, rows: group.rows })
    }
}
