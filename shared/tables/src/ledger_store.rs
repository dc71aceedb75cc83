//! The ledgers' objects and register entries, with what a warm function remembers of them.
//!
//! Segments and index nodes never change, so one that was read or put once need not be read again
//! while the function stays warm. The same holds for the register: what was ensured stays.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use icefall_ledger::{
    Held, Ledger, LedgerError, LedgerId, LedgerObject, Lookup, ObjectHash, SnapshotId, SnapshotMark, Tail,
    Wanted,
};
use icefall_manifest::Source;
use icefall_mutations::{Mutation, is};
use icefall_store::{OpsBucket, StoreError};
use serde_json::json;
use thiserror::Error;

/// Bytes of ledger objects that are remembered at the most.
const REMEMBERED_BYTES: usize = 32 * 1024 * 1024;
/// Objects that are read at the same time. A batch of one round needs one or two; a topic that is read from its beginning
/// again needs the segments of all rounds.
const READS_AT_ONCE: usize = 16;

/// Why a ledger can't be consulted or kept now.
#[derive(Debug, Error)]
pub enum LedgerStoreError {
    /// The ops bucket can't be reached, or an object is missing.
    #[error("the ledger's objects can't be reached")]
    Store(#[from] StoreError),
    /// What was read is no ledger.
    #[error("the ledger can't be used")]
    Ledger(#[from] LedgerError),
}

/// The ops bucket's part of all ledgers.
#[derive(Debug)]
pub struct LedgerStore {
    ops: OpsBucket,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    objects: HashMap<ObjectHash, Bytes>,
    oldest_first: VecDeque<ObjectHash>,
    bytes: usize,
    registered: BTreeSet<LedgerId>,
    /// The end of each ledger's tree, so that a round need not read the segment before it.
    tails: HashMap<LedgerId, Tail>,
    /// Heads of branches whose history was compared with the ledger as it stood: its last snapshot.
    compared: HashMap<LedgerId, (Option<SnapshotId>, Option<SnapshotId>)>,
}

impl LedgerStore {
    /// The ledgers' part of `ops`.
    #[must_use]
    pub fn new(ops: OpsBucket) -> Self {
        Self { ops, memory: Mutex::default() }
    }

    /// What `ledger` holds at the offsets `wanted`, and how many objects were read for it.
    pub async fn look_up(&self, ledger: &Ledger, wanted: &Wanted) -> Result<(Held, u64), LedgerStoreError> {
        let tail = self.with(|memory| memory.tails.get(ledger.id()).cloned());
        let mut lookup = match tail {
            Some(tail) => Lookup::with_tail(ledger, wanted, tail),
            None => Lookup::new(ledger, wanted),
        };
        let read = self.supply(&mut lookup).await?;
        Ok((lookup.finish()?, read))
    }

    /// Gives a look-up all objects that it needs; says how many were read for it.
    pub async fn supply(&self, lookup: &mut Lookup) -> Result<u64, LedgerStoreError> {
        let mut read = 0;
        loop {
            let needed = lookup.needed();
            if needed.is_empty() {
                return Ok(read);
            }
            let objects = needed.into_iter().map(|hash| async move {
                match self.with(|memory| memory.objects.get(&hash).cloned()) {
                    Some(bytes) => Ok((hash, bytes, 0)),
                    None => self.read(hash).await.map(|bytes| (hash, bytes, 1)),
                }
            });
            // Collected first: a stream that holds the closure itself is not known to be `Send`.
            let mut objects = stream::iter(objects.collect::<Vec<_>>()).buffered(READS_AT_ONCE);
            while let Some(object) = objects.next().await {
                let (hash, bytes, newly) = object?;
                read += newly;
                lookup.supply(hash, &bytes)?;
            }
        }
    }

    /// Puts the objects of a round, in their order, before any commit names them.
    pub async fn put(&self, objects: Vec<LedgerObject>) -> Result<(), StoreError> {
        for LedgerObject { hash, bytes } in objects {
            let bytes = Bytes::from(bytes);
            self.ops.put_ledger_object(&hash.to_string(), bytes.clone()).await?;
            self.remember(hash, bytes);
        }
        Ok(())
    }

    /// Remembers where the next segment of `id` continues. One that turns out to belong to a commit
    /// that was never made is passed over by the next look-up.
    pub fn remember_tail(&self, id: &LedgerId, tail: Option<Tail>) {
        if let Some(tail) = tail {
            self.with(|memory| memory.tails.insert(id.clone(), tail));
        }
    }

    /// Whether a branch whose newest snapshot is `head` is known to continue the ledger whose last one is `last`: it is
    /// the ledger's own, or it was compared before.
    #[must_use]
    pub fn is_compared(&self, id: &LedgerId, last: Option<SnapshotMark>, head: Option<SnapshotId>) -> bool {
        let last = last.map(|last| last.id);
        last == head || self.with(|memory| memory.compared.get(id) == Some(&(head, last)))
    }

    /// Remembers that they were compared.
    pub fn remember_compared(&self, id: &LedgerId, last: Option<SnapshotMark>, head: Option<SnapshotId>) {
        let last = last.map(|last| last.id);
        self.with(|memory| memory.compared.insert(id.clone(), (head, last)));
    }

    /// Any object by its hash, from memory or from the ops bucket.
    pub async fn object(&self, hash: ObjectHash) -> Result<Bytes, StoreError> {
        match self.with(|memory| memory.objects.get(&hash).cloned()) {
            Some(bytes) => Ok(bytes),
            None => self.read(hash).await,
        }
    }

    /// Whether the register says that this ledger has been written.
    pub async fn is_registered(&self, id: &LedgerId) -> Result<bool, StoreError> {
        if self.with(|memory| memory.registered.contains(id)) {
            return Ok(true);
        }
        Ok(self.ops.register(id.table_uuid, &id.branch, &id.source).await?.is_some())
    }

    /// The ledgers of the same topic, under whatever name of a cluster, that the register says have been written.
    pub async fn registered_of_topic(&self, id: &LedgerId) -> Result<Vec<LedgerId>, StoreError> {
        let clusters = self.ops.clusters(id.table_uuid, &id.branch, &id.source).await?;
        let of = |cluster| LedgerId { source: Source { cluster, ..id.source.clone() }, ..id.clone() };
        Ok(clusters.into_iter().map(of).collect())
    }

    /// Makes sure that the register holds this ledger: before any message is let go because of it.
    pub async fn register(&self, id: &LedgerId, table: &str) -> Result<(), StoreError> {
        if self.with(|memory| memory.registered.contains(id)) || is(Mutation::RegisterSkipped) {
            return Ok(());
        }
        let entry = json!({ "table": table, "ledger": id.to_string() });
        self.ops.ensure_register(id.table_uuid, &id.branch, &id.source, &entry).await?;
        self.with(|memory| memory.registered.insert(id.clone()));
        Ok(())
    }

    async fn read(&self, hash: ObjectHash) -> Result<Bytes, StoreError> {
        let bytes = self.ops.ledger_object(&hash.to_string()).await?;
        self.remember(hash, bytes.clone());
        Ok(bytes)
    }

    fn remember(&self, hash: ObjectHash, bytes: Bytes) {
        self.with(|memory| memory.insert(hash, bytes));
    }

    fn with<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        work(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Memory {
    fn insert(&mut self, hash: ObjectHash, bytes: Bytes) {
        self.bytes += bytes.len();
        if let Some(known) = self.objects.insert(hash, bytes) {
            self.bytes -= known.len();
            return;
        }
        self.oldest_first.push_back(hash);
        while self.bytes > REMEMBERED_BYTES && self.objects.len() > 1 {
            let Some(oldest) = self.oldest_first.pop_front() else { return };
            self.bytes -= self.objects.remove(&oldest).map_or(0, |bytes| bytes.len());
        }
    }
}
