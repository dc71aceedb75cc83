//! Messages as batch manifests, grouped by table; what is none goes to quarantine as it came.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use icefall_clock::Timestamp;
use icefall_ledger::Overruled;
use icefall_manifest::{BatchManifest, Branch, Message, Release, Source, SpilledBatch, TableName};
use icefall_mutations::{Mutation, is};
use icefall_queue::{Receipt, Received};
use icefall_store::StoreError;
use icefall_tables::REPLAY;
use serde_json::json;
use tracing::error;

use crate::Ports;
use crate::deadline::Deadline;
use crate::quarantine::{Reason, park, put_aside};
use crate::sweep::Sweep;

/// A batch manifest and the message that brought it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// The batch manifest.
    pub(crate) batch: BatchManifest,
    /// What a person decided about it, if it stood in quarantine before.
    pub(crate) release: Option<Release>,
    /// The message as it was received.
    pub(crate) message: Received,
}

impl Delivery {
    /// Whether a person overruled this reason for quarantine.
    pub(crate) fn overrules_reason(&self, reason: Reason) -> bool {
        let any = is(Mutation::ReleaseOverrulesAll) && !self.is_replay();
        self.release.as_ref().is_some_and(|release| any || release.overruled == reason.name())
    }

    /// Whether it holds rows of dead letters, which a person replays.
    pub(crate) fn is_replay(&self) -> bool {
        self.release.as_ref().is_some_and(|release| release.overruled == REPLAY)
    }

    /// The doubt of the ledger's that a person overruled.
    pub(crate) fn overrules(&self) -> Overruled {
        if self.overrules_reason(Reason::DiscardedCopy) {
            Overruled::DiscardedCopy
        } else if self.overrules_reason(Reason::AnotherEncoding) {
            Overruled::OtherEncoding
        } else {
            Overruled::Nothing
        }
    }
}

/// What one round has to settle.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// By table and branch.
    pub(crate) tables: BTreeMap<(TableName, Branch), Vec<Delivery>>,
    /// Messages that nothing can be settled of. They are put in quarantine when all else is done.
    pub(crate) foreign: Vec<Foreign>,
    /// Messages that stay queued, since what they point to can't be read now, or not in this round.
    pub(crate) waiting: usize,
    /// The tables of those that can't be read.
    pub(crate) unreadable: BTreeSet<TableName>,
}

/// A message that will not become a batch manifest, and why.
#[derive(Debug)]
pub(crate) struct Foreign {
    message: Received,
    reason: Reason,
    detail: String,
}

/// Opens the messages of a round. Of what lies in the ops bucket, `room` bytes at the most are held at a time, and nothing
/// is read when `reading` is over.
pub(crate) async fn open(
    ports: &Ports,
    messages: Vec<Received>,
    sweep: Sweep,
    mut room: u64,
    reading: Deadline,
) -> Inbox {
    let mut inbox = Inbox::default();
    for message in messages {
        if reading.is_over(ports.clock.now()) {
            room = 0;
        }
        match read(ports, &message, &mut room).await {
            Ok((batch, release)) => {
                let key = (batch.table.clone(), batch.branch.clone());
                inbox.tables.entry(key).or_default().push(Delivery { batch, release, message });
            }
            Err(Unopened::Unreadable(table, store)) => {
                error!(message = %message.id, %table, error = &store as &dyn std::error::Error, "a spilled batch manifest can't be read now; its message stays queued");
                ports.metrics.table_failed(&table);
                tell_age(ports, &table, &message);
                inbox.unreadable.insert(table);
                match sweep.due(&message, ports.clock.now()) {
                    Some(due) => {
                        inbox.foreign.push(Foreign { message, reason: due.reason, detail: chain(&store) });
                    }
                    None => inbox.waiting += 1,
                }
            }
            Err(Unopened::NoRoom(table)) => {
                tell_age(ports, &table, &message);
                inbox.waiting += 1;
            }
            Err(Unopened::NoBatch(detail)) => {
                inbox.foreign.push(Foreign { message, reason: Reason::NoBatchManifest, detail });
            }
        }
    }
    inbox
}

/// Says how long a batch manifest has waited that was not read: nobody else would notice.
fn tell_age(ports: &Ports, table: &TableName, message: &Received) {
    if let Some(sent) = message.sent_ms {
        ports.metrics.batch_unread(table, ports.clock.now().since(Timestamp::from_unix_ms(sent)));
    }
}

/// The deliveries of a table with those of one source together, who has waited longest first, and as parts of at most
/// `most` sources each.
pub(crate) fn parts_of(mut deliveries: Vec<Delivery>, most: usize) -> Vec<Vec<Delivery>> {
    let mut oldest: BTreeMap<Source, u64> = BTreeMap::new();
    for Delivery { batch, .. } in &deliveries {
        let known = oldest.entry(batch.source.clone()).or_insert(batch.made_at_ms);
        *known = batch.made_at_ms.min(*known);
    }
    deliveries.sort_by_cached_key(|delivery| {
        let source = &delivery.batch.source;
        (oldest.get(source).copied(), source.clone())
    });
    let mut parts: Vec<Vec<Delivery>> = Vec::new();
    let (mut last, mut sources) = (None, most);
    for delivery in deliveries {
        if last.as_ref() != Some(&delivery.batch.source) {
            last = Some(delivery.batch.source.clone());
            sources += 1;
        }
        match parts.last_mut() {
            Some(part) if sources <= most => part.push(delivery),
            _ => {
                parts.push(vec![delivery]);
                sources = 1;
            }
        }
    }
    parts
}

enum Unopened {
    /// There is no room for its object in this round, or no time.
    NoRoom(TableName),
    /// Its object can't be read at present.
    Unreadable(TableName, StoreError),
    /// It will never be a batch manifest.
    NoBatch(String),
}

async fn read(
    ports: &Ports,
    message: &Received,
    room: &mut u64,
) -> Result<(BatchManifest, Option<Release>), Unopened> {
    match Message::decode(&message.body) {
        Ok(Message::Batch(batch)) => Ok((*batch, None)),
        Ok(Message::Released(batch, release)) => Ok((*batch, Some(release))),
        Ok(Message::Spilled(spilled)) if *room == 0 => Err(Unopened::NoRoom(spilled.table)),
        Ok(Message::Spilled(spilled)) => fetch(ports, &spilled, room).await,
        Err(fault) => Err(Unopened::NoBatch(chain(&fault))),
    }
}

async fn fetch(
    ports: &Ports,
    spilled: &SpilledBatch,
    room: &mut u64,
) -> Result<(BatchManifest, Option<Release>), Unopened> {
    let body = match ports.ops.read(&spilled.key).await {
        Ok(body) => body,
        Err(gone @ StoreError::NotFound { .. }) => {
            return Err(Unopened::NoBatch(format!("{gone}; replay offsets {:?}", spilled.offsets)));
        }
        Err(error) => return Err(Unopened::Unreadable(spilled.table.clone(), error)),
    };
    *room = room.saturating_sub(body.len() as u64);
    let text = std::str::from_utf8(&body).map_err(|fault| Unopened::NoBatch(fault.to_string()))?;
    match Message::decode(text) {
        Ok(Message::Batch(batch)) => Ok((*batch, None)),
        Ok(Message::Released(batch, release)) => Ok((*batch, Some(release))),
        Ok(Message::Spilled(_)) => {
            Err(Unopened::NoBatch("a spilled message points to another pointer".to_owned()))
        }
        Err(fault) => Err(Unopened::NoBatch(chain(&fault))),
    }
}

/// Puts a message in quarantine as it came; gives the message if it stands there now.
pub(crate) async fn put_foreign_aside(ports: &Ports, foreign: Foreign, parking: Deadline) -> Option<Receipt> {
    let Foreign { message, reason, detail } = foreign;
    let raw = Bytes::from(message.body.clone());
    let details = json!({ "error": detail, "what-to-do": reason.advice() });
    let put = async {
        if is(Mutation::ForeignDropped) {
            return Ok(());
        }
        put_aside(ports, reason, &message.id.0, raw, details).await
    };
    park(ports, parking, &message, put).await.then_some(message.receipt)
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
