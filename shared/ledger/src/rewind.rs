//! Rewinding: what a rollback took out of a branch is free again.
//!
//! A rolled-back snapshot's records stay settled, so that what was taken out on purpose does not come back by
//! itself. Whoever wants it again rewinds: the ledger gets an index without the segments of the snapshots that are
//! no longer in the branch's history. Their dead letters stay, since the dead-letter table has them or will; a
//! replayed record whose row goes is a dead letter again. Highest offsets are never lowered: what lies below them is
//! read from the index.
//!
//! Segments follow each other by sequence number, so the tree is kept as it is up to the oldest snapshot that can
//! still be seen, and only what is newer is opened. Like a look-up, a rewind does no reading itself.

use std::collections::{BTreeMap, BTreeSet};

use icefall_manifest::{Offset, Partition, RecordId};
use icefall_mutations::{Mutation, is};

use crate::index::{Entry, Index, decode_node};
use crate::lookup::owned_segment;
use crate::round::{new_segment, put};
use crate::{
    Chain, ChainEnd, Incarnation, Kind, Ledger, LedgerError, LedgerObject, ObjectHash, RoundResult, Segment,
    SequenceNumber, Settled, Settlements, SnapshotMark, Tail,
};

/// A rewind under way.
#[derive(Clone, Debug)]
pub struct Rewind {
    ledger: Ledger,
    standing: Standing,
    newest: Option<ObjectHash>,
    /// The tree, oldest first.
    parts: Vec<Part>,
    letters: BTreeMap<Incarnation, Vec<Settlements>>,
    rows: usize,
    /// Snapshots of the history that were picked from others.
    picked: Vec<SnapshotMark>,
    /// The oldest snapshot that goes.
    oldest: Option<SequenceNumber>,
}

/// Which snapshots stand in the branch's history.
#[derive(Clone, Debug)]
struct Standing {
    seen: BTreeSet<SequenceNumber>,
    /// What is not newer is not known to be gone.
    floor: SequenceNumber,
}

/// A part of the tree.
#[derive(Clone, Debug)]
enum Part {
    /// It stays as it is, in this level.
    Kept(usize, Entry),
    /// A node of this level, to be opened.
    Node(usize, Entry),
    /// A segment that goes, to be read for its dead letters.
    Dropped(Entry),
}

impl Standing {
    fn of(head: &Chain) -> Self {
        let seen: BTreeSet<_> = head.snapshots.iter().map(|ancestor| ancestor.mark.sequence_number).collect();
        let floor = match head.end {
            ChainEnd::Root => None,
            ChainEnd::Unseen => seen.first().copied(),
        };
        Self { floor: floor.unwrap_or(SequenceNumber(0)), seen }
    }

    /// The parts that an entry in `level` comes to.
    fn part(&self, level: usize, entry: Entry) -> Part {
        let newest = entry.sequence_number;
        match level.checked_sub(1) {
            _ if newest <= self.floor => Part::Kept(level, entry),
            Some(below) => Part::Node(below, entry),
            None if self.seen.contains(&newest) && !is(Mutation::RewindFreesAll) => Part::Kept(0, entry),
            None => Part::Dropped(entry),
        }
    }
}

impl Rewind {
    /// Begins to rewind `ledger` to `head`, the history of its branch.
    pub fn new(ledger: Ledger, head: &Chain) -> Result<Self, LedgerError> {
        let picked = head.snapshots.iter().filter(|ancestor| ancestor.picked.is_some());
        let newest = Some(ledger.newest_segment().ok_or(LedgerError::NothingToRewind)?);
        Ok(Self {
            ledger,
            standing: Standing::of(head),
            newest,
            parts: Vec::new(),
            letters: BTreeMap::new(),
            rows: 0,
            picked: picked.map(|ancestor| ancestor.mark).collect(),
            oldest: None,
        })
    }

    /// The ledger as it was loaded.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The objects that are needed next, in any order; none when all is known.
    #[must_use]
    pub fn needed(&self) -> Vec<ObjectHash> {
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Kept(..) => None,
            Part::Node(_, entry) | Part::Dropped(entry) => Some(entry.hash),
        });
        self.newest.into_iter().chain(parts).collect()
    }

    /// Takes a needed object's content, if it is the one that its name promises.
    pub fn supply(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), LedgerError> {
        let found = ObjectHash::of(bytes);
        if found != hash {
            return Err(LedgerError::WrongContent { expected: hash, found });
        }
        if self.newest == Some(hash) {
            let segment = owned_segment(self.ledger.id(), hash, bytes)?;
            self.newest = None;
            self.begin(hash, segment);
            return Ok(());
        }
        let place = self.parts.iter().position(|part| match part {
            Part::Kept(..) => false,
            Part::Node(_, entry) | Part::Dropped(entry) => entry.hash == hash,
        });
        let place = place.ok_or(LedgerError::NotNeeded(hash))?;
        let put = if let Some(Part::Node(level, _)) = self.parts.get(place) {
            let (level, entries) = (*level, decode_node(bytes, *level)?);
            entries.into_iter().map(|entry| self.standing.part(level, entry)).collect()
        } else {
            self.drop_rows(&owned_segment(self.ledger.id(), hash, bytes)?);
            Vec::new()
        };
        self.parts.splice(place..=place, put);
        Ok(())
    }

    /// Rows that become free.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The rewound ledger's objects and property, for a commit that adds `snapshot`.
    pub fn finish(self, snapshot: SnapshotMark) -> Result<RoundResult, LedgerError> {
        if let Some(hash) = self.needed().first() {
            return Err(LedgerError::StillNeeded(*hash));
        }
        let oldest = self.oldest.ok_or(LedgerError::NothingToRewind)?;
        if let Some(picked) = self.picked.iter().find(|picked| picked.sequence_number > oldest) {
            return Err(LedgerError::PickedSnapshot(picked.id));
        }
        let Self { mut ledger, parts, letters, .. } = self;
        let mut objects = Vec::new();
        let mut index = index_of(parts, &mut objects);
        let mut kept: Vec<(Incarnation, Settlements)> = letters
            .into_iter()
            .flat_map(|(incarnation, letters)| letters.into_iter().map(move |letters| (incarnation, letters)))
            .collect();
        if kept.is_empty() {
            kept.push((ledger.incarnation, Settlements::default()));
        }
        let mut tail: Option<Tail> = None;
        for (incarnation, settled) in kept {
            if let Some(Tail { index: before, entry, .. }) = tail.take() {
                index = before;
                objects.extend(index.append(entry));
            }
            let index = std::mem::take(&mut index);
            let segment = new_segment(&ledger.id, incarnation, snapshot, index, settled);
            tail = Some(put(&mut objects, segment));
        }
        ledger.newest_segment = tail.as_ref().map(Tail::newest_segment);
        ledger.last_snapshot = Some(snapshot);
        if !is(Mutation::RewindUnmarked) {
            ledger.last_rewind = Some(snapshot.sequence_number);
        }
        if is(Mutation::RewindLowersHighest) {
            ledger.highest.values_mut().for_each(|highest| *highest = Offset::new(0).unwrap_or(*highest));
        }
        let (property_name, property_value) = ledger.property(snapshot)?;
        Ok(RoundResult { ledger, property_name, property_value, objects, tail, rows: 0, dead_letters: 0 })
    }

    fn begin(&mut self, hash: ObjectHash, segment: Segment) {
        let Tail { index, entry, .. } = Tail::of(hash, segment);
        let mut parts: Vec<Part> =
            index.into_entries().map(|(level, entry)| self.standing.part(level, entry)).collect();
        parts.push(self.standing.part(0, entry));
        self.parts = parts;
    }

    fn drop_rows(&mut self, segment: &Segment) {
        let sequence_number = segment.sequence_number;
        self.oldest = Some(self.oldest.map_or(sequence_number, |oldest| oldest.min(sequence_number)));
        for (partition, records) in segment.settled.partitions() {
            for (offset, settled) in records {
                match settled.kind {
                    Kind::Row => self.rows += 1,
                    Kind::DeadLetter if is(Mutation::RewindFreesLetters) => {}
                    Kind::DeadLetter => self.keep(segment.incarnation, partition, *offset, *settled),
                }
            }
        }
    }

    /// Keeps a dead letter. Where several stand at one offset, each has a segment of its own.
    fn keep(&mut self, incarnation: Incarnation, partition: Partition, offset: Offset, settled: Settled) {
        let Settled { kind, encoding, fingerprint } = settled;
        let record = RecordId { partition, offset, encoding, fingerprint };
        let lists = self.letters.entry(incarnation).or_default();
        if !lists.iter_mut().any(|list| list.extend(vec![(kind, record)]).is_ok()) {
            let mut list = Settlements::default();
            let _fits = list.extend(vec![(kind, record)]);
            lists.push(list);
        }
    }
}

/// The tree of what stays. Nodes that stay come first, the highest level before the others.
fn index_of(parts: Vec<Part>, objects: &mut Vec<LedgerObject>) -> Index {
    let mut index = Index::default();
    for part in parts {
        match part {
            Part::Kept(0, entry) => objects.extend(index.append(entry)),
            Part::Kept(level, entry) => index.put(level, entry),
            Part::Node(..) | Part::Dropped(_) => {}
        }
    }
    index
}
