//! The topic, as an audit asks for it: which offsets there are, and the records of each partition in their order.

use std::fmt;

use icefall_manifest::{Partition, Topic};
use thiserror::Error;

use super::compare::Seen;

/// Why a topic can't be read.
#[derive(Debug, Error)]
pub enum TopicError {
    /// What was asked for, or set, can't work.
    #[error("{0}")]
    Settings(String),
    /// There is no such topic.
    #[error(
        "the cluster has no topic {0}, or doesn't show it to this user; check audit.bootstrap and the name"
    )]
    NoTopic(Topic),
    /// The brokers don't answer as they should.
    #[error("topic {topic} can't be read: {why}")]
    Broker {
        /// The topic.
        topic: Topic,
        /// What they said.
        why: String,
    },
    /// A partition's records can't be read on.
    #[error("partition {partition} of topic {topic} can't be read on from offset {position}: {why}")]
    Partition {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The offset that comes next.
        position: i64,
        /// What is wrong.
        why: String,
    },
}

/// Which offsets of a partition can be read at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extent {
    /// The partition.
    pub partition: Partition,
    /// The first that is still there.
    pub start: i64,
    /// The one after the last.
    pub end: i64,
    /// The one after the last that there is: where it is higher than `end`, a transaction that is still open holds back
    /// what lies between.
    pub high: i64,
}

/// Where topics are read.
pub trait Topics: fmt::Debug + Send + Sync {
    /// The partitions of `topic` with their offsets of now, in the order of their numbers.
    fn extents(&self, topic: &Topic) -> Result<Vec<Extent>, TopicError>;

    /// What reads these partitions, each from its first offset on.
    fn reader(&self, topic: &Topic, extents: &[Extent]) -> Result<Box<dyn Reader>, TopicError>;
}

/// Reads some partitions. A thread of its own calls it.
pub trait Reader: fmt::Debug + Send {
    /// Hands out the next records of `partition` that lie before `end`, in the order of their offsets.
    fn read(&mut self, partition: Partition, end: i64, each: &mut dyn FnMut(Seen)) -> Result<(), TopicError>;
}
