//! Which records stand in quarantine: those that its entries name, with the fingerprints of the messages that they hold. What was
//! released from there stands there no longer, and is kept apart.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use icefall_manifest::{BatchManifest, Message, OffsetRun, Partition, RecordId, Source};
use icefall_store::{Decided, FiledEntry};
use serde_json::Value;

use super::compare::Print;
use crate::{CliError, Desk};

/// Entries that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// What quarantine has of a source.
#[derive(Debug, Default)]
pub(crate) struct Quarantined {
    /// Per partition, ascending.
    pub(crate) records: BTreeMap<Partition, Vec<Print>>,
    /// Those that somebody released: they were queued again, and are to be settled.
    pub(crate) released: BTreeMap<Partition, Vec<Print>>,
    /// The entries that hold them.
    pub(crate) entries: u64,
    /// Entries that can't be read as batch manifests: nobody can say whose records they hold.
    pub(crate) unreadable: Vec<String>,
}

/// What is in an entry.
enum Content {
    Records(Vec<RecordId>),
    Released(Vec<RecordId>),
    /// Another source's, or records of none.
    Other,
    Unreadable(String),
}

/// All that quarantine has of `source`.
pub(crate) async fn quarantined(desk: &Desk, source: &Source) -> Result<Quarantined, CliError> {
    let entries = desk.ops.filed(desk.lister.as_ref()).await?;
    let read = |(entry, is_decided): (FiledEntry, bool)| content(desk, entry, is_decided, source);
    let mut contents = stream::iter(entries).map(read).buffer_unordered(READS_AT_ONCE);
    let mut found = Quarantined::default();
    while let Some(content) = contents.try_next().await? {
        match content {
            Content::Other => {}
            Content::Unreadable(name) => found.unreadable.push(name),
            Content::Records(records) => {
                found.entries += 1;
                put(&mut found.records, records);
            }
            Content::Released(records) => put(&mut found.released, records),
        }
    }
    let all = found.records.values_mut().chain(found.released.values_mut());
    all.for_each(|records| records.sort_unstable());
    found.unreadable.sort_unstable();
    Ok(found)
}

fn put(into: &mut BTreeMap<Partition, Vec<Print>>, records: Vec<RecordId>) {
    for record in records {
        into.entry(record.partition).or_default().push((record.offset, record.fingerprint));
    }
}

async fn content(
    desk: &Desk,
    entry: FiledEntry,
    is_decided: bool,
    source: &Source,
) -> Result<Content, CliError> {
    let text = desk.ops.filed_text(&entry).await?.unwrap_or_default();
    let named = text.pointer("/details/source").and_then(Value::as_str);
    if named.is_some_and(|named| named != source.to_string()) {
        return Ok(Content::Other);
    }
    let name = format!("{}/{}", entry.reason, entry.id);
    let raw = desk.ops.filed_raw(&entry).await?;
    let Some(batch) = batch(desk, &raw).await? else { return Ok(Content::Unreadable(name)) };
    if batch.source != *source {
        return Ok(Content::Other);
    }
    let records = named_records(&batch, &text);
    let decision = if is_decided { desk.ops.decision(&entry).await? } else { None };
    let was_released = decision.is_some_and(|decision| matches!(decision.decided, Decided::Released));
    Ok(if was_released { Content::Released(records) } else { Content::Records(records) })
}

/// The batch manifest that `raw` is or points to, if this version reads it.
async fn batch(desk: &Desk, raw: &[u8]) -> Result<Option<BatchManifest>, CliError> {
    let Ok(Ok(message)) = std::str::from_utf8(raw).map(Message::decode) else { return Ok(None) };
    let key = match message {
        Message::Batch(batch) | Message::Released(batch, _) => return Ok(Some(*batch)),
        Message::Spilled(spilled) => spilled.key,
    };
    let body = desk.ops.read(&key).await?;
    Ok(match std::str::from_utf8(&body).map(Message::decode) {
        Ok(Ok(Message::Batch(batch) | Message::Released(batch, _))) => Some(*batch),
        _ => None,
    })
}

/// The records that the entry is about: all of the message, unless it names some of them.
fn named_records(batch: &BatchManifest, text: &Value) -> Vec<RecordId> {
    let runs = text.pointer("/details/offsets").cloned();
    let runs: Option<Vec<OffsetRun>> = runs.and_then(|runs| serde_json::from_value(runs).ok());
    let is_named = |record: &RecordId| {
        let holds = |run: &OffsetRun| {
            let end = run.first.plus(run.count);
            run.partition == record.partition
                && run.first <= record.offset
                && end.is_none_or(|end| record.offset < end)
        };
        runs.as_ref().is_none_or(|runs| runs.iter().any(holds))
    };
    batch.record_lists().flat_map(icefall_manifest::RecordList::iter).filter(is_named).collect()
}
