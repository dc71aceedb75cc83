//! One round: what is queued, settled table by table, side by side.
//!
//! A heartbeat is put before anything else and again at the end. In between, nothing that happens
//! to one table reaches another: each has its own outcome. Messages that an earlier round did not live
//! to settle are taken after the others, in rounds of their own.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use icefall_clock::Timestamp;
use icefall_manifest::{Branch, TableName};
use icefall_mutations::{Mutation, is};
use icefall_queue::{Receipt, Received};
use icefall_tables::MAX_SOURCES;
use serde_json::json;
use tracing::{error, warn};

use crate::carry_out::Settled;
use crate::deadline::{Deadline, GivenUp};
use crate::drain::{Committer, State};
use crate::failure::TableFailure;
use crate::heartbeat::Watch;
use crate::inbox::{self, Delivery, Foreign, chain, open, parts_of};
use crate::quarantine::{self, Reason, put_aside, put_batch_aside};
use crate::settle::Settler;
use crate::suspects::Sorted;
use crate::sweep::Sweep;

/// Tables that are settled at the same time.
const TABLES_AT_ONCE: usize = 8;

/// Settles `messages`: those that nothing is known against together, suspects after them.
pub(crate) async fn settle(
    committer: &Committer,
    state: &mut State,
    messages: Vec<Received>,
    deadline: Deadline,
) {
    state.report.received += messages.len();
    let mut watch = Watch::look(committer).await;
    let Sorted { others, groups, parked } = watch.suspects.sort(messages);
    if !parked.is_empty() {
        park(committer, state, &mut watch, parked, deadline).await;
    }
    if !others.is_empty() {
        let begun = watch.begin(committer, &others, deadline).await;
        settle_all(committer, state, others, deadline).await;
        watch.end(committer, begun).await;
    }
    for group in groups {
        if deadline.allows_work(committer.ports.clock.now()) {
            try_suspects(committer, state, &mut watch, group, deadline).await;
        } else {
            state.report.waiting += group.len();
        }
    }
}

/// Settles suspects. Those that are let go are suspects no longer.
async fn try_suspects(
    committer: &Committer,
    state: &mut State,
    watch: &mut Watch,
    group: Vec<Received>,
    deadline: Deadline,
) {
    warn!(messages = group.len(), "messages of a round that nobody ended are taken by themselves");
    state.suspects = group.iter().map(|message| (message.receipt.clone(), message.id.clone())).collect();
    let ids: Vec<_> = group.iter().map(|message| message.id.clone()).collect();
    let begun = watch.begin(committer, &group, deadline).await;
    settle_all(committer, state, group, deadline).await;
    let left = std::mem::take(&mut state.suspects);
    let gone = ids.iter().filter(|id| !left.values().any(|left| left == *id));
    gone.for_each(|id| watch.suspects.forget(id));
    watch.end(committer, begun).await;
}

/// Puts messages in quarantine as they came, unopened; what it takes to release them is added once they are there, since
/// to open them may be what ended the committer.
async fn park(
    committer: &Committer,
    state: &mut State,
    watch: &mut Watch,
    messages: Vec<Received>,
    deadline: Deadline,
) {
    let begun = watch.begin(committer, &[], deadline).await;
    for message in messages {
        let detail = format!(
            "the committer did not live to end the rounds in which it held this message alone: {}",
            watch.suspects.rounds_alone(&message.id).join(", ")
        );
        let details = json!({ "detail": detail, "what-to-do": Reason::EndedCommitter.advice() });
        let (raw, when) = (Bytes::from(message.body.clone()), committer.ports.clock.now());
        let put = put_aside(&committer.ports, Reason::EndedCommitter, &message.id.0, raw, details);
        if quarantine::park(&committer.ports, deadline.parking(), &message, put).await {
            state.went(std::slice::from_ref(&message.receipt));
            watch.suspects.forget(&message.id);
            complete(committer, message, when, &detail, deadline).await;
        } else {
            state.report.waiting += 1;
            state.report.unparked += 1;
        }
    }
    watch.end(committer, begun).await;
}

/// Opens a message that stands in quarantine, and keeps copies of its data files there while the table has them.
async fn complete(
    committer: &Committer,
    message: Received,
    when: Timestamp,
    detail: &str,
    deadline: Deadline,
) {
    let (ports, id) = (&committer.ports, message.id.clone());
    let work = async {
        let room = committer.settings.committer.max_bytes.bytes();
        let inbox = open(ports, vec![message], Sweep::default(), room, deadline).await;
        let delivery = inbox.tables.values().flatten().next()?;
        Some(quarantine::complete(ports, Reason::EndedCommitter, when, delivery, detail).await)
    };
    match deadline.parking().hold(ports.clock.as_ref(), work).await {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(fault))) => {
            warn!(message = %id, error = &fault as &dyn std::error::Error, "its data files can't be copied now; release it before the table's clean-up removes them");
        }
        Ok(None) | Err(GivenUp) => {
            warn!(message = %id, "its data files are not copied; release it before the table's clean-up removes them");
        }
    }
}

async fn settle_all(committer: &Committer, state: &mut State, messages: Vec<Received>, deadline: Deadline) {
    state.report.rounds += 1;
    let begun = committer.ports.clock.now();
    // Where a table can't be settled, what is due of it has to be parked, and failing may take its time.
    let is_due = |message: &Received| state.sweep.due(message, begun).is_some();
    let settling = if messages.iter().any(is_due) { deadline.half(begun) } else { deadline };
    let room = committer.settings.committer.max_bytes.bytes();
    let inbox = open(&committer.ports, messages, state.sweep, room, settling.half(begun)).await;
    state.report.waiting += inbox.waiting;
    state.report.failed_tables += inbox.unreadable.len();
    let clusters = committer.clusters();
    let progress = state.progress.clone();
    let settler = Settler {
        ports: &committer.ports,
        ledgers: &committer.ledgers,
        renewals: &committer.renewals,
        clusters: &clusters,
        progress: &progress,
        sweep: state.sweep,
        deadline: settling,
        rewriting: settling.half(committer.ports.clock.now()),
    };
    // Who has waited longest comes first: there may not be time for all of them.
    let mut tables: Vec<_> = inbox.tables.into_iter().collect();
    tables.sort_by_key(|(_, deliveries)| deliveries.iter().map(|delivery| delivery.batch.made_at_ms).min());
    let tables = tables.into_iter().map(|((table, branch), deliveries)| {
        tell_received(committer, &table, &deliveries);
        settle_table(&settler, table, branch, deliveries)
    });
    // Collected first: a stream that holds the closure itself is not known to be `Send`.
    let tables: Vec<_> = tables.collect();
    let at_once = if is(Mutation::BadTableBlocks) { 1 } else { TABLES_AT_ONCE };
    let mut outcomes = stream::iter(tables).buffer_unordered(at_once);
    let mut failed = Vec::new();
    while let Some(TableOutcome { table, branch, settled, failed: of_table }) = outcomes.next().await {
        if of_table.is_some() && is(Mutation::BadTableBlocks) {
            break;
        }
        for settled in settled {
            note_settled(committer, state, (&table, &branch), settled).await;
        }
        failed.extend(of_table.map(|(deliveries, failure)| (table, branch, deliveries, failure)));
    }
    // Afterwards: while one table's messages are parked, no other's request would be looked after.
    for (table, branch, deliveries, failure) in failed {
        note_failed(committer, state, (&table, &branch), &deliveries, &failure, deadline).await;
    }
    state.report.waiting += put_foreign_aside(committer, state, inbox.foreign, deadline).await;
    deliver(committer, state, deadline).await;
}

/// What became of a table in a round: what was settled, commit by commit, and what failed in the end.
struct TableOutcome {
    table: TableName,
    branch: Branch,
    settled: Vec<Settled>,
    failed: Option<(Vec<Delivery>, TableFailure)>,
}

/// Settles what came for a table, as many sources at a time as a commit may have. What comes after a failure has failed
/// with it.
async fn settle_table(
    settler: &Settler<'_>,
    table: TableName,
    branch: Branch,
    deliveries: Vec<Delivery>,
) -> TableOutcome {
    let (mut settled, mut failed) = (Vec::new(), None);
    for part in parts_of(deliveries, MAX_SOURCES) {
        match &mut failed {
            Some((left, _)) => Vec::extend(left, part),
            None => match settler.settle(&table, &branch, &part).await {
                Ok(done) => settled.push(done),
                Err(failure) => failed = Some((part, failure)),
            },
        }
    }
    TableOutcome { table, branch, settled, failed }
}

/// Puts in quarantine what nothing can be settled of; gives how many messages are left of it.
async fn put_foreign_aside(
    committer: &Committer,
    state: &mut State,
    foreign: Vec<Foreign>,
    deadline: Deadline,
) -> usize {
    let (mut left, parking) = (foreign.len(), deadline.parking());
    for foreign in foreign {
        if parking.is_over(committer.ports.clock.now()) {
            break;
        }
        if let Some(receipt) = inbox::put_foreign_aside(&committer.ports, foreign, parking).await {
            state.went(&[receipt]);
            left -= 1;
        } else {
            state.report.unparked += 1;
        }
    }
    left
}

/// Says what came, and how long it had waited.
fn tell_received(committer: &Committer, table: &TableName, deliveries: &[Delivery]) {
    let now = committer.ports.clock.now();
    for delivery in deliveries {
        let age = now.since(Timestamp::from_unix_ms(delivery.batch.made_at_ms));
        committer.ports.metrics.batch_received(table, age);
    }
}

/// A round without messages: nothing to settle, but somebody is there. Without it a pipeline that was quiet for long
/// would stand still for ever: writers refuse their batches when the heartbeat is old, and without batches there
/// are no rounds.
pub(crate) async fn quiet(committer: &Committer, deadline: Deadline) {
    let mut watch = Watch::look(committer).await;
    let begun = watch.begin(committer, &[], deadline).await;
    watch.end(committer, begun).await;
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

async fn note_settled(
    committer: &Committer,
    state: &mut State,
    (table, branch): (&TableName, &Branch),
    settled: Settled,
) {
    state.report.snapshots += usize::from(settled.snapshot);
    state.report.waiting += settled.waiting;
    if settled.held_up > 0 {
        committer.ports.metrics.table_failed(table);
        state.report.failed_tables += 1;
        error!(
            %table,
            %branch,
            messages = settled.held_up,
            "the table was settled, but for these messages; each is named above, with its reason"
        );
    }
    state.keep_outboxes(settled.ledgers);
    state.went(&settled.quarantined);
    let_go(committer, state, settled.receipts).await;
}

async fn note_failed(
    committer: &Committer,
    state: &mut State,
    (table, branch): (&TableName, &Branch),
    deliveries: &[Delivery],
    failure: &TableFailure,
    deadline: Deadline,
) {
    committer.ports.metrics.table_failed(table);
    state.report.failed_tables += 1;
    state.catalog_is_gone |= failure.is_unreachable();
    let swept = sweep(committer, state, deliveries, failure, deadline).await;
    state.report.waiting += deliveries.len() - swept;
    error!(
        %table,
        %branch,
        messages = deliveries.len() - swept,
        error = failure as &dyn std::error::Error,
        "the table was not settled; its messages stay queued"
    );
}

/// Parks those messages of a table that could not be settled which the queue would drop soon, as many as there is time
/// for, the oldest first; says how many. What there is no time for is looked at again.
async fn sweep(
    committer: &Committer,
    state: &mut State,
    deliveries: &[Delivery],
    failure: &TableFailure,
    deadline: Deadline,
) -> usize {
    let (ports, detail, parking) = (&committer.ports, chain(failure), deadline.parking());
    let mut swept = 0;
    let mut oldest_first: Vec<_> = deliveries.iter().collect();
    oldest_first.sort_by_key(|delivery| delivery.message.sent_ms);
    for delivery in oldest_first {
        if is(Mutation::FailureAcknowledged) {
            let_go(committer, state, vec![delivery.message.receipt.clone()]).await;
            swept += 1;
            continue;
        }
        let now = ports.clock.now();
        let Some(due) = state.sweep.due(&delivery.message, now) else { continue };
        if parking.is_over(now) {
            break;
        }
        let put = put_batch_aside(ports, due.reason, due.copies, delivery, &detail);
        if quarantine::park(ports, parking, &delivery.message, put).await {
            state.went(std::slice::from_ref(&delivery.message.receipt));
            swept += 1;
        }
    }
    swept
}

/// Parks those of `messages` that the queue would drop soon, opening no other, and gives back what it took of the others.
/// Nothing else can be done with them while the catalog is `gone`. What an event brought stays hidden for its hold:
/// its mapping would bring it again at once, for as long as the outage lasts. Gives how many are left that the queue would
/// drop soon.
pub(crate) async fn put_old_aside(
    committer: &Committer,
    state: &mut State,
    messages: Vec<Received>,
    gone: &TableFailure,
    deadline: Deadline,
) -> usize {
    let now = committer.ports.clock.now();
    state.report.received += messages.len();
    let (old, young): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| state.sweep.due(message, now).is_some());
    let room = committer.settings.committer.max_bytes.bytes();
    let inbox = open(&committer.ports, old, state.sweep, room, deadline.half(now)).await;
    let mut left = inbox.waiting;
    for deliveries in inbox.tables.values() {
        left += deliveries.len() - sweep(committer, state, deliveries, gone, deadline).await;
    }
    left += put_foreign_aside(committer, state, inbox.foreign, deadline).await;
    state.report.waiting += left + young.len();
    let taken = young.into_iter().map(|message| message.receipt);
    let taken: Vec<_> = taken.filter(|receipt| !state.brought.contains_key(receipt)).collect();
    if let Err(fault) = committer.ports.queue.hide(&taken, Duration::ZERO).await {
        warn!(
            error = &fault as &dyn std::error::Error,
            "messages can't be given back; they are seen again after the time that they are held for"
        );
    }
    left
}

/// Deletes messages that are settled. One that can't be deleted comes again and is a duplicate.
async fn let_go(committer: &Committer, state: &mut State, receipts: Vec<Receipt>) {
    if receipts.is_empty() {
        return;
    }
    state.went(&receipts);
    if let Err(fault) = committer.ports.queue.delete(&receipts).await {
        warn!(
            error = &fault as &dyn std::error::Error,
            "settled messages can't be deleted; they will come again as duplicates"
        );
    }
}
