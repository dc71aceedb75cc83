//! Records of one source as rows of one table, or as dead letters.
//!
//! What a record becomes follows from the record and the table's schema alone. A record that has a
//! fault of its own, or that the schema has no place for, becomes a dead letter that keeps all of it.

use std::sync::PoisonError;

use arrow::array::RecordBatch;
use icefall_clock::Timestamp;
use icefall_convert::{BadRecord, BadRecordClass, Converter};
use icefall_manifest::{Blob, DeadLetter, Header, Partition, RecordId, RecordList, Source, TableName};
use icefall_records::{PartitionRecords, Payload, Record};
use icefall_settings::Tombstones;

use crate::WriterError;
use crate::tables::OpenTable;

/// The class of tombstones that are not skipped.
const TOMBSTONE: &str = "tombstone";

/// What a source's records became.
#[derive(Debug)]
pub(crate) struct Converted {
    /// The rows.
    pub(crate) rows: RecordBatch,
    /// Which record each row was.
    pub(crate) records: Vec<RecordId>,
    /// The dead letters.
    pub(crate) letters: Vec<DeadLetter>,
    /// Which record each dead letter was.
    pub(crate) dead: RecordList,
    /// Tombstones that the route says to skip.
    pub(crate) skipped: u64,
    /// The newest Kafka timestamp among rows and dead letters.
    pub(crate) newest_ms: Option<i64>,
    /// Whether a newer schema of the table might make a difference.
    pub(crate) may_fit_newer: bool,
}

/// What converting takes, besides the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion<'a> {
    pub(crate) table: &'a OpenTable,
    pub(crate) source: &'a Source,
    pub(crate) tombstones: Tombstones,
    pub(crate) now: Timestamp,
}

impl Conversion<'_> {
    /// Converts `partitions`, in their order.
    pub(crate) fn convert(self, partitions: &[&PartitionRecords<'_>]) -> Result<Converted, WriterError> {
        let mut converter = self.table.converter.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = Vec::new();
        let (mut letters, mut dead) = (Vec::new(), RecordList::default());
        let (mut skipped, mut newest_ms, mut may_fit_newer) = (0, None, false);
        let unknown = converter.unknown_fields();
        for PartitionRecords { partition, records: incoming, .. } in partitions {
            for record in incoming {
                let fate = self.fate(record, &mut converter);
                if !matches!(fate, Fate::Skipped) {
                    newest_ms = newest_ms.max(record.timestamp_ms);
                }
                match fate {
                    Fate::Row => records.push(id(*partition, record)),
                    Fate::Skipped => skipped += 1,
                    Fate::Dead { class, text, schema } => {
                        may_fit_newer |= schema;
                        dead.push(id(*partition, record));
                        letters.push(self.letter(*partition, record, class, text));
                    }
                }
            }
        }
        may_fit_newer |= converter.unknown_fields() != unknown;
        let rows = converter.finish()?;
        Ok(Converted { rows, records, letters, dead, skipped, newest_ms, may_fit_newer })
    }

    fn fate(self, record: &Record<'_>, converter: &mut Converter) -> Fate {
        if let Some(fault) = &record.fault {
            return Fate::Dead { class: fault.part.class(), text: fault.to_string(), schema: false };
        }
        let Some(Payload { bytes, .. }) = &record.value else {
            return match self.tombstones {
                Tombstones::Skip => Fate::Skipped,
                Tombstones::DeadLetter => Fate::Dead {
                    class: TOMBSTONE,
                    text: "value: a tombstone (no value) is no row of an append-only table".to_owned(),
                    schema: false,
                },
            };
        };
        match converter.append(bytes) {
            Ok(()) => Fate::Row,
            Err(bad) => Fate::Dead {
                class: bad.class.as_str(),
                text: bad.to_string(),
                schema: depends_on_schema(&bad),
            },
        }
    }

    fn letter(
        self,
        partition: Partition,
        record: &Record<'_>,
        class: &str,
        error_text: String,
    ) -> DeadLetter {
        let headers = record
            .headers
            .iter()
            .map(|header| Header { key: header.name.to_string(), value: header.value.clone().map(Blob) });
        DeadLetter {
            source: self.source.clone(),
            partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: blob(record.key.as_ref()),
            value: blob(record.value.as_ref()),
            headers: headers.collect(),
            target_table: TableName::clone(&self.table.name),
            error_class: class.to_owned(),
            error_text,
            time_ms: self.now.unix_ms(),
        }
    }
}

/// What one record becomes.
enum Fate {
    Row,
    Skipped,
    Dead { class: &'static str, text: String, schema: bool },
}

/// Whether another schema could have a place for it.
fn depends_on_schema(bad: &BadRecord) -> bool {
    match bad.class {
        BadRecordClass::InvalidUtf8
        | BadRecordClass::MalformedJson
        | BadRecordClass::NotAnObject
        | BadRecordClass::NestingTooDeep
        | BadRecordClass::DuplicateField => false,
        BadRecordClass::MissingRequired
        | BadRecordClass::WrongType
        | BadRecordClass::OutOfRange
        | BadRecordClass::NotExact
        | BadRecordClass::BadFormat => true,
    }
}

fn blob(payload: Option<&Payload<'_>>) -> Option<Blob> {
    payload.map(|payload| Blob(payload.bytes.to_vec()))
}

fn id(partition: Partition, record: &Record<'_>) -> RecordId {
    let Record { offset, encoding, fingerprint, .. } = *record;
    RecordId { partition, offset, encoding, fingerprint }
}
