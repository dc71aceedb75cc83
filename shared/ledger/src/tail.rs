//! The end of the tree of segments, as a committer that stays warm keeps it.
//!
//! The next segment continues the index that the newest one carries. Whoever has just written or
//! read that one keeps this, and needs to read no object at all while offsets only go up.

use std::collections::BTreeMap;

use icefall_manifest::{Offset, Partition};

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

    /// The lowest offset of each partition that the ledger holds a record of.
    #[must_use]
    pub fn lowest(&self) -> BTreeMap<Partition, Offset> {
        let mut lowest = BTreeMap::new();
        let earlier = self.index.clone().into_entries().map(|(_, entry)| entry);
        for (partition, span) in earlier.chain([self.entry.clone()]).flat_map(|entry| entry.spans) {
            let known = lowest.entry(partition).or_insert(span.lowest);
            *known = span.lowest.min(*known);
        }
        lowest
    }

    /// The newest segment that it belongs to.
    #[must_use]
    pub const fn newest_segment(&self) -> ObjectHash {
        self.hash
    }
}
