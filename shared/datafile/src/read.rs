//! Reading a data file back, to write some of its rows anew.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::Schema;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::format::DataFileError;

/// The rows of a file that was written with `schema`, in their order.
pub fn read(file: Bytes, schema: &Schema) -> Result<RecordBatch, DataFileError> {
    let arrow = schema_to_arrow_schema(schema).map_err(|error| DataFileError::Schema(Box::new(error)))?;
    let arrow = Arc::new(arrow);
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(&arrow));
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?.build()?;
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>()?;
    Ok(concat_batches(&arrow, &batches)?)
}
