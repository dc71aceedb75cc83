//! Why a table could not be settled in a round. Its messages stay queued, whatever it is.

use icefall_catalog::{CatalogError, CommitOutcome, Reason};
use icefall_manifest::NameError;
use icefall_rewrite::RewriteError;
use icefall_store::StoreError;
use icefall_tables::{AppendError, LedgerStoreError, TableError};
use thiserror::Error;

/// What stands in a table's way.
#[derive(Debug, Error)]
pub enum TableFailure {
    /// The table and its ledgers can't be worked on as they were loaded.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The pipeline's own name can't be registered.
    #[error("the dead-letter table can't be registered")]
    Register(#[source] NameError),
    /// The catalog did not give the table.
    #[error("the table can't be loaded")]
    Load(#[from] CatalogError),
    /// The catalog refused the commit.
    #[error("the commit was not made ({outcome}): {reason}")]
    Refused {
        /// The outcome's name.
        outcome: &'static str,
        /// What the catalog said.
        reason: Reason,
    },
    /// The ledger can't be consulted or continued.
    #[error(transparent)]
    Ledger(#[from] LedgerStoreError),
    /// The snapshot can't be built.
    #[error("the snapshot can't be built")]
    Append(#[from] AppendError),
    /// A batch manifest's files can't be written anew now.
    #[error("a batch manifest can't be written anew, as it must be before it is committed")]
    Rewrite(#[from] RewriteError),
    /// Quarantine or register can't be written.
    #[error("the ops bucket can't be written")]
    Ops(#[from] StoreError),
    /// Too many conflicts, or no time left.
    #[error(
        "not settled after {attempts} attempts, the last of which ended in {last}; tried again in the next round"
    )]
    NotSettled {
        /// How many attempts were made.
        attempts: u32,
        /// How the last one ended.
        last: String,
    },
    /// The catalog did not give the table within half of the invocation's time.
    #[error("the catalog does not answer within half of the invocation's time")]
    NoAnswer,
    /// The deadline came while it was under way.
    #[error(
        "the invocation's time was up; whether it was committed is read from the ledger in the next round"
    )]
    OutOfTime,
}

impl TableFailure {
    /// Whether the catalog can't be reached at all, for any table.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Load(error) => matches!(error, CatalogError::Unreachable(_)),
            Self::Refused { outcome, .. } => *outcome == "unreachable",
            _ => false,
        }
    }

    /// The failure that a commit which was neither made nor left open comes to.
    pub(crate) fn refused(outcome: &CommitOutcome) -> Self {
        let name = outcome.name();
        match outcome.reason() {
            Some(reason) => Self::Refused { outcome: name, reason: reason.clone() },
            None => Self::OutOfTime,
        }
    }
}
