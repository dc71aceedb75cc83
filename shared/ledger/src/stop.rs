//! A source that stands still in a table, and what an operator says about it.
//!
//! A record came whose offset is settled with another record. Nobody but a person can tell whether the
//! topic was made again, so that these are other records, or whether the same ones come once more as
//! copies that differ in a byte. Until then nothing of the source is settled in that table.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Conflict, LedgerId, ObjectHash};

/// Why a source stands still in a table.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A record came whose offset is settled with another record.
    OtherRecord,
}

/// A source stands still in a table until an operator says how to go on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// Since when, in milliseconds since the epoch.
    pub since_ms: u64,
    /// Which record brought it about.
    pub struck: Conflict,
}

impl Stop {
    /// What the stop is called: the same one has the same name, and no other has it.
    #[must_use]
    pub fn id(&self, ledger: &LedgerId) -> StopId {
        let Self { since_ms, struck: Conflict { partition, offset, held, found }, .. } = self;
        let text = format!("{ledger} {since_ms} {partition} {offset} {:08x} {:08x}", held.0, found.0);
        StopId(ObjectHash::of(text.as_bytes()).to_string().chars().take(StopId::DIGITS).collect())
    }
}

/// A stop's name: 12 hex digits.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct StopId(String);

impl StopId {
    const DIGITS: usize = 12;

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator says about a source that stands still.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopDecision {
    /// These are other records: the topic is a new one. The ledger opens its next incarnation, in which they
    /// land beside the older ones; one that differs from another of the same incarnation stops the source again.
    Accept,
    /// These are copies of what the table holds: whatever differs from a record that was settled by now goes to
    /// quarantine, and all else of the source goes on.
    Discard,
}

/// What was decided about a source that stood still, as its ledger keeps it until the next decision.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// The stop.
    pub stop: StopId,
    /// What was decided.
    pub decision: StopDecision,
    /// Why, in the operator's words, cut to [`Decided::MAX_WORDS`].
    pub because: String,
    /// When, in milliseconds since the epoch.
    pub when_ms: u64,
}

impl Decided {
    /// Characters of an operator's words that are kept: they are paid for at every load of the table.
    pub const MAX_WORDS: usize = 200;
}

impl fmt::Display for StopDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accept => "accept",
            Self::Discard => "discard",
        })
    }
}
