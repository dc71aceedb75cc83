//! The committer's sign of life.
//!
//! A message that kills the committer would kill it again at each delivery. So each round first says
//! which messages it holds and at its end that it has ended: messages of a round that nobody ended
//! are suspects. Nobody remembers but these objects, since it is the process that dies: what is known
//! of suspects is carried from round to round in them. The writer reads them to stop taking data in
//! when nobody commits.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Heartbeats that stand beside each other, so that committers at once don't write over each other's.
/// More of them at a time share a slot: then a death may go unnoticed until the next.
pub const HEARTBEAT_SLOTS: usize = 4;

/// One round of the committer.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Heartbeat {
    /// The round.
    pub round: Uuid,
    /// When it began, in milliseconds since the epoch.
    pub started_ms: u64,
    /// When its process is ended by the platform at the latest: a round that has not ended by then
    /// never will.
    #[serde(default)]
    pub ends_by_ms: u64,
    /// The ids of the messages that it holds; none once it has ended.
    pub holds: Vec<String>,
    /// Whether it ended by itself.
    pub ended: bool,
    /// Messages of earlier rounds that nobody ended, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suspects: BTreeMap<String, Suspect>,
}

/// What is known of a message that may have ended the committer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Suspect {
    /// The fewest messages that a round which nobody ended held together with it, itself included.
    pub crowd: usize,
    /// The rounds that held it alone and that nobody ended.
    pub alone: BTreeSet<Uuid>,
    /// When it was first suspected, in milliseconds since the epoch.
    pub since_ms: u64,
}
