//! A whole event: the records of one batch, by partition.

use std::borrow::Cow;

use icefall_manifest::{Partition, Topic};
use thiserror::Error;

use crate::build::Builder;
use crate::record::Record;
use crate::{envelope, scan};

/// Why an event can't be read. Such an event is kept as it came, since nobody can say which records
/// it holds.
#[derive(Debug, Error)]
pub enum EventError {
    /// The bytes are not UTF-8.
    #[error("the event is not UTF-8 text")]
    NotText(#[from] std::str::Utf8Error),
    /// Not JSON, or not the shape of a Kafka event.
    #[error(
        "the event is not a Kafka event: check that the trigger is an MSK or self-managed Kafka event source mapping"
    )]
    NotAnEvent(#[source] serde_json::Error),
    /// A record whose place in Kafka can't be read.
    #[error("record {index} of the event: {field} is missing or not readable: {found}")]
    Unplaced {
        /// The record's position in the event, from 0.
        index: usize,
        /// `topic`, `partition` or `offset`.
        field: &'static str,
        /// What stands there, cut short.
        found: String,
    },
}

/// Memory for decoded payloads, kept between events so that a warm environment allocates it once.
#[derive(Debug, Default)]
pub struct DecodeBuffer(Vec<u8>);

impl DecodeBuffer {
    /// At least `length` bytes, whatever they hold.
    pub(crate) fn bytes(&mut self, length: usize) -> &mut [u8] {
        if self.0.len() < length {
            self.0 = vec![0; length];
        }
        &mut self.0
    }
}

/// The records of one topic partition, in the order of the event.
#[derive(Debug)]
pub struct PartitionRecords<'a> {
    /// The topic, as the records name it.
    pub topic: Topic,
    /// The partition, as the records name it.
    pub partition: Partition,
    /// The records, never none.
    pub records: Vec<Record<'a>>,
}

/// An event of the event source mapping, MSK or self-managed.
#[derive(Debug)]
pub struct KafkaEvent<'a> {
    /// `aws:kafka`, `SelfManagedKafka` or whatever was delivered. Nothing depends on it.
    pub source: Option<Cow<'a, str>>,
    /// The cluster's ARN; MSK alone has one.
    pub source_arn: Option<Cow<'a, str>>,
    /// The brokers, joined by commas.
    pub bootstrap_servers: Option<Cow<'a, str>>,
    /// The records by partition, partitions in the order in which they first appear.
    pub partitions: Vec<PartitionRecords<'a>>,
}

impl<'a> KafkaEvent<'a> {
    /// Reads `event`, decoding payloads into `buffer`.
    pub fn parse(event: &'a [u8], buffer: &'a mut DecodeBuffer) -> Result<Self, EventError> {
        let text = std::str::from_utf8(event)?;
        let raw = match scan::event(text) {
            Some(raw) => raw,
            None => envelope::read(text)?,
        };
        let mut builder = Builder::new(buffer.bytes(event.len()));
        for (index, record) in raw.records.iter().enumerate() {
            builder.add(index, record)?;
        }
        Ok(Self {
            source: raw.source.and_then(string),
            source_arn: raw.source_arn.and_then(string),
            bootstrap_servers: raw.bootstrap_servers.and_then(string),
            partitions: builder.finish(),
        })
    }

    /// How many records it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.partitions.iter().map(|partition| partition.records.len()).sum()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

/// The string that a JSON text is, borrowed where it holds no escape; `None`: it is none.
pub(crate) fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.bytes().any(|byte| byte == b'\\' || byte < 0x20) {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

#[cfg(test)]
mod tests;
