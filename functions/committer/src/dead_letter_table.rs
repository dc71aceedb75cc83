//! The dead-letter table: its columns, and dead letters as its rows.
//!
//! It is an ordinary Iceberg table, created when it is absent. Rows go through the same conversion as
//! any record, so a table that was given more (optional) columns since is fine.

use iceberg::spec::{ListType, NestedField, PrimitiveType, Schema, StructType, TableMetadata, Type};
use icefall_convert::{BadRecord, Converter, FinishError, UnsupportedSchema};
use icefall_datafile::{DataFileError, FileFormat, NewDataFile, UnsupportedTable};
use icefall_manifest::{DeadLetter, Header};
use serde_json::{Value, json};
use std::sync::Arc;
use thiserror::Error;

/// Why dead letters can't become rows of the table as it is.
#[derive(Debug, Error)]
pub enum DeadLetterRowsError {
    /// Its schema can't be written.
    #[error("the dead-letter table's schema can't be written")]
    Schema(#[from] UnsupportedSchema),
    /// Its partition spec or properties can't be written.
    #[error("the dead-letter table can't be written")]
    Table(#[from] UnsupportedTable),
    /// A column was changed so that a dead letter no longer fits.
    #[error("a dead letter does not fit the dead-letter table: {0}; undo the change of that column")]
    Row(BadRecord),
    /// The file could not be made.
    #[error("the dead letters' file can't be made")]
    Finish(#[from] FinishError),
    /// The file could not be made.
    #[error("the dead letters' file can't be made")]
    File(#[from] DataFileError),
}

/// The columns that the table is created with.
pub(crate) fn schema() -> Result<Schema, iceberg::Error> {
    let header = StructType::new(vec![
        required(14, "key", PrimitiveType::String),
        optional(15, "value", PrimitiveType::Binary),
    ]);
    let headers = ListType::new(NestedField::list_element(13, Type::Struct(header), true).into());
    Schema::builder()
        .with_fields(vec![
            required(1, "source", PrimitiveType::String),
            required(2, "topic", PrimitiveType::String),
            required(3, "partition", PrimitiveType::Int),
            required(4, "offset", PrimitiveType::Long),
            optional(5, "timestamp", PrimitiveType::Timestamptz),
            optional(6, "key", PrimitiveType::Binary),
            optional(7, "value", PrimitiveType::Binary),
            Arc::new(NestedField::required(8, "headers", Type::List(headers))),
            required(9, "target_table", PrimitiveType::String),
            required(10, "error_class", PrimitiveType::String),
            required(11, "error_text", PrimitiveType::String),
            required(12, "time", PrimitiveType::Timestamptz),
        ])
        .build()
}

/// The files that hold `letters`, by the table's present schema and spec.
pub(crate) fn files(
    metadata: &TableMetadata,
    letters: &[DeadLetter],
    name: impl FnMut() -> String,
) -> Result<Vec<NewDataFile>, DeadLetterRowsError> {
    let schema = metadata.current_schema();
    let format = FileFormat::new(schema, metadata.default_partition_spec(), metadata.properties())?;
    let mut converter = Converter::new(schema)?;
    for letter in letters {
        let row = row(letter).to_string();
        converter.append(row.as_bytes()).map_err(DeadLetterRowsError::Row)?;
    }
    Ok(format.write(&converter.finish()?, metadata.location(), name)?)
}

fn row(letter: &DeadLetter) -> Value {
    let headers = letter.headers.iter().map(|Header { key, value }| json!({ "key": key, "value": value }));
    json!({
        "source": letter.source.to_string(),
        "topic": letter.source.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms.and_then(iso),
        "key": letter.key,
        "value": letter.value,
        "headers": headers.collect::<Vec<_>>(),
        "target_table": letter.target_table,
        "error_class": letter.error_class,
        "error_text": letter.error_text,
        "time": i64::try_from(letter.time_ms).ok().and_then(iso),
    })
}

/// Kafka's timestamps may be any number; one beyond the calendar is left null rather than guessed, and
/// the record's own bytes still hold whatever it meant.
fn iso(unix_ms: i64) -> Option<String> {
    let time = chrono::DateTime::from_timestamp_millis(unix_ms)?;
    (0..=9_999)
        .contains(&chrono::Datelike::year(&time))
        .then(|| time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

fn required(id: i32, name: &str, column: PrimitiveType) -> Arc<NestedField> {
    Arc::new(NestedField::required(id, name, Type::Primitive(column)))
}

fn optional(id: i32, name: &str, column: PrimitiveType) -> Arc<NestedField> {
    Arc::new(NestedField::optional(id, name, Type::Primitive(column)))
}
