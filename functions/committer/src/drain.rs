//! One invocation: tables ensured, then round after round until the queue is empty or time is up.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, stream};
use icefall_clock::Timestamp;
use icefall_ledger::{Ledger, LedgerId};
use icefall_manifest::{Branch, ClusterName, TableName};
use icefall_queue::{MessageId, QueueError, Receipt, Received};
use icefall_settings::{CommitterSettings, Settings};
use icefall_tables::{LedgerStore, Table};
use serde::Serialize;
use thiserror::Error;
use tracing::{error, info, warn};

use crate::collect::{Bounds, Collected, collect};
use crate::deadline::Deadline;
use crate::ensure::{Wanted, ensure, wanted};
use crate::failure::TableFailure;
use crate::hold::Hold;
use crate::outbox::{Outboxes, Progress};
use crate::renewals::Renewals;
use crate::sweep::{LookedThrough, Sweep};
use crate::{Ports, round};

/// Ledgers that are looked up in the register side by side, when a process first sees them.
const REGISTERED_AT_ONCE: usize = 8;

/// Why an invocation ends as failed. What it settled before is settled; what it did not is queued.
#[derive(Debug, Error)]
pub enum DrainError {
    /// The queue can't be read.
    #[error("the commit queue can't be read; batch manifests wait in it")]
    Queue(#[from] QueueError),
    /// The catalog can't be reached. Nothing was settled; what the queue would drop soon goes to quarantine.
    #[error("the catalog can't be reached; batch manifests wait in the queue")]
    Catalog(#[source] TableFailure),
    /// Some tables could not be settled, or are missing.
    #[error(
        "{tables} tables could not be settled and {messages} messages stay queued; the log names each with its reason"
    )]
    Tables {
        /// How many tables.
        tables: usize,
        /// How many messages.
        messages: usize,
    },
    /// Messages that belong in quarantine could not be put there.
    #[error(
        "{0} messages that belong in quarantine can't be put there and stay queued, until the queue drops them; the log \
         names each with its reason: see whether the function may write to quarantine/ in the ops bucket"
    )]
    Quarantine(usize),
    /// The event comes from a queue, but its messages can't be read.
    #[error(
        "the queue's event can't be read ({0}); its messages stay queued: check what invokes this function"
    )]
    Event(String),
}

/// What an invocation did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Report {
    /// Rounds that had something to settle.
    pub rounds: usize,
    /// Messages received.
    pub received: usize,
    /// Messages let go.
    pub settled: usize,
    /// Messages that stay queued.
    pub waiting: usize,
    /// Snapshots added.
    pub snapshots: usize,
    /// Tables that could not be settled.
    pub failed_tables: usize,
    /// Messages of no table that quarantine could not take.
    pub unparked: usize,
}

/// The committer of one pipeline, kept while the function stays warm.
#[derive(Debug)]
pub struct Committer {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) ledgers: LedgerStore,
    pub(crate) renewals: Renewals,
    looked_through: LookedThrough,
    tables: Vec<Wanted>,
}

/// What rounds of one invocation hand on to each other.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) progress: Progress,
    /// Ledgers whose outboxes may hold something.
    pub(crate) outboxes: BTreeMap<LedgerId, Ledger>,
    pub(crate) report: Report,
    /// Messages that the event brought and that are not settled yet.
    pub(crate) brought: HashMap<Receipt, MessageId>,
    /// Suspects that are being taken and that are not settled yet.
    pub(crate) suspects: HashMap<Receipt, MessageId>,
    pub(crate) sweep: Sweep,
    /// The catalog could not be reached: what is still queued is left there.
    pub(crate) catalog_is_gone: bool,
}

impl Committer {
    /// The committer that `settings` describe.
    pub fn new(settings: Settings, ports: Ports) -> Result<Self, iceberg::Error> {
        let tables = wanted(&settings)?;
        let ledgers = LedgerStore::new(ports.ops.clone());
        let (renewals, looked_through) = (Renewals::default(), LookedThrough::default());
        Ok(Self { ports, settings, ledgers, renewals, looked_through, tables })
    }

    /// Works until the queue has been empty for the linger time, or until the deadline of the
    /// platform is near.
    pub async fn drain(&self, platform_deadline: Timestamp) -> Result<Report, DrainError> {
        self.drain_by_rounds(platform_deadline, &|| ()).await
    }

    /// The same, calling `after_round` at the end of each round: what was measured until then should
    /// not be lost with a process that is killed in a later one.
    pub async fn drain_by_rounds(
        &self,
        platform_deadline: Timestamp,
        after_round: &(dyn Fn() + Sync),
    ) -> Result<Report, DrainError> {
        let mut state = State::default();
        self.work(&mut state, Vec::new(), platform_deadline, after_round).await?;
        self.end(state.report)
    }

    /// The same for messages that an event source mapping of the queue has received: they are settled
    /// together with what else is queued. Gives those that must stay queued. The others can be let go,
    /// and are deleted as well, so that an invocation which fails afterwards brings none of them back.
    pub async fn drain_with(
        &self,
        brought: Vec<Received>,
        platform_deadline: Timestamp,
        after_round: &(dyn Fn() + Sync),
    ) -> Result<Vec<MessageId>, DrainError> {
        let known = brought.iter().map(|message| (message.receipt.clone(), message.id.clone()));
        let mut state = State { brought: known.collect(), ..State::default() };
        self.work(&mut state, brought, platform_deadline, after_round).await?;
        self.tell(state.report);
        let mut kept: Vec<MessageId> = state.brought.into_values().collect();
        kept.sort_unstable();
        Ok(kept)
    }

    async fn work(
        &self,
        state: &mut State,
        brought: Vec<Received>,
        platform_deadline: Timestamp,
        after_round: &(dyn Fn() + Sync),
    ) -> Result<(), DrainError> {
        let Ports { queue, clock, .. } = &self.ports;
        let hold = Hold::new(queue.as_ref(), clock.as_ref(), self.settings.committer.hold);
        if !brought.is_empty() {
            hold.take_over(&brought).await;
        }
        let deadline = Deadline::before(platform_deadline, clock.now());
        hold.during(self.rounds(state, brought, &hold, deadline, after_round)).await
    }

    async fn rounds(
        &self,
        state: &mut State,
        mut brought: Vec<Received>,
        hold: &Hold<'_>,
        deadline: Deadline,
        after_round: &(dyn Fn() + Sync),
    ) -> Result<(), DrainError> {
        state.sweep = self.sweep().await;
        match self.begin(state, deadline).await {
            Ok(missing) => state.report.failed_tables += missing,
            Err(gone) => {
                self.look_through(state, brought, hold, deadline, &gone).await;
                return Err(DrainError::Catalog(gone));
            }
        }
        while deadline.allows_work(self.ports.clock.now()) && !state.catalog_is_gone {
            let messages = self.gather(hold, std::mem::take(&mut brought), deadline).await?.messages;
            if messages.is_empty() {
                if state.report.rounds == 0 {
                    round::quiet(self, deadline).await;
                }
                break;
            }
            round::settle(self, state, messages, deadline).await;
            hold.release();
            after_round();
        }
        Ok(())
    }

    /// Without a catalog nothing can be settled, and the queue forgets all the same: what is old is put aside, and the
    /// rest given back at once. No heartbeat is put, so that writers take nothing more in before long.
    async fn look_through(
        &self,
        state: &mut State,
        brought: Vec<Received>,
        hold: &Hold<'_>,
        deadline: Deadline,
        gone: &TableFailure,
    ) {
        let collected = if self.looked_through.is_due(state.sweep, self.ports.clock.now()) {
            self.gather(hold, brought, deadline).await
        } else {
            Ok(Collected { messages: brought, is_all: false })
        };
        match collected {
            Ok(Collected { messages, is_all }) => {
                let left = round::put_old_aside(self, state, messages, gone, deadline).await;
                if is_all && left == 0 {
                    self.looked_through.done(self.ports.clock.now());
                }
            }
            Err(fault) => {
                warn!(error = &fault as &dyn std::error::Error, "the commit queue can't be read either");
            }
        }
    }

    async fn sweep(&self) -> Sweep {
        match self.ports.queue.retention().await {
            Ok(retention) => Sweep::of(retention),
            Err(fault) => {
                warn!(
                    error = &fault as &dyn std::error::Error,
                    "how long the queue keeps messages can't be read; taken for SQS's default of 4 days"
                );
                Sweep::default()
            }
        }
    }

    /// The clusters that the settings name.
    pub(crate) fn clusters(&self) -> Vec<ClusterName> {
        self.settings.cluster.iter().chain(&self.settings.known_clusters).cloned().collect()
    }

    pub(crate) fn outboxes(&self, deadline: Deadline) -> Outboxes<'_> {
        Outboxes {
            ports: &self.ports,
            ledgers: &self.ledgers,
            pipeline: &self.settings.pipeline,
            table: &self.settings.dead_letters,
            deadline,
        }
    }

    /// Ensures the tables, and delivers what an earlier invocation may have left in their outboxes.
    async fn begin(&self, state: &mut State, deadline: Deadline) -> Result<usize, TableFailure> {
        let clock = self.ports.clock.as_ref();
        let (loaded, missing) = ensure(&self.ports, &self.tables, deadline.half(clock.now())).await?;
        let mut ledgers = Vec::new();
        for (name, table) in loaded {
            self.ports.metrics.table_metadata_size(&name, table.answer_bytes);
            let branch = self.branch(&name);
            let table = match Table::open(name.clone(), branch, table) {
                Ok(table) => table,
                Err(fault) => {
                    error!(table = %name, error = &fault as &dyn std::error::Error, "its ledgers can't be told apart; their outboxes wait");
                    self.ports.metrics.table_failed(&name);
                    continue;
                }
            };
            self.tell_age(&table);
            let found = table.readable_ledgers();
            ledgers.extend(found.iter().map(|ledger| (ledger.id().clone(), table.name.to_string())));
            state.keep_outboxes(found);
        }
        self.register(ledgers).await;
        // What waits in outboxes waits for nobody, and the queue does.
        let deadline = deadline.half(clock.now());
        match self.outboxes(deadline).progress().await {
            Ok(progress) => state.progress = progress,
            Err(fault) => {
                error!(
                    error = &fault as &dyn std::error::Error,
                    "the dead-letter table can't be read; outboxes wait"
                );
            }
        }
        round::deliver(self, state, deadline).await;
        Ok(missing)
    }

    /// Whoever wrote a ledger may have ended between its commit and the register. A ledger stands where everybody can
    /// unset it, so the register has to know of it as soon as somebody sees it, whether or not its messages come again.
    async fn register(&self, ledgers: Vec<(LedgerId, String)>) {
        let register = |(id, table): (LedgerId, String)| async move {
            if let Err(fault) = self.ledgers.register(&id, &table).await {
                warn!(%table, ledger = %id, error = &fault as &dyn std::error::Error, "a ledger can't be registered now; it is tried again at the next invocation");
            }
        };
        stream::iter(ledgers).for_each_concurrent(REGISTERED_AT_ONCE, register).await;
    }

    fn tell_age(&self, table: &Table) {
        if let Some(settled) = table.last_settled() {
            let age = self.ports.clock.now().since(settled);
            self.ports.metrics.last_snapshot_age(&table.name, age);
        }
    }

    fn branch(&self, table: &TableName) -> Branch {
        self.settings.branch(table)
    }

    async fn gather(
        &self,
        hold: &Hold<'_>,
        held: Vec<Received>,
        deadline: Deadline,
    ) -> Result<Collected, QueueError> {
        let CommitterSettings { commit_interval, linger, max_messages, max_bytes, .. } =
            self.settings.committer;
        let now = self.ports.clock.now();
        let bounds = Bounds {
            messages: max_messages.get() as usize,
            bytes: max_bytes.bytes(),
            until: deadline.gather_until(now.plus(commit_interval), now),
            linger,
        };
        collect(self.ports.queue.as_ref(), self.ports.clock.as_ref(), hold, held, bounds).await
    }

    fn tell(&self, report: Report) {
        self.ports.metrics.messages_left(report.waiting as u64);
        info!(?report, "drained");
    }

    fn end(&self, report: Report) -> Result<Report, DrainError> {
        self.tell(report);
        match report {
            Report { failed_tables: 0, unparked: 0, .. } => Ok(report),
            Report { failed_tables: 0, unparked, .. } => Err(DrainError::Quarantine(unparked)),
            Report { failed_tables: tables, waiting: messages, .. } => {
                Err(DrainError::Tables { tables, messages })
            }
        }
    }
}

impl State {
    /// These messages are dealt with, and are not kept in the queue.
    pub(crate) fn went(&mut self, receipts: &[Receipt]) {
        self.report.settled += receipts.len();
        for receipt in receipts {
            self.brought.remove(receipt);
            self.suspects.remove(receipt);
        }
    }

    /// Remembers the ledgers that have something in their outbox.
    pub(crate) fn keep_outboxes(&mut self, ledgers: Vec<Ledger>) {
        for ledger in ledgers {
            if ledger.outbox().entries().is_empty() {
                self.outboxes.remove(ledger.id());
            } else {
                self.outboxes.insert(ledger.id().clone(), ledger);
            }
        }
    }
}
