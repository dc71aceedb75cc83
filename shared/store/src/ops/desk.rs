//! Quarantine as an operator sees it: what lies there, and what was decided about it.
//!
//! An entry is never moved and never deleted. What a person decides stands in an object of its own, under
//! the entry's name, so that it can be told years later why a record is in the table or is not.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ObjectLister, OpsBucket, StoreError};

const ENTRIES: &str = "quarantine/";
const DECISIONS: &str = "quarantine-decisions/";

/// An entry's name in quarantine.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct FiledEntry {
    /// The day on which it was put there, in UTC.
    pub day: String,
    /// Why it was.
    pub reason: String,
    /// What tells it from others, as it stands in the key.
    pub id: String,
}

/// What was decided.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decided {
    /// Its records are to stay out.
    Discarded,
    /// Its records were given to the committer again.
    Released,
}

/// What a person decided about an entry.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct QuarantineDecision {
    /// What was decided.
    pub decided: Decided,
    /// Why, in that person's words; of a release, the reason that was overruled.
    pub because: String,
    /// When, in milliseconds since the epoch.
    pub when_ms: u64,
}

impl FiledEntry {
    /// The entry that the object `key` below `root` belongs to.
    fn of_key(root: &str, key: &str) -> Option<Self> {
        let mut parts = key.strip_prefix(root)?.strip_suffix(".json")?.split('/');
        let entry = Self {
            day: parts.next()?.to_owned(),
            reason: parts.next()?.to_owned(),
            id: parts.next()?.to_owned(),
        };
        parts.next().is_none().then_some(entry)
    }

    /// The key of what is said about it.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{ENTRIES}{}.json", self.path())
    }

    /// The key of the message or event itself.
    #[must_use]
    pub fn raw_key(&self) -> String {
        format!("{ENTRIES}{}.raw", self.path())
    }

    fn decision_key(&self) -> String {
        format!("{DECISIONS}{}.json", self.path())
    }

    fn path(&self) -> String {
        let Self { day, reason, id } = self;
        format!("{day}/{reason}/{id}")
    }
}

impl OpsBucket {
    /// All entries in quarantine, oldest day first, each with whether something was decided about it.
    pub async fn filed(&self, lister: &dyn ObjectLister) -> Result<Vec<(FiledEntry, bool)>, StoreError> {
        let entries = self.names(lister, ENTRIES).await?;
        let decided = self.names(lister, DECISIONS).await?;
        Ok(entries
            .into_iter()
            .map(|entry| {
                let is_decided = decided.contains(&entry);
                (entry, is_decided)
            })
            .collect())
    }

    /// What is said about an entry: reason, table, offsets, what to do.
    pub async fn filed_text(&self, entry: &FiledEntry) -> Result<Option<Value>, StoreError> {
        self.json(&entry.key()).await
    }

    /// The message or event itself.
    pub async fn filed_raw(&self, entry: &FiledEntry) -> Result<Bytes, StoreError> {
        self.read(&entry.raw_key()).await
    }

    /// What was decided about an entry, if anything was.
    pub async fn decision(&self, entry: &FiledEntry) -> Result<Option<QuarantineDecision>, StoreError> {
        self.json(&entry.decision_key()).await
    }

    /// Says what was decided about an entry.
    pub async fn put_decision(
        &self,
        entry: &FiledEntry,
        decision: &QuarantineDecision,
    ) -> Result<(), StoreError> {
        self.put_json(&entry.decision_key(), decision).await
    }

    async fn names(&self, lister: &dyn ObjectLister, root: &str) -> Result<BTreeSet<FiledEntry>, StoreError> {
        let found = lister.list(&self.location(root)).await?;
        let keys = found.iter().filter_map(|location| location.key().strip_prefix(&self.prefix));
        Ok(keys.filter_map(|key| FiledEntry::of_key(root, key)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_told_from_raw_bytes_and_copies() {
        let key = "quarantine/2024-02-29/another-table/m-1.json";
        let entry = FiledEntry::of_key(ENTRIES, key).expect("an entry");
        assert_eq!((entry.key().as_str(), entry.id.as_str()), (key, "m-1"));
        assert_eq!(entry.raw_key(), "quarantine/2024-02-29/another-table/m-1.raw");
        assert_eq!(entry.decision_key(), "quarantine-decisions/2024-02-29/another-table/m-1.json");
        for other in [
            "quarantine/2024-02-29/another-table/m-1.raw",
            "quarantine/d/r/m/0-x.json",
            "quarantine/x.json",
            "quarantine-decisions/d/r/m.json",
        ] {
            assert_eq!(FiledEntry::of_key(ENTRIES, other), None, "{other}");
        }
    }
}
