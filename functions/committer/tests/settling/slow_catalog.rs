//! A catalog that takes its time.

use std::sync::Arc;
use std::time::Duration;

use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Snapshots,
};
use icefall_clock::Clock;
use icefall_testkit::FakeClock;

/// A catalog that takes its time to commit.
#[derive(Debug)]
pub(crate) struct SlowCatalog {
    pub(crate) inner: Arc<dyn Catalog>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) commit_time: Duration,
}

#[async_trait::async_trait]
impl Catalog for SlowCatalog {
    async fn load_table(&self, table: &TableIdent, all: Snapshots) -> Result<LoadedTable, CatalogError> {
        self.inner.load_table(table, all).await
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        self.inner.create_table(table, new).await
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        self.clock.sleep(self.commit_time).await;
        self.inner.commit(table, commit).await
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
        self.inner.create_namespace(namespace).await
    }

    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError> {
        self.inner.load_namespace(namespace).await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError> {
        self.inner.list_tables(namespace).await
    }
}
