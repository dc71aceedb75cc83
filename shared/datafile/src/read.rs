//! Reading a data file back, to write some of its rows anew.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::Schema;
use icefall_manifest::DataFileEntry;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::checksum::checksum;
use crate::format::DataFileError;

/// The rows of the file that `entry` describes and that was written with `schema`, in their order.
///
/// Only the very bytes that were written are taken: of others nobody can say which records they hold, and
/// the Parquet library panics at some of them.
pub fn read_back(file: Bytes, entry: &DataFileEntry, schema: &Schema) -> Result<RecordBatch, DataFileError> {
    check_whole(&file, entry)?;
    read(file, schema)
}

/// Whether these are the very bytes that were written of the file that `entry` describes.
pub fn check_whole(file: &Bytes, entry: &DataFileEntry) -> Result<(), DataFileError> {
    let (expected, found) = (entry.file_size_in_bytes, file.len() as u64);
    if found == expected && checksum(file) == entry.checksum {
        return Ok(());
    }
    Err(DataFileError::Damaged { expected, found })
}

/// The rows of a file that was written with `schema` and is known to be whole, in their order.
pub fn read(file: Bytes, schema: &Schema) -> Result<RecordBatch, DataFileError> {
    let arrow = schema_to_arrow_schema(schema).map_err(|error| DataFileError::Schema(Box::new(error)))?;
    let arrow = Arc::new(arrow);
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(&arrow));
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?.build()?;
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>()?;
    Ok(concat_batches(&arrow, &batches)?)
}
