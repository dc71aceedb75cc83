//! `icefall replay`: dead letters that can be rows by now.
//!
//! Nothing is decided here. Dead letters are read from their table, told from others by the ledger of the table
//! that they were meant for, and converted by that table's schema of today. Those that fit go to the commit queue as rows,
//! and the committer settles each exactly once: as a row as long as the ledger holds it as a dead letter and not as a
//! row yet. The dead-letter table is a history; what is replayed stays in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::RangeInclusive;

use chrono::DateTime;
use iceberg::spec::{ManifestContentType, ManifestFile, TableMetadata};
use icefall_catalog::Snapshots;
use icefall_convert::Converter;
use icefall_datafile::{Columns, FileFormat, NewDataFile, read_as};
use icefall_ledger::{Held, Kind, Settled, Wanted};
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, DeadLetterFile, Fingerprint, RecordId, RecordList, Release, SchemaId,
    Source, SpecId, TableName,
};
use icefall_records::fingerprint::{Time, compute};
use icefall_records::{Form, Payload};
use icefall_store::Location;
use icefall_tables::{REPLAY, Table, TableError, ident};
use serde::Serialize;

use crate::dead_letters::{Letter, letters};
use crate::live_files::live_files;
use crate::{CliError, Desk, ReplayArguments};

/// Records in one message.
const RECORDS_AT_ONCE: usize = 20_000;

/// Which dead letters are meant.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) table: TableName,
    pub(crate) classes: Vec<String>,
    /// When they became dead letters, in milliseconds since the epoch.
    pub(crate) time_ms: RangeInclusive<i64>,
    pub(crate) topic: Option<String>,
    pub(crate) partition: Option<i32>,
    pub(crate) offsets: RangeInclusive<i64>,
}

/// What became of the dead letters that were meant.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    /// They, all in all.
    chosen: usize,
    /// Those that go to the committer as rows.
    replayed: usize,
    /// Those that are rows already.
    rows_already: usize,
    /// Those that still can't be converted, by what is wrong with them.
    still_bad: BTreeMap<String, usize>,
    /// Those that the ledger does not hold as this very dead letter.
    unproven: usize,
}

/// What the ledger says about a dead letter.
enum Known {
    Letter(RecordId),
    Row,
    Unproven,
}

impl Filter {
    fn takes(&self, letter: &Letter) -> bool {
        letter.target_table == self.table.to_string()
            && (self.classes.is_empty() || self.classes.contains(&letter.error_class))
            && self.time_ms.contains(&letter.time_ms)
            && self.topic.as_ref().is_none_or(|topic| letter.source.topic.as_str() == topic)
            && self.partition.is_none_or(|partition| letter.partition.number() == partition)
            && self.offsets.contains(&letter.offset.position())
    }
}

impl ReplayArguments {
    /// What they mean, if they can be understood.
    pub(crate) fn filter(&self) -> Result<Filter, CliError> {
        let table =
            TableName::try_from(self.table.as_str()).map_err(|fault| CliError::Asked(fault.to_string()))?;
        let since = self.since.as_deref().map(instant).transpose()?.unwrap_or(i64::MIN);
        let until =
            self.until.as_deref().map(instant).transpose()?.map_or(i64::MAX, |until| until.saturating_sub(1));
        Ok(Filter {
            table,
            classes: self.class.clone(),
            time_ms: since..=until,
            topic: self.topic.clone(),
            partition: self.partition,
            offsets: self.offsets.as_deref().map_or(Ok(0..=i64::MAX), offsets)?,
        })
    }
}

fn instant(text: &str) -> Result<i64, CliError> {
    let time = DateTime::parse_from_rfc3339(text);
    let time = time.map_err(|fault| {
        CliError::Asked(format!("{text:?} is no time ({fault}): write 2024-05-01T00:00:00Z"))
    })?;
    Ok(time.timestamp_millis())
}

fn offsets(text: &str) -> Result<RangeInclusive<i64>, CliError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => {
            Err(CliError::Asked(format!("{text:?} is no offset and no range of offsets: write 40 or 40-59")))
        }
    }
}

pub(crate) async fn run(
    desk: &Desk,
    filter: &Filter,
    dry: bool,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let loaded = desk.catalog.load_table(&ident(&filter.table)?, Snapshots::Refs).await?;
    let branch = desk.settings.branch(&filter.table);
    let table = Table::open(filter.table.clone(), branch, loaded).map_err(TableError::from)?;
    let from = desk.catalog.load_table(&ident(&desk.settings.dead_letters)?, Snapshots::Refs).await?;
    let mut outcome = Outcome::default();
    for path in data_files(desk, &from.metadata).await? {
        let location =
            Location::parse(&path).map_err(|fault| CliError::DeadLetters(format!("{path}: {fault}")))?;
        let rows = read_as(
            desk.tables.get(&location).await.map_err(CliError::Tables)?,
            from.metadata.current_schema(),
            Columns::ById,
        )?;
        let mut by_source: BTreeMap<Source, Vec<Letter>> = BTreeMap::new();
        for letter in letters(&rows)?.into_iter().filter(|letter| filter.takes(letter)) {
            by_source.entry(letter.source.clone()).or_default().push(letter);
        }
        for (source, letters) in by_source {
            for apart in apart(letters, |letter| (letter.partition, letter.offset)) {
                for some in apart.chunks(RECORDS_AT_ONCE) {
                    replay(desk, &table, &source, some, dry, &mut outcome).await?;
                }
            }
        }
    }
    say(&outcome, dry, json, out)
}

/// `letters` in lists of which each has a place once, as a batch manifest must: several dead letters can stand at one offset,
/// of a topic that was made again, or since a copy was released.
fn apart<T, P: Ord>(letters: Vec<T>, place: impl Fn(&T) -> P) -> Vec<Vec<T>> {
    let mut lists: Vec<(BTreeSet<P>, Vec<T>)> = Vec::new();
    for letter in letters {
        let open = lists.iter_mut().find(|(places, _)| !places.contains(&place(&letter)));
        if let Some((places, list)) = open {
            places.insert(place(&letter));
            list.push(letter);
        } else {
            lists.push(([place(&letter)].into(), vec![letter]));
        }
    }
    lists.into_iter().map(|(_, list)| list).collect()
}

fn say(outcome: &Outcome, dry: bool, json: bool, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string(outcome)?)?);
    }
    let Outcome { chosen, replayed, rows_already, still_bad, unproven } = outcome;
    let verb = if dry { "can be rows now" } else { "are queued as rows; the committer settles each once" };
    writeln!(out, "{replayed} of {chosen} dead letters {verb}")?;
    if *rows_already > 0 {
        writeln!(out, "{rows_already} are rows already")?;
    }
    for (why, count) in still_bad {
        writeln!(out, "{count} still can't be converted: {why}")?;
    }
    if *unproven > 0 {
        writeln!(
            out,
            "{unproven} can't be told to be the dead letters that the table's ledger holds, and stay what they are"
        )?;
    }
    Ok(())
}

/// The data files of the dead-letter table. Rows that somebody deleted from it are replayed as any other.
pub(crate) async fn data_files(desk: &Desk, metadata: &TableMetadata) -> Result<Vec<String>, CliError> {
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(Vec::new()) };
    let is_data = |manifest: &ManifestFile| manifest.content == ManifestContentType::Data;
    let live = live_files(desk, metadata, snapshot, is_data).await?;
    Ok(live.into_iter().map(|(_, entry)| entry.file_path().to_owned()).collect())
}

async fn replay(
    desk: &Desk,
    table: &Table,
    source: &Source,
    letters: &[Letter],
    dry: bool,
    outcome: &mut Outcome,
) -> Result<(), CliError> {
    outcome.chosen += letters.len();
    let Some(ledger) = table.read(source).transpose().map_err(TableError::from)? else {
        outcome.unproven += letters.len();
        return Ok(());
    };
    let asked = batch(desk, table, source, Vec::new(), Some(letters.iter().map(Letter::id).collect()));
    let (held, _) = desk.ledgers.look_up(&ledger, &Wanted::of([&asked])).await.map_err(TableError::from)?;
    let schema = table.metadata.current_schema();
    let mut converter = Converter::new(schema)?;
    let mut records = Vec::new();
    for letter in letters {
        match known(&held, letter) {
            Known::Row => outcome.rows_already += 1,
            Known::Unproven => outcome.unproven += 1,
            Known::Letter(record) => match letter.value.as_deref().map(|value| converter.append(value)) {
                Some(Ok(())) => records.push(record),
                Some(Err(bad)) => *outcome.still_bad.entry(bad.class.as_str().to_owned()).or_default() += 1,
                None => *outcome.still_bad.entry("tombstone".to_owned()).or_default() += 1,
            },
        }
    }
    outcome.replayed += records.len();
    if records.is_empty() || dry {
        return Ok(());
    }
    let format =
        FileFormat::new(schema, table.metadata.default_partition_spec(), table.metadata.properties())?;
    let name = || desk.entropy.uuid_at(desk.clock.now()).to_string();
    let mut files = Vec::new();
    for NewDataFile { entry, bytes, rows } in
        format.write(&converter.finish()?, table.metadata.location(), name)?
    {
        let place = Location::parse(&entry.path);
        let place = place.map_err(|fault| CliError::Asked(format!("{}: {fault}", entry.path)))?;
        desk.tables.put(&place, bytes).await.map_err(CliError::Tables)?;
        let of_file = rows.iter().filter_map(|row| records.get(*row as usize)).copied().collect();
        files.push(BatchFile { data_file: entry, records: of_file });
    }
    let batch = batch(desk, table, source, files, None);
    let release = Release { overruled: REPLAY.to_owned(), entry: format!("replay/{}", batch.id) };
    let body = desk.ops.enclose(batch, Some(release)).await?;
    Ok(desk.queue.send(&[body]).await?)
}

/// What the ledger says about a dead letter. Its fingerprint is that of the record as it was delivered, which may have
/// been as JSON.
fn known(held: &Held, letter: &Letter) -> Known {
    let prints = letter.fingerprints();
    let is_it = |settled: &Settled| prints.contains(&settled.fingerprint);
    let same: Vec<_> = held.at(letter.partition, letter.offset).filter(is_it).collect();
    if same.iter().any(|settled| settled.kind == Kind::Row) {
        return Known::Row;
    }
    same.first().map_or(Known::Unproven, |settled| {
        let Settled { encoding, fingerprint, .. } = *settled;
        Known::Letter(RecordId { encoding, fingerprint, ..letter.id() })
    })
}

impl Letter {
    /// Its place, with the fingerprint of raw bytes.
    pub(crate) fn id(&self) -> RecordId {
        RecordId {
            partition: self.partition,
            offset: self.offset,
            encoding: icefall_manifest::Encoding::Raw,
            fingerprint: self.fingerprint(Form::Bytes, Form::Bytes),
        }
    }

    fn fingerprints(&self) -> [Fingerprint; 4] {
        [
            (Form::Bytes, Form::Bytes),
            (Form::Bytes, Form::Json),
            (Form::Json, Form::Bytes),
            (Form::Json, Form::Json),
        ]
        .map(|(key, value)| self.fingerprint(key, value))
    }

    fn fingerprint(&self, key: Form, value: Form) -> Fingerprint {
        let time = self.timestamp_ms.map_or(Time::None, Time::Millis);
        let key = self.key.as_deref().map(|bytes| Payload { form: key, bytes });
        let value = self.value.as_deref().map(|bytes| Payload { form: value, bytes });
        compute(time, key, value)
    }
}

fn batch(
    desk: &Desk,
    table: &Table,
    source: &Source,
    files: Vec<BatchFile>,
    letters: Option<RecordList>,
) -> BatchManifest {
    let now = desk.clock.now();
    BatchManifest {
        id: BatchId(desk.entropy.uuid_at(now)),
        made_at_ms: now.unix_ms(),
        source: source.clone(),
        table: table.name.clone(),
        branch: table.branch.clone(),
        table_uuid: table.uuid(),
        schema_id: SchemaId(table.metadata.current_schema_id()),
        spec_id: SpecId(table.metadata.default_partition_spec_id()),
        files,
        dead_letters: letters.map(|records| DeadLetterFile { key: String::new(), records }),
        newest_record_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_at_one_offset_come_apart_and_none_is_left_out() {
        let letters = vec![(1, 'a'), (2, 'b'), (1, 'c'), (3, 'd'), (1, 'e'), (2, 'f')];
        let lists = apart(letters, |(place, _)| *place);
        assert_eq!(lists, [vec![(1, 'a'), (2, 'b'), (3, 'd')], vec![(1, 'c'), (2, 'f')], vec![(1, 'e')]]);
        assert!(apart(Vec::<(i32, char)>::new(), |(place, _)| *place).is_empty());
    }
}
