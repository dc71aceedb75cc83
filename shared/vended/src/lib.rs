//! The table store with credentials that the catalog hands out.
//!
//! Some catalogs lend keys with every table, good for that table's files and for a short time. Two wrappers
//! make that invisible to everybody else: [`VendedCatalog`] is the catalog, and notes what keys came with a
//! table; [`VendedStore`] is the store, and signs each request with the keys for the object's table: those
//! of the longest prefix that fits. Keys are renewed ahead of their end by asking the catalog again,
//! and once when the store refuses them. Where the catalog hands out none, the store's own are used.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::Bytes;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_aws::CachedCredentials;
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Snapshots,
    StorageCredentials,
};
use icefall_clock::Clock;
use icefall_store::{Location, ObjectMeta, ObjectStore, StoreError};
use tracing::warn;

mod keys;
mod table_keys;

use keys::{Keys, keys_of};
use table_keys::TableKeys;

/// Makes the store that signs with these credentials.
pub type MakeStore = dyn Fn(CachedCredentials) -> Arc<dyn ObjectStore> + Send + Sync;

/// What catalog and store know of handed-out credentials.
struct Vault {
    catalog: Arc<dyn Catalog>,
    clock: Arc<dyn Clock>,
    make_store: Box<MakeStore>,
    tables: RwLock<HashMap<TableIdent, TableKeys>>,
}

/// A catalog that notes the credentials which it hands out.
#[derive(Clone, Debug)]
pub struct VendedCatalog(Arc<Vault>);

/// A store that uses them.
#[derive(Clone, Debug)]
pub struct VendedStore {
    vault: Arc<Vault>,
    own: Arc<dyn ObjectStore>,
}

/// Catalog and store, bound together. `own` is the store with its own credentials; `make_store` makes one
/// with others.
#[must_use]
pub fn vended(
    catalog: Arc<dyn Catalog>,
    own: Arc<dyn ObjectStore>,
    make_store: Box<MakeStore>,
    clock: Arc<dyn Clock>,
) -> (VendedCatalog, VendedStore) {
    let vault = Arc::new(Vault { catalog, clock, make_store, tables: RwLock::default() });
    (VendedCatalog(Arc::clone(&vault)), VendedStore { vault, own })
}

impl Vault {
    /// Notes what came with a table.
    fn note(&self, table: &TableIdent, loaded: &LoadedTable) {
        let keys: Vec<Keys> = loaded.credentials().iter().filter_map(|part| usable(table, part)).collect();
        if keys.is_empty() {
            return;
        }
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let known = tables.entry(table.clone()).or_default();
        known.set_roots(&loaded.metadata);
        for keys in keys {
            known.offer(keys, |prefix| {
                let source = keys::Source::new(Arc::clone(&self.catalog), table.clone(), prefix.to_owned());
                let credentials = CachedCredentials::new(source, Arc::clone(&self.clock));
                ((self.make_store)(credentials.clone()), credentials)
            });
        }
    }

    /// The store for `location`, if the catalog handed out keys for it.
    fn store(&self, location: &Location) -> Option<Arc<dyn ObjectStore>> {
        let uri = location.to_string();
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let (_, table) = tables
            .values()
            .filter_map(|table| Some((table.root_length(&uri)?, table)))
            .max_by_key(|(length, _)| *length)?;
        table.store(&uri)
    }
}

/// The keys of `part`; those that can't be used are told about, since the store's own take their place.
fn usable(table: &TableIdent, part: &StorageCredentials) -> Option<Keys> {
    let keys = keys_of(part);
    if keys.is_none() {
        warn!(%table, prefix = part.prefix, "the catalog hands out something else than keys for S3; it is left unused");
    }
    keys
}

#[async_trait]
impl Catalog for VendedCatalog {
    async fn load_table(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
    ) -> Result<LoadedTable, CatalogError> {
        let loaded = self.0.catalog.load_table(table, snapshots).await?;
        self.0.note(table, &loaded);
        Ok(loaded)
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        let created = self.0.catalog.create_table(table, new).await?;
        self.0.note(table, &created);
        Ok(created)
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        self.0.catalog.commit(table, commit).await
    }

    async fn storage_credentials(&self, table: &TableIdent) -> Result<Vec<StorageCredentials>, CatalogError> {
        self.0.catalog.storage_credentials(table).await
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
        self.0.catalog.create_namespace(namespace).await
    }

    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError> {
        self.0.catalog.load_namespace(namespace).await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError> {
        self.0.catalog.list_tables(namespace).await
    }

    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> Result<bool, CatalogError> {
        self.0.catalog.namespace_exists(namespace).await
    }
}

impl VendedStore {
    fn store(&self, location: &Location) -> Arc<dyn ObjectStore> {
        self.vault.store(location).unwrap_or_else(|| Arc::clone(&self.own))
    }
}

#[async_trait]
impl ObjectStore for VendedStore {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        self.store(location).put(location, body).await
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        self.store(location).get(location).await
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.store(location).get_range(location, range).await
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        self.store(location).head(location).await
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Vault")
            .field("catalog", &self.catalog)
            .field("tables", &tables.keys())
            .finish_non_exhaustive()
    }
}
