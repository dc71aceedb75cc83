//! `icefall quarantine list`.

use std::io::Write;

use futures::stream::{self, StreamExt};
use icefall_store::{FiledEntry, QuarantineDecision};
use serde::Serialize;
use serde_json::Value;

use crate::{CliError, Desk};

/// Entries that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// What is said of an entry.
#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    entry: FiledEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<QuarantineDecision>,
}

pub(crate) async fn run(
    desk: &Desk,
    reason: Option<&str>,
    all: bool,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let entries = desk.ops.filed(desk.lister.as_ref()).await?.into_iter();
    let wanted = entries
        .filter(|(entry, decided)| (all || !decided) && reason.is_none_or(|reason| entry.reason == reason));
    let lines = wanted.map(|(entry, decided)| line(desk, entry, decided));
    let lines: Vec<Result<Line, CliError>> = stream::iter(lines).buffered(READS_AT_ONCE).collect().await;
    let lines = lines.into_iter().collect::<Result<Vec<_>, _>>()?;
    if json {
        serde_json::to_writer_pretty(&mut *out, &lines)?;
        return Ok(writeln!(out)?);
    }
    for Line { entry, table, records, decision } in &lines {
        let FiledEntry { day, reason, id } = entry;
        let table = table.as_deref().unwrap_or("-");
        let records = records.map_or_else(|| "-".to_owned(), |records| records.to_string());
        let decision = decision
            .as_ref()
            .map_or_else(String::new, |decision| format!("  {} ({})", kind(decision), decision.because));
        writeln!(out, "{day}  {reason:<20}  {table:<30}  {records:>8} records  {id}{decision}")?;
    }
    match lines.len() {
        0 => writeln!(out, "nothing waits for a decision")?,
        count => writeln!(out, "{count} entries; `icefall quarantine show <id>` says what can be done")?,
    }
    Ok(())
}

async fn line(desk: &Desk, entry: FiledEntry, decided: bool) -> Result<Line, CliError> {
    let text = desk.ops.filed_text(&entry).await?.unwrap_or_default();
    let decision = if decided { desk.ops.decision(&entry).await? } else { None };
    let table = text.pointer("/details/table").and_then(Value::as_str).map(str::to_owned);
    let runs = text.pointer("/details/offsets").and_then(Value::as_array);
    let records = runs.map(|runs| runs.iter().filter_map(|run| run.get("count")?.as_u64()).sum());
    Ok(Line { entry, table, records, decision })
}

const fn kind(decision: &QuarantineDecision) -> &'static str {
    match decision.decided {
        icefall_store::Decided::Discarded => "discarded",
        icefall_store::Decided::Released => "released",
    }
}
