//! The port: what Icefall asks of a catalog, and what comes back.
//!
//! Both functions see a catalog only through [`Catalog`], so that the fault simulation can put a fake in
//! its place and drive the very code that is shipped. Everything a table's answer may carry that is
//! secret (its configuration can hold keys) is kept out of `Debug`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use iceberg::spec::{Schema, SnapshotReference, TableMetadata, UnboundPartitionSpec};
use iceberg::{NamespaceIdent, TableIdent};

use crate::{CatalogError, Commit, CommitOutcome};

/// A catalog of Iceberg tables.
#[async_trait]
pub trait Catalog: fmt::Debug + Send + Sync {
    /// The table's current metadata.
    async fn load_table(&self, table: &TableIdent, snapshots: Snapshots)
    -> Result<LoadedTable, CatalogError>;

    /// Creates a table in a namespace that exists.
    ///
    /// Not every catalog refuses a table that is already there: some answer with the old one, and some let
    /// two racing creations through. So load first, create when nothing is found, and load again.
    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError>;

    /// Commits to a table, once. See [`CommitOutcome`] for what each answer proves.
    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome;

    /// Credentials for the table's files, newer than those that came when it was loaded; none if the catalog
    /// hands out none.
    async fn storage_credentials(&self, table: &TableIdent) -> Result<Vec<StorageCredentials>, CatalogError> {
        self.load_table(table, Snapshots::Refs).await.map(|loaded| loaded.credentials())
    }

    /// Creates a namespace; [`CatalogError::AlreadyExists`] when it is there.
    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError>;

    /// A namespace and its properties.
    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError>;

    /// The tables of a namespace, all pages of them.
    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError>;

    /// Whether the namespace exists.
    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> Result<bool, CatalogError> {
        match self.load_namespace(namespace).await {
            Ok(_) => Ok(true),
            Err(CatalogError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The property in which catalogs hand out the id of a key for S3.
pub const ACCESS_KEY_ID: &str = "s3.access-key-id";

/// Which snapshots a loaded table lists.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Snapshots {
    /// All that are retained.
    All,
    /// Those that branches and tags point to. A catalog that can't do it answers with all.
    Refs,
}

/// A table as a catalog answered it.
#[derive(Clone)]
pub struct LoadedTable {
    /// The table's metadata.
    pub metadata: Arc<TableMetadata>,
    /// Its branches and tags with their retention, which the metadata's type keeps to itself.
    pub references: Arc<BTreeMap<String, SnapshotReference>>,
    /// Where that metadata is stored, when the catalog says so.
    pub metadata_location: Option<String>,
    /// Bytes of the answer, nearly all of them the metadata: what catalogs set a limit to.
    pub answer_bytes: u64,
    /// What the catalog tells clients about reaching the table. May hold secrets.
    pub config: BTreeMap<String, String>,
    /// Credentials for parts of the store, when the catalog hands some out.
    pub storage_credentials: Vec<StorageCredentials>,
}

impl LoadedTable {
    /// A table of which nothing but its metadata is known.
    #[must_use]
    pub fn new(
        metadata: Arc<TableMetadata>,
        references: Arc<BTreeMap<String, SnapshotReference>>,
        metadata_location: Option<String>,
    ) -> Self {
        let (config, storage_credentials) = (BTreeMap::new(), Vec::new());
        Self { metadata, references, metadata_location, answer_bytes: 0, config, storage_credentials }
    }

    /// The credentials that came with it. Older catalogs put them into the configuration; those are good for
    /// the table's location.
    #[must_use]
    pub fn credentials(&self) -> Vec<StorageCredentials> {
        if !self.storage_credentials.is_empty() || !self.config.contains_key(ACCESS_KEY_ID) {
            return self.storage_credentials.clone();
        }
        vec![StorageCredentials { prefix: self.metadata.location().to_owned(), config: self.config.clone() }]
    }
}

impl fmt::Debug for LoadedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedTable")
            .field("uuid", &self.metadata.uuid())
            .field("current_snapshot_id", &self.metadata.current_snapshot_id())
            .field("metadata_location", &self.metadata_location)
            .field("config", &self.config.keys())
            .field("storage_credentials", &self.storage_credentials)
            .finish_non_exhaustive()
    }
}

/// Credentials that the catalog hands out for one part of the store.
#[derive(Clone, Eq, PartialEq)]
pub struct StorageCredentials {
    /// The locations that they are good for begin with this. The longest match counts.
    pub prefix: String,
    /// The credentials, by the property names of the client's file access.
    pub config: BTreeMap<String, String>,
}

impl fmt::Debug for StorageCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageCredentials")
            .field("prefix", &self.prefix)
            .field("config", &self.config.keys())
            .finish()
    }
}

/// A namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceIdent,
    /// Its properties, empty when the catalog keeps none.
    pub properties: BTreeMap<String, String>,
}

/// A table to be created.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Its columns. The catalog assigns field ids anew.
    pub schema: Schema,
    /// How its data is partitioned, by the field ids of `schema`; unpartitioned when empty.
    pub partition_spec: UnboundPartitionSpec,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Where it lives. Most catalogs choose that themselves, and some refuse a choice; Glue requires one.
    pub location: Option<String>,
}

impl NewTable {
    /// An unpartitioned table with these columns, at a place of the catalog's choice.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            partition_spec: UnboundPartitionSpec::default(),
            properties: BTreeMap::new(),
            location: None,
        }
    }
}
