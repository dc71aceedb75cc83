//! What can go wrong with a ledger, by what its reader does about it.

use icefall_manifest::{BatchId, RecordId, TableUuid};
use thiserror::Error;

use crate::{LedgerId, ObjectHash, SnapshotId, StopId, Verdict};

/// Why a ledger can't be read or continued. None of these settles anything: the messages stay queued.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum LedgerError {
    /// Written by a newer version.
    #[error("the {what} has format {version}, which is newer than this version reads: update the committer")]
    Newer {
        /// Which part of the ledger.
        what: &'static str,
        /// The format that it states.
        version: u64,
    },
    /// Not what this or an earlier version writes.
    #[error("the {what} can't be read ({why}): restore it, nothing is committed to this table until then")]
    Malformed {
        /// Which part of the ledger.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The property was made for another table, as happens when a table is copied with its properties.
    #[error(
        "the ledger was made for table {named}, but this table is {actual}: \
         unset the copied property to start a ledger of its own"
    )]
    CopiedTable {
        /// The table that the ledger names.
        named: TableUuid,
        /// The table that carries it.
        actual: TableUuid,
    },
    /// An object's content is not the one that its name promises.
    #[error("the ledger's object {expected} has the content of {found}: restore it from a copy")]
    WrongContent {
        /// The name.
        expected: ObjectHash,
        /// The hash of what was read.
        found: ObjectHash,
    },
    /// A segment belongs to another ledger than the one that leads to it.
    #[error(
        "segment {segment} belongs to {owner}, but the ledger of {ledger} names it: restore the property"
    )]
    OtherOwner {
        /// The segment.
        segment: ObjectHash,
        /// Whose it says it is.
        owner: Box<LedgerId>,
        /// Whose ledger led there.
        ledger: Box<LedgerId>,
    },
    /// An object was supplied that the look-up didn't ask for.
    #[error("object {0} was supplied to a look-up that does not need it")]
    NotNeeded(ObjectHash),
    /// The look-up still needs objects.
    #[error("the look-up still needs object {0}")]
    StillNeeded(ObjectHash),
    /// The look-up was made for another state of the ledger.
    #[error("the look-up was made for another state of the ledger: look up again")]
    StaleLookup,
    /// A record that the look-up was not asked about.
    #[error("partition {} offset {} was not looked up before it was to be decided", .0.partition, .0.offset)]
    NotLookedUp(RecordId),
    /// A batch manifest of another source or branch.
    #[error("a batch manifest of {found} was shown to the ledger of {ledger}")]
    OtherLedger {
        /// The batch manifest's ledger.
        found: Box<LedgerId>,
        /// This ledger.
        ledger: Box<LedgerId>,
    },
    /// A batch manifest was to be settled that the ledger does not let pass as it is.
    #[error("batch manifest {batch} is not to be committed as it is: the ledger says {verdict}")]
    NotToCommit {
        /// The batch manifest.
        batch: BatchId,
        /// What the ledger says about it.
        verdict: Box<Verdict>,
    },
    /// A batch manifest was to be settled that names a record twice.
    #[error("partition {} offset {} is named twice in what was to be committed", .0.partition, .0.offset)]
    Repeated(RecordId),
    /// An operator decided about a stop that does not stand, or not any more.
    #[error(
        "no source stands still here: somebody decided about it in the meantime; `icefall stops list` shows what stands"
    )]
    NoStop,
    /// An operator decided about another stop than the one that stands.
    #[error(
        "the source stands still for another record by now (stop {0}): look at it with `icefall stops show`, and decide again"
    )]
    OtherStop(StopId),
    /// Nothing of the ledger was rolled back, as far as the table's snapshots show.
    #[error(
        "no snapshot that settled records of this source was rolled back, as far as the table's metadata still \
         shows: there is nothing to rewind"
    )]
    NothingToRewind,
    /// A snapshot of the branch was picked from one that would be rewound.
    #[error(
        "snapshot {0} of the branch was picked from another that is not in its history, so rows of what would be \
         rewound may stand in it: roll back to before it first"
    )]
    PickedSnapshot(SnapshotId),
    /// The dead-letter table has taken in entries that this ledger never numbered.
    #[error(
        "the dead-letter table has entries up to {applied}, but the ledger gives the next one {next}: an old \
         value of the ledger was put back; find out which of its dead letters the table has"
    )]
    OutboxBehind {
        /// The number that the dead-letter table holds.
        applied: u64,
        /// The ledger's next number.
        next: u64,
    },
    /// A dead-letter table's progress was to go back.
    #[error("entry {wanted} of {ledger} was to be recorded as the last applied, but {applied} already is")]
    AppliedGoesBack {
        /// Whose outbox.
        ledger: Box<LedgerId>,
        /// The number that was to be recorded.
        wanted: u64,
        /// The number that stands.
        applied: u64,
    },
}

impl LedgerError {
    pub(crate) fn malformed(what: &'static str, why: &impl ToString) -> Self {
        Self::Malformed { what, why: why.to_string() }
    }
}
