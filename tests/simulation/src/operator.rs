//! An operator at work: the commands as they are shipped, while functions are under way.
//!
//! People act on what they see: a source that stands still, an entry in quarantine, a table that was rolled back. Each
//! command is a process of its own, over the same parts; it can fail or die at any of its calls, and be given again by
//! somebody else. What it may have done counts from its beginning, what it must have done from its answer.

use std::collections::BTreeSet;

use icefall_cli::{
    Arguments, Command, LedgerCommand, NamedSource, QuarantineCommand, ReplayArguments, StopsCommand,
};
use icefall_ledger::StopDecision;
use icefall_manifest::BatchManifest;
use serde_json::Value;

use crate::account;
use crate::record::RecordNo;
use crate::schedule::HOUR;
use crate::tally::Fault;
use crate::watch::LEDGERS;
use crate::world::{Broken, World};

/// Whoever has not tidied up after so many commands never will.
const MOST_TASKS: usize = 80;
const DISCARDED_COPY: &str = "discarded-copy";
const OTHER_ENCODING: &str = "another-encoding";

/// What may be released at any time, since the ledger decides about it as about any other batch. Not among them: a topic
/// under another cluster's name, which is the same cluster here, and records in another encoding, which nobody can tell
/// from others while they are on their way.
const RELEASABLE: [&str; 6] = [
    "another-table",
    "waited-too-long",
    "stopped-too-long",
    "ended-the-committer",
    "file-damaged",
    DISCARDED_COPY,
];

/// A command of an operator's.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    EndStop { table: usize, source: String, decision: StopDecision },
    Release(Entry),
    Discard(Entry),
    Replay { table: usize },
    Rewind { table: usize, source: String },
    Restore { table: usize, source: String },
}

/// An entry in quarantine.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Entry {
    day: String,
    reason: String,
    id: String,
}

impl Task {
    /// The table that it is about, by index.
    pub(crate) const fn table(&self) -> Option<usize> {
        match self {
            Self::EndStop { table, .. }
            | Self::Replay { table }
            | Self::Rewind { table, .. }
            | Self::Restore { table, .. } => Some(*table),
            Self::Release(_) | Self::Discard(_) => None,
        }
    }
}

impl Entry {
    fn of_key(key: &str) -> Option<Self> {
        let mut parts = key.strip_prefix("quarantine/")?.strip_suffix(".json")?.split('/');
        let [day, reason, id] = [parts.next()?, parts.next()?, parts.next()?].map(str::to_owned);
        Some(Self { day, reason, id })
    }

    /// What it is called at the desk.
    fn name(&self) -> String {
        let Self { day, reason, id } = self;
        format!("{day}/{reason}/{id}")
    }

    pub(crate) fn key(&self, what: &str) -> String {
        format!("quarantine/{}.{what}", self.name())
    }

    fn decision_key(&self) -> String {
        format!("quarantine-decisions/{}.json", self.name())
    }
}

impl World {
    /// An operator does something, if there is anything to do.
    pub(crate) fn operate(&mut self) {
        let found: [(u64, Vec<Task>); 6] = [
            (8, self.stops()),
            (4, self.releases(&RELEASABLE)),
            (1, self.open_entries().into_iter().map(Task::Discard).collect()),
            (2, self.replays()),
            (3, self.rewinds()),
            (3, self.restores()),
        ];
        let possible: Vec<_> = found
            .iter()
            .filter(|(_, tasks)| !tasks.is_empty())
            .map(|(weight, tasks)| (*weight, tasks))
            .collect();
        let tasks = self.sim.rng.weighted(&possible);
        if let Some(task) = tasks.and_then(|tasks| self.sim.rng.pick(tasks)).cloned() {
            self.invoke_operator(task);
        }
    }

    /// When all else is done: every stop is ended and every entry released that can be, one after the other.
    pub(crate) fn tidy_up(&mut self) -> Result<(), String> {
        let mut tried = BTreeSet::new();
        for _ in 0..MOST_TASKS {
            let Some(task) = self.next_to_tidy(&mut tried)? else { return Ok(()) };
            self.invoke_operator(task);
            self.run_to_idle(HOUR);
            self.work_off()?;
        }
        Err(format!("STUCK after {MOST_TASKS} commands: {:?} stand still", self.stopped()))
    }

    /// Somebody restores ledgers that are there: nothing may come of it.
    fn restore_all(&self) -> Vec<Task> {
        let mut found = Vec::new();
        for (table, name) in self.tables.iter().map(|table| table.name).enumerate() {
            let ledgers = self.metadata(name).map(|metadata| account::ledgers(&metadata)).unwrap_or_default();
            let sources = ledgers.iter().map(|ledger| ledger.id().source.to_string());
            found.extend(sources.map(|source| Task::Restore { table, source }));
        }
        found
    }

    /// The same, one after the other.
    pub(crate) fn restore_in_vain(&mut self) {
        for task in self.restore_all() {
            self.invoke_operator(task);
            self.run_to_idle(HOUR);
        }
    }

    fn next_to_tidy(&mut self, tried: &mut BTreeSet<Entry>) -> Result<Option<Task>, String> {
        let stops = self.stops();
        if let Some(task) = self.sim.rng.pick(&stops) {
            return Ok(Some(task.clone()));
        }
        let entries = self.open_entries().into_iter().filter(|entry| tried.insert(entry.clone()));
        for entry in entries.collect::<Vec<_>>() {
            let encoding = entry.reason == OTHER_ENCODING;
            if RELEASABLE.contains(&entry.reason.as_str()) || (encoding && self.is_nowhere(&entry)?) {
                return Ok(Some(Task::Release(entry)));
            }
        }
        Ok(None)
    }

    /// Whether none of the entry's records stands anywhere, or has stood and was rolled back: an operator has looked.
    fn is_nowhere(&mut self, entry: &Entry) -> Result<bool, String> {
        let Some(batch) = self.batch_of_entry(entry) else { return Ok(false) };
        let standing = account::standing(self)?;
        let numbers: Vec<RecordNo> = account::batch_numbers(self, &batch)?;
        let is_settled = |no: &RecordNo| {
            standing.contains(no) || self.tables.iter().any(|table| table.rolled_back.contains(no))
        };
        Ok(!numbers.iter().any(is_settled))
    }

    fn stops(&self) -> Vec<Task> {
        let mut found = Vec::new();
        for (table, source) in self.stopped() {
            for decision in [StopDecision::Accept, StopDecision::Discard] {
                found.push(Task::EndStop { table, source: source.clone(), decision });
            }
        }
        found
    }

    /// Sources that stand still.
    fn stopped(&self) -> Vec<(usize, String)> {
        let mut stopped = Vec::new();
        for (index, table) in self.tables.iter().enumerate() {
            let Some(metadata) = self.metadata(table.name) else { continue };
            let ledgers = account::ledgers(&metadata).into_iter().filter(|ledger| ledger.stop().is_some());
            stopped.extend(ledgers.map(|ledger| (index, ledger.id().source.to_string())));
        }
        stopped
    }

    fn releases(&self, reasons: &[&str]) -> Vec<Task> {
        let entries = self.open_entries().into_iter();
        entries.filter(|entry| reasons.contains(&entry.reason.as_str())).map(Task::Release).collect()
    }

    /// Entries that nothing was decided about.
    fn open_entries(&self) -> Vec<Entry> {
        let entries = self.parts.ops.keys("ops", "quarantine/").into_iter();
        let decided: BTreeSet<_> = self.parts.ops.keys("ops", "quarantine-decisions/").into_iter().collect();
        entries
            .filter_map(|key| Entry::of_key(&key))
            .filter(|entry| !decided.contains(&entry.decision_key()))
            .collect()
    }

    /// Tables whose dead letters may be rows by now.
    fn replays(&self) -> Vec<Task> {
        let wide = self.tables.iter().enumerate().filter(|(_, table)| table.widened_ms.is_some());
        wide.map(|(table, _)| Task::Replay { table }).collect()
    }

    /// Sources whose rows were rolled back.
    pub(crate) fn rewinds(&self) -> Vec<Task> {
        let mut found = Vec::new();
        for (index, table) in self.tables.iter().enumerate() {
            let Some(metadata) = self.metadata(table.name) else { continue };
            let topic = |no: &RecordNo| Some(self.kafka.topics.get(self.kafka.records.get(*no)?.topic)?.name);
            let topics: BTreeSet<_> = table.rolled_back.iter().filter_map(topic).collect();
            let sources = account::ledgers(&metadata).into_iter().map(|ledger| ledger.id().source.clone());
            let rolled_back = sources.filter(|source| topics.contains(source.topic.as_str()));
            found.extend(rolled_back.map(|source| Task::Rewind { table: index, source: source.to_string() }));
        }
        found
    }

    /// Ledgers that somebody unset.
    fn restores(&self) -> Vec<Task> {
        let unset = self.broken.iter().filter_map(|(table, broken)| match broken {
            Broken::Unset { name, .. } => {
                let source = name.strip_prefix(LEDGERS)?.split_once('.')?.1.to_owned();
                Some(Task::Restore { table: *table, source })
            }
            _ => None,
        });
        unset.collect()
    }

    /// The command line of a task.
    pub(crate) fn arguments(&self, task: &Task) -> Arguments {
        let because = || "as the simulation says".to_owned();
        let table = |index: &usize| self.tables.get(*index).map_or("", |table| table.name).to_owned();
        let named = |index: &usize, source: &String| NamedSource {
            table: table(index),
            source: source.clone(),
            because: because(),
        };
        let command = match task {
            Task::EndStop { table, source, decision: StopDecision::Accept } => {
                Command::Stops { command: StopsCommand::Accept(named(table, source)) }
            }
            Task::EndStop { table, source, decision: StopDecision::Discard } => {
                Command::Stops { command: StopsCommand::Discard(named(table, source)) }
            }
            Task::Release(entry) => Command::Quarantine {
                command: QuarantineCommand::Release {
                    id: entry.name(),
                    reason_overruled: entry.reason.clone(),
                },
            },
            Task::Discard(entry) => Command::Quarantine {
                command: QuarantineCommand::Discard { id: entry.name(), because: because() },
            },
            Task::Replay { table: index } => Command::Replay(ReplayArguments {
                table: table(index),
                class: Vec::new(),
                since: None,
                until: None,
                topic: None,
                partition: None,
                offsets: None,
                dry_run: false,
            }),
            Task::Rewind { table, source } => {
                Command::Ledger { command: LedgerCommand::Rewind(named(table, source)) }
            }
            Task::Restore { table, source } => {
                Command::Ledger { command: LedgerCommand::Restore(named(table, source)) }
            }
        };
        Arguments { settings: None, json: true, command }
    }

    /// A command begins: from now on it may have been done.
    pub(crate) fn task_begins(&mut self, task: &Task) {
        match task {
            Task::EndStop { table, source, decision } => {
                let topic = source.rsplit('/').next().unwrap_or_default().to_owned();
                if let Some(table) = self.tables.get_mut(*table) {
                    match decision {
                        StopDecision::Accept => *table.beside.entry(topic).or_default() += 1,
                        StopDecision::Discard => table.discards = true,
                    }
                }
            }
            Task::Release(entry) if [DISCARDED_COPY, OTHER_ENCODING].contains(&entry.reason.as_str()) => {
                let Some(batch) = self.batch_of_entry(entry) else { return };
                let (name, topic) = (batch.table.to_string(), batch.source.topic.to_string());
                for table in self.tables.iter_mut().filter(|table| table.name == name) {
                    *table.beside.entry(topic.clone()).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// A command has ended, with its answer or without.
    pub(crate) fn task_ended(&mut self, task: &Task, answer: Option<&str>) {
        let Some(answer) = answer else { return self.sim.strike(Fault::CommandFailed) };
        let answer: Value = serde_json::from_str(answer).unwrap_or_default();
        let any = |name: &str| answer.get(name).and_then(Value::as_u64).is_some_and(|count| count > 0);
        let done = match task {
            Task::EndStop { decision: StopDecision::Accept, .. } => Fault::StopAccepted,
            Task::EndStop { decision: StopDecision::Discard, .. } => Fault::CopiesDiscarded,
            Task::Release(_) => Fault::Released,
            Task::Discard(_) => Fault::EntryDiscarded,
            Task::Replay { .. } if any("replayed") => Fault::LettersReplayed,
            Task::Rewind { .. } if any("rows") => Fault::Rewound,
            Task::Restore { .. } => Fault::LedgerRestored,
            Task::Replay { .. } | Task::Rewind { .. } => return,
        };
        self.sim.strike(done);
        self.notice_mended();
    }

    /// Rows that a rewind has set free may be missing from now on, and may come again. Those that a writer answers for
    /// from now on must stand again, if all of the branch's history could be seen.
    pub(crate) fn notice_rewinds(&mut self) {
        let rewound = std::mem::take(&mut self.sim.state().rewound);
        let now_ms = self.sim.now_ms();
        for rewound in rewound {
            let Self { kafka, tables, settings, .. } = self;
            let is_whole = rewound.whole && !settings.ever_renamed;
            let is_of = |no: &RecordNo| {
                let topic = kafka.records.get(*no).and_then(|record| kafka.topics.get(record.topic));
                topic.is_some_and(|topic| rewound.property.ends_with(&format!("/{}", topic.name)))
            };
            for table in tables.iter_mut().filter(|table| table.name == rewound.table) {
                let freed: Vec<_> = table.rolled_back.iter().filter(|no| is_of(no)).copied().collect();
                for no in freed {
                    table.rolled_back.remove(&no);
                    table.rewound.insert(no);
                    table.excused.insert(no, if is_whole { now_ms } else { u64::MAX });
                }
            }
        }
    }

    /// Ledgers that were put back, by whomever.
    pub(crate) fn notice_mended(&mut self) {
        let is_absent = |index: &usize, name: &str| {
            let table = self.tables.get(*index).and_then(|table| self.metadata(table.name));
            table.is_none_or(|metadata| !metadata.properties().contains_key(name))
        };
        let still_holds = |index: &usize, name: &str, value: &str| {
            let table = self.tables.get(*index).and_then(|table| self.metadata(table.name));
            table.is_some_and(|metadata| metadata.properties().get(name).is_some_and(|held| held == value))
        };
        let mended: Vec<_> = self
            .broken
            .iter()
            .filter(|(index, broken)| match broken {
                Broken::Unset { name, .. } => !is_absent(index, name),
                Broken::OldValue { name, old, .. } => !still_holds(index, name, old),
                Broken::Copied | Broken::Astray { .. } => false,
            })
            .map(|(index, _)| *index)
            .collect();
        for index in mended {
            self.broken.remove(&index);
        }
    }

    fn batch_of_entry(&self, entry: &Entry) -> Option<BatchManifest> {
        let raw = account::ops_text(self, &entry.key("raw")).ok()?;
        self.parts.batch_of(&raw)
    }
}
