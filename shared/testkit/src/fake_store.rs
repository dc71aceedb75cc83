//! An object store in memory, that a test can look into.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use icefall_store::{Attempt, Location, ObjectLister, ObjectMeta, ObjectStore, Operation, StoreError};

/// A store in memory. Buckets are there as soon as something lies in them, and never missing.
#[derive(Debug, Default)]
pub struct FakeStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<(String, String), Bytes>,
    calls: Vec<Attempt>,
}

impl FakeStore {
    /// A store that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys in `bucket` that begin with `prefix`, in order.
    #[must_use]
    pub fn keys(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let state = self.state();
        let keys = state.objects.keys().filter(|(held, key)| held == bucket && key.starts_with(prefix));
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// The object at `location`, if it is there; no call is counted.
    #[must_use]
    pub fn peek(&self, location: &Location) -> Option<Bytes> {
        self.state().objects.get(&place(location)).cloned()
    }

    /// Takes an object away, as a table's clean-up or a person would; says whether it was there.
    pub fn remove(&self, location: &Location) -> bool {
        self.state().objects.remove(&place(location)).is_some()
    }

    /// How many calls of this kind there were, failed ones included.
    #[must_use]
    pub fn count(&self, operation: Operation) -> usize {
        self.calls().iter().filter(|call| call.operation == operation).count()
    }

    /// All calls so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Attempt> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, operation: Operation, location: &Location) -> Result<Bytes, StoreError> {
        let attempt = Attempt { operation, location: location.clone() };
        let mut state = self.state();
        state.calls.push(attempt.clone());
        let found = state.objects.get(&place(location)).cloned();
        found.ok_or_else(|| StoreError::NotFound { attempt, source: "the fake store has none".into() })
    }
}

#[async_trait]
impl ObjectStore for FakeStore {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        let mut state = self.state();
        state.calls.push(Attempt { operation: Operation::Put, location: location.clone() });
        state.objects.insert(place(location), body);
        Ok(())
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        self.read(Operation::Get, location)
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let body = self.read(Operation::Get, location)?;
        slice(&body, range).ok_or_else(|| StoreError::Rejected {
            attempt: Attempt { operation: Operation::Get, location: location.clone() },
            source: format!("the object has {} bytes", body.len()).into(),
        })
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        let body = self.read(Operation::Head, location)?;
        Ok(ObjectMeta { size: u64::try_from(body.len()).unwrap_or(u64::MAX) })
    }
}

#[async_trait]
impl ObjectLister for FakeStore {
    async fn list(&self, prefix: &Location) -> Result<Vec<Location>, StoreError> {
        let keys = self.keys(prefix.bucket(), prefix.key());
        Ok(keys.into_iter().map(|key| Location::s3(prefix.bucket(), key)).collect())
    }
}

/// Scheme apart, which a store does not see.
fn place(location: &Location) -> (String, String) {
    (location.bucket().to_owned(), location.key().to_owned())
}

fn slice(body: &Bytes, range: Range<u64>) -> Option<Bytes> {
    let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
    (end <= body.len()).then(|| body.slice(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_conformance;

    #[tokio::test]
    async fn the_fake_is_a_store() {
        let store = FakeStore::new();
        store_conformance(&store, &Location::s3("bucket", "base")).await;
        assert!(store.keys("bucket", "base/").len() > 3);
        assert!(store.keys("other", "").is_empty());
        assert!(store.count(Operation::Put) > 3);
    }

    #[tokio::test]
    async fn what_is_removed_is_not_found() {
        let (store, place) = (FakeStore::new(), Location::s3("b", "k"));
        store.put(&place, Bytes::from_static(b"x")).await.expect("it stores");
        assert!(store.remove(&place) && !store.remove(&place));
        assert!(matches!(store.get(&place).await, Err(StoreError::NotFound { .. })));
    }
}
