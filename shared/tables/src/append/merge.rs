//! Merging our small manifests, so that a reader plans a scan by few of them.
//!
//! Each append adds a small manifest. When there are many (`commit.manifest.min-count-to-merge`), one manifest takes
//! the place of a part of them, as Iceberg's own merging append does: every live entry goes on as an existing one,
//! with the snapshot, the sequence numbers and the row ids that it had; entries of deleted files, which only
//! matter to the snapshot that deleted them, are left out.
//!
//! Only manifests that this committer wrote are merged, by the mark in their names: their content is known in every
//! field, while another engine's may hold something that a rewrite would lose. Delete manifests are never
//! touched. What was read has to agree with what the manifest list says of it, and whatever stands in the
//! way, the append goes on without merging: readers are merely served better later.
//!
//! A merge is bounded: it reads at most [`MAX_MANIFESTS`], together no more than the target size, and ends after
//! [`MAX_TIME`]. It takes the smallest first, and none that is larger than all the others together, so that
//! an entry is written anew only when the manifest that it stands in at least doubles.

mod carry;
mod choose;

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use iceberg::spec::{Manifest, ManifestFile};
use icefall_mutations::{Mutation, is};
use thiserror::Error;
use tracing::{info, warn};
use uuid::Uuid;

use self::choose::{Rules, choose};
use super::{AppendBuilder, SnapshotKey};

/// Manifests that one commit merges: each is a request to the store.
const MAX_MANIFESTS: usize = 250;
/// How long a commit waits for a merge.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Manifests that are read at the same time.
const READERS: usize = 16;

/// Tells our manifests from those of other engines.
const MARK: &str = "-icefall-m";

/// The name of the `index`th manifest of an attempt.
pub(super) fn name(attempt: Uuid, index: usize) -> String {
    format!("{attempt}{MARK}{index}.avro")
}

/// Why manifests were not merged.
#[derive(Debug, Error)]
enum MergeError {
    #[error("table property {key} = {value:?} is no number")]
    Property { key: &'static str, value: String },
    #[error("{path} {problem}")]
    Manifest { path: String, problem: &'static str },
    #[error("it took longer than {} s", MAX_TIME.as_secs())]
    OutOfTime,
    #[error("the manifests can't be read or written")]
    Files(#[from] iceberg::Error),
}

/// The parent's manifests after merging.
#[derive(Debug)]
pub(super) struct Merged {
    /// All of them: new ones in place of those that were merged, and the others.
    pub(super) manifests: Vec<ManifestFile>,
    created: usize,
    replaced: usize,
    entries: usize,
}

impl Merged {
    /// All as they were.
    pub(super) const fn none(manifests: Vec<ManifestFile>) -> Self {
        Self { manifests, created: 0, replaced: 0, entries: 0 }
    }

    /// What the snapshot's summary says of it, by the names of Iceberg's Java library; `new` are the
    /// manifests of the snapshot's own files.
    pub(super) fn summary(&self, new: usize) -> HashMap<String, String> {
        if self.replaced == 0 {
            return HashMap::new();
        }
        let counts = [
            ("manifests-created", self.created + new),
            ("manifests-kept", self.manifests.len() - self.created),
            ("manifests-replaced", self.replaced),
            ("entries-processed", self.entries),
        ];
        counts.into_iter().map(|(key, count)| (key.to_owned(), count.to_string())).collect()
    }
}

impl AppendBuilder<'_> {
    /// `manifests` with small ones of ours merged, if there are many. Never fails: it leaves them as they are.
    pub(super) async fn merge(
        &self,
        manifests: Vec<ManifestFile>,
        key: SnapshotKey,
        attempt: Uuid,
    ) -> Merged {
        let work = self.try_merge(&manifests, key, attempt);
        let merged = match select(pin!(work), self.clock.sleep(MAX_TIME)).await {
            Either::Left((merged, _)) => merged,
            Either::Right(((), _)) => Err(MergeError::OutOfTime),
        };
        match merged {
            Ok(Some(merged)) => {
                info!(
                    table = self.metadata.location(),
                    replaced = merged.replaced,
                    entries = merged.entries,
                    "small manifests are merged"
                );
                merged
            }
            Ok(None) => Merged::none(manifests),
            Err(fault) => {
                warn!(
                    table = self.metadata.location(),
                    error = &fault as &dyn std::error::Error,
                    "small manifests are not merged; the append goes on without"
                );
                Merged::none(manifests)
            }
        }
    }

    async fn try_merge(
        &self,
        manifests: &[ManifestFile],
        key: SnapshotKey,
        attempt: Uuid,
    ) -> Result<Option<Merged>, MergeError> {
        let rules = Rules::read(self.metadata.properties())?;
        let chosen = rules.map(|rules| choose(manifests, &rules)).unwrap_or_default();
        if chosen.is_empty() {
            return Ok(None);
        }
        let files: Vec<&ManifestFile> = chosen.iter().filter_map(|index| manifests.get(*index)).collect();
        let read = self.read(&files).await?;
        let (written, taken, entries) = self.write_merged(&files, read, key, attempt).await?;
        if written.is_empty() {
            return Ok(None);
        }
        let (created, replaced) = (written.len(), taken.len());
        let goes_on = |path: &String| !taken.contains(path) || is(Mutation::MergedKept);
        let kept = manifests.iter().filter(|manifest| goes_on(&manifest.manifest_path));
        let manifests = written.into_iter().chain(kept.cloned()).collect();
        Ok(Some(Merged { manifests, created, replaced, entries }))
    }

    async fn read(&self, files: &[&ManifestFile]) -> Result<Vec<Manifest>, MergeError> {
        let reads: Vec<_> = files.iter().map(|file| file.load_manifest(self.file_io)).collect();
        let read: Vec<_> = futures::stream::iter(reads).buffered(READERS).collect().await;
        Ok(read.into_iter().collect::<Result<_, _>>()?)
    }
}
