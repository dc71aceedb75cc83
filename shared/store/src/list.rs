//! Listing, which ordinary buckets offer and table buckets don't.
//!
//! It is a port of its own and not part of [`ObjectStore`](crate::ObjectStore), because no decision about
//! records may ever rest on a listing. Operators' tools list the ops bucket, to show what is in it.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::{Location, StoreError};

/// A store whose objects can be listed.
#[async_trait]
pub trait ObjectLister: Debug + Send + Sync {
    /// The objects whose keys begin with that of `prefix`, in the order of their keys.
    async fn list(&self, prefix: &Location) -> Result<Vec<Location>, StoreError>;
}
