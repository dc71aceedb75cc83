//! `icefall stops`: sources that stand still in a table, and what a person says about them.
//!
//! A source stands still where a record differs from the one that is settled at its offset. The decision is
//! committed to the table itself, with an empty snapshot and on the very ledger that holds the stop, so the
//! committer goes on in its next round, or decides by a stop that is still there. It stands in the ledger with the
//! reason until the next one, and in the summary of its snapshot.

use std::io::Write;

use async_trait::async_trait;
use icefall_catalog::Snapshots;
use icefall_ledger::{
    Decided, Ledger, LedgerError, Round, RoundResult, SnapshotMark, Stop, StopDecision, Wanted,
    read_property_name,
};
use icefall_manifest::{Source, TableName, TableUuid};
use icefall_tables::{ChangeError, LedgerChange, LedgerStore, Table, TableError, ident};
use serde::Serialize;
use serde_json::json;

use crate::time::text;
use crate::{CliError, Desk};

/// A ledger and the table that it stands in.
struct Standing {
    table: TableName,
    ledger: Ledger,
}

/// What is said of a stop.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    table: String,
    branch: String,
    source: String,
    since_ms: u64,
    partition: i64,
    offset: i64,
    held: String,
    found: String,
}

/// A decision about a source that stands still.
#[derive(Debug)]
struct EndStop<'a> {
    ledgers: &'a LedgerStore,
    source: &'a Source,
    decided: Decided,
}

#[async_trait]
impl LedgerChange for EndStop<'_> {
    async fn make(&self, table: &Table, snapshot: SnapshotMark) -> Result<RoundResult, ChangeError> {
        let ledger = table.read(self.source).unwrap_or(Err(LedgerError::NoStop))?;
        table.lineage(&ledger)?;
        let (held, _) = self.ledgers.look_up(&ledger, &Wanted::default()).await?;
        let mut round = Round::new(ledger, held)?;
        round.end_stop(self.decided.clone())?;
        Ok(round.finish(snapshot)?)
    }
}

pub(crate) async fn list(
    desk: &Desk,
    all: bool,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let ledgers = ledgers(desk).await?;
    let stopped: Vec<_> =
        ledgers.iter().filter_map(|standing| Some((standing, standing.ledger.stop()?))).collect();
    let decided: Vec<_> = if all { ledgers.iter().filter_map(decision).collect() } else { Vec::new() };
    if json {
        let lines: Vec<_> = stopped.iter().map(|(standing, stop)| line(standing, stop)).collect();
        let answer = if all { json!({ "stops": lines, "decided": decided }) } else { json!(lines) };
        serde_json::to_writer_pretty(&mut *out, &answer)?;
        return Ok(writeln!(out)?);
    }
    for (standing, stop) in &stopped {
        let Line { id, table, source, since_ms, .. } = line(standing, stop);
        writeln!(out, "{id}  {table:<30}  {source:<40}  since {}", text(since_ms))?;
    }
    for decided in &decided {
        writeln!(out, "{decided}")?;
    }
    match stopped.len() {
        0 => writeln!(out, "no source stands still")?,
        count => {
            writeln!(out, "{count} stand still; `icefall stops show <id>` says why and what can be done")?;
        }
    }
    Ok(())
}

pub(crate) async fn show(
    desk: &Desk,
    id: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let ledgers = ledgers(desk).await?;
    let stops = ledgers.iter().filter_map(|standing| Some((standing, standing.ledger.stop()?)));
    let mut found = stops.filter(|(standing, stop)| stop.id(standing.ledger.id()).as_str() == id);
    let (standing, stop) = found.next().ok_or_else(|| CliError::NoStop(id.to_owned()))?;
    let line = line(standing, stop);
    if json {
        serde_json::to_writer_pretty(&mut *out, &line)?;
        return Ok(writeln!(out)?);
    }
    let Line { table, branch, source, partition, offset, held, found, .. } = &line;
    writeln!(out, "{source} stands still in {table}, branch {branch}, since {}", text(stop.since_ms))?;
    writeln!(out, "  partition {partition} offset {offset} is settled as record {held}, and {found} came")?;
    writeln!(
        out,
        "  nothing of it is settled there until you decide; its batch manifests wait in the queue"
    )?;
    writeln!(
        out,
        "  the topic was made again, these are other records, and they shall land beside the older ones:"
    )?;
    writeln!(out, "    icefall stops accept {table} {source} --because ...")?;
    writeln!(
        out,
        "  they are copies of what the table holds (a mirror, a producer that sent all of it again):"
    )?;
    writeln!(out, "    icefall stops discard {table} {source} --because ...")?;
    writeln!(
        out,
        "  they come from another cluster: give it a name of its own in the settings, and accept nothing"
    )?;
    Ok(())
}

/// Decides about the source that stands still.
pub(crate) async fn end(
    desk: &Desk,
    (table, source): (&str, &str),
    decision: StopDecision,
    because: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    if because.trim().is_empty() {
        return Err(CliError::NoWords);
    }
    let found = ledgers(desk).await?.into_iter().find(|standing| {
        standing.table.to_string() == table
            && standing.ledger.id().source.to_string() == source
            && standing.ledger.stop().is_some()
    });
    let none = || CliError::NothingStands { table: table.to_owned(), named: source.to_owned() };
    let Standing { table, ledger } = found.ok_or_else(none)?;
    let stop = ledger.stop().ok_or_else(none)?.id(ledger.id());
    let when_ms = desk.clock.now().unix_ms();
    let decided = Decided { stop: stop.clone(), decision, because: because.to_owned(), when_ms };
    let id = ledger.id();
    let change = EndStop { ledgers: &desk.ledgers, source: &id.source, decided };
    let kind = format!("stops {decision}");
    let after = desk.changer().apply((&table, &id.branch), &change, (&kind, because)).await?;
    if json {
        let answer = json!({
            "id": stop, "decided": decision, "because": because, "table": table, "source": id.source.to_string(),
            "incarnation": after.incarnation(),
        });
        return Ok(writeln!(out, "{answer}")?);
    }
    match decision {
        StopDecision::Accept => writeln!(
            out,
            "{}: {table} takes its records as those of incarnation {}; they land beside the older ones",
            id.source,
            after.incarnation().0
        )?,
        StopDecision::Discard => writeln!(
            out,
            "{}: what differs from a record that {table} holds by now goes to quarantine as discarded-copy",
            id.source
        )?,
    }
    writeln!(
        out,
        "what waits is decided in the committer's next round; what was parked for it: \
         icefall quarantine list --reason stopped-too-long"
    )?;
    Ok(())
}

/// All ledgers of the tables that the settings name.
async fn ledgers(desk: &Desk) -> Result<Vec<Standing>, CliError> {
    let mut found = Vec::new();
    for table in desk.tables_named() {
        let loaded = match desk.catalog.load_table(&ident(&table)?, Snapshots::Refs).await {
            Ok(loaded) => loaded,
            Err(icefall_catalog::CatalogError::NotFound(_)) => continue,
            Err(fault) => return Err(fault.into()),
        };
        let uuid = TableUuid(loaded.metadata.uuid());
        for (name, value) in loaded.metadata.properties() {
            if read_property_name(name).map_err(TableError::from)?.is_some() {
                let ledger = Ledger::read(name, value, uuid).map_err(TableError::from)?;
                found.push(Standing { table: table.clone(), ledger });
            }
        }
    }
    found.sort_by(|one, other| (&one.table, one.ledger.id()).cmp(&(&other.table, other.ledger.id())));
    Ok(found)
}

fn line(Standing { table, ledger }: &Standing, stop: &Stop) -> Line {
    let struck = stop.struck;
    Line {
        id: stop.id(ledger.id()).to_string(),
        table: table.to_string(),
        branch: ledger.id().branch.to_string(),
        source: ledger.id().source.to_string(),
        since_ms: stop.since_ms,
        partition: struck.partition.number().into(),
        offset: struck.offset.position(),
        held: format!("{:08x}", struck.held.0),
        found: format!("{:08x}", struck.found.0),
    }
}

/// What was decided last about a source.
fn decision(Standing { table, ledger }: &Standing) -> Option<String> {
    let Decided { stop, decision, because, when_ms } = ledger.decided()?;
    let source = &ledger.id().source;
    Some(format!("{stop}  {table}  {source}  {decision} at {} ({because})", text(*when_ms)))
}
