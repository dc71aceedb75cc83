//! The object store port, its S3 adapter, and the layout of the ops bucket.
//!
//! Everything that Icefall keeps outside the catalog and the queue is an object: data files and
//! metadata in a table's own location, and its own records in the ops bucket. [`ObjectStore`] is all
//! that is asked of a store: put, get, a range, a size. There is no list and no delete, on purpose:
//! table buckets offer neither, and nothing here may depend on them or remove what a ledger names.
//! ([`ObjectLister`] is for operators' tools, which show what lies in the ops bucket.)
//!
//! [`S3Store`] is the port over S3's protocol, [`file_io`] gives the same store to `iceberg`'s
//! readers and writers, and [`OpsBucket`] knows by name what lies in Icefall's own bucket.

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

mod error;
mod file_io;
mod list;
mod location;
mod ops;
mod s3;

pub use error::{Attempt, Operation, StoreError};
pub use file_io::file_io;
pub use list::ObjectLister;
pub use location::{Location, LocationError};
pub use ops::{
    Decided, EncloseError, FiledEntry, HEARTBEAT_SLOTS, Heartbeat, OpsBucket, QuarantineDecision,
    QuarantineEntry, Suspect,
};
pub use s3::{S3Config, S3Store};

/// What is known of an object without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ObjectMeta {
    /// Its size in bytes.
    pub size: u64,
}

/// Where objects live.
#[async_trait]
pub trait ObjectStore: Debug + Send + Sync {
    /// Stores `body`, replacing what is there. Durable once this is `Ok`; after an error it may or
    /// may not be there. Repeating it is safe: except for the heartbeat, which has one writer, the
    /// same location always gets the same bytes.
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError>;

    /// The whole object.
    async fn get(&self, location: &Location) -> Result<Bytes, StoreError>;

    /// The bytes of `range`, exactly; a range that reaches past the end is
    /// [`StoreError::Rejected`]. An empty range asks nothing of the store.
    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError>;

    /// The object's size. [`StoreError::NotFound`] here may also mean that the bucket is missing: the
    /// answer to a HEAD request has no body to tell.
    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError>;
}
