//! A catalog that remembers what became of each commit, and lets commits meet.
//!
//! A race that a test waits for is a race that it rarely sees: two committers that are held until both have built
//! their commit are in one every time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Snapshots,
};
use tokio::sync::Barrier;

/// A commit that was sent.
#[derive(Clone, Debug)]
pub struct Watched {
    /// To which table.
    pub table: TableIdent,
    /// What was sent.
    pub commit: Commit,
    /// The outcome's name.
    pub outcome: &'static str,
}

/// A catalog whose commits are watched.
pub struct WatchedCatalog {
    inner: Arc<dyn Catalog>,
    meeting: Option<Arc<Barrier>>,
    seen: Mutex<Vec<Watched>>,
}

impl fmt::Debug for WatchedCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedCatalog").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl WatchedCatalog {
    /// `inner`, watched.
    #[must_use]
    pub fn new(inner: Arc<dyn Catalog>) -> Arc<Self> {
        Self::with(inner, None)
    }

    /// The same, whose first commit waits for the first commits of all others that meet there.
    #[must_use]
    pub fn meeting(inner: Arc<dyn Catalog>, meeting: &Arc<Barrier>) -> Arc<Self> {
        Self::with(inner, Some(Arc::clone(meeting)))
    }

    fn with(inner: Arc<dyn Catalog>, meeting: Option<Arc<Barrier>>) -> Arc<Self> {
        Arc::new(Self { inner, meeting, seen: Mutex::default() })
    }

    /// All commits so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Watched> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Catalog for WatchedCatalog {
    async fn load_table(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
    ) -> Result<LoadedTable, CatalogError> {
        self.inner.load_table(table, snapshots).await
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        self.inner.create_table(table, new).await
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        if let Some(meeting) = self.meeting.as_ref().filter(|_| self.seen().is_empty()) {
            meeting.wait().await;
        }
        let outcome = self.inner.commit(table, commit).await;
        let watched = Watched { table: table.clone(), commit: commit.clone(), outcome: outcome.name() };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
        outcome
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
