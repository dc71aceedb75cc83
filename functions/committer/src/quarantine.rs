//! Putting aside what can't be decided automatically.
//!
//! A quarantined message keeps everything a person needs: the message as it came, the reason, what to
//! do, and copies of the data files that it names, since the table's own clean-up removes files that
//! no snapshot references. Only after all of that is durable may the message go.

use bytes::Bytes;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use icefall_clock::Timestamp;
use icefall_manifest::{BatchManifest, OffsetRun, RecordList};
use icefall_mutations::{Mutation, is};
use icefall_queue::Received;
use icefall_store::{Location, QuarantineEntry, StoreError};
use serde_json::{Value, json};
use tracing::{error, warn};

use crate::Ports;
use crate::deadline::{Deadline, GivenUp};
use crate::inbox::{Delivery, chain};

/// Files of one batch manifest that are copied at the same time: each is held whole.
const COPIES_AT_ONCE: usize = 2;

/// Whether a message may go to quarantine without copies of its data files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Copies {
    /// Only with a copy of each file that is still there: what can't be read now is read later.
    All,
    /// Also without: there is no later.
    WherePossible,
}

/// Why something is in quarantine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Reason {
    /// The message is no batch manifest that this version reads.
    NoBatchManifest,
    /// The table has another uuid than the batch manifest: it was made again under its name.
    AnotherTable,
    /// A data file lies outside the table's location.
    FileOutside,
    /// A bound or partition value is no value of its column.
    BadMetrics,
    /// The table holds the topic under another cluster name, which the settings don't know.
    AnotherCluster,
    /// Some of its records are held under another encoding: nothing is proven.
    AnotherEncoding,
    /// Some of its records are copies of settled ones, which an operator discarded.
    DiscardedCopy,
    /// It was to be replayed, but the ledger holds no such dead letter.
    NoDeadLetter,
    /// A file that had to be rewritten is gone or damaged.
    FileDamaged,
    /// It was not settled for so long that the queue would drop it soon.
    WaitedTooLong,
    /// Its source has stood still in the table for that long.
    StoppedTooLong,
    /// Rounds that held nothing else were not ended by the process that began them.
    EndedCommitter,
}

impl Reason {
    /// The reason's name in keys, metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoBatchManifest => "no-batch-manifest",
            Self::AnotherTable => "another-table",
            Self::FileOutside => "file-outside-table",
            Self::BadMetrics => "bad-metrics",
            Self::AnotherCluster => "another-cluster",
            Self::AnotherEncoding => "another-encoding",
            Self::DiscardedCopy => "discarded-copy",
            Self::NoDeadLetter => "no-dead-letter",
            Self::FileDamaged => "file-damaged",
            Self::WaitedTooLong => "waited-too-long",
            Self::StoppedTooLong => "stopped-too-long",
            Self::EndedCommitter => "ended-the-committer",
        }
    }

    /// What an operator can do about it.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::NoBatchManifest => "find out who sends to this queue; nothing of it was committed",
            Self::AnotherTable => {
                "the table was dropped and made again, or another took its name: re-create the trigger from \
                 these offsets if the present table shall hold them"
            }
            Self::FileOutside => {
                "find out who sends to this queue, or whether the table's location was changed"
            }
            Self::BadMetrics => "report it: the writer and the table disagree about a column's type",
            Self::AnotherCluster => {
                "if it is the same cluster, give it its former name in the settings; if it is another one, with records \
                 of its own, name both in kafka.cluster and kafka.known_clusters of the committer; then release it"
            }
            Self::AnotherEncoding => {
                "the event source mapping's schema registry was switched on or off in between: compare the rows \
                 at these offsets before anything is replayed"
            }
            Self::DiscardedCopy => {
                "an operator said that these records are copies of what the table holds; nothing has to be done, or \
                 release it if they are not: they land beside what they differ from"
            }
            Self::NoDeadLetter => {
                "find out whether the ledger was rewound or restored since, and replay again"
            }
            Self::FileDamaged => "re-create the trigger from these offsets: what is settled is skipped",
            Self::WaitedTooLong => "put right what kept the table from being settled, then release it",
            Self::StoppedTooLong => {
                "decide about the source that stands still in this table, then release it"
            }
            Self::EndedCommitter => {
                "look in the log for how these rounds ended (memory, a panic); once that is put right, release it"
            }
        }
    }
}

/// Puts raw bytes aside under `id`.
pub(crate) async fn put_aside(
    ports: &Ports,
    reason: Reason,
    id: &str,
    raw: Bytes,
    details: Value,
) -> Result<(), StoreError> {
    let when = ports.clock.now();
    let entry = QuarantineEntry { reason: reason.name(), id, when, raw, details };
    let put = ports.ops.quarantine(&entry).await;
    let key =
        put.or_else(|fault| if is(Mutation::QuarantineUnwritten) { Ok(String::new()) } else { Err(fault) })?;
    ports.metrics.quarantined(1);
    error!(reason = reason.name(), id, key, "a message was put in quarantine: {}", reason.advice());
    Ok(())
}

/// Puts a message in quarantine by `put` and lets it go at once, before another is looked at: copies take their time, and
/// whatever ends an invocation among many of them, the next one must find fewer. Says whether it stands there; if not,
/// the log says why, and it stays queued.
pub(crate) async fn park(
    ports: &Ports,
    parking: Deadline,
    message: &Received,
    put: impl Future<Output = Result<(), StoreError>> + Send,
) -> bool {
    match parking.hold(ports.clock.as_ref(), put).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => {
            error!(message = %message.id, error = &fault as &dyn std::error::Error, "quarantine can't be written; the message stays queued");
            return false;
        }
        Err(GivenUp) => {
            warn!(message = %message.id, "the invocation's time was up before it stood in quarantine; the message stays queued");
            return false;
        }
    }
    if let Err(fault) = ports.queue.delete(std::slice::from_ref(&message.receipt)).await {
        warn!(message = %message.id, error = &fault as &dyn std::error::Error, "a message in quarantine can't be deleted; it will come again, and be put there once more");
    }
    true
}

/// Puts a batch manifest aside, with copies of its data files. A file that is gone already is named.
pub(crate) async fn put_batch_aside(
    ports: &Ports,
    reason: Reason,
    needed: Copies,
    delivery: &Delivery,
    detail: &str,
) -> Result<(), StoreError> {
    put_runs_aside(ports, reason, needed, delivery, detail, runs_of(&delivery.batch)).await
}

fn runs_of(batch: &BatchManifest) -> Vec<OffsetRun> {
    batch.record_lists().flat_map(|list| list.runs().iter().copied()).collect()
}

/// The same because of some of its records alone: the entry names those, and holds the whole message.
pub(crate) async fn put_records_aside(
    ports: &Ports,
    reason: Reason,
    needed: Copies,
    delivery: &Delivery,
    detail: &str,
    records: &RecordList,
) -> Result<(), StoreError> {
    put_runs_aside(ports, reason, needed, delivery, detail, records.runs().to_vec()).await
}

async fn put_runs_aside(
    ports: &Ports,
    reason: Reason,
    needed: Copies,
    delivery: &Delivery,
    detail: &str,
    offsets: Vec<OffsetRun>,
) -> Result<(), StoreError> {
    let Delivery { batch, message, .. } = delivery;
    let copies = copies(ports, reason, ports.clock.now(), needed, delivery).await?;
    let raw = Bytes::from(message.body.clone());
    put_aside(ports, reason, &message.id.0, raw, details(batch, reason, detail, &copies, &offsets)).await
}

/// Adds copies of the data files to the entry that was put for a message `when`, unopened, and what else is known of the
/// batch manifest now that it was opened. Whatever ends this leaves the entry as it is.
pub(crate) async fn complete(
    ports: &Ports,
    reason: Reason,
    when: Timestamp,
    delivery: &Delivery,
    detail: &str,
) -> Result<(), StoreError> {
    let Delivery { batch, message, .. } = delivery;
    let copies = copies(ports, reason, when, Copies::WherePossible, delivery).await?;
    let details = details(batch, reason, detail, &copies, &runs_of(batch));
    let raw = Bytes::from(message.body.clone());
    ports
        .ops
        .quarantine(&QuarantineEntry { reason: reason.name(), id: &message.id.0, when, raw, details })
        .await?;
    Ok(())
}

async fn copies(
    ports: &Ports,
    reason: Reason,
    when: Timestamp,
    needed: Copies,
    delivery: &Delivery,
) -> Result<Vec<Value>, StoreError> {
    let id = &delivery.message.id.0;
    let blank = &QuarantineEntry { reason: reason.name(), id, when, raw: Bytes::new(), details: Value::Null };
    let files = delivery.batch.files.iter().enumerate();
    let copies = files.map(|(index, file)| copy(ports, blank, needed, index, &file.data_file.path));
    // Collected first: a stream that holds the closure itself is not known to be `Send`.
    stream::iter(copies.collect::<Vec<_>>()).buffered(COPIES_AT_ONCE).try_collect().await
}

async fn copy(
    ports: &Ports,
    entry: &QuarantineEntry<'_>,
    needed: Copies,
    index: usize,
    path: &str,
) -> Result<Value, StoreError> {
    let Ok(location) = Location::parse(path) else {
        return Ok(json!({ "file": path, "copy": null, "missing": "not a location of this store" }));
    };
    match ports.tables.get(&location).await {
        Ok(body) => {
            let key = ports.ops.quarantine_copy(entry, index, &location, body).await?;
            Ok(json!({ "file": path, "copy": key }))
        }
        // It may have been put aside before, when the file was there still, and not been let go.
        Err(StoreError::NotFound { .. }) => Ok(match ports.ops.kept_copy(entry, index, &location).await? {
            Some(key) => json!({ "file": path, "copy": key }),
            None => json!({ "file": path, "copy": null, "missing": "the file is gone" }),
        }),
        Err(error) if needed == Copies::WherePossible => {
            Ok(json!({ "file": path, "copy": null, "missing": chain(&error) }))
        }
        Err(error) => Err(error),
    }
}

fn details(
    batch: &BatchManifest,
    reason: Reason,
    detail: &str,
    copies: &[Value],
    offsets: &[OffsetRun],
) -> Value {
    json!({
        "table": batch.table,
        "table-uuid": batch.table_uuid,
        "branch": batch.branch,
        "source": batch.source.to_string(),
        "offsets": offsets,
        "detail": detail,
        "what-to-do": reason.advice(),
        "data-files": copies,
    })
}
