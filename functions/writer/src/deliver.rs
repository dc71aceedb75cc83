//! Making a converted batch durable: files first, then the batch manifest that names them.

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use icefall_datafile::NewDataFile;
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Branch, DeadLetter, DeadLetterFile, MAX_MESSAGE_BYTES, Message,
    RecordList, Source, SpilledBatch,
};
use icefall_parts::Parts;
use icefall_store::Location;

use crate::WriterError;
use crate::convert::Converted;
use crate::tables::OpenTable;

/// Uploads that run side by side.
const UPLOADS: usize = 8;

/// Runs of offsets that a pointer to a spilled batch manifest keeps.
const POINTER_RUNS: usize = 100;

/// zstd's fastest level: dead letters are few and read once.
const DEAD_LETTER_LEVEL: i32 = 1;

/// Puts the files of `converted` and gives the batch manifest that names them.
pub(crate) async fn store(
    parts: &Parts,
    table: &OpenTable,
    branch: Branch,
    source: &Source,
    converted: Converted,
) -> Result<BatchManifest, WriterError> {
    let Converted { rows, records, letters, dead, newest_ms, .. } = converted;
    let name = || parts.entropy.uuid_at(parts.clock.now()).to_string();
    let files = table.format.write(&rows, &table.location, name)?;
    for file in &files {
        parts.metrics.data_file_written(&table.name, file.entry.record_count, file.bytes.len() as u64);
    }
    let uploads = stream::iter(files).map(|file| upload(parts, file, &records)).buffered(UPLOADS);
    let files = uploads.try_collect().await?;
    let dead_letters = put_dead_letters(parts, table, letters, dead).await?;
    Ok(BatchManifest {
        id: BatchId(parts.entropy.uuid_at(parts.clock.now())),
        made_at_ms: parts.clock.now().unix_ms(),
        source: source.clone(),
        table: table.name.clone(),
        branch,
        table_uuid: table.uuid,
        schema_id: table.schema_id,
        spec_id: table.spec_id,
        files,
        dead_letters,
        newest_record_ms: newest_ms,
    })
}

/// The message for `batch`: itself, or a pointer to it when it is too large for the queue.
pub(crate) async fn message(parts: &Parts, batch: BatchManifest) -> Result<String, WriterError> {
    let pointer = pointer(&batch);
    let id = batch.id.0;
    let text = Message::Batch(Box::new(batch)).encode()?;
    if text.len() <= MAX_MESSAGE_BYTES {
        return Ok(text);
    }
    let key = parts.ops.put_spill(id, Bytes::from(text)).await?;
    Ok(Message::Spilled(SpilledBatch { key, ..pointer }).encode()?)
}

fn pointer(batch: &BatchManifest) -> SpilledBatch {
    let runs = batch.record_lists().flat_map(|list| list.runs().iter().copied());
    SpilledBatch {
        key: String::new(),
        source: batch.source.clone(),
        table: batch.table.clone(),
        table_uuid: batch.table_uuid,
        offsets: runs.take(POINTER_RUNS).collect(),
    }
}

async fn upload(
    parts: &Parts,
    file: NewDataFile,
    records: &[icefall_manifest::RecordId],
) -> Result<BatchFile, WriterError> {
    let NewDataFile { entry, bytes, rows } = file;
    parts.tables.put(&Location::parse(&entry.path)?, bytes).await?;
    let records: RecordList = rows.iter().filter_map(|row| records.get(*row as usize)).copied().collect();
    Ok(BatchFile { data_file: entry, records })
}

async fn put_dead_letters(
    parts: &Parts,
    table: &OpenTable,
    letters: Vec<DeadLetter>,
    records: RecordList,
) -> Result<Option<DeadLetterFile>, WriterError> {
    if letters.is_empty() {
        return Ok(None);
    }
    let lines = DeadLetter::encode_lines(&letters)?;
    let body = zstd::encode_all(lines.as_slice(), DEAD_LETTER_LEVEL)?;
    let id = parts.entropy.uuid_at(parts.clock.now());
    let key = parts.ops.put_dead_letters(table.uuid, id, body.into()).await?;
    parts.metrics.dead_letters_written(&table.name, letters.len() as u64);
    Ok(Some(DeadLetterFile { key, records }))
}
