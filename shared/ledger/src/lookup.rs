//! Finding what is settled at some offsets, one object at a time.
//!
//! The caller does the reading: it asks which objects are needed, fetches them (or has them in its
//! cache, they never change) and supplies them until none is needed. Of the tree only those objects
//! are read whose offsets meet the ones asked for and are not above their partition's highest. The
//! newest segment is needed besides, because the next one continues its index, unless the caller
//! kept the [`Tail`] of it: then the common case, offsets that only go up, reads nothing.

use std::collections::BTreeMap;

use icefall_mutations::{Mutation, is};

use crate::index::{Entry, decode_node};
use crate::{Held, Ledger, LedgerError, LedgerId, ObjectHash, Segment, Tail, Wanted};

/// What an object must turn out to be.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The newest segment, whose index leads to all others.
    Newest,
    /// An earlier segment.
    Segment,
    /// A sealed node of this level.
    Node(usize),
}

/// A look-up under way.
#[derive(Clone, Debug)]
pub struct Lookup {
    owner: LedgerId,
    needed: BTreeMap<ObjectHash, Expected>,
    held: Held,
}

impl Lookup {
    /// Begins to look for what `ledger` holds at the offsets `wanted`.
    #[must_use]
    pub fn new(ledger: &Ledger, wanted: &Wanted) -> Self {
        let needed = ledger.newest_segment().map(|hash| (hash, Expected::Newest)).into_iter().collect();
        Self { owner: ledger.id().clone(), needed, held: Held::new(wanted.up_to(ledger.highest())) }
    }

    /// The same with a tail that was kept. A tail of another state of the ledger is passed over.
    #[must_use]
    pub fn with_tail(ledger: &Ledger, wanted: &Wanted, tail: Tail) -> Self {
        let mut lookup = Self::new(ledger, wanted);
        if ledger.newest_segment() == Some(tail.hash) || is(Mutation::TailOfLostCommit) {
            lookup.needed.clear();
            if tail.entry.meets(&lookup.held.wanted) {
                lookup.needed.insert(tail.hash, Expected::Segment);
            }
            lookup.begin(tail);
        }
        lookup
    }

    /// The objects that are needed next, in any order; none when the look-up is done.
    #[must_use]
    pub fn needed(&self) -> Vec<ObjectHash> {
        self.needed.keys().copied().collect()
    }

    /// Takes a needed object's content, if it is the one that its name promises. After an error the
    /// object is still needed.
    pub fn supply(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), LedgerError> {
        let expected = *self.needed.get(&hash).ok_or(LedgerError::NotNeeded(hash))?;
        let found = ObjectHash::of(bytes);
        if found != hash {
            return Err(LedgerError::WrongContent { expected: hash, found });
        }
        match expected {
            Expected::Newest => {
                let segment = self.segment(hash, bytes)?;
                self.held.take(&segment);
                self.begin(Tail::of(hash, segment));
            }
            Expected::Segment => {
                let segment = self.segment(hash, bytes)?;
                self.held.take(&segment);
            }
            Expected::Node(level) => self.follow(level, &decode_node(bytes, level)?),
        }
        self.needed.remove(&hash);
        Ok(())
    }

    /// What was found, once nothing is needed any more.
    pub fn finish(mut self) -> Result<Held, LedgerError> {
        if let Some(hash) = self.needed.keys().next() {
            return Err(LedgerError::StillNeeded(*hash));
        }
        self.held.sort();
        Ok(self.held)
    }

    fn segment(&self, hash: ObjectHash, bytes: &[u8]) -> Result<Segment, LedgerError> {
        owned_segment(&self.owner, hash, bytes)
    }

    /// Goes on below the index of the newest segment.
    fn begin(&mut self, tail: Tail) {
        for (level, entry) in tail.index.meeting(&self.held.wanted) {
            self.needed.insert(entry.hash, below(level));
        }
        self.held.tail = Some(tail);
    }

    /// Goes on below a sealed node of `level`.
    fn follow(&mut self, level: usize, entries: &[Entry]) {
        for entry in entries.iter().filter(|entry| entry.meets(&self.held.wanted)) {
            self.needed.insert(entry.hash, below(level));
        }
    }
}

/// The segment in `bytes`, if it belongs to the ledger of `owner`.
pub(crate) fn owned_segment(
    owner: &LedgerId,
    hash: ObjectHash,
    bytes: &[u8],
) -> Result<Segment, LedgerError> {
    let segment = Segment::decode(bytes)?;
    if segment.owner == *owner || is(Mutation::CopiedLedgerTaken) {
        return Ok(segment);
    }
    let (owner, ledger) = (Box::new(segment.owner), Box::new(owner.clone()));
    Err(LedgerError::OtherOwner { segment: hash, owner, ledger })
}

/// What an entry in `level` names.
const fn below(level: usize) -> Expected {
    match level.checked_sub(1) {
        None => Expected::Segment,
        Some(level) => Expected::Node(level),
    }
}
