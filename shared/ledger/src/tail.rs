//! The end of the tree of segments, as a committer that stays warm keeps it.
//!
//! The next segment continues the index that the newest one carries. Whoever has just written or
//! read that one keeps this, and needs to read no object at all while offsets only go up.

use crate::index::Entry;
use crate::{Index, ObjectHash, Segment};

/// The newest segment without its records: its name, its index, and the entry that will stand for it
/// in the next one's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tail {
    pub(crate) hash: ObjectHash,
    pub(crate) index: Index,
    pub(crate) entry: Entry,
}

impl Tail {
    pub(crate) fn of(hash: ObjectHash, segment: Segment) -> Self {
        let entry = Entry::of_segment(hash, segment.sequence_number, &segment.settled);
        Self { hash, index: segment.index, entry }
    }

    /// The newest segment that it belongs to.
    #[must_use]
    pub const fn newest_segment(&self) -> ObjectHash {
        self.hash
    }
}
