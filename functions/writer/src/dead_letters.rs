//! Records that are no rows, on their way to the dead-letter table.
//!
//! Each is kept whole with the reason, a line of JSON, all of a batch and table in one compressed
//! object of the ops bucket. The batch manifest names the object and the records in it.

use bytes::Bytes;
use icefall_clock::Timestamp;
use icefall_manifest::{Blob, DeadLetter, Header, RecordList, Source, TableName, TableUuid};
use icefall_records::Payload;
use uuid::Uuid;

use crate::WriterError;
use crate::rows::Refused;

/// The fastest level: the text is short-lived.
const LEVEL: i32 = 1;

/// A batch's dead letters for one table, ready to be stored.
#[derive(Clone, Debug)]
pub(crate) struct NewDeadLetters {
    pub(crate) table_uuid: TableUuid,
    pub(crate) id: Uuid,
    pub(crate) body: Bytes,
    pub(crate) records: RecordList,
}

/// The file of `refused`; `None` when there are none.
pub(crate) fn file(
    refused: &[Refused<'_>],
    source: &Source,
    table: &TableName,
    table_uuid: TableUuid,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<NewDeadLetters>, WriterError> {
    if refused.is_empty() {
        return Ok(None);
    }
    let letters: Vec<_> = refused.iter().map(|refused| letter(refused, source, table, now)).collect();
    let body = zstd::encode_all(DeadLetter::encode_lines(&letters)?.as_slice(), LEVEL)?;
    let records = refused.iter().map(|refused| refused.id).collect();
    Ok(Some(NewDeadLetters { table_uuid, id, body: body.into(), records }))
}

fn letter(refused: &Refused<'_>, source: &Source, table: &TableName, now: Timestamp) -> DeadLetter {
    let Refused { id, record, refusal } = refused;
    DeadLetter {
        source: source.clone(),
        partition: id.partition,
        offset: id.offset,
        timestamp_ms: record.timestamp_ms,
        key: record.key.map(blob),
        value: record.value.map(blob),
        headers: record.headers.to_vec().iter().map(header).collect(),
        target_table: table.clone(),
        error_class: refusal.class.to_owned(),
        error_text: refusal.text.clone(),
        time_ms: now.unix_ms(),
    }
}

fn blob(payload: Payload<'_>) -> Blob {
    Blob(payload.bytes.to_vec())
}

fn header(header: &icefall_records::Header<'_>) -> Header {
    Header { key: header.name.to_string(), value: header.value.clone().map(Blob) }
}
