//! The commit queue port and its SQS adapter.
//!
//! The queue stands between writer and committer: it takes batch manifests at once and keeps them
//! until the committer has them in a ledger. What is asked of it is at-least-once delivery and
//! nothing more: messages may come twice, late and in any order.

use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;

mod batches;
mod error;
mod sqs;

pub use error::{Operation, QueueError};
pub use sqs::{SqsConfig, SqsQueue};

/// A message's id: the same at each delivery.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MessageId(pub String);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One delivery of a message: what it takes to delete or to hide it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Receipt(pub String);

/// A message as it was delivered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received {
    /// Its id.
    pub id: MessageId,
    /// This delivery.
    pub receipt: Receipt,
    /// Its body.
    pub body: String,
    /// When it was sent, in milliseconds since the epoch, if the queue says.
    pub sent_ms: Option<u64>,
    /// How often it has been delivered, this time included; at least 1.
    pub receive_count: u32,
}

/// Where batch manifests wait for the committer.
#[async_trait]
pub trait CommitQueue: Debug + Send + Sync {
    /// Sends messages. `Ok` only when every body was accepted, which makes it durable; after an error
    /// any of them may have been.
    async fn send(&self, bodies: &[String]) -> Result<(), QueueError>;

    /// Receives up to `max` messages (any number; a queue may give fewer than it has) and hides them
    /// for its visibility time-out. Waits up to `wait` for the first, at most 20 s.
    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError>;

    /// Lets messages go for good. After an error some of them may be left; deleting twice is fine.
    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError>;

    /// Hides messages for `visibility` from now on, at most 12 hours since they were received; zero gives them back at once.
    /// A message that is no longer held is left alone.
    async fn hide(&self, receipts: &[Receipt], visibility: Duration) -> Result<(), QueueError>;

    /// How long the queue keeps a message before it drops it without a word.
    async fn retention(&self) -> Result<Duration, QueueError>;
}
