//! A commit, and what its answer proves.
//!
//! The idea: a commit's request is immutable once built, so one key (for catalogs that replay answers by
//! `Idempotency-Key`) belongs to one exact body by construction, and the request itself says what has to
//! be seen in an answer before it counts as committed.

use iceberg::spec::{Schema, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use serde::Serialize;
use uuid::Uuid;

use crate::{CatalogError, LoadedTable, Reason};

/// One request to change a table: requirements on the metadata as it was loaded, and updates to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    requirements: Vec<TableRequirement>,
    updates: Vec<TableUpdate>,
    key: Uuid,
}

impl Commit {
    /// A commit of `updates`, if every one of `requirements` holds.
    ///
    /// `key` is a new UUID of version 7 for each commit that is built. Built anew means a new key: a catalog may
    /// replay the first answer that it gave to a key, whatever body follows.
    #[must_use]
    pub fn new(requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>, key: Uuid) -> Self {
        Self { requirements, updates, key }
    }

    /// What has to hold.
    #[must_use]
    pub fn requirements(&self) -> &[TableRequirement] {
        &self.requirements
    }

    /// What changes.
    #[must_use]
    pub fn updates(&self) -> &[TableUpdate] {
        &self.updates
    }

    /// The idempotency key of this exact body.
    #[must_use]
    pub fn key(&self) -> Uuid {
        self.key
    }

    /// Whether `metadata` shows this commit.
    ///
    /// A commit that adds snapshots is shown by their ids, and by nothing less. One that adds none is shown
    /// by the schemas and properties that it sets.
    #[must_use]
    pub fn shown_by(&self, metadata: &TableMetadata) -> bool {
        if self.updates.iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. })) {
            return self.updates.iter().all(|update| holds_snapshot(metadata, update));
        }
        self.updates.iter().all(|update| holds_setting(metadata, update))
    }

    /// The request's body, as the REST specification has it (`CommitTableRequest`).
    pub(crate) fn body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Body { requirements: &self.requirements, updates: &self.updates })
    }
}

/// The table is named by the request's path, so the optional identifier is left out, and the body can borrow.
#[derive(Serialize)]
struct Body<'a> {
    requirements: &'a [TableRequirement],
    updates: &'a [TableUpdate],
}

fn holds_snapshot(metadata: &TableMetadata, update: &TableUpdate) -> bool {
    match update {
        TableUpdate::AddSnapshot { snapshot } => metadata.snapshot_by_id(snapshot.snapshot_id()).is_some(),
        _ => true,
    }
}

fn holds_setting(metadata: &TableMetadata, update: &TableUpdate) -> bool {
    match update {
        TableUpdate::SetProperties { updates } => {
            updates.iter().all(|(key, value)| metadata.properties().get(key) == Some(value))
        }
        TableUpdate::RemoveProperties { removals } => {
            !removals.iter().any(|key| metadata.properties().contains_key(key))
        }
        TableUpdate::AddSchema { schema } => metadata.schemas_iter().any(|held| same_fields(held, schema)),
        _ => true,
    }
}

fn same_fields(held: &Schema, added: &Schema) -> bool {
    held.field_id_to_name_map() == added.field_id_to_name_map()
}

/// What became of a commit, by what its sender does next.
#[derive(Debug)]
pub enum CommitOutcome {
    /// The answer's metadata shows it. The table as it stands after this commit.
    Committed(Box<LoadedTable>),
    /// Refused, since the table is not what the commit was built on: load, decide and build again.
    Conflict(Reason),
    /// It may or may not have been committed: load the table and look. Never to be guessed.
    Unknown(Reason),
    /// Nothing was sent, so nothing was committed. Later, perhaps.
    Unreachable(Reason),
    /// Refused: there is no such table.
    NotFound(Reason),
    /// Refused: the credentials are missing, wrong or not permitted.
    Denied(Reason),
    /// Refused for now: too many requests.
    Throttled(Reason),
    /// Refused for good: the same request will be refused again.
    Rejected(Reason),
}

impl CommitOutcome {
    /// The outcome of a commit that ended in an error, as far as errors of reads and commits are alike.
    pub(crate) fn from_failure(failure: CatalogError) -> Self {
        match failure {
            CatalogError::Conflict(reason) | CatalogError::AlreadyExists(reason) => Self::Conflict(reason),
            CatalogError::NotFound(reason) => Self::NotFound(reason),
            CatalogError::Denied(reason) => Self::Denied(reason),
            CatalogError::Throttled(reason) => Self::Throttled(reason),
            CatalogError::Rejected(reason) | CatalogError::Misconfigured(reason) => Self::Rejected(reason),
            CatalogError::Unreachable(reason) => Self::Unreachable(reason),
            CatalogError::Unavailable(reason) | CatalogError::Malformed(reason) => Self::Unknown(reason),
        }
    }

    /// The table after the commit, or the same outcome as an error.
    ///
    /// For callers to whom a commit is a means, such as a change of the schema: an unknown outcome becomes
    /// [`CatalogError::Unavailable`], after which they have to load the table.
    pub fn into_result(self) -> Result<LoadedTable, CatalogError> {
        Err(match self {
            Self::Committed(table) => return Ok(*table),
            Self::Conflict(reason) => CatalogError::Conflict(reason),
            Self::Unknown(reason) => CatalogError::Unavailable(reason),
            Self::Unreachable(reason) => CatalogError::Unreachable(reason),
            Self::NotFound(reason) => CatalogError::NotFound(reason),
            Self::Denied(reason) => CatalogError::Denied(reason),
            Self::Throttled(reason) => CatalogError::Throttled(reason),
            Self::Rejected(reason) => CatalogError::Rejected(reason),
        })
    }

    /// Why it was not committed, as far as the answer says. `None` when it was.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Committed(_) => None,
            Self::Conflict(reason)
            | Self::Unknown(reason)
            | Self::Unreachable(reason)
            | Self::NotFound(reason)
            | Self::Denied(reason)
            | Self::Throttled(reason)
            | Self::Rejected(reason) => Some(reason),
        }
    }

    /// The outcome's name, for logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "committed",
            Self::Conflict(_) => "conflict",
            Self::Unknown(_) => "unknown",
            Self::Unreachable(_) => "unreachable",
            Self::NotFound(_) => "not found",
            Self::Denied(_) => "denied",
            Self::Throttled(_) => "throttled",
            Self::Rejected(_) => "rejected",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_but_a_clear_refusal_leaves_a_commit_unknown() {
        let reason = || Reason::new(crate::Operation::Commit, "ns.t", "the connection was reset");
        for failure in [CatalogError::Unavailable(reason()), CatalogError::Malformed(reason())] {
            assert_eq!(CommitOutcome::from_failure(failure).name(), "unknown");
        }
    }

    #[test]
    fn an_unknown_outcome_is_no_success_and_no_refusal() {
        let reason = Reason::new(crate::Operation::Commit, "ns.t", "timed out");
        let result = CommitOutcome::Unknown(reason).into_result();
        assert!(matches!(result, Err(CatalogError::Unavailable(_))));
    }
}
