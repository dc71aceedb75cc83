//! Rows of the dead-letter table as the records that they hold.

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use icefall_ledger::LedgerId;
use icefall_manifest::{Offset, Partition, Source, TableUuid};

use crate::CliError;

/// A dead letter, as far as a replay needs it.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) source: Source,
    pub(crate) partition: Partition,
    pub(crate) offset: Offset,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) target_table: String,
    pub(crate) error_class: String,
    /// When it became one, in milliseconds since the epoch.
    pub(crate) time_ms: i64,
}

/// The dead letters in `rows`.
pub(crate) fn letters(rows: &RecordBatch) -> Result<Vec<Letter>, CliError> {
    (0..rows.num_rows()).map(|row| letter(rows, row).ok_or_else(|| unreadable(row))).collect()
}

fn unreadable(row: usize) -> CliError {
    CliError::DeadLetters(format!("row {row} of one of its files is no dead letter: was a column changed?"))
}

fn letter(rows: &RecordBatch, row: usize) -> Option<Letter> {
    let text = |name: &str| Some(column(rows, name, row)?.as_string_opt::<i32>()?.value(row).to_owned());
    let bytes = |name: &str| match column(rows, name, row) {
        None => Some(None),
        Some(column) => Some(Some(column.as_binary_opt::<i64>()?.value(row).to_vec())),
    };
    let millis = |name: &str| match column(rows, name, row) {
        None => Some(None),
        Some(column) => Some(Some(column.as_primitive_opt::<TimestampMicrosecondType>()?.value(row) / 1000)),
    };
    // Tables that were made by an earlier version lack this column.
    let exact = match column(rows, "timestamp_ms", row) {
        None => millis("timestamp")?,
        Some(column) => Some(column.as_primitive_opt::<Int64Type>()?.value(row)),
    };
    let nil = TableUuid(uuid::Uuid::nil());
    let id: LedgerId = format!("{nil}/main/{}", text("source")?).parse().ok()?;
    let partition = column(rows, "partition", row)?.as_primitive_opt::<Int32Type>()?.value(row);
    let offset = column(rows, "offset", row)?.as_primitive_opt::<Int64Type>()?.value(row);
    Some(Letter {
        source: id.source,
        partition: Partition::new(partition.into())?,
        offset: Offset::new(offset)?,
        timestamp_ms: exact,
        key: bytes("key")?,
        value: bytes("value")?,
        target_table: text("target_table")?,
        error_class: text("error_class")?,
        time_ms: millis("time")??,
    })
}

/// The column, if it is there and holds something in this row.
fn column<'a>(rows: &'a RecordBatch, name: &str, row: usize) -> Option<&'a ArrayRef> {
    rows.column_by_name(name).filter(|column| column.is_valid(row))
}
