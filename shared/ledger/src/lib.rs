//! What is settled in a table, and the decision about a batch manifest.
//!
//! The ledger holds every settled record of a table by offset and fingerprint, per branch and
//! source. A record that it lacks has never been committed there, so committing it can't double it;
//! a record that it holds with the same fingerprint is settled, so letting its message go can't lose
//! it; a record that it holds with another fingerprint is another record, and a person decides.
//! Nothing is inferred from ranges, order or time.
//!
//! It has two parts. The [`Ledger`] is a small property of the table, replaced by the very commit
//! that adds the records. Segments ([`Segment`]) are immutable objects named by their hash that hold
//! the records themselves; the property names the newest, and that one names all earlier ones
//! through a tree of bounded nodes ([`Index`]).
//!
//! The crate is pure: no I/O, no clock. A round of the committer goes
//!
//! ```text
//! Wanted::of(batches) → Lookup::new ⇄ (needed / supply) → finish → Held
//! Round::new(ledger, held) → decide, accept, stop … → finish → objects to put, property to commit
//! ```

mod applied;
mod error;
mod held;
mod ids;
mod index;
mod lineage;
mod lookup;
mod name;
mod outbox;
mod property;
mod rewind;
mod round;
mod segment;
mod settlements;
mod stop;
mod tail;
mod verdict;
mod wanted;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod decision_tests;
#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod testing;

pub use applied::{Applied, Pending, applied_property_name};
pub use error::LedgerError;
pub use held::{Held, Standing};
pub use ids::{EntryNumber, Incarnation, LedgerId, ObjectHash, SequenceNumber, SnapshotId, SnapshotMark};
pub use index::{FAN_OUT, Index, LedgerObject};
pub use lineage::{Ancestor, Chain, ChainEnd, Continued, Lineage, LineageFault, lineage};
pub use lookup::Lookup;
pub use name::{property_name, read_property_name, read_source, unnamed_twin};
pub use outbox::{Outbox, OutboxEntry, OutboxSpan};
pub use property::Ledger;
pub use rewind::Rewind;
pub use round::{Round, RoundResult};
pub use segment::{Segment, fuzz_object};
pub use settlements::{Kind, Settled, Settlements};
pub use stop::{Decided, Stop, StopDecision, StopId, StopReason};
pub use tail::Tail;
pub use verdict::{Conflict, Discard, Evidence, Free, Overruled, Reason, Rows, Verdict};
pub use wanted::Wanted;
