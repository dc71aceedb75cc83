//! The committer: batch manifests in, one snapshot per table out.
//!
//! An invocation, by a schedule or by the queue's own event source mapping, drains the queue by itself and
//! works in rounds. A round takes what is queued, groups it by table, and settles the tables side by
//! side: load, decide by the ledger, write manifests, commit. Dead letters of all tables follow in one commit of the dead-letter table. A message is let
//! go only when each of its records is in the ledger of the table's current metadata, or when it
//! stands in quarantine; whatever merely fails stays queued.
//!
//! Nothing here rests on being the only committer. The catalog's compare-and-swap on the metadata
//! whose ledger was consulted is what makes a commit safe; one committer only makes conflicts rare.

mod carry_out;
mod collect;
mod dead_letter_table;
mod deadline;
mod drain;
mod ensure;
mod failure;
mod handler;
mod heartbeat;
mod hold;
mod inbox;
mod outbox;
mod plan;
mod ports;
mod quarantine;
mod renewals;
mod round;
mod settle;
mod suspects;
mod sweep;

pub use dead_letter_table::DeadLetterRowsError;
pub use drain::{Committer, DrainError, Report};
pub use failure::TableFailure;
pub use handler::{Answer, handle};
pub use icefall_tables::{AppendError, LedgerStoreError, TableError};
pub use outbox::DeliveryError;
pub use ports::Ports;
