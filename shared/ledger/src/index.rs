//! How earlier segments are found: a tree that only ever grows at its end.
//!
//! Each segment carries the open end of the tree: per level at most 127 entries, each naming an
//! object and the lowest and highest offset per partition below it. When a level fills up, its
//! [`FAN_OUT`] entries become an object of their own, a sealed node, and one entry for it goes a
//! level up. So what a round puts is bounded whatever lies behind it, and a look-up reads only nodes
//! whose offsets meet the ones asked for.

use std::collections::BTreeMap;

use icefall_manifest::wire::{Fault, Reader, put_signed, put_unsigned};
use icefall_manifest::{Offset, Partition};

use crate::segment::{self, NODE_MAGIC};
use crate::wanted::{Span, Wanted};
use crate::{LedgerError, ObjectHash, SequenceNumber, Settlements};

/// How many entries a sealed node has. Part of the stored format.
pub const FAN_OUT: usize = 128;
/// Levels that a tree can have: 128 to the power of 9 exceeds every count of snapshots.
const MAX_LEVELS: usize = 9;
/// What errors call a sealed node.
const WHAT: &str = "ledger's index node";

/// An object to put under its hash before anything names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LedgerObject {
    /// Its name.
    pub hash: ObjectHash,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl LedgerObject {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { hash: ObjectHash::of(&bytes), bytes }
    }
}

/// What lies below an object: a segment or a sealed node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    pub(crate) hash: ObjectHash,
    /// The newest commit below it: a rewind cuts by this.
    pub(crate) sequence_number: SequenceNumber,
    pub(crate) spans: BTreeMap<Partition, Span>,
}

impl Entry {
    /// The entry of a segment that settled `settled`.
    pub(crate) fn of_segment(
        hash: ObjectHash,
        sequence_number: SequenceNumber,
        settled: &Settlements,
    ) -> Self {
        let span =
            |records: &[(Offset, _)]| Some(Span { lowest: records.first()?.0, highest: records.last()?.0 });
        let spans = settled.partitions().filter_map(|(partition, records)| Some((partition, span(records)?)));
        Self { hash, sequence_number, spans: spans.collect() }
    }

    /// The entry of the node that `entries` were sealed into.
    fn of_node(hash: ObjectHash, entries: &[Self]) -> Self {
        let mut spans: BTreeMap<Partition, Span> = BTreeMap::new();
        for (partition, span) in entries.iter().flat_map(|entry| &entry.spans) {
            let whole = spans.entry(*partition).or_insert(*span);
            whole.lowest = whole.lowest.min(span.lowest);
            whole.highest = whole.highest.max(span.highest);
        }
        let newest = entries.iter().map(|entry| entry.sequence_number).max();
        Self { hash, sequence_number: newest.unwrap_or(SequenceNumber(0)), spans }
    }

    pub(crate) fn meets(&self, wanted: &Wanted) -> bool {
        self.spans.iter().any(|(partition, span)| wanted.meets(*partition, *span))
    }
}

/// The open end of the tree: level 0 names segments, each higher one sealed nodes of the one below.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Index {
    levels: Vec<Vec<Entry>>,
}

impl Index {
    /// Adds a segment's entry and seals what is full; the sealed nodes are put before the tree is.
    pub(crate) fn append(&mut self, segment: Entry) -> Vec<LedgerObject> {
        let mut sealed = Vec::new();
        let mut rising = Some(segment);
        for level in 0.. {
            let Some(entry) = rising.take() else {
                break;
            };
            if self.levels.len() <= level {
                self.levels.push(Vec::with_capacity(FAN_OUT));
            }
            let Some(entries) = self.levels.get_mut(level) else {
                break;
            };
            entries.push(entry);
            if entries.len() == FAN_OUT {
                let node = LedgerObject::new(encode_node(level, entries));
                rising = Some(Entry::of_node(node.hash, entries));
                entries.clear();
                sealed.push(node);
            }
        }
        sealed
    }

    /// The entries whose offsets meet `wanted`, with the level that each stands in.
    pub(crate) fn meeting<'a>(&'a self, wanted: &'a Wanted) -> impl Iterator<Item = (usize, &'a Entry)> {
        let levels = self.levels.iter().enumerate();
        levels
            .flat_map(|(level, entries)| entries.iter().map(move |entry| (level, entry)))
            .filter(|(_, entry)| entry.meets(wanted))
    }

    /// All entries with the level that each stands in, oldest first.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (usize, Entry)> {
        let levels = self.levels.into_iter().enumerate().rev();
        levels.flat_map(|(level, entries)| entries.into_iter().map(move |entry| (level, entry)))
    }

    /// Puts an entry that was sealed before into its level: after older ones, and before any segment is
    /// appended.
    pub(crate) fn put(&mut self, level: usize, entry: Entry) {
        while self.levels.len() <= level {
            self.levels.push(Vec::with_capacity(FAN_OUT));
        }
        if let Some(entries) = self.levels.get_mut(level) {
            entries.push(entry);
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_unsigned(out, self.levels.len() as u64);
        self.levels.iter().for_each(|entries| encode_entries(out, entries));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let count = reader.unsigned()?;
        if count > MAX_LEVELS as u64 {
            return Err(Fault("its index has too many levels"));
        }
        let levels: Vec<_> = (0..count).map(|_| decode_entries(reader)).collect::<Result<_, _>>()?;
        if levels.iter().any(|entries| entries.len() >= FAN_OUT) {
            return Err(Fault("a level of its index is full, but not sealed"));
        }
        Ok(Self { levels })
    }
}

/// A sealed node's bytes.
pub(crate) fn encode_node(level: usize, entries: &[Entry]) -> Vec<u8> {
    let mut out = segment::header(NODE_MAGIC);
    put_unsigned(&mut out, level as u64);
    encode_entries(&mut out, entries);
    out
}

/// A sealed node's entries, if it is the node of `level` that was expected.
pub(crate) fn decode_node(bytes: &[u8], level: usize) -> Result<Vec<Entry>, LedgerError> {
    let mut reader = segment::open(WHAT, NODE_MAGIC, bytes)?;
    let mut read = || {
        let found = reader.unsigned()?;
        let entries = decode_entries(&mut reader)?;
        reader.end()?;
        match (found == level as u64, entries.len() == FAN_OUT) {
            (true, true) => Ok(entries),
            (false, _) => Err(Fault("it is of another level")),
            (_, false) => Err(Fault("it is not full")),
        }
    };
    read().map_err(|Fault(why)| LedgerError::malformed(WHAT, &why))
}

/// Entries mostly continue each other, so numbers and offsets are written as what they differ by.
#[derive(Default)]
struct Previous {
    sequence_number: i64,
    highest: BTreeMap<Partition, i64>,
}

fn encode_entries(out: &mut Vec<u8>, entries: &[Entry]) {
    put_unsigned(out, entries.len() as u64);
    let mut previous = Previous::default();
    for entry in entries {
        out.extend_from_slice(entry.hash.as_bytes());
        put_signed(out, entry.sequence_number.0.wrapping_sub(previous.sequence_number));
        previous.sequence_number = entry.sequence_number.0;
        put_unsigned(out, entry.spans.len() as u64);
        let mut next_partition = 0;
        for (partition, span) in &entry.spans {
            put_unsigned(out, segment::gap(next_partition, i64::from(partition.number())));
            next_partition = i64::from(partition.number()) + 1;
            let (lowest, highest) = (span.lowest.position(), span.highest.position());
            let before = previous.highest.insert(*partition, highest).unwrap_or(-1);
            put_signed(out, lowest.wrapping_sub(before));
            put_unsigned(out, segment::gap(lowest, highest));
        }
    }
}

fn decode_entries(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Fault> {
    let count = reader.unsigned()?;
    if count > FAN_OUT as u64 {
        return Err(Fault("an index node has too many entries"));
    }
    let mut previous = Previous::default();
    (0..count).map(|_| decode_entry(reader, &mut previous)).collect()
}

fn decode_entry(reader: &mut Reader<'_>, previous: &mut Previous) -> Result<Entry, Fault> {
    let hash = ObjectHash::from_bytes(reader.array()?);
    previous.sequence_number = previous.sequence_number.wrapping_add(reader.signed()?);
    let mut spans = BTreeMap::new();
    let mut next_partition = 0;
    for _ in 0..reader.unsigned()? {
        let partition = segment::partition_after(&mut next_partition, reader.unsigned()?)?;
        let before = previous.highest.get(&partition).copied().unwrap_or(-1);
        let lowest = segment::offset(before.checked_add(reader.signed()?))?;
        let length = i64::try_from(reader.unsigned()?).map_err(|_| segment::NO_OFFSET)?;
        let highest = segment::offset(lowest.position().checked_add(length))?;
        previous.highest.insert(partition, highest.position());
        spans.insert(partition, Span { lowest, highest });
    }
    Ok(Entry { hash, sequence_number: SequenceNumber(previous.sequence_number), spans })
}
