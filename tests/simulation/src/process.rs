//! Processes: environments of the two functions, their invocations, operators' commands, and the deaths of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use icefall_catalog::Catalog;
use icefall_cli::Desk;
use icefall_clock::{Clock, Entropy, Timestamp};
use icefall_committer::Committer;
use icefall_queue::{CommitQueue, MessageId, Receipt, Received};
use icefall_settings::Settings;
use icefall_store::{ObjectLister, ObjectStore, OpsBucket};
use icefall_tables::LedgerStore;
use icefall_telemetry::Metrics;
use icefall_testkit::FakeStore;
use icefall_writer::Writer;

use crate::gate::{Gate, Role};
use crate::kafka::Span;
use crate::lie::Lie;
use crate::operator::Task;
use crate::ports::{SimCatalog, SimQueue, SimStore, now};
use crate::record::RecordNo;
use crate::sim::{Next, ProcessClock, ProcessId, Sim};
use crate::tally::Fault;
use crate::weather::Part;
use crate::world::{Parts, World};

/// As many of each function run at once.
const AT_ONCE: usize = 3;
/// As many commands of operators do.
const OPERATORS: usize = 2;
/// Of a thousand invocations of the committer the queue's own trigger begins so many.
const BROUGHT: u64 = 100;
/// Of a thousand processes the messages of so many are large.
const SPILLING: u64 = 120;
/// Nobody waits longer for a command.
const PATIENCE_MS: u64 = 15 * 60_000;
/// The twelve hours after which a writer takes nothing in, what it may remember of the heartbeat, and clocks that differ.
const STALLED_MS: u64 = (12 * 60 + 2) * 60_000;

/// All environments and what runs in them.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    warm: BTreeMap<ProcessId, Warm>,
    running: BTreeMap<ProcessId, Running>,
    started: u32,
}

/// An environment between two invocations, or in one.
#[derive(Debug)]
struct Warm {
    gate: Arc<Gate>,
    clock: Arc<ProcessClock>,
    metrics: Arc<Metrics>,
    program: Program,
}

#[derive(Debug)]
enum Program {
    Writer(Arc<Writer>),
    Committer(Arc<Committer>),
}

/// An invocation under way.
struct Running {
    role: Role,
    work: LocalBoxFuture<'static, Result<String, String>>,
    woken: Arc<Woken>,
    begun_ms: u64,
    killed_ms: u64,
    cause: Cause,
}

/// What an invocation is given.
enum Given {
    /// A batch of Kafka's.
    Event(String),
    /// Messages of the queue.
    Messages(Vec<Received>),
    Nothing,
}

/// What an invocation is for.
#[derive(Debug)]
enum Cause {
    Batch(Batch),
    Drain,
    /// The queue's own trigger, with the messages that it brought.
    Brought(Vec<(MessageId, Receipt)>),
    Task(Task),
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("role", &self.role)
            .field("cause", &self.cause)
            .finish_non_exhaustive()
    }
}

/// What an invocation of the writer was given.
#[derive(Debug)]
struct Batch {
    topic: usize,
    generation: u32,
    spans: Vec<Span>,
    numbers: Vec<RecordNo>,
    registry: bool,
}

/// A batch that the mapping gave up: what it leaves at its destination for failures.
#[derive(Debug)]
pub(crate) struct GivenUp {
    topic: usize,
    generation: u32,
    numbers: Vec<RecordNo>,
    registry: bool,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The parts as one process reaches them.
struct Reach {
    gate: Arc<Gate>,
    clock: Arc<ProcessClock>,
    catalog: Arc<dyn Catalog>,
    tables: Arc<dyn ObjectStore>,
    ops_store: Arc<SimStore>,
    queue: Arc<dyn CommitQueue>,
    entropy: Arc<dyn Entropy>,
}

impl Reach {
    fn new(sim: &Arc<Sim>, parts: &Parts, role: Role, process: ProcessId) -> Self {
        let gate = Gate::new(Arc::clone(sim), process, role);
        let behind_ms = if sim.rng.chance(150) { sim.rng.within(1_000..20_000) } else { 0 };
        if behind_ms > 0 {
            sim.strike(Fault::ClockSkew);
        }
        let clock = Arc::new(ProcessClock { sim: Arc::clone(sim), process, behind_ms });
        let store = |inner: &Arc<FakeStore>, part| SimStore {
            gate: Arc::clone(&gate),
            inner: Arc::clone(inner),
            part,
            born: Arc::clone(&parts.born),
            catalog: Arc::clone(&parts.catalog),
        };
        let tables = Arc::new(store(&parts.lake, Part::Lake));
        let ops_store = Arc::new(store(&parts.ops, Part::Ops));
        let catalog = Arc::new(SimCatalog { gate: Arc::clone(&gate), inner: Arc::clone(&parts.catalog) });
        let (inner, post) = (Arc::clone(&parts.queue), Arc::clone(&parts.post));
        let queue = Arc::new(SimQueue { gate: Arc::clone(&gate), inner, post });
        let entropy = Arc::clone(&parts.entropy) as Arc<dyn Entropy>;
        Self { gate, clock, catalog, tables, ops_store, queue, entropy }
    }

    fn ops(&self) -> OpsBucket {
        let ops = OpsBucket::new(Arc::clone(&self.ops_store) as Arc<dyn ObjectStore>, "ops", "");
        // As if all its batches were large.
        if self.gate.sim.rng.chance(SPILLING) { ops.with_message_limit(0) } else { ops }
    }
}

impl Warm {
    /// A cold environment.
    #[expect(clippy::expect_used, reason = "settings that don't parse are a fault of the simulation")]
    fn start(sim: &Arc<Sim>, parts: &Parts, settings: &Settings, role: Role, process: ProcessId) -> Self {
        let reach = Reach::new(sim, parts, role, process);
        let (ops, settings) = (reach.ops(), settings.clone());
        let Reach { gate, clock, catalog, tables, queue, entropy, .. } = reach;
        let metrics = Arc::new(Metrics::new(role.text()));
        let own = Arc::clone(&metrics);
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        let program = if role == Role::Writer {
            let ports = icefall_writer::Ports { catalog, tables, ops, queue, clock: time, entropy, metrics };
            Program::Writer(Arc::new(Writer::new(settings, ports)))
        } else {
            let ports =
                icefall_committer::Ports { catalog, tables, ops, queue, clock: time, entropy, metrics };
            let committer = Committer::new(settings, ports).expect("the settings are good");
            Program::Committer(Arc::new(committer))
        };
        Self { gate, clock, metrics: own, program }
    }
}

impl World {
    /// Invokes a writer with the next records of `topic`, less than `most` of a partition; says whether it could be.
    pub(crate) fn invoke_writer(&mut self, topic: usize, again: bool, most: u64) -> bool {
        if self.processes.count(Role::Writer) >= AT_ONCE {
            return false;
        }
        let spans = self.kafka.take(&self.sim.rng, topic, again, most);
        if spans.is_empty() {
            return false;
        }
        let numbers = self.kafka.numbers(topic, &spans);
        let Some(described) = self.kafka.topics.get(topic) else { return false };
        let generation = described.generation;
        let text = format!("batch of {} with records {numbers:?}", described.name);
        let batch = Batch { topic, generation, spans, numbers, registry: self.registry };
        self.invoke_with(batch, &text);
        true
    }

    fn invoke_with(&mut self, batch: Batch, text: &str) {
        self.attempt(&batch.numbers);
        let event = self.kafka.event(batch.topic, &batch.numbers, batch.registry);
        self.invoke(Role::Writer, Cause::Batch(batch), Given::Event(event), text);
    }

    /// Notes under which settings records are attempted.
    fn attempt(&mut self, numbers: &[RecordNo]) {
        let (text, mut changed) = (self.settings.text, false);
        for no in numbers {
            if let Some(record) = self.kafka.records.get_mut(*no) {
                let former = record.attempted.replace(text);
                changed |= former.is_some_and(|former| text.is_other_for_writers(former));
            }
        }
        if changed {
            self.sim.strike_unless_calm(Fault::SettingsChanged);
        }
    }

    /// Invokes a writer with a batch that the mapping gave up, as somebody does who looks after its destination for
    /// failures; says whether it could be.
    pub(crate) fn replay_given_up(&mut self) -> bool {
        if self.given_up.is_empty() || self.processes.count(Role::Writer) >= AT_ONCE {
            return false;
        }
        let index = self.sim.rng.index(self.given_up.len());
        let GivenUp { topic, generation, numbers, registry } = self.given_up.swap_remove(index);
        let text = format!("a batch that was given up, with records {numbers:?}");
        self.invoke_with(Batch { topic, generation, spans: Vec::new(), numbers, registry }, &text);
        self.sim.strike(Fault::GivenUpReplayed);
        true
    }

    /// Begins an operator's command, if not too many are under way.
    pub(crate) fn invoke_operator(&mut self, task: Task) {
        if self.processes.count(Role::Operator) >= OPERATORS {
            return;
        }
        self.processes.started += 1;
        let process = ProcessId(self.processes.started);
        let reach = Reach::new(&self.sim, &self.parts, Role::Operator, process);
        let ops = reach.ops();
        let ledgers = Arc::new(LedgerStore::new(ops.clone()));
        let settings = Arc::new(self.settings.parsed.clone());
        let Reach { clock, catalog, tables, ops_store, queue, entropy, .. } = reach;
        let lister = ops_store as Arc<dyn ObjectLister>;
        let topics = None;
        let desk = Desk { catalog, tables, ops, lister, ledgers, queue, topics, clock, entropy, settings };
        let arguments = self.arguments(&task);
        self.sim.event(&format!("operator-{} begins: {task:?}", process.0));
        self.task_begins(&task);
        let work = Box::pin(async move {
            let mut out = Vec::new();
            let done = icefall_cli::run(&desk, arguments, &mut out).await;
            done.map(|()| String::from_utf8_lossy(&out).trim().to_owned()).map_err(|error| chain(&error))
        });
        let begun_ms = self.sim.now_ms();
        let killed_ms = begun_ms + PATIENCE_MS;
        let (role, woken, cause) = (Role::Operator, Arc::default(), Cause::Task(task));
        self.processes.running.insert(process, Running { role, work, woken, begun_ms, killed_ms, cause });
        self.poll(process);
    }

    /// Invokes a committer; says whether it could be.
    pub(crate) fn invoke_committer(&mut self) -> bool {
        let running = self.processes.count(Role::Committer);
        if running >= AT_ONCE {
            return false;
        }
        if running + 1 == AT_ONCE {
            self.sim.strike_unless_calm(Fault::ThreeCommitters);
        }
        let brought = self.brought();
        if brought.is_empty() {
            self.invoke(Role::Committer, Cause::Drain, Given::Nothing, "drain");
            return true;
        }
        self.sim.strike(Fault::Brought);
        let text = format!("the queue's trigger brings {} messages", brought.len());
        let held = brought.iter().map(|message| (message.id.clone(), message.receipt.clone())).collect();
        self.invoke(Role::Committer, Cause::Brought(held), Given::Messages(brought), &text);
        true
    }

    /// What the queue's own trigger brings, where it is that which invokes the committer.
    #[expect(clippy::expect_used, reason = "a fake queue that fails is a fault of the simulation")]
    fn brought(&self) -> Vec<Received> {
        if self.is_calm() || !self.sim.rng.chance(BROUGHT) {
            return Vec::new();
        }
        now(self.parts.queue.receive(10, Duration::ZERO)).expect("the fake queue answers")
    }

    fn invoke(&mut self, role: Role, cause: Cause, given: Given, what: &str) {
        let process = self.environment(role);
        let Some(warm) = self.processes.warm.get(&process) else { return };
        warm.gate.begin();
        self.sim.event(&format!("{}-{} invoked: {what}", role.text(), process.0));
        self.sim.state().tally.invocations += 1;
        let limit_ms = self.sim.rng.within(60_000..240_000);
        let deadline = warm.clock.now().plus(Duration::from_millis(limit_ms));
        let work: LocalBoxFuture<'static, Result<String, String>> = match &warm.program {
            Program::Writer(writer) => {
                let writer = Arc::clone(writer);
                let Given::Event(event) = given else { return };
                Box::pin(async move {
                    let report = writer.write(event.as_bytes(), "request").await;
                    report.map(|report| format!("{report:?}")).map_err(|error| chain(&error))
                })
            }
            Program::Committer(committer) => {
                let (committer, metrics) = (Arc::clone(committer), Arc::clone(&warm.metrics));
                let sim = Arc::clone(&self.sim);
                Box::pin(async move {
                    // As its handler does it.
                    let tell = || sim.state().reported.told.take(&metrics);
                    let done = commit(&committer, given, deadline, &tell).await;
                    tell();
                    done
                })
            }
        };
        let begun_ms = self.sim.now_ms();
        let (woken, killed_ms) = (Arc::default(), begun_ms + limit_ms);
        self.processes.running.insert(process, Running { role, work, woken, begun_ms, killed_ms, cause });
        self.poll(process);
    }

    /// A warm environment that is idle, or a cold one.
    fn environment(&mut self, role: Role) -> ProcessId {
        let Processes { warm, running, started } = &mut self.processes;
        let idle = warm.iter().filter(|(id, warm)| warm.gate.role == role && !running.contains_key(id));
        let idle: Vec<_> = idle.map(|(id, _)| *id).collect();
        if let Some(id) = self.sim.rng.pick(&idle) {
            if self.sim.rng.chance(880) {
                return *id;
            }
            self.sim.strike(Fault::Recycled);
            warm.remove(id);
        }
        *started += 1;
        let process = ProcessId(*started);
        warm.insert(process, Warm::start(&self.sim, &self.parts, &self.settings.parsed, role, process));
        process
    }

    /// Lets everything go on until `until_ms`.
    pub(crate) fn run_until(&mut self, until_ms: u64) {
        loop {
            self.parts.post.deliver_due();
            let killed_ms = self.processes.running.values().map(|running| running.killed_ms).min();
            match self.sim.step(killed_ms.map_or(until_ms, |killed_ms| killed_ms.min(until_ms))) {
                Next::Woken(process) => self.poll(process),
                Next::Arrived => self.notice_rewinds(),
                Next::Nothing => {
                    self.kill_overdue();
                    if self.sim.now_ms() >= until_ms {
                        return;
                    }
                }
            }
        }
    }

    /// Lets everything go on until no invocation is under way, for `at_most_ms`.
    pub(crate) fn run_to_idle(&mut self, at_most_ms: u64) {
        let end = self.sim.now_ms() + at_most_ms;
        while !self.processes.running.is_empty() && self.sim.now_ms() < end {
            self.run_until(self.sim.now_ms() + 1_000);
        }
    }

    /// Gives up every environment, as a deployment does.
    pub(crate) fn forget_warm(&mut self) {
        let Processes { warm, running, .. } = &mut self.processes;
        warm.retain(|id, _| running.contains_key(id));
    }

    fn kill_overdue(&mut self) {
        let now = self.sim.now_ms();
        let overdue = self.processes.running.iter().filter(|(_, running)| running.killed_ms <= now);
        for process in overdue.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.sim.strike(Fault::TimeLimit);
            self.die(process, "killed at its time limit");
        }
    }

    fn poll(&mut self, process: ProcessId) {
        self.go_on(process);
        let interference = self.sim.state().interference.take();
        if let Some(table) = interference {
            self.interfere(&table);
        }
    }

    fn go_on(&mut self, process: ProcessId) {
        let Some(running) = self.processes.running.get_mut(&process) else { return };
        let waker = Waker::from(Arc::clone(&running.woken));
        let mut context = Context::from_waker(&waker);
        loop {
            running.woken.0.store(false, Ordering::SeqCst);
            match Pin::new(&mut running.work).poll(&mut context) {
                Poll::Ready(result) => return self.end_invocation(process, result),
                Poll::Pending if self.sim.state().crashed.remove(&process) => {
                    return self.die(process, "is dead");
                }
                Poll::Pending if running.woken.0.load(Ordering::SeqCst) => {}
                Poll::Pending => return,
            }
        }
    }

    fn die(&mut self, process: ProcessId, how: &str) {
        if let Some(warm) = self.processes.warm.remove(&process) {
            self.sim.state().reported.untold.take(&warm.metrics);
        }
        let Some(running) = self.processes.running.remove(&process) else { return };
        self.sim.detail(&format!("{}-{} {how}", running.role.text(), process.0));
        let Running { work, cause, begun_ms, role, .. } = running;
        drop(work);
        self.end_cause(cause, begun_ms, None);
        if role == Role::Committer {
            self.unset_unregistered();
        }
    }

    fn end_invocation(&mut self, process: ProcessId, result: Result<String, String>) {
        let Some(running) = self.processes.running.remove(&process) else { return };
        let who = format!("{}-{}", running.role.text(), process.0);
        match &result {
            Ok(report) => self.sim.detail(&format!("{who} answers {report}")),
            Err(error) => self.sim.detail(&format!("{who} fails: {error}")),
        }
        if running.role == Role::Writer && result.is_ok() {
            self.check_stalled(&who, running.begun_ms);
        }
        self.end_cause(running.cause, running.begun_ms, result.ok().as_deref());
    }

    /// Whoever waited for the invocation learns its answer, or that it has none.
    fn end_cause(&mut self, cause: Cause, begun_ms: u64, answer: Option<&str>) {
        match cause {
            Cause::Batch(batch) => self.settle_batch(batch, begun_ms, answer.is_some()),
            Cause::Task(task) => self.task_ended(&task, answer),
            Cause::Brought(held) => self.let_go(&held, answer),
            Cause::Drain => {}
        }
    }

    /// The queue's trigger lets those messages go that the committer does not want to be kept; all are kept when it fails.
    #[expect(clippy::expect_used, reason = "a fake queue that fails is a fault of the simulation")]
    fn let_go(&self, held: &[(MessageId, Receipt)], answer: Option<&str>) {
        let Some(answer) = answer else { return };
        let kept: BTreeSet<_> = answer.split(' ').collect();
        let gone = held.iter().filter(|(id, _)| !kept.contains(id.0.as_str()));
        let gone: Vec<_> = gone.map(|(_, receipt)| receipt.clone()).collect();
        now(self.parts.queue.delete(&gone)).expect("the fake queue answers");
    }

    /// A writer takes nothing in when no committer has given a sign of life for half a day.
    fn check_stalled(&self, who: &str, begun_ms: u64) {
        let heartbeat_ms = self.sim.state().heartbeat_ms;
        if heartbeat_ms.is_some_and(|heartbeat_ms| begun_ms > heartbeat_ms + STALLED_MS) {
            self.sim.violate(format!("STALLED {who} took a batch in, though nobody commits"));
        }
    }

    fn settle_batch(&mut self, batch: Batch, begun_ms: u64, succeeded: bool) {
        if succeeded {
            self.answered_for(&batch, begun_ms);
        } else {
            self.sim.strike(Fault::BatchRetried);
        }
        let Batch { topic, generation, spans, numbers, registry } = batch;
        let chance = |per_thousand| !self.is_calm() && self.sim.rng.chance(per_thousand);
        let (forgotten, replay) = (succeeded && chance(60), spans.is_empty());
        let given_up = !succeeded && (replay || chance(120));
        if given_up {
            if !replay {
                self.sim.strike(Fault::BatchGivenUp);
                self.sim.detail(&format!("the batch of records {numbers:?} is given up"));
            }
            self.given_up.push(GivenUp { topic, generation, numbers, registry });
        }
        if self.kafka.topics.get(topic).is_none_or(|topic| topic.generation != generation) {
            return;
        }
        if forgotten {
            self.sim.strike(Fault::OffsetsNotCommitted);
        }
        let discarded = given_up || (!succeeded && self.sim.lie == Some(Lie::DiscardedBatches));
        self.kafka.settle(topic, &spans, discarded || (succeeded && !forgotten));
    }

    /// A writer has answered for a batch: its records have to stand somewhere.
    fn answered_for(&mut self, batch: &Batch, begun_ms: u64) {
        let index = self.kafka.topics.get(batch.topic).map_or(0, |topic| topic.table);
        let mut table = self.tables.get_mut(index);
        for no in &batch.numbers {
            if let Some(record) = self.kafka.records.get_mut(*no) {
                record.acknowledged = true;
            }
            // Answered for since its table was made anew, or since its row was set free: it has to stand in that.
            if let Some(table) = table.as_mut()
                && table.excused.get(no).is_some_and(|since_ms| begun_ms >= *since_ms)
            {
                table.excused.remove(no);
            }
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.sim.state().weather.is_calm()
    }
}

impl Processes {
    fn count(&self, role: Role) -> usize {
        self.running.values().filter(|running| running.role == role).count()
    }
}

/// An invocation of a committer: what it answers in one line.
async fn commit(
    committer: &Committer,
    given: Given,
    deadline: Timestamp,
    tell: &(dyn Fn() + Sync),
) -> Result<String, String> {
    let Given::Messages(brought) = given else {
        let report = committer.drain_by_rounds(deadline, tell).await;
        return report.map(|report| format!("{report:?}")).map_err(|error| chain(&error));
    };
    let kept = committer.drain_with(brought, deadline, tell).await.map_err(|error| chain(&error))?;
    Ok(kept.into_iter().map(|id| id.0).collect::<Vec<_>>().join(" "))
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
