//! Batch manifests as messages of the commit queue.
//!
//! A batch manifest that is too large for a message goes to the ops bucket and the message points to
//! it. What an operator would need, should that object be gone, stays in the message.

use bytes::Bytes;
use icefall_manifest::{BatchManifest, MAX_MESSAGE_BYTES, Message, OffsetRun, RecordList, SpilledBatch};

use crate::{Ports, WriterError};

/// What queues add to a body is counted with it.
const LIMIT: usize = MAX_MESSAGE_BYTES - 1024;
/// As many runs of offsets as a pointer names.
const RUNS: usize = 100;

/// Queues `manifests`; `Ok` once all are durable.
pub(crate) async fn enqueue(ports: &Ports, manifests: Vec<BatchManifest>) -> Result<(), WriterError> {
    let mut bodies = Vec::with_capacity(manifests.len());
    for manifest in manifests {
        bodies.push(body(ports, manifest).await?);
    }
    if bodies.is_empty() {
        return Ok(());
    }
    Ok(ports.queue.send(&bodies).await?)
}

async fn body(ports: &Ports, manifest: BatchManifest) -> Result<String, WriterError> {
    let id = manifest.id.0;
    let pointer = |key| SpilledBatch {
        key,
        source: manifest.source.clone(),
        table: manifest.table.clone(),
        table_uuid: manifest.table_uuid,
        offsets: first_runs(&manifest),
    };
    let text = Message::Batch(Box::new(manifest.clone())).encode()?;
    if text.len() <= LIMIT {
        return Ok(text);
    }
    let failed = WriterError::ops("a large batch manifest can't be stored");
    let key = ports.ops.put_spill(id, Bytes::from(text)).await.map_err(failed)?;
    Ok(Message::Spilled(pointer(key)).encode()?)
}

fn first_runs(manifest: &BatchManifest) -> Vec<OffsetRun> {
    manifest.record_lists().flat_map(RecordList::runs).copied().take(RUNS).collect()
}
