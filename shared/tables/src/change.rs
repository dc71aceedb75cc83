//! A change of one ledger that an operator makes, committed as the committer commits.
//!
//! It adds an empty snapshot to the branch, on the very metadata whose ledger was read. A conflict begins it
//! anew. So does an unknown outcome, after a look at whether its snapshot is there: nothing is guessed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use icefall_catalog::{Catalog, CatalogError, CommitOutcome, Snapshots};
use icefall_clock::{Clock, Entropy};
use icefall_ledger::{Ledger, LedgerError, RoundResult, SnapshotMark};
use icefall_manifest::{Branch, TableName};
use icefall_store::{ObjectStore, StoreError, file_io};
use thiserror::Error;

use crate::append::{Append, AppendBuilder, AppendError, SnapshotKey};
use crate::{LedgerStore, LedgerStoreError, Table, TableError, ident, summary};

/// Attempts at one change.
const ATTEMPTS: u32 = 10;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Bytes of the reason that the snapshot's summary keeps.
const MAX_REASON: usize = 200;

/// Why a ledger was not changed. Where nothing else is said, it stands as it stood.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// The table and its ledger can't be worked on as they are.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table can't be loaded.
    #[error("the table can't be loaded")]
    Load(#[from] CatalogError),
    /// The ledger's objects can't be written.
    #[error("the ledger's objects can't be written")]
    Ops(#[from] StoreError),
    /// The snapshot can't be built.
    #[error("the snapshot can't be built")]
    Append(#[from] AppendError),
    /// The catalog refused the commit.
    #[error("the commit was not made ({outcome}): {reason}")]
    Refused {
        /// The outcome's name.
        outcome: &'static str,
        /// What the catalog said.
        reason: String,
    },
    /// Too many conflicts, or an outcome that could not be found out.
    #[error(
        "not settled after {ATTEMPTS} attempts, the last of which ended in {0}; look at what stands, then try again"
    )]
    NotSettled(String),
    /// The change is not to be made.
    #[error("{0}")]
    Declined(String),
}

impl From<LedgerError> for ChangeError {
    fn from(error: LedgerError) -> Self {
        Self::Table(LedgerStoreError::from(error).into())
    }
}

impl From<LedgerStoreError> for ChangeError {
    fn from(error: LedgerStoreError) -> Self {
        Self::Table(error.into())
    }
}

/// What is to become of a ledger.
#[async_trait]
pub trait LedgerChange: fmt::Debug + Send + Sync {
    /// The ledger's next state on `table` as it was loaded, with all of its snapshots, for a commit that adds
    /// `snapshot`.
    async fn make(&self, table: &Table, snapshot: SnapshotMark) -> Result<RoundResult, ChangeError>;
}

/// What changing a ledger takes.
#[derive(Clone, Debug)]
pub struct Changer<'a> {
    /// The catalog of the tables.
    pub catalog: &'a dyn Catalog,
    /// The store that they live in.
    pub tables: &'a Arc<dyn ObjectStore>,
    /// The ledgers' objects.
    pub ledgers: &'a LedgerStore,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Randomness.
    pub entropy: &'a dyn Entropy,
}

/// How one attempt ended.
enum Attempt {
    Done(Box<Ledger>),
    Again(String),
}

impl Changer<'_> {
    /// Opens `branch` of the table, with all snapshots.
    pub async fn open(&self, name: &TableName, branch: &Branch) -> Result<Table, ChangeError> {
        let loaded = self.catalog.load_table(&ident(name)?, Snapshots::All).await?;
        Ok(Table::open(name.clone(), branch.clone(), loaded)?)
    }

    /// Makes `change`, and gives the ledger as it stands then. What kind of change it is and why it is made
    /// stands in the snapshot's summary.
    pub async fn apply(
        &self,
        (name, branch): (&TableName, &Branch),
        change: &dyn LedgerChange,
        (kind, because): (&str, &str),
    ) -> Result<Ledger, ChangeError> {
        let note = BTreeMap::from([
            ("icefall.operator".to_owned(), kind.to_owned()),
            (
                "icefall.because".to_owned(),
                because.get(..because.floor_char_boundary(MAX_REASON)).unwrap_or_default().to_owned(),
            ),
        ]);
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.attempt(name, branch, change, &note).await? {
                Attempt::Done(ledger) => return Ok(*ledger),
                Attempt::Again(outcome) => last = outcome,
            }
            self.clock.sleep(PAUSE).await;
        }
        Err(ChangeError::NotSettled(last))
    }

    async fn attempt(
        &self,
        name: &TableName,
        branch: &Branch,
        change: &dyn LedgerChange,
        note: &BTreeMap<String, String>,
    ) -> Result<Attempt, ChangeError> {
        let table = self.open(name, branch).await?;
        let Table { metadata, references, .. } = &table;
        let file_io = file_io(Arc::clone(self.tables));
        let builder = AppendBuilder::new(metadata, references, &file_io, self.clock, self.entropy)?;
        let key = builder.next_key();
        let RoundResult { ledger, property_name, property_value, objects, .. } =
            &change.make(&table, key.into()).await?;
        self.ledgers.put(objects.clone()).await?;
        let append = Append {
            branch: branch.clone(),
            groups: Vec::new(),
            may_merge: false,
            properties: HashMap::from([(property_name.clone(), property_value.clone())]),
            summary: summary([ledger], [0, 0], 0, None).into_iter().chain(note.clone()).collect(),
        };
        let commit = builder.build(&append, key).await?;
        let done = Attempt::Done(Box::new(ledger.clone()));
        match self.catalog.commit(&ident(name)?, &commit).await {
            CommitOutcome::Committed(_) => Ok(done),
            CommitOutcome::Conflict(reason) => Ok(Attempt::Again(format!("a conflict: {reason}"))),
            CommitOutcome::Unknown(reason) => {
                let found = self.open(name, branch).await?;
                let is_there = found.metadata.snapshot_by_id(key.snapshot_id).is_some();
                Ok(if is_there { done } else { Attempt::Again(format!("an unknown outcome: {reason}")) })
            }
            refused => {
                let reason = refused.reason().map(ToString::to_string).unwrap_or_default();
                Err(ChangeError::Refused { outcome: refused.name(), reason })
            }
        }
    }
}

impl From<SnapshotKey> for SnapshotMark {
    fn from(SnapshotKey { snapshot_id, sequence_number }: SnapshotKey) -> Self {
        Self {
            id: icefall_ledger::SnapshotId(snapshot_id),
            sequence_number: icefall_ledger::SequenceNumber(sequence_number),
        }
    }
}
