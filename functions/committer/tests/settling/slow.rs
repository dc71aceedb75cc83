//! Parts that take their time: a catalog, so that others are faster, and a store.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Snapshots,
};
use icefall_clock::Clock;
use icefall_store::{Location, ObjectMeta, ObjectStore, StoreError};
use icefall_testkit::FakeClock;
use tokio::sync::Barrier;

/// What others do right before a commit.
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// What others do right before the next commits, one after the other.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<Mutex<VecDeque<Hook>>>);

impl Hooks {
    pub(crate) fn add(&self, hook: Hook) {
        self.0.lock().expect("nobody panicked").push_back(hook);
    }

    fn next(&self) -> Option<Hook> {
        self.0.lock().expect("nobody panicked").pop_front()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// Commits that wait for each other: all of them are built by then, on what the catalog showed before any of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meetings(Arc<Mutex<Vec<Arc<Barrier>>>>);

impl Meetings {
    /// The next `count` commits meet.
    pub(crate) fn add(&self, count: usize) {
        let barrier = Arc::new(Barrier::new(count));
        self.0.lock().expect("nobody panicked").extend(std::iter::repeat_n(barrier, count));
    }

    fn next(&self) -> Option<Arc<Barrier>> {
        self.0.lock().expect("nobody panicked").pop()
    }
}

/// A catalog that takes its time to load and to commit.
#[derive(Debug)]
pub(crate) struct SlowCatalog {
    pub(crate) inner: Arc<dyn Catalog>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) load_time: Duration,
    pub(crate) commit_time: Duration,
    pub(crate) hooks: Hooks,
    pub(crate) meetings: Meetings,
}

#[async_trait::async_trait]
impl Catalog for SlowCatalog {
    async fn load_table(&self, table: &TableIdent, all: Snapshots) -> Result<LoadedTable, CatalogError> {
        self.clock.sleep(self.load_time).await;
        self.inner.load_table(table, all).await
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        self.inner.create_table(table, new).await
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        if let Some(hook) = self.hooks.next() {
            hook();
        }
        if let Some(others) = self.meetings.next() {
            others.wait().await;
        }
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

/// A store that takes its time to give an object whose key holds `subject`.
#[derive(Debug)]
pub(crate) struct SlowStore {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) subject: &'static str,
    pub(crate) read_time: Duration,
}

#[async_trait::async_trait]
impl ObjectStore for SlowStore {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        self.inner.put(location, body).await
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        if location.key().contains(self.subject) {
            self.clock.sleep(self.read_time).await;
        }
        self.inner.get(location).await
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        self.inner.get_range(location, range).await
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        self.inner.head(location).await
    }
}
