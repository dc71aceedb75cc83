//! What an audit found, for people and for machines.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use icefall_manifest::{Partition, Source, TableName};
use serde::Serialize;
use serde_json::json;

use super::counts::{CountProof, Counted, Taken};
use super::kind::{Kind, Run, Tally};
use super::objects::{Broken, Objects};
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
    /// What the store said of the tables' data files; `None`: it was not asked.
    pub(crate) objects: Option<Objects>,
    /// How rows were found by value; `None`: they were not.
    pub(crate) by_value: Option<ByValue>,
    /// Partitions that have records, of which nothing at all is settled.
    pub(crate) unbegun: Vec<Partition>,
    /// Delete files of the dead-letter table.
    pub(crate) letters_deleted: u64,
    /// Whether others append to the table as well.
    pub(crate) others_append: bool,
    /// Whether somebody knows of all rows that delete files hide.
    pub(crate) deletes_are_known: bool,
    /// Whether nothing is still to come.
    pub(crate) drained: bool,
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
        let extent = |extent: &Extent| {
            json!({
                "partition": extent.partition, "start": extent.start, "end": extent.end, "high": extent.high,
            })
        };
        let (faults, doubts) = (self.faults(), self.doubts());
        let answer = json!({
            "proved": faults.is_empty() && doubts.is_empty(),
            "faults": faults,
            "doubts": doubts,
            "reservations": self.reservations(),
            "warnings": self.warnings(),
            "source": self.source.to_string(),
            "tables": self.tables,
            "partitions": self.extents.iter().map(extent).collect::<Vec<_>>(),
            "records_read": self.read(),
            "counts": counts,
            "listed": listed,
            "files": self.counted,
            "data_files": self.objects,
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
            writeln!(out, "  {:>15} {}", grouped(self.tally.of(kind)), self.text(kind))?;
            self.write_runs(kind, list, out)?;
        }
        for counted in &self.counted {
            write_counted(counted, list, out)?;
        }
        if let Some(objects) = &self.objects {
            write_objects(objects, list, out)?;
        }
        writeln!(out, "{}", self.by_value_text())?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for warning in self.warnings() {
            writeln!(out, "WARNING: {warning}")?;
        }
        self.write_verdict(out)
    }

    fn write_verdict(&self, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
        let (faults, doubts) = (self.faults(), self.doubts());
        if faults.is_empty() && doubts.is_empty() {
            return Ok(writeln!(out, "{}", self.closing())?);
        }
        let heading =
            if faults.is_empty() { "not proved, though nothing is known to be wrong" } else { "NOT proved" };
        writeln!(out, "{heading}:")?;
        Ok(faults.iter().chain(&doubts).try_for_each(|line| writeln!(out, "  {line}"))?)
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

fn write_objects(objects: &Objects, list: usize, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let Objects { asked, broken, .. } = objects;
    writeln!(
        out,
        "data files: the store was asked for {}, and {} are not there as the tables name them",
        grouped(*asked),
        grouped(broken.len() as u64)
    )?;
    for Broken { path, sequence_number, snapshot, rows, size, found, .. } in broken.iter().take(list) {
        let what = match found {
            None => "is MISSING".to_owned(),
            Some(found) => format!("has {} bytes and not {}", grouped(*found), grouped(*size)),
        };
        let snapshot = snapshot.map_or_else(|| "no longer shown".to_owned(), |id| id.to_string());
        writeln!(
            out,
            "{:>18}{path} {what}: {} rows, of sequence number {sequence_number} (snapshot {snapshot})",
            "",
            grouped(*rows)
        )?;
    }
    let more = broken.len().saturating_sub(list) as u64;
    if more > 0 {
        writeln!(out, "{:>18}and {} more: --list shows more of them", "", grouped(more))?;
    }
    Ok(())
}

fn write_counted(counted: &Counted, list: usize, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let Counted { table, settled, in_files, delete_files, uneven, taken, .. } = counted;
    let said = match counted.proof {
        CountProof::BySnapshot => "each snapshot's files hold as many rows as it settled",
        CountProof::InTotal => {
            "files were rewritten since, by snapshots that keep all rows, and hold as many as were settled in total"
        }
        CountProof::InTotalUnseen => {
            "files were rewritten since, by snapshots that are no longer shown, and hold as many rows as were settled in \
             total, which is all that can be said"
        }
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
    for Taken { snapshot, operation, rows } in taken.iter().take(list) {
        writeln!(
            out,
            "{:>18}snapshot {snapshot}, {operation}, of somebody else took out files of {} such rows",
            "",
            grouped(*rows)
        )?;
    }
    if *delete_files > 0 {
        writeln!(out, "{:>18}{delete_files} delete files: which rows they hide, counts can't tell", "")?;
    }
    Ok(())
}
