//! Records to rows, or to the reason why not.
//!
//! What a record becomes depends on it, its route and the table's schema alone. The order in which
//! rows are added is kept beside them as the records' identities, which is how each row of a data file
//! is traced back to its record.

use std::sync::Arc;

use arrow::array::RecordBatch;
use icefall_convert::Converter;
use icefall_manifest::{RecordId, TableName};
use icefall_mutations::{Mutation, is};
use icefall_records::{PartitionRecords, Record};
use icefall_settings::{Route, Tombstones};
use tracing::warn;

use crate::WriterError;
use crate::error::UnusableTable;
use crate::tables::WritableTable;

/// Why a record is no row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) class: &'static str,
    pub(crate) text: String,
}

/// A record that is no row.
#[derive(Clone, Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) id: RecordId,
    pub(crate) record: &'a Record<'a>,
    pub(crate) refusal: Refusal,
}

/// What the records of one topic became.
#[derive(Debug)]
pub(crate) struct Converted<'a> {
    pub(crate) table: Arc<WritableTable>,
    pub(crate) batch: RecordBatch,
    /// Which record each row of the batch was.
    pub(crate) rows: Vec<RecordId>,
    pub(crate) refused: Vec<Refused<'a>>,
    pub(crate) skipped: u64,
    pub(crate) newest_ms: Option<i64>,
    /// Whether another schema could make more of these records.
    pub(crate) misfits: bool,
}

/// What came of the records so far.
#[derive(Debug, Default)]
struct Sorted<'a> {
    rows: Vec<RecordId>,
    refused: Vec<Refused<'a>>,
    skipped: u64,
    newest_ms: Option<i64>,
    misfits: bool,
}

/// Converts `partitions`, all of one topic, for `table`.
pub(crate) fn convert<'a>(
    partitions: &'a [PartitionRecords<'a>],
    route: &Route,
    table: Arc<WritableTable>,
) -> Result<Converted<'a>, WriterError> {
    let mut converter = table.converter().map_err(|source| WriterError::Unusable {
        table: route.table.clone(),
        source: UnusableTable::Schema(source),
    })?;
    let unknown_before = unknown(&converter);
    let mut sorted = Sorted::default();
    for partition in partitions {
        sorted.rows.reserve(partition.records.len());
        for record in &partition.records {
            sorted.add(id(partition, record), record, route, &mut converter);
        }
    }
    let batch = converter.finish();
    let batch = batch.map_err(|source| WriterError::Rows { table: route.table.clone(), source })?;
    let unknown = unknown(&converter) - unknown_before;
    if unknown > 0 {
        tell_unknown(&route.table, unknown, &converter);
    }
    table.keep(converter);
    let Sorted { rows, refused, skipped, newest_ms, misfits } = sorted;
    Ok(Converted { table, batch, rows, refused, skipped, newest_ms, misfits: misfits || unknown > 0 })
}

impl<'a> Sorted<'a> {
    fn add(&mut self, id: RecordId, record: &'a Record<'a>, route: &Route, converter: &mut Converter) {
        let refusal = match (&record.fault, record.value) {
            (Some(_), _) => Some(faulty(record)),
            (None, None) if route.tombstones == Tombstones::Skip => {
                self.skipped += 1;
                return;
            }
            (None, None) => Some(tombstone(route)),
            (None, Some(value)) => converter.append(value.bytes).err().map(|bad| {
                self.misfits = true;
                Refusal { class: bad.class.as_str(), text: bad.to_string() }
            }),
        };
        self.newest_ms = self.newest_ms.max(record.timestamp_ms);
        match refusal {
            None => self.rows.push(id),
            Some(_) if is(Mutation::BadRecordDropped) => {}
            Some(refusal) => self.refused.push(Refused { id, record, refusal }),
        }
    }
}

/// The delivered text is kept with the reason, since what can't be read has no column of its own.
fn faulty(record: &Record<'_>) -> Refusal {
    let Some(fault) = record.fault else { return Refusal { class: "unreadable", text: String::new() } };
    Refusal { class: fault.part.class(), text: format!("{fault}; delivered as {}", record.text) }
}

fn tombstone(route: &Route) -> Refusal {
    let text = format!(
        "value: the record has none; set tombstones = \"skip\" on the route of topic {} to leave such records out",
        route.topic
    );
    Refusal { class: "tombstone", text }
}

fn id(partition: &PartitionRecords<'_>, record: &Record<'_>) -> RecordId {
    RecordId {
        partition: partition.partition,
        offset: record.offset,
        encoding: record.encoding,
        fingerprint: record.fingerprint,
    }
}

/// How many fields without a column were met.
fn unknown(converter: &Converter) -> u64 {
    let named: u64 = converter.unknown_fields().iter().map(|field| field.count).sum();
    named + converter.unknown_fields_beyond()
}

fn tell_unknown(table: &TableName, count: u64, converter: &Converter) {
    let fields = converter.unknown_fields();
    let names = fields.iter().take(20).map(|field| match field.within.as_str() {
        "" => field.name.clone(),
        within => format!("{within}.{}", field.name),
    });
    let names = names.collect::<Vec<_>>().join(", ");
    warn!(%table, count, fields = names, "fields without a column were left out; add columns to keep them");
}
