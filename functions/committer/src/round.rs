//! One round: what is queued, settled table by table, side by side.
//!
//! The heartbeat is put before anything else and again at the end. In between, nothing that happens
//! to one table reaches another: each has its own outcome.

use futures::StreamExt;
use futures::stream;
use icefall_clock::Timestamp;
use icefall_manifest::{Branch, TableName};
use icefall_queue::{Receipt, Received};
use icefall_store::Heartbeat;
use tracing::{error, warn};
use uuid::Uuid;

use crate::deadline::Deadline;
use crate::drain::{Committer, State};
use crate::failure::TableFailure;
use crate::inbox::{Delivery, Inbox, open};
use crate::settle::{Settled, Settler};

/// Tables that are settled at the same time.
const TABLES_AT_ONCE: usize = 8;

/// Settles `messages`.
pub(crate) async fn settle(
    committer: &Committer,
    state: &mut State,
    messages: Vec<Received>,
    deadline: Deadline,
) {
    let round = committer.ports.entropy.uuid_at(committer.ports.clock.now());
    let ids = messages.iter().map(|message| message.id.0.clone()).collect();
    state.report.rounds += 1;
    state.report.received += messages.len();
    beat(committer, round, ids, false).await;
    let inbox = open(&committer.ports, messages).await;
    state.report.waiting += inbox.waiting;
    count(committer, &inbox);
    let_go(committer, state, inbox.quarantined).await;
    let clusters = committer.clusters();
    let progress = state.progress.clone();
    let settler = Settler {
        ports: &committer.ports,
        ledgers: &committer.ledgers,
        clusters: &clusters,
        progress: &progress,
        deadline,
    };
    let tables = inbox.tables.iter().map(|((table, branch), deliveries)| {
        let settler = &settler;
        async move { (table, branch, deliveries, settler.settle(table, branch, deliveries).await) }
    });
    // Collected first: a stream that holds the closure itself is not known to be `Send`.
    let tables: Vec<_> = tables.collect();
    let mut outcomes = stream::iter(tables).buffer_unordered(TABLES_AT_ONCE);
    while let Some((table, branch, deliveries, outcome)) = outcomes.next().await {
        note(committer, state, (table, branch), deliveries, outcome).await;
    }
    deliver(committer, state, deadline).await;
    beat(committer, round, Vec::new(), true).await;
}

/// Says what came, and how long it had waited.
fn count(committer: &Committer, inbox: &Inbox) {
    let now = committer.ports.clock.now();
    for ((table, _), deliveries) in &inbox.tables {
        for delivery in deliveries {
            let made = Timestamp::from_unix_ms(delivery.batch.made_at_ms);
            committer.ports.metrics.batch_received(table, now.since(made));
        }
    }
}

/// A round without messages: nothing to settle, but somebody is there. Without it a pipeline that was quiet for long
/// would stand still for ever: writers refuse their batches when the heartbeat is old, and without batches there
/// are no rounds.
pub(crate) async fn quiet(committer: &Committer) {
    let round = committer.ports.entropy.uuid_at(committer.ports.clock.now());
    beat(committer, round, Vec::new(), true).await;
}

/// Delivers what waits in outboxes; what can't be delivered stays there, and is counted.
pub(crate) async fn deliver(committer: &Committer, state: &mut State, deadline: Deadline) {
    deliver_all(committer, state, deadline).await;
    let waiting = state.outboxes.values().map(|ledger| state.progress.waiting(ledger)).sum();
    committer.ports.metrics.outbox_entries_waiting(waiting);
}

async fn deliver_all(committer: &Committer, state: &mut State, deadline: Deadline) {
    if state.outboxes.is_empty() {
        return;
    }
    let ledgers: Vec<_> = state.outboxes.values().cloned().collect();
    match committer.outboxes(deadline).deliver(&ledgers).await {
        Ok(progress) => state.progress = progress,
        Err(fault) => {
            committer.ports.metrics.table_failed(&committer.settings.dead_letters);
            error!(
                table = %committer.settings.dead_letters,
                error = &fault as &dyn std::error::Error,
                "dead letters can't be delivered now; they stay in their tables' outboxes"
            );
        }
    }
}

async fn note(
    committer: &Committer,
    state: &mut State,
    (table, branch): (&TableName, &Branch),
    deliveries: &[Delivery],
    outcome: Result<Settled, TableFailure>,
) {
    match outcome {
        Ok(settled) => {
            state.report.snapshots += usize::from(settled.snapshot);
            state.report.waiting += settled.waiting;
            state.keep_outboxes(settled.ledgers);
            let_go(committer, state, settled.receipts).await;
        }
        Err(failure) => {
            committer.ports.metrics.table_failed(table);
            state.report.failed_tables += 1;
            state.catalog_is_gone |= failure.is_unreachable();
            state.report.waiting += deliveries.len();
            error!(
                %table,
                %branch,
                messages = deliveries.len(),
                error = &failure as &dyn std::error::Error,
                "the table was not settled; its messages stay queued"
            );
        }
    }
}

/// Deletes messages that are settled. One that can't be deleted comes again and is a duplicate.
async fn let_go(committer: &Committer, state: &mut State, receipts: Vec<Receipt>) {
    if receipts.is_empty() {
        return;
    }
    state.report.settled += receipts.len();
    if let Err(fault) = committer.ports.queue.delete(&receipts).await {
        warn!(
            error = &fault as &dyn std::error::Error,
            "settled messages can't be deleted; they will come again as duplicates"
        );
    }
}

/// The heartbeat tells the writers that somebody commits, and an operator what a crash was about. A
/// round goes on without it: correctness never rests on it.
async fn beat(committer: &Committer, round: Uuid, holds: Vec<String>, ended: bool) {
    let started_ms = committer.ports.clock.now().unix_ms();
    let heartbeat = Heartbeat { round, started_ms, holds, ended };
    if let Err(fault) = committer.ports.ops.put_heartbeat(&committer.settings.pipeline, &heartbeat).await {
        warn!(error = &fault as &dyn std::error::Error, "the heartbeat can't be written");
    }
}
