//! Whether a branch's history still holds what a ledger accounts for.
//!
//! A ledger stands in a table's properties, and those do not go back when a branch is rolled back, go on
//! when a table is replaced, and can be set to an old value by anybody. So before a ledger is continued it is
//! compared with the branch's own history: the snapshots from its head back, as far as they can still be seen.
//! What can't be seen is unknown and stands in nobody's way; what contradicts the ledger stops the table, since
//! going on would double or lose records.

use icefall_mutations::{Mutation, is};
use thiserror::Error;

use crate::{Ledger, SequenceNumber, SnapshotId, SnapshotMark};

/// A snapshot in a history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ancestor {
    /// Which snapshot.
    pub mark: SnapshotMark,
    /// Whether it says that it settled records of the ledger's source.
    pub is_ours: bool,
    /// The snapshot that it was picked from, if it was: its sequence number where that snapshot can be seen.
    pub picked: Option<Option<SequenceNumber>>,
}

/// How a history ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChainEnd {
    /// With a snapshot that has no parent, or with no snapshot at all.
    Root,
    /// With one whose parent can't be seen any more.
    Unseen,
}

/// A snapshot and its ancestors, newest first, as far as they can be seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chain {
    /// They.
    pub snapshots: Vec<Ancestor>,
    /// How it ends.
    pub end: ChainEnd,
}

/// What a branch's history says about a ledger that can be continued.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lineage {
    /// The ledger's last snapshot stands in it.
    Continued,
    /// The branch was set back to a snapshot before the ledger's last. Its records stay settled; an operator who
    /// wants them again rewinds.
    RolledBack {
        /// That snapshot.
        to: SnapshotMark,
    },
    /// Too little of it can be seen.
    Unknown,
}

/// Why a ledger must not be continued on a branch as it stands.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum LineageFault {
    /// A snapshot settled records that the ledger does not account for.
    #[error(
        "snapshot {newer} settled records of this source after the ledger's last one ({last}): an old value of the \
         ledger's property was put back; put back the value that the metadata file of that snapshot holds"
    )]
    OldProperty {
        /// The snapshot.
        newer: SnapshotId,
        /// The ledger's last.
        last: SnapshotId,
    },
    /// The branch has a history of its own.
    #[error(
        "the branch's history does not hold the ledger's last snapshot ({last}): the table was replaced, or the branch \
         set to another history; set it back, or drop the table and make it again to begin anew"
    )]
    OtherHistory {
        /// The ledger's last.
        last: SnapshotId,
    },
    /// The branch was set back to before the last rewind.
    #[error(
        "the branch stands on snapshot {found}, from before the ledger was rewound (sequence number {rewind}): what was \
         rewound may stand in it again; set the branch to a snapshot after that"
    )]
    BeforeRewind {
        /// Where it stands.
        found: SnapshotId,
        /// When the ledger was rewound.
        rewind: SequenceNumber,
    },
    /// A snapshot of the branch was picked from one before the last rewind.
    #[error(
        "snapshot {picked} was picked from one from before the ledger was rewound (sequence number {rewind}): rows that \
         were rewound may stand in it; set the branch back to before it"
    )]
    PickedFromBeforeRewind {
        /// The snapshot.
        picked: SnapshotId,
        /// When the ledger was rewound.
        rewind: SequenceNumber,
    },
}

/// What a record in a table's properties that snapshots of ours continue says of them: a ledger, or how far a dead-letter
/// table is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Continued {
    /// The last snapshot that it accounts for.
    pub last: Option<SnapshotMark>,
    /// When it was rewound the last time.
    pub rewind: Option<SequenceNumber>,
}

impl From<&Ledger> for Continued {
    fn from(ledger: &Ledger) -> Self {
        Self { last: ledger.last_snapshot(), rewind: ledger.last_rewind() }
    }
}

/// Compares a ledger with the history of its branch, `head` from the branch's newest snapshot and `own` from the
/// ledger's last one; `own` is `None` where that one can't be seen.
pub fn lineage(
    ledger: impl Into<Continued>,
    head: &Chain,
    own: Option<&Chain>,
) -> Result<Lineage, LineageFault> {
    let ledger = ledger.into();
    let Some(last) = ledger.last else { return Ok(Lineage::Continued) };
    let is_newer = |ancestor: &&Ancestor| ancestor.mark.sequence_number > last.sequence_number;
    for newer in head.snapshots.iter().take_while(is_newer) {
        check_newer(ledger, newer, last)?;
    }
    let Some(found) = head.snapshots.iter().find(|ancestor| !is_newer(ancestor)).map(|found| found.mark)
    else {
        return match head.end {
            ChainEnd::Root if is(Mutation::ReplacedTaken) => Ok(Lineage::Unknown),
            ChainEnd::Root => Err(LineageFault::OtherHistory { last: last.id }),
            ChainEnd::Unseen => Ok(Lineage::Unknown),
        };
    };
    if found.id == last.id {
        return Ok(Lineage::Continued);
    }
    let rewind = ledger.rewind.filter(|_| !is(Mutation::BeforeRewindTaken));
    if let Some(rewind) = rewind.filter(|rewind| found.sequence_number < *rewind) {
        return Err(LineageFault::BeforeRewind { found: found.id, rewind });
    }
    let Some(own) = own else { return Ok(Lineage::Unknown) };
    if own.snapshots.iter().any(|ancestor| ancestor.mark.id == found.id) {
        return Ok(Lineage::RolledBack { to: found });
    }
    let is_past = |ancestor: &Ancestor| ancestor.mark.sequence_number < found.sequence_number;
    match own.end {
        _ if is(Mutation::OtherHistoryTaken) => Ok(Lineage::Unknown),
        ChainEnd::Unseen if !own.snapshots.iter().any(is_past) => Ok(Lineage::Unknown),
        _ => Err(LineageFault::OtherHistory { last: last.id }),
    }
}

fn check_newer(ledger: Continued, newer: &Ancestor, last: SnapshotMark) -> Result<(), LineageFault> {
    if newer.is_ours && !is(Mutation::OldPropertyTaken) {
        return Err(LineageFault::OldProperty { newer: newer.mark.id, last: last.id });
    }
    match (newer.picked, ledger.rewind) {
        (Some(_), Some(_)) if is(Mutation::PickedTaken) => Ok(()),
        (Some(from), Some(rewind)) if from.is_none_or(|from| from < rewind) => {
            Err(LineageFault::PickedFromBeforeRewind { picked: newer.mark.id, rewind })
        }
        _ => Ok(()),
    }
}
