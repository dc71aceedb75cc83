//! Batch manifests as messages of the commit queue.
//!
//! A batch manifest that is too large for a message goes to the ops bucket and the message points to
//! it. What an operator would need, should that object be gone, stays in the message.

use bytes::Bytes;
use icefall_manifest::{BatchManifest, MAX_MESSAGE_BYTES, Message, RecordList, Release, SpilledBatch};
use thiserror::Error;

use crate::{OpsBucket, StoreError};

/// What queues add to a body is counted with it.
pub(super) const LIMIT: usize = MAX_MESSAGE_BYTES - 1024;
/// As many runs of offsets as a pointer names.
const RUNS: usize = 100;

/// Why a batch manifest can't be made a message.
#[derive(Debug, Error)]
pub enum EncloseError {
    /// It can't be written as JSON.
    #[error("the batch manifest can't be written as JSON")]
    Json(#[from] serde_json::Error),
    /// It is large, and the ops bucket does not take it.
    #[error("a large batch manifest can't be stored")]
    Store(#[from] StoreError),
}

impl OpsBucket {
    /// The body of the message for `batch`, with what a person decided about it. What the body points to
    /// is durable.
    pub async fn enclose(
        &self,
        batch: BatchManifest,
        release: Option<Release>,
    ) -> Result<String, EncloseError> {
        let (id, pointer) = (batch.id.0, pointer(&batch));
        let message = match release {
            None => Message::Batch(Box::new(batch)),
            Some(release) => Message::Released(Box::new(batch), release),
        };
        let text = message.encode()?;
        if text.len() <= self.message_limit {
            return Ok(text);
        }
        let key = self.put_spill(id, Bytes::from(text)).await?;
        Ok(Message::Spilled(SpilledBatch { key, ..pointer }).encode()?)
    }
}

/// A pointer that does not say yet to where.
fn pointer(batch: &BatchManifest) -> SpilledBatch {
    SpilledBatch {
        key: String::new(),
        source: batch.source.clone(),
        table: batch.table.clone(),
        table_uuid: batch.table_uuid,
        offsets: batch.record_lists().flat_map(RecordList::runs).copied().take(RUNS).collect(),
    }
}
