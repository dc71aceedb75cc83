//! The same store for `iceberg`'s readers and writers of metadata and data files.
//!
//! `iceberg` would bring a second S3 client with settings, retries and errors of its own. This adapter
//! gives it ours, so that there is one way to the store and one place where its failures are told
//! apart ([`StoreError::behind`] finds them again). Deleting is refused: Icefall never deletes.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use iceberg::io::{
    FileIO, FileIOBuilder, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use iceberg::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Location, LocationError, ObjectStore, StoreError};

/// A `FileIO` over `store`.
#[must_use]
pub fn file_io(store: Arc<dyn ObjectStore>) -> FileIO {
    FileIOBuilder::new(Arc::new(SharedStore(store))).build()
}

/// The store as `iceberg` sees it.
#[derive(Clone, Debug)]
struct SharedStore(Arc<dyn ObjectStore>);

/// `iceberg` demands both for engines that send plans to other machines; a live store stays here.
impl Serialize for SharedStore {
    fn serialize<S: Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a store that is in use can't be serialized"))
    }
}

impl<'de> Deserialize<'de> for SharedStore {
    fn deserialize<D: Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
        Err(serde::de::Error::custom("a store can't be deserialized; build it from its settings"))
    }
}

#[typetag::serde(name = "icefall")]
impl StorageFactory for SharedStore {
    fn build(&self, _: &StorageConfig) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
#[typetag::serde(name = "icefall")]
impl Storage for SharedStore {
    async fn exists(&self, path: &str) -> Result<bool> {
        match self.0.head(&locate(path)?).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        let meta = self.0.head(&locate(path)?).await.map_err(failed)?;
        Ok(FileMetadata { size: meta.size })
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.0.get(&locate(path)?).await.map_err(failed)
    }

    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        Ok(Box::new(Reader { store: Arc::clone(&self.0), location: locate(path)? }))
    }

    async fn write(&self, path: &str, bs: Bytes) -> Result<()> {
        self.0.put(&locate(path)?, bs).await.map_err(failed)
    }

    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        let (store, location) = (Arc::clone(&self.0), locate(path)?);
        Ok(Box::new(Writer { store, location, pending: Some(BytesMut::new()) }))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Err(never_deletes(path))
    }

    async fn delete_prefix(&self, path: &str) -> Result<()> {
        Err(never_deletes(path))
    }

    async fn delete_stream(&self, _: BoxStream<'static, String>) -> Result<()> {
        Err(never_deletes("a list of files"))
    }

    fn new_input(&self, path: &str) -> Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

/// Reads ranges of one object.
#[derive(Debug)]
struct Reader {
    store: Arc<dyn ObjectStore>,
    location: Location,
}

#[async_trait]
impl FileRead for Reader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.store.get_range(&self.location, range).await.map_err(failed)
    }
}

/// Gathers an object and puts it when it is closed: metadata files are small.
#[derive(Debug)]
struct Writer {
    store: Arc<dyn ObjectStore>,
    location: Location,
    pending: Option<BytesMut>,
}

#[async_trait]
impl FileWrite for Writer {
    async fn write(&mut self, bs: Bytes) -> Result<()> {
        let pending = self.pending.as_mut().ok_or_else(|| closed(&self.location))?;
        pending.extend_from_slice(&bs);
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        let pending = self.pending.take().ok_or_else(|| closed(&self.location))?;
        self.store.put(&self.location, pending.freeze()).await.map_err(failed)
    }
}

fn locate(path: &str) -> Result<Location> {
    Location::parse(path).map_err(|error: LocationError| {
        Error::new(ErrorKind::DataInvalid, "not a file of this store").with_source(error)
    })
}

fn failed(error: StoreError) -> Error {
    Error::new(ErrorKind::Unexpected, "the store failed").with_source(error)
}

fn closed(location: &Location) -> Error {
    Error::new(ErrorKind::PreconditionFailed, format!("{location} is closed already"))
}

fn never_deletes(path: &str) -> Error {
    Error::new(ErrorKind::FeatureUnsupported, format!("can't delete {path}: Icefall never deletes files"))
}
