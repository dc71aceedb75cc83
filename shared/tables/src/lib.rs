//! A table with its ledgers: opened as it was loaded, and commits built on that.
//!
//! The committer and the operator's tool both change ledgers, and both by the same rule: a commit stands
//! on the very metadata whose ledger was consulted, and adds a snapshot even where it adds no file, since a
//! commit of properties alone is invisible to the requirement on the branch. So what opens a table
//! ([`Table`]), reads and keeps its ledgers' objects ([`LedgerStore`]) and builds a commit ([`AppendBuilder`])
//! is one, here.

mod append;
mod change;
mod error;
mod history;
mod ledger_store;
mod summary;
mod table;

pub use append::{Append, AppendBuilder, AppendError, FileGroup, SnapshotKey};
pub use change::{ChangeError, Changer, LedgerChange};
pub use error::TableError;
pub use history::{compare, has_settled, history, is_unwritten};
pub use ledger_store::{LedgerStore, LedgerStoreError};
pub use summary::{MAX_SOURCES, summary};
pub use table::{SOURCES_KEY, Table, ident};

/// What a released batch manifest overrules whose rows are those of dead letters: that they are settled already, as
/// dead letters.
pub const REPLAY: &str = "dead-letter";
