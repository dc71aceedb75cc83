//! What an audit found, for people and for machines.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use icefall_manifest::{Source, TableName};
use serde::Serialize;
use serde_json::json;

use super::files::{CountProof, Counted};
use super::kind::{Kind, Run, Tally};
use super::progress::grouped;
use super::topic::Extent;
use crate::CliError;

/// All that an audit found.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) source: Source,
    pub(crate) tables: Vec<TableName>,
    /// The offsets that the topic had when the audit began.
    pub(crate) extents: Vec<Extent>,
    pub(crate) tally: Tally,
    pub(crate) counted: Vec<Counted>,
    /// How rows were found by value; `None`: they were not.
    pub(crate) by_value: Option<ByValue>,
    /// Whether others append to the table as well.
    pub(crate) others_append: bool,
    /// What else has to be known.
    pub(crate) notes: Vec<String>,
    pub(crate) elapsed: Duration,
}

/// Rows that were told by the table's own columns.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct ByValue {
    /// Rows that say which record they are.
    pub(crate) named: u64,
    /// Rows that don't.
    pub(crate) unnamed: u64,
}

impl Report {
    /// Records of the topic that were read.
    fn read(&self) -> u64 {
        let of_topic = [
            Kind::Row,
            Kind::DeadLetter,
            Kind::Replayed,
            Kind::OtherEncoding,
            Kind::Quarantined,
            Kind::Skipped,
            Kind::Unsettled,
            Kind::Late,
            Kind::Missing,
            Kind::Altered,
            Kind::Doubled,
        ];
        of_topic.into_iter().map(|kind| self.tally.of(kind)).sum()
    }

    /// What is not there exactly once, in a few words; empty if everything is.
    pub(crate) fn faults(&self) -> Vec<String> {
        let is_fault = |kind: &Kind| match kind {
            // As many rows as don't say which record they are may be the ones that were not found.
            Kind::RowLost => self.tally.of(*kind) > self.by_value.map_or(0, |by_value| by_value.unnamed),
            kind => kind.is_fault() && self.tally.of(*kind) > 0,
        };
        let kinds = Kind::ALL.into_iter().filter(is_fault);
        let mut faults: Vec<String> =
            kinds.map(|kind| format!("{} {}", grouped(self.tally.of(kind)), kind.text())).collect();
        for Counted { table, lost, surplus, appended_by_others, .. } in &self.counted {
            if *lost > 0 {
                faults.push(format!(
                    "the files of {table} hold {} rows fewer than its ledgers",
                    grouped(*lost)
                ));
            }
            if *surplus > 0 {
                faults.push(format!(
                    "the files of {table} hold {} rows more than its ledgers",
                    grouped(*surplus)
                ));
            }
            if *appended_by_others > 0 && !self.others_append {
                faults.push(format!(
                    "the files of {table} hold {} rows that others appended: if that is as it should be, say \
                     --others-append",
                    grouped(*appended_by_others)
                ));
            }
        }
        faults
    }

    pub(crate) fn write(
        &self,
        list: usize,
        json: bool,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CliError> {
        if json { self.write_json(list, out) } else { self.write_text(list, out) }
    }

    fn write_json(&self, list: usize, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
        let counts: BTreeMap<String, u64> = Kind::ALL
            .into_iter()
            .map(|kind| {
                Ok((serde_json::to_value(kind)?.as_str().unwrap_or_default().to_owned(), self.tally.of(kind)))
            })
            .collect::<Result<_, serde_json::Error>>()?;
        let listed: Vec<&Run> =
            Kind::ALL.into_iter().flat_map(|kind| self.tally.runs(kind).0.iter().take(list)).collect();
        let extent = |extent: &Extent| json!({ "partition": extent.partition, "start": extent.start, "end": extent.end });
        let faults = self.faults();
        let answer = json!({
            "proved": faults.is_empty(),
            "faults": faults,
            "source": self.source.to_string(),
            "tables": self.tables,
            "partitions": self.extents.iter().map(extent).collect::<Vec<_>>(),
            "records_read": self.read(),
            "counts": counts,
            "listed": listed,
            "files": self.counted,
            "by_value": self.by_value,
            "notes": self.notes,
            "seconds": self.elapsed.as_secs_f64(),
        });
        serde_json::to_writer_pretty(&mut *out, &answer)?;
        Ok(writeln!(out)?)
    }

    fn write_text(&self, list: usize, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
        let tables: Vec<String> = self.tables.iter().map(ToString::to_string).collect();
        let (read, partitions) = (grouped(self.read()), self.extents.len());
        writeln!(
            out,
            "{}: {read} records of {partitions} partitions, against {}",
            self.source,
            tables.join(", ")
        )?;
        for kind in Kind::ALL.into_iter().filter(|kind| self.tally.of(*kind) > 0) {
            writeln!(out, "  {:>15} {}", grouped(self.tally.of(kind)), kind.text())?;
            self.write_runs(kind, list, out)?;
        }
        for counted in &self.counted {
            write_counted(counted, list, out)?;
        }
        match self.by_value {
            Some(ByValue { named, unnamed }) => writeln!(
                out,
                "rows by value: {} say which record they are, {} don't",
                grouped(named),
                grouped(unnamed)
            )?,
            None => writeln!(
                out,
                "rows by value: not looked at; a table that keeps partition and offset in columns can be: --offset-columns"
            )?,
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        let faults = self.faults();
        if faults.is_empty() {
            return Ok(writeln!(out, "proved: every record that is settled is there exactly once")?);
        }
        writeln!(out, "NOT proved:")?;
        Ok(faults.iter().try_for_each(|fault| writeln!(out, "  {fault}"))?)
    }

    fn write_runs(&self, kind: Kind, list: usize, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
        let (runs, unlisted) = self.tally.runs(kind);
        for Run { partition, first, last, detail, .. } in runs.iter().take(list) {
            let offsets = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            writeln!(out, "{:>18}partition {partition} offset {offsets}{detail}", "")?;
        }
        let more: u64 = runs.iter().skip(list).map(|run| run.count).sum::<u64>() + unlisted;
        if more > 0 {
            writeln!(out, "{:>18}and {} more: --list shows more of them", "", grouped(more))?;
        }
        Ok(())
    }
}

fn write_counted(counted: &Counted, list: usize, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let Counted { table, settled, in_files, delete_files, uneven, .. } = counted;
    let said = match counted.proof {
        CountProof::BySnapshot => "each snapshot's files hold as many rows as it settled",
        CountProof::InTotal => "files were rewritten since, and hold as many rows as were settled in total",
        CountProof::None => "they do NOT agree",
    };
    writeln!(
        out,
        "rows by count: {} in the ledgers of {table}, {} in its files: {said}",
        grouped(*settled),
        grouped(*in_files)
    )?;
    for one in uneven.iter().take(list) {
        let snapshot = one.snapshot.map_or_else(|| "no longer shown".to_owned(), |id| id.to_string());
        let operation = one.operation.map_or_else(String::new, |operation| format!(", {operation}"));
        writeln!(
            out,
            "{:>18}sequence number {} (snapshot {snapshot}{operation}): {} settled, {} in files",
            "",
            one.sequence_number,
            grouped(one.settled),
            grouped(one.in_files)
        )?;
    }
    if *delete_files > 0 {
        writeln!(out, "{:>18}{delete_files} delete files: which rows they hide, counts can't tell", "")?;
    }
    Ok(())
}
