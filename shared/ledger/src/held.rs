//! What a look-up found: the records at the offsets that were asked for.

use std::collections::BTreeMap;

use icefall_manifest::{Offset, Partition};

use crate::wanted::Span;
use crate::{Incarnation, Segment, SequenceNumber, Settled, Tail, Wanted};

/// A settled record and the incarnation that it belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Its offset.
    pub offset: Offset,
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The snapshot that settled it.
    pub sequence_number: SequenceNumber,
    /// What became of it, and what it is.
    pub settled: Settled,
}

/// The settled records at the offsets that were asked for. An offset can hold several: a record of
/// an earlier incarnation beside one of the present, a released copy, or a dead letter that was replayed into a row.
#[derive(Clone, Debug)]
pub struct Held {
    pub(crate) wanted: Wanted,
    pub(crate) tail: Option<Tail>,
    /// Ascending by offset once complete.
    records: BTreeMap<Partition, Vec<Standing>>,
}

impl Held {
    pub(crate) const fn new(wanted: Wanted) -> Self {
        Self { wanted, tail: None, records: BTreeMap::new() }
    }

    /// Takes the records of `segment` that were asked for.
    pub(crate) fn take(&mut self, segment: &Segment) {
        for (partition, records) in segment.settled.partitions() {
            let standing = |(offset, settled): &(Offset, Settled)| Standing {
                offset: *offset,
                incarnation: segment.incarnation,
                sequence_number: segment.sequence_number,
                settled: *settled,
            };
            // Mostly all of them were asked for, or a few.
            let [Some((lowest, _)), Some((highest, _))] = [records.first(), records.last()] else { continue };
            if self.wanted.covers(partition, Span { lowest: *lowest, highest: *highest }) {
                self.records.entry(partition).or_default().extend(records.iter().map(standing));
                continue;
            }
            let wanted = records.iter().filter(|(offset, _)| self.wanted.contains(partition, *offset));
            let mut found = wanted.map(standing).peekable();
            if found.peek().is_some() {
                self.records.entry(partition).or_default().extend(found);
            }
        }
    }

    /// Orders the records, in the same way whatever the order in which segments were read.
    pub(crate) fn sort(&mut self) {
        let order = |standing: &Standing| {
            let Standing { offset, incarnation, sequence_number, settled } = standing;
            let Settled { kind, encoding, fingerprint } = *settled;
            (*offset, *incarnation, *sequence_number, kind, encoding, fingerprint)
        };
        self.records.values_mut().for_each(|records| records.sort_by_key(order));
    }

    /// All that was asked for and stands at the partition, ascending by offset, then by incarnation.
    #[must_use]
    pub fn partition(&self, partition: Partition) -> &[Standing] {
        self.records.get(&partition).map_or(&[], Vec::as_slice)
    }

    /// All that stands at one offset.
    pub fn at(&self, partition: Partition, offset: Offset) -> impl Iterator<Item = Settled> + '_ {
        let here = self.partition(partition).iter().filter(move |standing| standing.offset == offset);
        here.map(|standing| standing.settled)
    }

    /// What the next look-up can begin with as long as the ledger's newest segment is the same.
    #[must_use]
    pub const fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
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
