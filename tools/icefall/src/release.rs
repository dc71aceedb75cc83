//! `icefall quarantine release`: an entry's records on their way to the decision once more.
//!
//! Nothing is decided here. Its files are written anew from the copies, into the table as it is today, and
//! a batch manifest for them goes to the commit queue with the one reason that the operator overruled. The
//! committer decides about it record by record: what the table holds by now is left out, what it lacks
//! lands. Released twice, by two people or after a failure, it is a duplicate.

use std::io::Write;

use iceberg::spec::TableMetadata;
use icefall_catalog::Snapshots;
use icefall_manifest::{BatchId, BatchManifest, Message, Release, TableUuid};
use icefall_mutations::{Mutation, is};
use icefall_rewrite::{FileCopies, Rewriter};
use icefall_store::{Decided, FiledEntry};
use icefall_tables::{REPLAY, ident};
use serde_json::{Value, json};

use crate::{CliError, Desk};

/// The reason for quarantine that a table made anew under its name is.
const ANOTHER_TABLE: &str = "another-table";

pub(crate) async fn run(
    desk: &Desk,
    id: &str,
    overruled: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let (entry, text) = desk.find_open(id).await?;
    if entry.reason != overruled {
        let (actual, named) = (entry.reason, overruled.to_owned());
        return Err(CliError::OtherReason { id: entry.id, actual, named });
    }
    let batch = batch(desk, &entry).await?;
    let adopted = adopt(desk, &batch, &copies(&text), overruled).await?;
    let (table, records) = (adopted.table.clone(), adopted.record_count());
    let release = Release { overruled: overruled.to_owned(), entry: entry.key() };
    if is(Mutation::ReleasedUnsent) {
        desk.decide(&entry, Decided::Released, overruled).await?;
    }
    let body = desk.ops.enclose(adopted, Some(release)).await?;
    desk.queue.send(&[body]).await?;
    desk.decide(&entry, Decided::Released, overruled).await?;
    if json {
        let released = json!({ "id": entry.id, "decided": "released", "table": table, "records": records });
        writeln!(out, "{released}")?;
    } else {
        writeln!(
            out,
            "{}: {records} records of {table} are queued; the committer decides about each",
            entry.id
        )?;
    }
    Ok(())
}

/// The batch manifest that the entry was made of.
async fn batch(desk: &Desk, entry: &FiledEntry) -> Result<BatchManifest, CliError> {
    match decode(entry, &desk.ops.filed_raw(entry).await?)? {
        Message::Batch(batch) => Ok(*batch),
        Message::Released(batch, release) => released(entry, *batch, &release),
        Message::Spilled(spilled) => match decode(entry, &desk.ops.read(&spilled.key).await?)? {
            Message::Batch(batch) => Ok(*batch),
            Message::Released(batch, release) => released(entry, *batch, &release),
            Message::Spilled(_) => Err(CliError::NoBatch {
                id: entry.id.clone(),
                source: icefall_manifest::DecodeError::OneBody,
            }),
        },
    }
}

/// Rows of dead letters would be decided as others, and those that no ledger holds as dead letters would land.
fn released(entry: &FiledEntry, batch: BatchManifest, release: &Release) -> Result<BatchManifest, CliError> {
    if release.overruled == REPLAY { Err(CliError::WasReplay(entry.id.clone())) } else { Ok(batch) }
}

fn decode(entry: &FiledEntry, raw: &[u8]) -> Result<Message, CliError> {
    let text = std::str::from_utf8(raw).map_err(|_| CliError::NoText(entry.id.clone()))?;
    Message::decode(text).map_err(|source| CliError::NoBatch { id: entry.id.clone(), source })
}

/// Where each of its data files was copied to; one without a copy is read where it was written.
fn copies(text: &Value) -> FileCopies {
    let files = text.pointer("/details/data-files").and_then(Value::as_array);
    let copy =
        |file: &Value| Some((file.get("file")?.as_str()?.to_owned(), file.get("copy")?.as_str()?.to_owned()));
    files.into_iter().flatten().filter_map(copy).collect()
}

/// The batch manifest in files of the table as it is today.
async fn adopt(
    desk: &Desk,
    batch: &BatchManifest,
    copies: &FileCopies,
    overruled: &str,
) -> Result<BatchManifest, CliError> {
    let table = desk.catalog.load_table(&ident(&batch.table)?, Snapshots::Refs).await?;
    let metadata: &TableMetadata = &table.metadata;
    let actual = TableUuid(metadata.uuid());
    if batch.table_uuid != actual && overruled != ANOTHER_TABLE {
        return Err(CliError::OtherTable { table: batch.table.clone(), named: batch.table_uuid, actual });
    }
    let rewriter = Rewriter {
        tables: desk.tables.as_ref(),
        ops: &desk.ops,
        clock: desk.clock.as_ref(),
        entropy: desk.entropy.as_ref(),
        metadata,
    };
    let adopted = rewriter.adopt(batch, copies).await?;
    Ok(BatchManifest { id: BatchId(desk.entropy.uuid_at(desk.clock.now())), ..adopted })
}
