//! What follows once a plan stands in the catalog: the ledgers' register, quarantine, and which messages can go.

use icefall_ledger::Ledger;
use icefall_manifest::RecordList;
use icefall_mutations::{Mutation, is};
use icefall_queue::Receipt;
use icefall_tables::Table;
use tracing::{error, info};

use crate::failure::TableFailure;
use crate::inbox::Delivery;
use crate::plan::{Fate, Plan};
use crate::quarantine::{Copies, Reason, park, put_batch_aside, put_records_aside};
use crate::settle::Settler;
use crate::sweep::Due;

/// What became of a table in a round.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Messages that can go.
    pub(crate) receipts: Vec<Receipt>,
    /// Messages that went to quarantine.
    pub(crate) quarantined: Vec<Receipt>,
    /// Messages that stay queued.
    pub(crate) waiting: usize,
    /// Those of them that stay because something failed that concerns them alone.
    pub(crate) held_up: usize,
    /// The table's ledgers afterwards, with their outboxes.
    pub(crate) ledgers: Vec<Ledger>,
    /// Whether a snapshot was added.
    pub(crate) snapshot: bool,
}

impl Settled {
    fn hold_up(&mut self) {
        self.waiting += 1;
        self.held_up += 1;
    }
}

impl Settler<'_> {
    /// What follows once the ledger in the current metadata stands as the plan says: the register,
    /// quarantine, and which messages can go.
    pub(crate) async fn carry_out(
        &self,
        table: &Table,
        plan: &Plan<'_>,
        snapshot: bool,
    ) -> Result<Settled, TableFailure> {
        let ledgers = table.readable_ledgers();
        // Those that stand in the metadata, whoever wrote them: a committer may have died before it could. One
        // that was consulted and stands nowhere yet must not be among them, since it would be missed from now on.
        for ledger in &ledgers {
            self.ledgers.register(ledger.id(), &table.name.to_string()).await?;
        }
        let mut settled = Settled { receipts: plan.settled(), snapshot, ledgers, ..Settled::default() };
        for (delivery, fate) in &plan.fates {
            self.follow(table, &mut settled, delivery, fate).await;
            self.renewals.forget(delivery.batch.id);
        }
        settled.ledgers.iter().for_each(|ledger| self.report_stop(table, ledger));
        Ok(settled)
    }

    /// What follows for one delivery.
    async fn follow(&self, table: &Table, settled: &mut Settled, delivery: &Delivery, fate: &Fate) {
        match fate {
            Fate::Settled | Fate::Repeated => {
                self.ports.metrics.duplicate_skipped(&table.name, delivery.batch.record_count() as u64);
            }
            Fate::Trimmed { skipped } => self.ports.metrics.batch_trimmed(&table.name, *skipped),
            Fate::Committed => {}
            Fate::Later => self.leave(settled, delivery).await,
            Fate::Waits { since_ms } => self.wait(settled, delivery, *since_ms).await,
            Fate::HeldUp(detail) => self.hold_up(settled, delivery, detail).await,
            Fate::Discarded(records) => {
                let detail = "these of its records are copies of settled ones, which an operator discarded";
                let due = Due { reason: Reason::DiscardedCopy, copies: self.copies(delivery) };
                self.put_aside(settled, delivery, due, detail, Some(records)).await;
            }
            Fate::Quarantine(reason, detail) => {
                let due = Due { reason: *reason, copies: self.copies(delivery) };
                self.put_aside(settled, delivery, due, detail, None).await;
            }
        }
    }

    /// A message whose source stands still stays queued, or is parked when the queue would drop it soon.
    async fn wait(&self, settled: &mut Settled, delivery: &Delivery, since_ms: u64) {
        let now = self.ports.clock.now();
        let Some(due) = self.sweep.due_in_stop(&delivery.message, since_ms, now) else {
            settled.waiting += 1;
            return;
        };
        let detail = "its source stands still in this table, and no operator has decided how to go on";
        self.put_aside(settled, delivery, due, detail, None).await;
    }

    /// A message for which there is no time left stays queued, or is parked when the queue is about to drop it.
    async fn leave(&self, settled: &mut Settled, delivery: &Delivery) {
        let due = self.sweep.due(&delivery.message, self.ports.clock.now());
        let Some(due) = due.filter(|due| due.copies == Copies::WherePossible) else {
            info!(table = %delivery.batch.table, batch = %delivery.batch.id, "half of the time is over: its rows are written anew in a later round");
            settled.waiting += 1;
            return;
        };
        let detail = "its rows have to be written anew, and no invocation had the time";
        self.put_aside(settled, delivery, due, detail, None).await;
    }

    /// A message of which something can't be read now stays queued, or is parked when the queue would drop it soon.
    async fn hold_up(&self, settled: &mut Settled, delivery: &Delivery, detail: &str) {
        error!(message = %delivery.message.id, "it can't be settled now and stays queued: {detail}");
        let Some(due) = self.sweep.due(&delivery.message, self.ports.clock.now()) else {
            settled.hold_up();
            return;
        };
        self.put_aside(settled, delivery, due, detail, None).await;
    }

    /// Puts a message in quarantine, because of some of its `records` or as a whole. One that can't be put there stays
    /// queued, and is in no other's way; so does one that there is no time for.
    async fn put_aside(
        &self,
        settled: &mut Settled,
        delivery: &Delivery,
        Due { reason, copies }: Due,
        detail: &str,
        records: Option<&RecordList>,
    ) {
        let ports = self.ports;
        if !self.deadline.allows_work(ports.clock.now()) {
            info!(message = %delivery.message.id, "no time is left: it is put in quarantine in a later round");
            settled.waiting += 1;
            return;
        }
        let put = async {
            match records {
                Some(_) if is(Mutation::CopiesDropped) => Ok(()),
                Some(records) => put_records_aside(ports, reason, copies, delivery, detail, records).await,
                None => put_batch_aside(ports, reason, copies, delivery, detail).await,
            }
        };
        if park(ports, self.deadline.parking(), &delivery.message, put).await {
            settled.quarantined.push(delivery.message.receipt.clone());
        } else {
            settled.hold_up();
        }
    }

    fn copies(&self, delivery: &Delivery) -> Copies {
        self.sweep.copies(&delivery.message, self.ports.clock.now())
    }

    fn report_stop(&self, table: &Table, ledger: &Ledger) {
        if let Some(stop) = ledger.stop() {
            self.ports.metrics.source_stopped(&table.name);
            error!(
                table = %table.name,
                source = %ledger.id().source,
                since_ms = stop.since_ms,
                "the source stands still in this table: {}; nothing of it is committed until an operator decides: \
                 icefall stops show {}",
                stop.struck,
                stop.id(ledger.id())
            );
        }
    }
}
