//! Why a table can't be worked on as it was loaded.

use icefall_ledger::{LedgerError, LedgerId, LineageFault};
use thiserror::Error;

use crate::LedgerStoreError;

/// What stands in the way of a table and its ledgers. Nothing is settled by it: messages stay queued.
#[derive(Debug, Error)]
pub enum TableError {
    /// The table's name is none that the catalog's protocol can carry.
    #[error("the table's name can't be used")]
    Name(#[source] iceberg::Error),
    /// The ledger can't be consulted or continued.
    #[error(transparent)]
    Ledger(#[from] LedgerStoreError),
    /// There was a ledger once, and the table's metadata holds none.
    #[error(
        "the ledger {0} is missing from the table's properties, though records were settled by it: \
         `icefall ledger restore` puts it back as it was (the table's metadata log has it); nothing is committed \
         until then. If it was that of another branch, which is gone, expire the snapshots that no branch leads to"
    )]
    LedgerMissing(Box<LedgerId>),
    /// The branch's history contradicts the ledger.
    #[error("the ledger {ledger} can't be continued: {fault}; nothing is committed until then")]
    Lineage {
        /// The ledger.
        ledger: Box<LedgerId>,
        /// What contradicts it.
        fault: LineageFault,
    },
}

impl From<LedgerError> for TableError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error.into())
    }
}
