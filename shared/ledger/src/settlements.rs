//! Settled records in memory, per partition in the order of their offsets.

use std::collections::BTreeMap;

use icefall_manifest::{Encoding, Fingerprint, Offset, Partition, RecordId};

/// What became of a record.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// It stands in the table.
    Row,
    /// It could not be converted, and was or will be written to the dead-letter table.
    DeadLetter,
}

/// A settled record, at its partition and offset.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Settled {
    /// What became of it.
    pub kind: Kind,
    /// How it was delivered.
    pub encoding: Encoding,
    /// What it is.
    pub fingerprint: Fingerprint,
}

impl Settled {
    /// The settlement of `record`.
    #[must_use]
    pub const fn of(kind: Kind, record: &RecordId) -> Self {
        Self { kind, encoding: record.encoding, fingerprint: record.fingerprint }
    }
}

/// Settled records, each offset of a partition at most once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Settlements {
    partitions: BTreeMap<Partition, Vec<(Offset, Settled)>>,
}

impl Settlements {
    /// Adds `records`; none of them if one stands there already or stands among them twice, which
    /// is then returned.
    pub fn extend(&mut self, mut records: Vec<(Kind, RecordId)>) -> Result<(), RecordId> {
        records.sort_by_key(|(_, record)| (record.partition, record.offset));
        let place = |(_, record): &(Kind, RecordId)| (record.partition, record.offset);
        let twice =
            records.iter().zip(records.iter().skip(1)).find(|(one, other)| place(one) == place(other));
        let there = records.iter().find(|(_, record)| self.at(record.partition, record.offset).is_some());
        if let Some((_, record)) = twice.map(|(one, _)| one).or(there) {
            return Err(*record);
        }
        for group in records.chunk_by(|(_, one), (_, other)| one.partition == other.partition) {
            self.merge(group);
        }
        Ok(())
    }

    /// Adds records of one partition, ascending. Nearly always they follow those that are there.
    fn merge(&mut self, group: &[(Kind, RecordId)]) {
        let Some((_, first)) = group.first() else {
            return;
        };
        let records = self.partitions.entry(first.partition).or_default();
        let follows = records.last().is_none_or(|(last, _)| *last < first.offset);
        records.extend(group.iter().map(|(kind, record)| (record.offset, Settled::of(*kind, record))));
        if !follows {
            records.sort_by_key(|(offset, _)| *offset);
        }
    }

    /// Puts a partition that a segment holds; its records ascend.
    pub(crate) fn put_partition(&mut self, partition: Partition, records: Vec<(Offset, Settled)>) {
        self.partitions.insert(partition, records);
    }

    /// What is settled at `offset` of `partition`.
    #[must_use]
    pub fn at(&self, partition: Partition, offset: Offset) -> Option<Settled> {
        find(self.partition(partition), offset)
    }

    /// The records of a partition, ascending.
    #[must_use]
    pub fn partition(&self, partition: Partition) -> &[(Offset, Settled)] {
        self.partitions.get(&partition).map_or(&[], Vec::as_slice)
    }

    /// Each partition's records; none is empty.
    #[must_use]
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = (Partition, &[(Offset, Settled)])> {
        self.partitions.iter().map(|(partition, records)| (*partition, records.as_slice()))
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.partitions.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

/// What stands at `offset` in `records`, which ascend.
pub(crate) fn find(records: &[(Offset, Settled)], offset: Offset) -> Option<Settled> {
    if records.last().is_none_or(|(last, _)| *last < offset) {
        return None;
    }
    let place = records.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
    records.get(place).map(|(_, settled)| *settled)
}
