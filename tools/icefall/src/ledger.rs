//! `icefall ledger`: rewinding a ledger after a rollback, and putting back one whose property was lost.

use std::io::Write;

use async_trait::async_trait;
use bytes::Bytes;
use icefall_catalog::{Catalog, Snapshots};
use icefall_ledger::{
    Applied, Ledger, LedgerId, Rewind, Round, RoundResult, SnapshotMark, Wanted, applied_property_name,
    property_name,
};
use icefall_manifest::{Branch, PipelineId, Source, TableName, TableUuid};
use icefall_mutations::{Mutation, is};
use icefall_store::{Location, ObjectStore, StoreError};
use icefall_tables::{ChangeError, LedgerChange, LedgerStore, Table, history, ident};
use serde_json::{Value, json};

use crate::{CliError, Desk};

/// `icefall ledger rewind`.
#[derive(Debug)]
struct RewindLedger<'a> {
    ledgers: &'a LedgerStore,
    source: &'a Source,
    rows: std::sync::atomic::AtomicUsize,
}

#[async_trait]
impl LedgerChange for RewindLedger<'_> {
    async fn make(&self, table: &Table, snapshot: SnapshotMark) -> Result<RoundResult, ChangeError> {
        let ledger = table.read(self.source).ok_or_else(|| no_ledger(table, self.source))??;
        table.lineage(&ledger)?;
        let mut rewind = Rewind::new(ledger, &history(&table.metadata, &table.branch, self.source))?;
        while let Some(hash) = rewind.needed().first().copied() {
            rewind.supply(hash, &self.ledgers.object(hash).await?)?;
        }
        self.rows.store(rewind.rows(), std::sync::atomic::Ordering::Relaxed);
        Ok(rewind.finish(snapshot)?)
    }
}

/// `icefall ledger restore`.
#[derive(Debug)]
struct RestoreLedger<'a> {
    desk: &'a Desk,
    source: &'a Source,
}

#[async_trait]
impl LedgerChange for RestoreLedger<'_> {
    async fn make(&self, table: &Table, snapshot: SnapshotMark) -> Result<RoundResult, ChangeError> {
        if table.read(self.source).is_some() && !is(Mutation::RestoreOverwrites) {
            return Err(declined(format!(
                "the ledger of {} stands in the properties of {}: there is nothing to restore",
                self.source, table.name
            )));
        }
        let name = property_name(&table.branch, self.source);
        let value = logged(self.desk.tables.as_ref(), table, &name).await?;
        let ledger = Ledger::read(&name, &value, table.uuid())?;
        if !is(Mutation::RestoreOverwrites) {
            table.lineage(&ledger)?;
        }
        let applied =
            applied(self.desk.catalog.as_ref(), &self.desk.settings.dead_letters, ledger.id()).await?;
        let next = ledger.outbox().next_number();
        if applied.is_some_and(|applied| applied >= next) {
            return Err(declined(format!(
                "the dead-letter table has taken in entries up to {}, but the value that the metadata log has gives \
                 the next one {next}: it is not the newest there was; nothing can be proved by it",
                applied.unwrap_or_default()
            )));
        }
        let (held, _) = self.desk.ledgers.look_up(&ledger, &Wanted::default()).await?;
        let mut round = Round::new(ledger, held)?;
        if let Some(applied) = applied {
            round.clear_outbox(applied)?;
        }
        Ok(round.finish(snapshot)?)
    }
}

pub(crate) async fn rewind(
    desk: &Desk,
    (table, source): (&str, &str),
    because: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let (table, branch, source) = named(desk, table, source, because)?;
    let change = RewindLedger { ledgers: &desk.ledgers, source: &source, rows: 0.into() };
    let ledger = desk.changer().apply((&table, &branch), &change, ("ledger rewind", because)).await?;
    let rows = change.rows.into_inner();
    if json {
        let number = ledger.last_rewind();
        let answer = json!({ "table": table, "source": source.to_string(), "rows": rows, "rewind": number });
        return Ok(writeln!(out, "{answer}")?);
    }
    writeln!(out, "{rows} rows of {source} that were rolled back are free in {table} again")?;
    writeln!(
        out,
        "re-create the trigger from their offsets: what the table holds is skipped, what it lacks lands"
    )?;
    Ok(())
}

pub(crate) async fn restore(
    desk: &Desk,
    (table, source): (&str, &str),
    because: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let (table, branch, source) = named(desk, table, source, because)?;
    let change = RestoreLedger { desk, source: &source };
    let ledger = desk.changer().apply((&table, &branch), &change, ("ledger restore", because)).await?;
    desk.ledgers.register(ledger.id(), &table.to_string()).await?;
    if json {
        let (id, next) = (source.to_string(), ledger.outbox().next_number());
        let answer = json!({ "table": table, "source": id, "highest": ledger.highest(), "next_entry": next });
        return Ok(writeln!(out, "{answer}")?);
    }
    writeln!(out, "the ledger of {source} stands in {table} again, as the table's metadata log had it last")?;
    Ok(())
}

fn named(
    desk: &Desk,
    table: &str,
    source: &str,
    because: &str,
) -> Result<(TableName, Branch, Source), CliError> {
    if because.trim().is_empty() {
        return Err(CliError::NoWords);
    }
    let table = TableName::try_from(table).map_err(|fault| CliError::Name(fault.to_string()))?;
    let branch = desk.settings.branch(&table);
    let nil = format!("{}/{branch}/{source}", TableUuid(uuid::Uuid::nil()));
    let id: LedgerId = nil.parse().map_err(|_| CliError::NoSource(source.to_owned()))?;
    Ok((table, branch, id.source))
}

/// The newest value of a property that the table's metadata log has, if every newer metadata file is there to show that
/// it lacks it.
async fn logged(tables: &dyn ObjectStore, table: &Table, name: &str) -> Result<String, ChangeError> {
    for entry in table.metadata.metadata_log().iter().rev() {
        let file = &entry.metadata_file;
        let location = Location::parse(file).map_err(|fault| declined(format!("{file}: {fault}")))?;
        let body = match tables.get(&location).await {
            Ok(body) => body,
            Err(gone @ StoreError::NotFound { .. }) => {
                return Err(declined(format!(
                    "{gone}; which value the ledger had last can't be proved without that metadata file"
                )));
            }
            Err(fault) => return Err(fault.into()),
        };
        if let Some(value) = property(file, &body, table.uuid(), name)? {
            return Ok(value);
        }
    }
    Err(declined(format!(
        "no metadata file in the log of {} holds {name}: it was lost longer ago than the log goes back \
         (write.metadata.previous-versions-max); nothing can be proved",
        table.name
    )))
}

fn property(file: &str, body: &Bytes, uuid: TableUuid, name: &str) -> Result<Option<String>, ChangeError> {
    let json: Value = serde_json::from_slice(body).map_err(|fault| {
        declined(format!("{file} can't be read as table metadata ({fault}); is it compressed?"))
    })?;
    if json.get("table-uuid").and_then(Value::as_str) != Some(uuid.to_string().as_str()) {
        return Err(declined(format!("{file} is the metadata of another table")));
    }
    Ok(json.get("properties").and_then(|held| held.get(name)).and_then(Value::as_str).map(str::to_owned))
}

/// How far the dead-letter table has taken in the outbox of `ledger`; `None` where it has no such property.
async fn applied(
    catalog: &dyn Catalog,
    dead_letters: &TableName,
    ledger: &LedgerId,
) -> Result<Option<icefall_ledger::EntryNumber>, ChangeError> {
    let loaded = catalog.load_table(&ident(dead_letters)?, Snapshots::Refs).await?;
    let pipeline: &PipelineId = &ledger.source.pipeline;
    let uuid = TableUuid(loaded.metadata.uuid());
    let value = loaded.metadata.properties().get(&applied_property_name(pipeline));
    let applied = value.map(|value| Applied::read(pipeline.clone(), value, uuid)).transpose()?;
    Ok(applied.map(|applied| applied.number(ledger)))
}

fn no_ledger(table: &Table, source: &Source) -> ChangeError {
    declined(format!(
        "{} has no ledger of {source}; if it was lost, put it back first: icefall ledger restore",
        table.name
    ))
}

fn declined(why: String) -> ChangeError {
    ChangeError::Declined(why)
}
