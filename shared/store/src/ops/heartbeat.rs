//! The committer's sign of life.
//!
//! A message that kills the committer would kill it again at each delivery. So each round first says
//! which messages it holds and at its end that it has ended: messages of a round that nobody ended
//! are suspects. The writer reads the same object to stop taking data in when nobody commits.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One round of the committer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Heartbeat {
    /// The round.
    pub round: Uuid,
    /// When it began, in milliseconds since the epoch.
    pub started_ms: u64,
    /// The ids of the messages that it holds; none once it has ended.
    pub holds: Vec<String>,
    /// Whether it ended by itself.
    pub ended: bool,
}
