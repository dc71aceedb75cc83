//! What can come of a command, by what its user does next.

use std::iter;

use icefall_catalog::CatalogError;
use icefall_convert::{FinishError, UnsupportedSchema};
use icefall_datafile::{DataFileError, EvolveError, UnsupportedTable};
use icefall_manifest::{DecodeError, TableName, TableUuid};
use icefall_parts::StartError;
use icefall_queue::QueueError;
use icefall_rewrite::RewriteError;
use icefall_store::{EncloseError, QuarantineDecision, StoreError};
use icefall_tables::{ChangeError, TableError};
use thiserror::Error;

use crate::TopicError;

/// Why a command was not carried out.
#[derive(Debug, Error)]
pub enum CliError {
    /// The settings are wrong, or can't be found.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no such entry.
    #[error("quarantine has no entry {0}; `icefall quarantine list --all` names all that are there")]
    NoEntry(String),
    /// The id is that of several.
    #[error("quarantine has several entries {id}; name one of them in full: {names}")]
    Several {
        /// The id.
        id: String,
        /// What each of them is called.
        names: String,
    },
    /// Somebody decided about it before.
    #[error("{id} was {} already ({})", decided_text(.decision), .decision.because)]
    Decided {
        /// The entry.
        id: String,
        /// What was decided.
        decision: Box<QuarantineDecision>,
    },
    /// The reason is needed, and it is not empty space.
    #[error("say why in a few words: --because is kept with the entry")]
    NoWords,
    /// The wrong reason was named.
    #[error(
        "{id} is in quarantine for {actual:?}, not for {named:?}: overrule that reason, or leave it where it is"
    )]
    OtherReason {
        /// The entry.
        id: String,
        /// Why it is there.
        actual: String,
        /// What was named.
        named: String,
    },
    /// It holds no batch manifest, so there is nothing to decide about.
    #[error(
        "{id} can't be released, since this version reads no batch manifest in it; see what `show` says to do"
    )]
    NoBatch {
        /// The entry.
        id: String,
        /// Why.
        source: DecodeError,
    },
    /// It holds rows of dead letters.
    #[error(
        "{0} can't be released: it holds rows of dead letters that were replayed; `icefall replay` makes them anew, \
         from the dead-letter table"
    )]
    WasReplay(String),
    /// It is no text.
    #[error("{0} can't be released: it is no text; see what `show` says to do")]
    NoText(String),
    /// The table is another by now.
    #[error(
        "table {table} is {actual} now, and was {named} when these files were written: that is another reason than \
         the one it is in quarantine for, and only one can be overruled; discard it and re-create the trigger from \
         its offsets if the present table shall hold them"
    )]
    OtherTable {
        /// The table.
        table: TableName,
        /// Which it was.
        named: TableUuid,
        /// Which it is.
        actual: TableUuid,
    },
    /// What was asked for can't be understood.
    #[error("{0}")]
    Asked(String),
    /// The dead-letter table is not what it should be.
    #[error("the dead-letter table can't be read: {0}")]
    DeadLetters(String),
    /// The dead-letter table's metadata files can't be read.
    #[error("the dead-letter table's metadata files can't be read")]
    Metadata(#[from] iceberg::Error),
    /// A data file of the dead-letter table can't be read.
    #[error("a data file of the dead-letter table can't be read")]
    Evolve(#[from] EvolveError),
    /// The table can't be written as it is.
    #[error("the table can't be written as it is")]
    Schema(#[from] UnsupportedSchema),
    /// The table can't be written as it is.
    #[error("the table can't be written as it is")]
    Unsupported(#[from] UnsupportedTable),
    /// The rows can't be made a data file.
    #[error("the rows can't be made a data file")]
    Rows(#[from] FinishError),
    /// The rows can't be made a data file.
    #[error("the rows can't be made a data file")]
    DataFile(#[from] DataFileError),
    /// The store that the tables live in can't be read or written.
    #[error("the tables' store can't be read or written")]
    Tables(#[source] StoreError),
    /// The topic can't be read.
    #[error("nothing is proved")]
    Topic(#[from] TopicError),
    /// A data file can't be read.
    #[error("the data file {path} can't be read, so its rows can't be found by value: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The audit came to its end, and something is not there exactly once.
    #[error("not proved: what is not there exactly once stands above")]
    NotProved,
    /// The audit came to its end, found nothing wrong, and could not prove all.
    #[error("not proved: nothing is known to be wrong, and why that is no proof stands above")]
    Unproved,
    /// There is no such stop.
    #[error("no source stands still by stop {0}; `icefall stops list` names all that do")]
    NoStop(String),
    /// Nothing stands still there.
    #[error(
        "{named} does not stand still in {table}; `icefall stops list` names all that do, spelt as they are wanted"
    )]
    NothingStands {
        /// The table that was named.
        table: String,
        /// The source that was named.
        named: String,
    },
    /// It is no source.
    #[error(
        "{0:?} is no source: name it as pipeline/cluster/topic, as the table's property icefall.ledger.<branch>.<source> does"
    )]
    NoSource(String),
    /// It is no table's name.
    #[error("{0}")]
    Name(String),
    /// The table can't be worked on.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The ledger was not changed.
    #[error("the ledger was not changed")]
    Change(#[from] ChangeError),
    /// The table can't be loaded.
    #[error("the table can't be loaded")]
    Catalog(#[from] CatalogError),
    /// Its files can't be written anew.
    #[error("its files can't be written anew; nothing was released")]
    Rewrite(#[from] RewriteError),
    /// It can't be made a message.
    #[error("it can't be made a message; nothing was queued")]
    Enclose(#[from] EncloseError),
    /// The queue does not take it.
    #[error("the queue did not say that it took it; do it again, a second time does no harm")]
    Queue(#[from] QueueError),
    /// The ops bucket can't be read or written.
    #[error("the ops bucket can't be read or written")]
    Ops(#[from] StoreError),
    /// Nobody reads what is printed.
    #[error("the answer can't be printed")]
    Output(#[from] std::io::Error),
    /// What was found is no JSON.
    #[error("the answer can't be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl CliError {
    /// The error and all its causes.
    #[must_use]
    pub fn chain(&self) -> String {
        let first: &dyn std::error::Error = self;
        let causes = iter::successors(first.source(), |cause| cause.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

const fn decided_text(decision: &QuarantineDecision) -> &'static str {
    match decision.decided {
        icefall_store::Decided::Discarded => "discarded",
        icefall_store::Decided::Released => "released",
    }
}
