//! Storing data files.
//!
//! One file is one PUT from memory under a name that no other attempt uses. Several go side by side,
//! since each waits for the store much longer than it computes.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use icefall_manifest::TableName;
use icefall_mutations::{Mutation, is};
use icefall_store::{Location, ObjectStore};

use crate::WriterError;

/// Files that are on their way at the same time.
const AT_ONCE: usize = 8;

/// A data file to be stored.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) table: TableName,
    pub(crate) location: Location,
    pub(crate) body: Bytes,
}

/// Stores all of `uploads`, or fails.
pub(crate) async fn store_all(store: &Arc<dyn ObjectStore>, uploads: Vec<Upload>) -> Result<(), WriterError> {
    let puts = uploads.into_iter().map(|upload| put(Arc::clone(store), upload));
    stream::iter(puts).buffer_unordered(AT_ONCE).try_collect().await
}

async fn put(store: Arc<dyn ObjectStore>, upload: Upload) -> Result<(), WriterError> {
    let Upload { table, location, body } = upload;
    let stored = store.put(&location, body).await;
    let stored = stored.or_else(|fault| if is(Mutation::QueuedBeforeStored) { Ok(()) } else { Err(fault) });
    stored.map_err(|source| WriterError::Upload { table, source })
}
