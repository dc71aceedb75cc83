//! When a batch manifest's files are written anew before they are committed, and what has been: all of its rows because
//! the files are old, or those of its rows that are free.
//!
//! A table's own clean-up removes files that no snapshot names once they are old enough, and it may do
//! so between our look and our commit. So files that have waited for half of that time are never
//! committed: they are written anew, however they look. Files of a schema or partition spec that the
//! table has dropped are too, since no manifest can name them.
//!
//! What was written anew is remembered while the function stays warm: a commit that is refused for
//! hours must not write the same rows once a round.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use iceberg::spec::TableMetadata;
use icefall_clock::Timestamp;
use icefall_ledger::Free;
use icefall_manifest::{BatchId, BatchManifest, TableUuid};
use icefall_mutations::{Mutation, is};

/// The table property that says, in milliseconds, how old an unreferenced file has to be for the table's
/// clean-up to remove it.
const LIMIT_KEY: &str = "icefall.unreferenced-file-age-ms";
/// Taken for that time where the table does not say it: the least that S3 Tables can be set to.
const LEAST_LIMIT: Duration = Duration::from_hours(24);
/// Batch manifests that are remembered at the most.
const REMEMBERED: usize = 10_000;

/// What was written anew, by the batch manifest that it was written for.
#[derive(Debug, Default)]
pub(crate) struct Renewals(Mutex<HashMap<BatchId, Renewed>>);

/// A batch manifest with files that were written anew.
#[derive(Debug)]
pub(crate) struct Renewed {
    /// The records that it was trimmed to; `None`: all of them.
    free: Option<Free>,
    batch: BatchManifest,
}

/// Whether `batch` has to be written anew before anything of it is committed to the table.
pub(crate) fn is_stale(metadata: &TableMetadata, batch: &BatchManifest, now: Timestamp) -> bool {
    !batch.files.is_empty() && (is_dropped(metadata, batch) || is_old(metadata, batch, now))
}

fn is_dropped(metadata: &TableMetadata, batch: &BatchManifest) -> bool {
    let is_known = metadata.schema_by_id(batch.schema_id.0).is_some()
        && metadata.partition_spec_by_id(batch.spec_id.0).is_some();
    !is_known && !is(Mutation::DroppedSpecIgnored)
}

fn is_old(metadata: &TableMetadata, batch: &BatchManifest, now: Timestamp) -> bool {
    let age = now.since(Timestamp::from_unix_ms(batch.made_at_ms));
    let stated = metadata.properties().get(LIMIT_KEY).and_then(|text| text.parse().ok());
    age >= stated.map_or(LEAST_LIMIT, Duration::from_millis) / 2 && !is(Mutation::AgeIgnored)
}

impl Renewals {
    /// What was written anew for `batch`, with just these of its records, if it can be committed to the table as it is
    /// now.
    pub(crate) fn of(
        &self,
        metadata: &TableMetadata,
        batch: &BatchManifest,
        free: Option<&Free>,
        now: Timestamp,
    ) -> Option<BatchManifest> {
        let same = |renewed: &&Renewed| renewed.free.as_ref() == free;
        let renewed = self.with(|known| Some(known.get(&batch.id).filter(same)?.batch.clone()))?;
        let usable = renewed.table_uuid == TableUuid(metadata.uuid()) && !is_stale(metadata, &renewed, now);
        usable.then_some(renewed)
    }

    /// Remembers what was written anew for the batch manifest of this id.
    pub(crate) fn keep(&self, id: BatchId, free: Option<Free>, batch: BatchManifest) {
        self.with(|known| {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(id, Renewed { free, batch });
        });
    }

    /// Forgets what a commit is about to name, for as long as it may have been made: once a snapshot had a file, its
    /// expiry may remove it, whatever became of the snapshot.
    pub(crate) fn lend(&self, ids: impl Iterator<Item = BatchId>) -> Vec<(BatchId, Renewed)> {
        self.with(|known| ids.filter_map(|id| known.remove_entry(&id)).collect())
    }

    /// Remembers it again, since the commit was not made.
    pub(crate) fn give_back(&self, lent: Vec<(BatchId, Renewed)>) {
        self.with(|known| known.extend(lent));
    }

    /// Forgets what is settled.
    pub(crate) fn forget(&self, id: BatchId) {
        self.with(|known| known.remove(&id));
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<BatchId, Renewed>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
