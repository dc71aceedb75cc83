//! One schedule: what happens, in the order that the seed says; then calm, the draining, and the account.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use icefall_manifest::BatchManifest;
use icefall_testkit::Failure;

use crate::account;
use crate::lie::Lie;
use crate::tally::{Fault, Tally};
use crate::weather::Part;
use crate::world::{CLUSTER, DEAD_LETTERS, SettingsText, World};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;

/// The least number of events, and of faults that must have struck.
const EVENTS: usize = 40;
const FAULTS: u64 = 3;
/// Records of one partition in a batch: a few while there are faults, many when all is drained.
pub(crate) const FEW: u64 = 13;
const MANY: u64 = 500;
/// A schedule that has not drained after so many rounds never will.
const MOST_ROUNDS: usize = 40;

/// What one schedule came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// How many events it had.
    pub events: usize,
    /// What struck.
    pub tally: Tally,
    /// A hash of all that happened.
    pub hash: u64,
    /// What is wrong, if anything is.
    pub violation: Option<String>,
    /// All that happened, in lines.
    pub trace: String,
}

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    Produce,
    Write,
    WriteAgain,
    Commit,
    Redeliver,
    Shuffle,
    OldMessage,
    ForeignMessage,
    Outage,
    TriggerRecreated,
    TopicRetention,
    TopicRecreated,
    Compact,
    Expire,
    CleanUp,
    ForeignCommit,
    RollBack,
    AddColumn,
    Widen,
    ChangeSpec,
    Drop,
    Settings,
    LongPause,
    Poison,
    Registry,
    UnsetLedger,
    OldValue,
    NewerFormat,
    Astray,
    Mend,
    RemoveUnused,
    Operate,
    ReplayGivenUp,
}

/// How often each happens.
const EVENT_WEIGHTS: [(u64, Event); 33] = [
    (170, Event::Produce),
    (260, Event::Write),
    (30, Event::WriteAgain),
    (240, Event::Commit),
    (25, Event::Redeliver),
    (12, Event::Shuffle),
    (25, Event::OldMessage),
    (4, Event::ForeignMessage),
    (10, Event::Outage),
    (14, Event::TriggerRecreated),
    (12, Event::TopicRetention),
    (16, Event::TopicRecreated),
    (50, Event::Compact),
    (45, Event::Expire),
    (20, Event::CleanUp),
    (20, Event::ForeignCommit),
    (40, Event::RollBack),
    (10, Event::AddColumn),
    (10, Event::Widen),
    (16, Event::ChangeSpec),
    (4, Event::Drop),
    (15, Event::Settings),
    (16, Event::LongPause),
    (3, Event::Poison),
    (3, Event::Registry),
    (10, Event::UnsetLedger),
    (20, Event::OldValue),
    (6, Event::NewerFormat),
    (40, Event::Astray),
    (30, Event::Mend),
    (20, Event::RemoveUnused),
    (110, Event::Operate),
    (20, Event::ReplayGivenUp),
];

/// What a schedule is rich in, so that what takes several rare events after each other comes about, too.
#[derive(Clone, Copy, Debug)]
enum Flavour {
    /// All of it.
    Mixed,
    /// Rollbacks, what they took brought back, and branches led astray: with snapshots that stay.
    Undone,
    /// Topics and tables made again, and what operators say about it.
    Remade,
}

/// How often each flavour is.
const FLAVOURS: [(u64, Flavour); 3] = [(60, Flavour::Mixed), (20, Flavour::Undone), (20, Flavour::Remade)];

impl Flavour {
    /// So many times as often as elsewhere, in percent.
    const fn percent(self, event: Event) -> u64 {
        match (self, event) {
            (Self::Undone, Event::RollBack) | (Self::Remade, Event::TopicRecreated) => 500,
            (Self::Undone, Event::Astray | Event::Mend | Event::TriggerRecreated) => 300,
            (Self::Undone, Event::Operate | Event::OldValue) => 200,
            (Self::Undone, Event::Expire | Event::Drop) => 10,
            (Self::Remade, Event::Drop | Event::Operate | Event::OldMessage) => 250,
            (Self::Remade, Event::Astray | Event::OldValue) => 20,
            _ => 100,
        }
    }

    fn weights(self) -> Vec<(u64, Event)> {
        EVENT_WEIGHTS.map(|(weight, event)| (weight * self.percent(event), event)).to_vec()
    }
}

/// Runs the schedule of `seed`.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    run_with(seed, None)
}

/// Runs the schedule of `seed` with a part that breaks its word.
#[must_use]
pub fn run_with(seed: u64, lie: Option<Lie>) -> Outcome {
    let mut world = World::new(seed, lie);
    // A panic is a process that dies of a record or a message each time it comes: that is one's fault, and no end of
    // the run, so that the seed is known and the trace is there.
    let played = catch_unwind(AssertUnwindSafe(|| world.play()));
    let (events, violation) =
        played.unwrap_or_else(|panic| (0, Some(format!("PANIC {}", words_of(panic.as_ref())))));
    let sim = Arc::clone(&world.sim);
    let records = world.kafka.records.len() as u64;
    drop(world);
    let mut state = sim.state();
    state.tally.records = records;
    let (hash, tally) = (state.trace.hash(), std::mem::take(&mut state.tally));
    let trace = std::mem::replace(&mut state.trace, crate::trace::Trace::new(0));
    Outcome { seed, events, tally, hash, violation, trace: trace.into_text() }
}

/// What a panic says.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

impl World {
    /// The whole schedule and the account at its end: how many events there were, and what is wrong.
    fn play(&mut self) -> (usize, Option<String>) {
        let flavour = self.sim.rng.weighted(&FLAVOURS).unwrap_or(Flavour::Mixed);
        self.sim.detail(&format!("a schedule that is {flavour:?}"));
        let weights = flavour.weights();
        self.invoke_committer();
        self.run_to_idle(5 * MINUTE);
        let past = self.live_through_a_past();
        self.sim.state().trace.begin();
        // At once, before the table is in a state in which nothing can be committed to it.
        if let Some(topic) = past {
            self.outgrow_the_past(topic);
        }
        let mut undone = false;
        while self.sim.state().trace.events() < EVENTS || self.sim.state().tally.total() < FAULTS {
            if matches!(flavour, Flavour::Undone) && !undone && self.sim.state().trace.events() > EVENTS / 2 {
                undone = true;
                self.undo_and_go_astray(&weights);
            }
            self.happen(&weights);
            let pause = self.pause();
            self.run_until(self.sim.now_ms() + pause);
        }
        let events = self.sim.state().trace.events();
        let wrong = self.drain().and_then(|()| account::check(self)).err();
        let violation = self.sim.state().violation.take().or(wrong);
        (events, violation)
    }

    /// Mostly a moment, so that things overlap.
    fn pause(&self) -> u64 {
        let rng = &self.sim.rng;
        let range = rng.weighted(
            &[(50, 0..200), (30, 200..3 * SECOND), (15, 3 * SECOND..MINUTE), (5, MINUTE..HOUR)]
                .map(|(weight, range)| (weight, (range.start, range.end))),
        );
        range.map_or(0, |(start, end)| rng.within(start..end))
    }

    /// What has to follow each other, and hardly would by chance: rows are rolled back, then brought back by a rewind or
    /// left behind by what is committed next, and then the branch is set where the ledger does not stand.
    fn undo_and_go_astray(&mut self, weights: &[(u64, Event)]) {
        let index = self.sim.rng.index(self.tables.len());
        for _ in 0..3 {
            self.settle_something(index);
        }
        if self.roll_back(index) {
            let name = self.tables.get(index).map_or("", |table| table.name);
            self.sim.event(&format!("{}: {name}", Fault::RolledBack.text()));
            self.sim.strike(Fault::RolledBack);
        }
        if self.sim.rng.chance(500) {
            for task in self.rewinds().into_iter().filter(|task| task.table() == Some(index)) {
                self.invoke_operator(task);
                self.run_to_idle(5 * MINUTE);
            }
        }
        self.settle_something(index);
        for _ in 0..self.sim.rng.within(0..4) {
            self.happen(weights);
            self.run_until(self.sim.now_ms() + SECOND);
        }
        self.table_event_at(Event::Astray, index);
        self.settle_something(index);
    }

    /// Records of a table are produced, written and committed, unless something strikes.
    fn settle_something(&mut self, index: usize) {
        let topics: Vec<_> = (0..)
            .zip(&self.kafka.topics)
            .filter(|(_, topic)| topic.table == index)
            .map(|(no, _)| no)
            .collect();
        self.settle_topics(&topics);
    }

    /// The same of some topics.
    pub(crate) fn settle_topics(&mut self, topics: &[usize]) {
        for topic in topics {
            self.produce_to(*topic);
            self.invoke_writer(*topic, false, FEW);
        }
        self.run_to_idle(MINUTE);
        self.invoke_committer();
        self.run_to_idle(5 * MINUTE);
    }

    /// One event. Events that find nothing to do don't count.
    fn happen(&mut self, weights: &[(u64, Event)]) {
        let Some(event) = self.sim.rng.weighted(weights) else { return };
        match event {
            Event::Produce => self.produce(),
            Event::Write => {
                let topic = self.sim.rng.index(self.kafka.topics.len());
                self.invoke_writer(topic, false, FEW);
            }
            Event::WriteAgain => {
                let topic = self.sim.rng.index(self.kafka.topics.len());
                if self.invoke_writer(topic, true, FEW) {
                    self.sim.strike(Fault::Rebalanced);
                }
            }
            Event::Commit => {
                self.invoke_committer();
            }
            Event::Redeliver | Event::Shuffle | Event::OldMessage | Event::ForeignMessage | Event::Poison => {
                self.queue_event(event);
            }
            Event::Operate => self.operate(),
            Event::ReplayGivenUp => {
                self.replay_given_up();
            }
            Event::Outage => self.outage(),
            Event::TriggerRecreated | Event::TopicRecreated | Event::TopicRetention => {
                self.kafka_event(event);
            }
            Event::Settings => self.change_settings(),
            Event::Registry => {
                self.registry = !self.registry;
                self.ever_switched = true;
                self.sim.event(&format!("records come by way of a schema registry: {}", self.registry));
                self.sim.strike(Fault::RegistrySwitched);
            }
            Event::LongPause if self.waits_for_operator() && self.sim.rng.chance(700) => self.fortnight(),
            Event::LongPause => {
                self.sim.event("a long pause");
                let end = self.sim.now_ms() + self.sim.rng.within(HOUR..60 * HOUR);
                self.run_until(end);
            }
            table => self.table_event(table),
        }
    }

    /// Whether a source stands still, or a table's ledgers are to be mended.
    fn waits_for_operator(&self) -> bool {
        let stopped = || {
            let tables = self.tables.iter().filter_map(|table| self.metadata(table.name));
            tables.into_iter().any(|metadata| account::has_stop(&metadata))
        };
        !self.broken.is_empty() || stopped()
    }

    /// No operator does anything for longer than the queue keeps messages, while committers go on. In the last quarter of
    /// that time they come more often, as long as there is something left to put aside: still hundreds of times more
    /// seldom than in a deployment, where each minute has one.
    fn fortnight(&mut self) {
        self.sim.event("two weeks pass");
        self.sim.strike(Fault::Fortnight);
        let (begun, day) = (self.sim.now_ms(), 24 * HOUR);
        while self.sim.now_ms() < begun + 15 * day {
            self.invoke_committer();
            let is_late = self.sim.now_ms() >= begun + 10 * day && !self.parts.queue.is_empty();
            self.run_until(self.sim.now_ms() + if is_late { 2 * HOUR } else { 12 * HOUR });
        }
    }

    fn produce(&mut self) {
        let topic = self.sim.rng.index(self.kafka.topics.len());
        self.produce_to(topic);
    }

    fn produce_to(&mut self, topic: usize) {
        let rng = &self.sim.rng;
        let Some(described) = self.kafka.topics.get(topic) else { return };
        let (name, partition) = (described.name, rng.index(described.partitions.len()));
        let (count, now) = (rng.within(1..13), self.sim.now_ms());
        let first = self.kafka.records.len();
        self.kafka.produce(rng, topic, partition, count, now);
        let last = self.kafka.records.len() - 1;
        self.sim.event(&format!("records {first} to {last} produced to {name}-{partition}"));
    }

    fn queue_event(&mut self, event: Event) {
        let queue = &self.parts.queue;
        match event {
            Event::Redeliver if !queue.is_empty() => {
                self.sim.event("all messages are seen again");
                if queue.redeliver_all() > 0 {
                    self.sim.strike(Fault::Redelivered);
                }
            }
            Event::Shuffle if queue.len() > 1 => {
                self.sim.event("messages come in another order");
                self.sim.strike(Fault::Shuffled);
                queue.shuffle(self.sim.rng.bits());
            }
            Event::OldMessage => self.repeat_old(),
            Event::ForeignMessage => {
                self.sim.event("a message that is no batch manifest");
                self.sim.strike(Fault::ForeignMessage);
                self.foreign_messages += 1;
                queue.inject("{\"hello\":1}");
            }
            Event::Poison => {
                self.sim.event("a message that whoever opens it dies of");
                self.foreign_messages += 1;
                let id = queue.inject("{\"poison\":1}");
                self.sim.state().poison.insert(id.0);
            }
            _ => {}
        }
    }

    /// A message of the past comes again, if there is one.
    pub(crate) fn repeat_old(&self) {
        let Some(was_let_go) = self.parts.post.repeat_old() else { return };
        self.sim.event("a message of the past comes again");
        if was_let_go {
            self.sim.strike(Fault::OldMessage);
        }
    }

    fn outage(&mut self) {
        let rng = &self.sim.rng;
        let part = *rng.pick(&Part::ALL).unwrap_or(&Part::Queue);
        let failures = [Failure::Denied, Failure::Unreachable, Failure::Throttled, Failure::NoConnection];
        let failure = *rng.pick(&failures).unwrap_or(&Failure::Denied);
        let until = self.sim.now_ms() + rng.within(SECOND..10 * MINUTE);
        self.sim.event(&format!("the {} answers {failure:?} for a while", part.text()));
        self.sim.state().weather.outage(part, failure, until);
    }

    fn kafka_event(&mut self, event: Event) {
        let topic = self.sim.rng.index(self.kafka.topics.len());
        let Some(described) = self.kafka.topics.get(topic) else { return };
        if described.partitions.iter().all(|log| log.records.is_empty()) {
            return;
        }
        let name = described.name;
        if matches!(event, Event::TopicRetention) {
            if self.kafka.expire(&self.sim.rng, topic) {
                self.sim.event(&format!("records of {name} are too old to be kept"));
                self.sim.strike(Fault::TopicRetention);
            }
        } else if matches!(event, Event::TriggerRecreated) {
            self.sim.event(&format!("the trigger of {name} is made again, at the earliest offset"));
            self.sim.strike(Fault::TriggerRecreated);
            self.kafka.rewind(topic);
        } else {
            self.sim.event(&format!("topic {name} is deleted and made again"));
            self.sim.strike(Fault::TopicRecreated);
            self.kafka.recreate(topic);
        }
    }

    fn change_settings(&mut self) {
        let rng = &self.sim.rng;
        let text = SettingsText {
            tombstones_skipped: rng.chance(500),
            max_messages: *rng.pick(&[1, 3, 1000]).unwrap_or(&1000),
            commit_interval_s: rng.within(0..5),
            cluster: if rng.chance(120) { "renamed" } else { CLUSTER },
            ..self.settings.text
        };
        self.change_settings_to(text);
    }

    fn change_settings_to(&mut self, text: SettingsText) {
        self.sim.event(&format!("deployed: {text:?}"));
        if text.cluster != self.settings.text.cluster {
            self.sim.strike(Fault::ClusterRenamed);
        }
        self.settings.change(text);
        self.forget_warm();
    }

    fn table_event(&mut self, event: Event) {
        let index = self.sim.rng.index(self.tables.len());
        self.table_event_at(event, index);
    }

    fn table_event_at(&mut self, event: Event, index: usize) {
        let name = self.tables.get(index).map_or("", |table| table.name);
        let any = if self.sim.rng.chance(200) { DEAD_LETTERS } else { name };
        let (done, fault, on) = match event {
            Event::Compact if any == DEAD_LETTERS => (false, Fault::Compacted, any),
            Event::Compact => (self.compact(any), Fault::Compacted, any),
            Event::Expire => (self.expire(any), Fault::Expired, any),
            Event::CleanUp => (self.clean_up(), Fault::CleanedUp, "all tables"),
            Event::ForeignCommit => (self.foreign_commit(any), Fault::ForeignCommit, any),
            Event::RollBack => (self.roll_back(index), Fault::RolledBack, name),
            Event::AddColumn => (self.add_column(index), Fault::ColumnAdded, name),
            Event::Widen => (self.widen_column(index), Fault::ColumnWidened, name),
            Event::ChangeSpec => (self.change_spec(index), Fault::SpecChanged, name),
            Event::RemoveUnused => (self.remove_unused(index), Fault::UnusedRemoved, name),
            Event::UnsetLedger => (self.unset_ledger(index), Fault::LedgerUnset, name),
            Event::OldValue => (self.put_old_value(index), Fault::OldValue, name),
            Event::NewerFormat => (self.put_newer_format(index), Fault::NewerFormat, name),
            Event::Astray => {
                let fault = self.lead_astray(index);
                (fault.is_some(), fault.unwrap_or(Fault::Replaced), name)
            }
            Event::Mend => return self.mend_one(index),
            Event::Drop if self.sim.rng.chance(400) => {
                (self.make_again(index, true), Fault::LedgerCopied, name)
            }
            _ => (self.drop_table(index), Fault::Dropped, name),
        };
        if done {
            self.sim.event(&format!("{}: {on}", fault.text()));
            self.sim.strike(fault);
        }
        if done && matches!(event, Event::UnsetLedger) && self.sim.rng.chance(200) {
            self.rename_what_is_unset();
        }
        if done && matches!(event, Event::Widen) && self.sim.rng.chance(400) {
            self.ask_in_vain(index);
        }
    }

    /// The cluster gets another name while a ledger is gone, and all topics come from their beginning.
    fn rename_what_is_unset(&mut self) {
        let text = self.settings.text;
        let cluster = if text.cluster == CLUSTER { "renamed" } else { CLUSTER };
        self.sim.strike(Fault::UnsetAndRenamed);
        self.change_settings_to(SettingsText { cluster, ..text });
        for topic in 0..self.kafka.topics.len() {
            self.kafka.rewind(topic);
            self.invoke_writer(topic, false, FEW);
        }
        self.run_to_idle(MINUTE);
        self.invoke_committer();
    }

    /// What only a table of today takes comes while the catalog can't be asked which one that is.
    fn ask_in_vain(&mut self, index: usize) {
        self.run_until(self.sim.now_ms() + 62 * SECOND);
        self.sim.event("the catalog is down when records come for the widened column");
        let until = self.sim.now_ms() + 5 * MINUTE;
        self.sim.state().weather.outage(Part::Catalog, Failure::Unreachable, until);
        let topics = (0..).zip(&self.kafka.topics).filter(|(_, topic)| topic.table == index);
        let topics: Vec<_> = topics.map(|(no, _)| no).collect();
        for topic in topics {
            self.produce_to(topic);
            self.invoke_writer(topic, false, FEW);
        }
    }

    /// Faults end. Everything that Kafka holds is delivered, and the queue is worked off.
    fn drain(&mut self) -> Result<(), String> {
        self.sim.event("faults end");
        self.set_calm(true);
        self.run_to_idle(HOUR);
        if let Some(due) = self.parts.post.last_due_ms() {
            self.run_until(due.max(self.sim.now_ms()));
        }
        self.forget_warm();
        // What waits for an operator stands in nobody else's way.
        self.work_off()?;
        (0..self.tables.len()).for_each(|index| self.mend_one(index));
        self.work_off()?;
        if self.sim.rng.chance(500) {
            self.sim.event("operators see to all that waits for them");
            self.tidy_up()?;
            self.restore_in_vain();
        }
        self.finish();
        Ok(())
    }

    fn mend_one(&mut self, index: usize) {
        let name = self.tables.get(index).map_or("", |table| table.name);
        if self.broken.contains_key(&index) {
            self.mend(index);
            self.sim.event(&format!("an operator mends the ledgers of {name}"));
        }
    }

    /// Lets writers and committers take turns until only that is left which waits for an operator.
    pub(crate) fn work_off(&mut self) -> Result<(), String> {
        for _ in 0..MOST_ROUNDS {
            self.invoke_committer();
            self.run_to_idle(HOUR);
            if self.kafka.is_drained() && self.given_up.is_empty() && self.only_waits() {
                return Ok(());
            }
            for topic in 0..self.kafka.topics.len() {
                self.invoke_writer(topic, false, MANY);
            }
            while self.replay_given_up() {}
            self.run_to_idle(HOUR);
            self.run_until(self.sim.now_ms() + 6 * MINUTE);
        }
        let queued = self.parts.post.waiting().len();
        let kafka = self.kafka.is_drained();
        Err(format!(
            "STUCK after {MOST_ROUNDS} calm rounds: {queued} messages wait; Kafka delivered: {kafka}"
        ))
    }

    /// Whatever waits in outboxes goes with the next invocation.
    fn finish(&mut self) {
        self.forget_warm();
        self.run_until(self.sim.now_ms() + 6 * MINUTE);
        self.invoke_committer();
        self.run_to_idle(HOUR);
    }

    /// Whether the batch is for a table whose ledgers are to be mended.
    fn is_broken(&self, batch: &BatchManifest) -> bool {
        let name = batch.table.to_string();
        self.broken.keys().any(|index| self.tables.get(*index).is_some_and(|table| table.name == name))
    }

    /// Whether all that is queued waits for an operator.
    fn only_waits(&self) -> bool {
        let waits = |batch: BatchManifest| self.is_broken(&batch) || account::stands_still(self, &batch);
        self.parts.post.waiting().iter().all(|body| self.parts.batch_of(body).is_some_and(waits))
    }
}
