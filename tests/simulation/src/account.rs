//! The account at the end: where every record stands, and that it stands there once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use iceberg::spec::TableMetadata;
use icefall_ledger::{Ledger, read_property_name};
use icefall_manifest::{BatchManifest, DeadLetter, OffsetRun, TableUuid};
use icefall_store::Location;
use serde_json::Value;

use crate::readers::{Letter, Row, rows_in};
use crate::record::{Record, RecordNo};
use crate::reported::Reported;
use crate::verdict::judge;
use crate::watch::LEDGERS;
use crate::world::{DEAD_LETTERS, World};

/// Three quarters of the queue's retention, with a day for whatever takes its time.
const SWEPT_MS: u64 = (14 * 24 * 3 / 4 + 24) * 3_600_000;

/// Where records stand.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Rows of the tables as they are now, each with its table's index.
    pub(crate) rows: BTreeMap<RecordNo, (usize, Row)>,
    pub(crate) letters: BTreeMap<RecordNo, Vec<Letter>>,
    /// In quarantine, with what it takes to bring them back.
    pub(crate) quarantined: BTreeSet<RecordNo>,
    /// In messages that wait for an operator.
    pub(crate) queued: BTreeSet<RecordNo>,
    /// Dead letters that an operator wanted to be rows.
    pub(crate) replayed: BTreeSet<RecordNo>,
}

/// Checks everything; the first thing that is wrong, with its record.
pub(crate) fn check(world: &mut World) -> Result<(), String> {
    let mut account = Account::default();
    for index in 0..world.tables.len() {
        read_table(world, index, &mut account)?;
    }
    read_dead_letters(world, &mut account)?;
    read_quarantine(world, &mut account)?;
    read_queue(world, &mut account)?;
    for batch in world.parts.replays() {
        account.replayed.extend(batch_numbers(world, &batch)?);
    }
    judge(world, &account)
}

/// Records that are rows or dead letters.
pub(crate) fn standing(world: &mut World) -> Result<BTreeSet<RecordNo>, String> {
    let mut account = Account::default();
    for index in 0..world.tables.len() {
        read_table(world, index, &mut account)?;
    }
    read_dead_letters(world, &mut account)?;
    Ok(account.rows.into_keys().chain(account.letters.into_keys()).collect())
}

/// Every retained snapshot shows each record at most once; the newest is what counts.
fn read_table(world: &mut World, index: usize, account: &mut Account) -> Result<(), String> {
    let name = world.tables.get(index).map_or("", |table| table.name);
    let metadata = world.metadata(name).ok_or_else(|| format!("table {name} is not there"))?;
    no_other_tables_files(world, name, &metadata)?;
    all_registered(world, name, &metadata)?;
    let head = world.head(name, &metadata).map(|head| head.snapshot_id());
    for snapshot in metadata.snapshots() {
        let files = world.readers.rows(snapshot)?;
        let mut seen = BTreeSet::new();
        for row in files.iter().flat_map(|rows| rows.iter()) {
            if !seen.insert(row.no) {
                let id = snapshot.snapshot_id();
                return Err(format!("DOUBLED record {}: twice in snapshot {id} of {name}: {row:?}", row.no));
            }
        }
        if Some(snapshot.snapshot_id()) == head {
            let rows = files.iter().flat_map(|rows| rows.iter());
            for row in rows {
                if account.rows.insert(row.no, (index, row.clone())).is_some() {
                    return Err(format!("DOUBLED record {}: a row of two tables", row.no));
                }
            }
        }
    }
    Ok(())
}

/// Each ledger that stands in a table is registered: when a message is let go by it, and at every invocation.
fn all_registered(world: &World, name: &str, metadata: &TableMetadata) -> Result<(), String> {
    for ledger in ledgers(metadata) {
        let register = register_of(&ledger);
        if world.parts.ops.peek(&register).is_none() {
            return Err(format!(
                "UNREGISTERED the ledger of {} stands in {name}, and there is no {register}",
                ledger.id().source
            ));
        }
    }
    Ok(())
}

/// Properties of ledgers of which the register knows nothing, by name and value.
pub(crate) fn unregistered(world: &World, metadata: &TableMetadata) -> Vec<(String, String)> {
    let is_unknown = |ledger: &Ledger| world.parts.ops.peek(&register_of(ledger)).is_none();
    let names = ledgers(metadata).into_iter().filter(is_unknown).map(|ledger| property_of(&ledger));
    names
        .filter_map(|name| metadata.properties().get(&name).map(|value| (name.clone(), value.clone())))
        .collect()
}

/// The name of a ledger's property.
pub(crate) fn property_of(ledger: &Ledger) -> String {
    format!("{LEDGERS}{}.{}", ledger.id().branch, ledger.id().source)
}

/// Where the register has a ledger.
fn register_of(ledger: &Ledger) -> Location {
    let id = ledger.id();
    Location::s3("ops", format!("register/{}/{}/{}.json", id.table_uuid, id.branch, id.source))
}

/// No file that was stored before the table was made can be one of it.
fn no_other_tables_files(world: &mut World, name: &str, metadata: &TableMetadata) -> Result<(), String> {
    let made_ms = world.sim.state().made_ms.get(name).copied().unwrap_or_default();
    let Some(snapshot) = world.head(name, metadata) else { return Ok(()) };
    let files = world.readers.data_files(&snapshot)?;
    let born = world.parts.born.lock().unwrap_or_else(PoisonError::into_inner);
    match files.iter().find(|file| born.get(*file).is_some_and(|born_ms| *born_ms < made_ms)) {
        Some(file) => Err(format!("ANOTHER TABLE'S file stands in {name}: {file}")),
        None => Ok(()),
    }
}

fn read_dead_letters(world: &mut World, account: &mut Account) -> Result<(), String> {
    let metadata = world.metadata(DEAD_LETTERS).ok_or("the dead-letter table is not there")?;
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(()) };
    for letter in world.readers.letters(snapshot)?.iter().flat_map(|letters| letters.iter()) {
        let no = letter.timestamp_ms.and_then(Record::no_of_timestamp);
        let no = no.filter(|no| *no < world.kafka.records.len());
        let no = no.ok_or_else(|| format!("ALTERED a dead letter of no record: {letter:?}"))?;
        account.letters.entry(no).or_default().push(letter.clone());
    }
    Ok(())
}

fn read_quarantine(world: &mut World, account: &mut Account) -> Result<(), String> {
    let (mut foreign, mut messages) = (BTreeSet::new(), BTreeSet::new());
    for key in world.parts.ops.keys("ops", "quarantine/") {
        let Some(base) = key.strip_suffix(".json") else { continue };
        if !world.sim.state().reported.unsure.contains(&key) {
            messages.insert(base.rsplit('/').next().unwrap_or_default().to_owned());
        }
        let entry = ops_text(world, &key)?;
        let entry: Value = serde_json::from_str(&entry).map_err(|error| format!("{key}: {error}"))?;
        let raw = ops_text(world, &format!("{base}.raw"))?;
        let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default();
        if let Some(needless) = needless(world, reason) {
            return Err(format!("NEEDLESS {key}: {needless}: {entry}"));
        }
        let Some(batch) = world.parts.batch_of(&raw) else {
            foreign.insert(base.rsplit('/').next().unwrap_or_default().to_owned());
            continue;
        };
        if is_released(world, base) {
            continue;
        }
        let copies = entry.pointer("/details/data-files").and_then(Value::as_array).cloned();
        let copies = copies.unwrap_or_default();
        let meant = meant(&entry);
        let letters = letters_of(world, &batch)?;
        let letters = letters.into_iter().filter(|(_, place)| meant(*place));
        account.quarantined.extend(letters.map(|(no, _)| no));
        for (index, file) in batch.files.iter().enumerate() {
            let copy = copies.get(index).and_then(|copy| copy.get("copy")).and_then(Value::as_str);
            let rows = match copy.and_then(|copy| world.parts.ops.peek(&Location::s3("ops", copy))) {
                Some(body) => rows_in(body)?,
                None => rows_of(world, &file.data_file.path)?,
            };
            let rows = rows.iter().filter(|row| meant((row.partition, row.offset)));
            account.quarantined.extend(rows.map(|row| row.no));
        }
    }
    if foreign.len() < world.foreign_messages {
        return Err(format!(
            "LOST a message that is no batch manifest: {} were sent, {} are in quarantine",
            world.foreign_messages,
            foreign.len()
        ));
    }
    all_reported(world, &messages)
}

/// Alarms rest on metrics: each message in quarantine was counted, if only by a process that died before it could say so,
/// or made an invocation fail, and each source that stands still was reported.
fn all_reported(world: &World, messages: &BTreeSet<String>) -> Result<(), String> {
    let reported = world.sim.state().reported.clone();
    let Reported { told, untold, .. } = &reported;
    if told.quarantined + untold.quarantined < messages.len() as u64 {
        return Err(format!("UNREPORTED {} messages are in quarantine: {reported:?}", messages.len()));
    }
    for table in &world.tables {
        let stopped = world.metadata(table.name).is_some_and(|metadata| has_stop(&metadata));
        if stopped && !told.stopped.contains(table.name) {
            return Err(format!("UNREPORTED a source stands still in {}: {reported:?}", table.name));
        }
    }
    Ok(())
}

/// Whether an operator gave it back to the committer, in a message that the queue has accepted.
fn is_released(world: &World, base: &str) -> bool {
    let key = base.replacen("quarantine/", "quarantine-decisions/", 1) + ".json";
    let decision = ops_text(world, &key).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    decision.is_some_and(|decision| decision.get("decided").and_then(Value::as_str) == Some("released"))
}

/// Which of its batch's records an entry is about; all of them where it names none.
fn meant(entry: &Value) -> impl Fn((i64, i64)) -> bool {
    let runs = entry.pointer("/details/offsets").cloned().map(serde_json::from_value::<Vec<OffsetRun>>);
    let runs = runs.and_then(Result::ok);
    move |(partition, offset)| {
        runs.as_ref().is_none_or(|runs| {
            runs.iter().any(|run| {
                let first = run.first.position();
                i64::from(run.partition.number()) == partition
                    && (first..first + i64::from(run.count)).contains(&offset)
            })
        })
    }
}

/// Why nothing in the schedule explains a quarantine of that kind.
fn needless(world: &World, reason: &str) -> Option<&'static str> {
    let dropped = world.tables.iter().any(|table| table.drops > 0);
    let remade = world.kafka.topics.iter().any(|topic| topic.generation > 0);
    match reason {
        "another-table" if !dropped => Some("no table was dropped"),
        "no-batch-manifest" if world.foreign_messages == 0 => Some("no foreign message was sent"),
        "file-damaged" if world.removed.is_empty() => Some("no file was removed"),
        "discarded-copy" if !world.tables.iter().any(|table| table.discards) => {
            Some("no operator discarded copies")
        }
        "no-dead-letter" if !dropped => Some("what was replayed is a dead letter"),
        "another-cluster" if !world.settings.ever_renamed => Some("the cluster was never renamed"),
        // What can't be read is tagged so: a topic that is made again may hold such a record where another one was.
        "another-encoding" if !world.ever_switched && !remade => Some("the registry was never switched on"),
        "file-outside-table" | "bad-metrics" | "unreadable-event" => Some("nothing of that kind was done"),
        _ => None,
    }
}

/// What is still queued waits for an operator, because its source stands still.
fn read_queue(world: &mut World, account: &mut Account) -> Result<(), String> {
    for body in world.parts.post.waiting() {
        let Some(batch) = world.parts.batch_of(&body) else {
            return Err(format!("STUCK a message that is no batch manifest: {body}"));
        };
        if !stands_still(world, &batch) {
            return Err(format!(
                "STUCK batch manifest {} of {}, though no stop stands",
                batch.id, batch.table
            ));
        }
        if let Some(since_ms) = stands_since(world, &batch)
            && since_ms + SWEPT_MS < world.sim.now_ms()
        {
            return Err(format!("UNSWEPT batch manifest {} waits for a stop of long ago", batch.id));
        }
        account.queued.extend(batch_numbers(world, &batch)?);
    }
    Ok(())
}

/// Whether the batch's source is stopped in its table.
pub(crate) fn stands_still(world: &World, batch: &BatchManifest) -> bool {
    let Some(metadata) = world.metadata(&batch.table.to_string()) else { return false };
    ledgers(&metadata).iter().any(|ledger| ledger.id().source == batch.source && ledger.stop().is_some())
}

/// Since when the batch's source is stopped in its table.
fn stands_since(world: &World, batch: &BatchManifest) -> Option<u64> {
    let metadata = world.metadata(&batch.table.to_string())?;
    let ledgers = ledgers(&metadata);
    let stopped = ledgers.iter().find(|ledger| ledger.id().source == batch.source)?.stop()?;
    Some(stopped.since_ms)
}

/// Whether some source is stopped in the table.
pub(crate) fn has_stop(metadata: &TableMetadata) -> bool {
    ledgers(metadata).iter().any(|ledger| ledger.stop().is_some())
}

/// The records of dead letters that wait in the outboxes of a table.
pub(crate) fn outbox_numbers(world: &World, metadata: &TableMetadata) -> Vec<RecordNo> {
    let ledgers = ledgers(metadata);
    let keys = ledgers.iter().flat_map(|ledger| ledger.outbox().entries()).map(|entry| entry.key.clone());
    let letters = keys.flat_map(|key| letters_in(world, &key).unwrap_or_default());
    letters.map(|(no, _)| no).collect()
}

pub(crate) fn ledgers(metadata: &TableMetadata) -> Vec<Ledger> {
    let uuid = TableUuid(metadata.uuid());
    let read = |(key, value): (&String, &String)| {
        read_property_name(key).ok().flatten()?;
        Ledger::read(key, value, uuid).ok()
    };
    let mut ledgers: Vec<_> = metadata.properties().iter().filter_map(read).collect();
    ledgers.sort_by(|one, other| one.id().cmp(other.id()));
    ledgers
}

/// The records that a batch manifest holds.
pub(crate) fn batch_numbers(world: &mut World, batch: &BatchManifest) -> Result<Vec<RecordNo>, String> {
    let mut numbers = letter_numbers(world, batch)?;
    for file in &batch.files {
        numbers.extend(rows_of(world, &file.data_file.path)?.iter().map(|row| row.no));
    }
    Ok(numbers)
}

fn letter_numbers(world: &World, batch: &BatchManifest) -> Result<Vec<RecordNo>, String> {
    Ok(letters_of(world, batch)?.into_iter().map(|(no, _)| no).collect())
}

/// The dead letters that a batch manifest holds, each with its partition and offset.
fn letters_of(world: &World, batch: &BatchManifest) -> Result<Vec<Placed>, String> {
    batch.dead_letters.as_ref().map_or_else(|| Ok(Vec::new()), |file| letters_in(world, &file.key))
}

type Placed = (RecordNo, (i64, i64));

fn letters_in(world: &World, key: &str) -> Result<Vec<Placed>, String> {
    let body =
        world.parts.ops.peek(&Location::s3("ops", key)).ok_or_else(|| format!("{key} is not there"))?;
    let text = zstd::decode_all(body.as_ref()).map_err(|error| format!("{key}: {error}"))?;
    let letters = DeadLetter::decode_lines(&text).map_err(|error| format!("{key}: {error}"))?;
    let placed = |letter: &DeadLetter| {
        let no = letter.timestamp_ms.and_then(Record::no_of_timestamp)?;
        Some((no, (i64::from(letter.partition.number()), letter.offset.position())))
    };
    Ok(letters.iter().filter_map(placed).collect())
}

/// A file's rows, whether a clean-up has removed it since or not.
fn rows_of(world: &mut World, path: &str) -> Result<Vec<Row>, String> {
    match world.removed.get(path) {
        Some(body) => rows_in(body.clone()),
        None => world.readers.rows_of(path).map(|rows| rows.to_vec()),
    }
}

/// An object of the ops bucket.
pub(crate) fn ops_text(world: &World, key: &str) -> Result<String, String> {
    let body =
        world.parts.ops.peek(&Location::s3("ops", key)).ok_or_else(|| format!("{key} is not there"))?;
    String::from_utf8(body.to_vec()).map_err(|error| format!("{key}: {error}"))
}
