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
            optional(16, "timestamp_ms", PrimitiveType::Long),
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
        "timestamp_ms": letter.timestamp_ms,
    })
}

/// Kafka's timestamps may be any number. One beyond the calendar of the converter, which begins with the year 1, is
/// left null rather than guessed; `timestamp_ms` holds every one as it came.
fn iso(unix_ms: i64) -> Option<String> {
    let time = chrono::DateTime::from_timestamp_millis(unix_ms)?;
    (1..=9_999)
        .contains(&chrono::Datelike::year(&time))
        .then(|| time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

fn required(id: i32, name: &str, column: PrimitiveType) -> Arc<NestedField> {
    Arc::new(NestedField::required(id, name, Type::Primitive(column)))
}

fn optional(id: i32, name: &str, column: PrimitiveType) -> Arc<NestedField> {
    Arc::new(NestedField::optional(id, name, Type::Primitive(column)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Milliseconds around the ends of each year that a calendar may begin or end with, and any others.
    fn times() -> impl Strategy<Value = i64> {
        let ends = [-62_198_755_200_000_i64, -62_167_219_200_000, -62_135_596_800_000, 253_402_300_800_000];
        let near = (prop::sample::select(ends.to_vec()), -90_000_000_i64..90_000_000)
            .prop_map(|(end, from)| end + from);
        prop_oneof![near, any::<i64>()]
    }

    proptest! {
        /// One that could not would hold up all others of the pipeline.
        #[test]
        fn a_dead_letter_becomes_a_row_whatever_its_time_is(timestamp_ms in prop::option::of(times())) {
            let schema = schema().expect("a schema");
            let mut converter = Converter::new(&schema).expect("a schema that can be written");
            let letter = DeadLetter {
                source: icefall_manifest::Source {
                    pipeline: "demo".try_into().expect("an id"),
                    cluster: "local".try_into().expect("a name"),
                    topic: "clicks".try_into().expect("a topic"),
                },
                partition: icefall_manifest::Partition::new(0).expect("a partition"),
                offset: icefall_manifest::Offset::new(7).expect("an offset"),
                timestamp_ms,
                key: None,
                value: Some(icefall_manifest::Blob(b"{".to_vec())),
                headers: Vec::new(),
                target_table: "shop.clicks".try_into().expect("a table"),
                error_class: "json".to_owned(),
                error_text: "it ends too soon".to_owned(),
                time_ms: 1_700_000_000_000,
            };
            prop_assert!(converter.append(row(&letter).to_string().as_bytes()).is_ok());
        }
    }
}
