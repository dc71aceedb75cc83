//! Batch manifests as messages of the commit queue.

use icefall_manifest::BatchManifest;
use icefall_mutations::{Mutation, is};
use icefall_store::EncloseError;

use crate::{Ports, WriterError};

/// Queues `manifests`; `Ok` once all are durable.
pub(crate) async fn enqueue(ports: &Ports, manifests: Vec<BatchManifest>) -> Result<(), WriterError> {
    let mut bodies = Vec::with_capacity(manifests.len());
    for manifest in manifests {
        bodies.push(body(ports, manifest).await?);
    }
    if bodies.is_empty() {
        return Ok(());
    }
    let sent = ports.queue.send(&bodies).await;
    Ok(sent.or_else(|fault| if is(Mutation::AnsweredBeforeQueued) { Ok(()) } else { Err(fault) })?)
}

async fn body(ports: &Ports, manifest: BatchManifest) -> Result<String, WriterError> {
    ports.ops.enclose(manifest, None).await.map_err(|error| match error {
        EncloseError::Json(fault) => fault.into(),
        EncloseError::Store(fault) => WriterError::ops("a large batch manifest can't be stored")(fault),
    })
}
