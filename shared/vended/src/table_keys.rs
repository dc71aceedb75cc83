//! One table's keys, and which objects they are for.
//!
//! A catalog may name a prefix as wide as `s3`, so the prefix alone does not tell whose an object is: that
//! is told by where the table's files lie. Among the keys of that table the longest prefix counts.

use std::fmt;
use std::sync::Arc;

use iceberg::spec::TableMetadata;
use icefall_aws::CachedCredentials;
use icefall_store::ObjectStore;

use crate::keys::Keys;

/// Properties that put files elsewhere than below the table's location.
const ELSEWHERE: [&str; 4] =
    ["write.data.path", "write.metadata.path", "write.folder-storage.path", "write.object-storage.path"];

/// The keys of one table.
#[derive(Default)]
pub(crate) struct TableKeys {
    /// Where the table's files lie, without a slash at the end.
    roots: Vec<String>,
    keys: Vec<Entry>,
}

struct Entry {
    prefix: String,
    credentials: CachedCredentials,
    store: Arc<dyn ObjectStore>,
}

impl TableKeys {
    /// Where the table's files lie.
    pub(crate) fn set_roots(&mut self, metadata: &TableMetadata) {
        let elsewhere = ELSEWHERE.iter().filter_map(|name| metadata.properties().get(*name));
        let roots = elsewhere.map(String::as_str).chain([metadata.location()]);
        self.roots = roots.map(|root| root.trim_end_matches('/').to_owned()).collect();
    }

    /// Takes `keys`; `make` makes the store for a prefix that is new.
    pub(crate) fn offer(
        &mut self,
        keys: Keys,
        make: impl FnOnce(&str) -> (Arc<dyn ObjectStore>, CachedCredentials),
    ) {
        let Keys { prefix, credentials } = keys;
        if let Some(entry) = self.keys.iter().find(|entry| entry.prefix == prefix) {
            entry.credentials.offer(credentials);
            return;
        }
        let (store, cache) = make(&prefix);
        cache.offer(credentials);
        self.keys.push(Entry { prefix, credentials: cache, store });
    }

    /// How much of `uri` tells that the object is this table's; `None`: it isn't.
    pub(crate) fn root_length(&self, uri: &str) -> Option<usize> {
        let lies_below =
            |root: &&String| uri.strip_prefix(root.as_str()).is_some_and(|rest| rest.starts_with('/'));
        self.roots.iter().filter(lies_below).map(String::len).max()
    }

    /// The store with the keys for `uri`.
    pub(crate) fn store(&self, uri: &str) -> Option<Arc<dyn ObjectStore>> {
        let fitting = self.keys.iter().filter(|entry| uri.starts_with(&entry.prefix));
        fitting.max_by_key(|entry| entry.prefix.len()).map(|entry| Arc::clone(&entry.store))
    }
}

impl fmt::Debug for TableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes: Vec<_> = self.keys.iter().map(|entry| &entry.prefix).collect();
        f.debug_struct("TableKeys").field("roots", &self.roots).field("prefixes", &prefixes).finish()
    }
}
