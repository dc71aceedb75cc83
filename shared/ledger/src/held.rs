//! What a look-up found: the records at the offsets that were asked for.

use std::collections::BTreeMap;

use icefall_manifest::{Offset, Partition};

use crate::index::Entry;
use crate::{Incarnation, Index, ObjectHash, Segment, Settled, Wanted};

/// A settled record and the incarnation that it belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Standing {
    pub(crate) offset: Offset,
    pub(crate) incarnation: Incarnation,
    pub(crate) settled: Settled,
}

/// The newest segment, as the next one continues it.
#[derive(Clone, Debug)]
pub(crate) struct Newest {
    pub(crate) hash: ObjectHash,
    pub(crate) index: Index,
    pub(crate) entry: Entry,
}

/// The settled records at the offsets that were asked for. An offset can hold several: a record of
/// an earlier incarnation beside one of the present, or a dead letter that was replayed into a row.
#[derive(Clone, Debug)]
pub struct Held {
    pub(crate) wanted: Wanted,
    pub(crate) newest: Option<Newest>,
    /// Ascending by offset once complete.
    records: BTreeMap<Partition, Vec<Standing>>,
}

impl Held {
    pub(crate) const fn new(wanted: Wanted) -> Self {
        Self { wanted, newest: None, records: BTreeMap::new() }
    }

    /// Takes the records of `segment` that were asked for.
    pub(crate) fn take(&mut self, segment: &Segment) {
        for (partition, records) in segment.settled.partitions() {
            let wanted = records.iter().filter(|(offset, _)| self.wanted.contains(partition, *offset));
            let mut found = wanted
                .map(|(offset, settled)| Standing {
                    offset: *offset,
                    incarnation: segment.incarnation,
                    settled: *settled,
                })
                .peekable();
            if found.peek().is_some() {
                self.records.entry(partition).or_default().extend(found);
            }
        }
    }

    /// Orders the records, in the same way whatever the order in which segments were read.
    pub(crate) fn sort(&mut self) {
        let order = |standing: &Standing| (standing.offset, standing.incarnation, standing.settled.kind);
        self.records.values_mut().for_each(|records| records.sort_by_key(order));
    }

    /// All that stands at the partition, ascending by offset.
    pub(crate) fn partition(&self, partition: Partition) -> &[Standing] {
        self.records.get(&partition).map_or(&[], Vec::as_slice)
    }

    /// How many settled records were found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.values().map(Vec::len).sum()
    }

    /// Whether none was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}
