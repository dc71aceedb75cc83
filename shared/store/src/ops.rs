//! Icefall's own bucket, by name.
//!
//! Table buckets take nothing but data and metadata files, so what Icefall keeps for itself lies in
//! one ordinary bucket. This module is the only place that knows how it is laid out. All keys are
//! below the configured prefix; the keys that methods take and return are without it.
//!
//! | key | what | written by | read by |
//! |---|---|---|---|
//! | `segments/<sha256>` | ledger segments and index nodes, named by their content | committer, before the commit that names them | committer |
//! | `dead-letters/<table uuid>/<uuid>.jsonl.zst` | one batch's dead letters on their way to the dead-letter table | writer, before its batch manifest; committer when it trims | committer |
//! | `spill/<uuid>.json` | a batch manifest that is too large for a message | writer, before the message that points to it | committer |
//! | `quarantine/<yyyy-mm-dd>/<reason>/<id>.json` | why something could not be decided, with details | both, after its other two objects | operator |
//! | `quarantine/<yyyy-mm-dd>/<reason>/<id>.raw` | the message or event itself | both | operator |
//! | `quarantine/<yyyy-mm-dd>/<reason>/<id>/<n>-<file name>` | copies of the data files that it names | committer | operator |
//! | `quarantine-decisions/<yyyy-mm-dd>/<reason>/<id>.json` | what a person decided about the entry of that name | operator | operator |
//! | `heartbeat/<pipeline>.json`, `heartbeat/<pipeline>.<n>.json` | when a committer's round began, and which messages it holds | committer | both |
//! | `register/<table uuid>/<branch>/<pipeline>/<cluster>/<topic>.json` | that this table has a ledger for this source | committer, before it lets a message go | committer |
//! | `clusters/<table uuid>/<branch>/<pipeline>/<topic>.json` | the clusters under whose names the register holds this topic | committer, before the register | committer |
//!
//! Nothing in here is deleted automatically, by anybody: segments never expire, and whether another
//! object is still needed only a ledger knows. Without `s3:ListBucket` a missing object is answered
//! by 403, so the policy of this bucket needs it.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use icefall_manifest::{Branch, ClusterName, PipelineId, Source, TableUuid};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{Location, ObjectStore, StoreError};

mod desk;
mod enclose;
mod heartbeat;
mod quarantine;

pub use desk::{Decided, FiledEntry, QuarantineDecision};
pub use enclose::EncloseError;
pub use heartbeat::{HEARTBEAT_SLOTS, Heartbeat, Suspect};
pub use quarantine::QuarantineEntry;

/// Icefall's own bucket.
#[derive(Clone, Debug)]
pub struct OpsBucket {
    store: Arc<dyn ObjectStore>,
    bucket: String,
    prefix: String,
    /// The most bytes of a message that is not put here instead.
    message_limit: usize,
}

impl OpsBucket {
    /// The bucket named `bucket` of `store`; all keys are below `prefix`, which may be empty.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, bucket: impl Into<String>, prefix: &str) -> Self {
        let prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Self { store, bucket: bucket.into(), prefix, message_limit: enclose::LIMIT }
    }

    /// The same, for a queue that takes messages of no more than so many bytes.
    #[must_use]
    pub fn with_message_limit(self, bytes: usize) -> Self {
        Self { message_limit: bytes, ..self }
    }

    /// Where the object with this key lies.
    #[must_use]
    pub fn location(&self, key: &str) -> Location {
        Location::s3(self.bucket.clone(), format!("{}{key}", self.prefix))
    }

    /// Any object, by a key that another method returned.
    pub async fn read(&self, key: &str) -> Result<Bytes, StoreError> {
        self.store.get(&self.location(key)).await
    }

    /// Stores a segment or an index node under the SHA-256 of its bytes, in lower-case hex.
    pub async fn put_ledger_object(&self, hash_hex: &str, body: Bytes) -> Result<(), StoreError> {
        self.put(&segment_key(hash_hex), body).await
    }

    /// Reads a segment or an index node, and checks that its bytes have that hash.
    pub async fn ledger_object(&self, hash_hex: &str) -> Result<Bytes, StoreError> {
        let key = segment_key(hash_hex);
        let body = self.read(&key).await?;
        let found = format!("{:x}", Sha256::digest(&body));
        if found == hash_hex {
            return Ok(body);
        }
        Err(StoreError::malformed(&self.location(&key), format!("its bytes have the SHA-256 {found}")))
    }

    /// Stores the dead letters of one batch for one table; returns the key.
    pub async fn put_dead_letters(
        &self,
        table_uuid: TableUuid,
        id: Uuid,
        body: Bytes,
    ) -> Result<String, StoreError> {
        let key = format!("dead-letters/{table_uuid}/{id}.jsonl.zst");
        self.put(&key, body).await?;
        Ok(key)
    }

    /// Stores a batch manifest that is too large for a message; returns the key.
    pub async fn put_spill(&self, id: Uuid, body: Bytes) -> Result<String, StoreError> {
        let key = format!("spill/{id}.json");
        self.put(&key, body).await?;
        Ok(key)
    }

    /// Puts an undecidable message or event aside; returns the key of the entry. The raw bytes go
    /// first: an entry always has them.
    pub async fn quarantine(&self, entry: &QuarantineEntry<'_>) -> Result<String, StoreError> {
        let key = entry.key();
        self.put(&format!("{key}.raw"), entry.raw.clone()).await?;
        let key = format!("{key}.json");
        self.put_json(&key, entry).await?;
        Ok(key)
    }

    /// Keeps a copy of the `index`-th data file that `entry` names, before [`OpsBucket::quarantine`]
    /// is called with it; returns the key.
    pub async fn quarantine_copy(
        &self,
        entry: &QuarantineEntry<'_>,
        index: usize,
        file: &Location,
        body: Bytes,
    ) -> Result<String, StoreError> {
        let key = entry.copy_key(index, file);
        self.put(&key, body).await?;
        Ok(key)
    }

    /// The key of the copy of that data file, if one was kept for `entry` before.
    pub async fn kept_copy(
        &self,
        entry: &QuarantineEntry<'_>,
        index: usize,
        file: &Location,
    ) -> Result<Option<String>, StoreError> {
        let key = entry.copy_key(index, file);
        match self.read(&key).await {
            Ok(_) => Ok(Some(key)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Says in `slot` what a committer's present round holds.
    pub async fn put_heartbeat(
        &self,
        pipeline: &PipelineId,
        slot: usize,
        heartbeat: &Heartbeat,
    ) -> Result<(), StoreError> {
        self.put_json(&heartbeat_key(pipeline, slot), heartbeat).await
    }

    /// What the committers' last rounds said, slot by slot.
    pub async fn heartbeats(&self, pipeline: &PipelineId) -> Vec<Result<Option<Heartbeat>, StoreError>> {
        let read = |slot| async move { self.json(&heartbeat_key(pipeline, slot)).await };
        join_all((0..HEARTBEAT_SLOTS).map(read)).await
    }

    /// What the newest round said; none has run yet if there is nothing.
    pub async fn heartbeat(&self, pipeline: &PipelineId) -> Result<Option<Heartbeat>, StoreError> {
        let all = self.heartbeats(pipeline).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().flatten().max_by_key(|heartbeat| heartbeat.started_ms))
    }

    /// Makes sure that the register holds this table's ledger; what it holds already stays.
    pub async fn ensure_register(
        &self,
        table_uuid: TableUuid,
        branch: &Branch,
        source: &Source,
        entry: &Value,
    ) -> Result<(), StoreError> {
        if self.register(table_uuid, branch, source).await?.is_some() {
            return Ok(());
        }
        let mut clusters = self.clusters(table_uuid, branch, source).await?;
        if !clusters.contains(&source.cluster) {
            clusters.push(source.cluster.clone());
            self.put_json(&clusters_key(table_uuid, branch, source), &clusters).await?;
        }
        self.put_json(&register_key(table_uuid, branch, source), entry).await
    }

    /// The clusters under whose names the register holds the topic of `source` in this table.
    pub async fn clusters(
        &self,
        table_uuid: TableUuid,
        branch: &Branch,
        source: &Source,
    ) -> Result<Vec<ClusterName>, StoreError> {
        Ok(self.json(&clusters_key(table_uuid, branch, source)).await?.unwrap_or_default())
    }

    /// What the register holds of this table's ledger.
    pub async fn register(
        &self,
        table_uuid: TableUuid,
        branch: &Branch,
        source: &Source,
    ) -> Result<Option<Value>, StoreError> {
        self.json(&register_key(table_uuid, branch, source)).await
    }

    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError> {
        self.store.put(&self.location(key), body).await
    }

    async fn put_json<T: serde::Serialize + Sync>(&self, key: &str, value: &T) -> Result<(), StoreError> {
        let body =
            serde_json::to_vec(value).map_err(|source| StoreError::malformed(&self.location(key), source))?;
        self.put(key, body.into()).await
    }

    async fn json<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let body = match self.read(key).await {
            Ok(body) => body,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&body)
            .map(Some)
            .map_err(|source| StoreError::malformed(&self.location(key), source))
    }
}

fn segment_key(hash_hex: &str) -> String {
    format!("segments/{hash_hex}")
}

/// A pipeline's id has no dot, so no slot's key is another pipeline's.
fn heartbeat_key(pipeline: &PipelineId, slot: usize) -> String {
    match slot {
        0 => format!("heartbeat/{pipeline}.json"),
        slot => format!("heartbeat/{pipeline}.{slot}.json"),
    }
}

fn register_key(table_uuid: TableUuid, branch: &Branch, source: &Source) -> String {
    format!("register/{table_uuid}/{branch}/{source}.json")
}

fn clusters_key(table_uuid: TableUuid, branch: &Branch, source: &Source) -> String {
    format!("clusters/{table_uuid}/{branch}/{}/{}.json", source.pipeline, source.topic)
}
