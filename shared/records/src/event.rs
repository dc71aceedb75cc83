//! A whole event: the records of one batch, by partition.

use std::borrow::Cow;
use std::collections::HashSet;

use icefall_manifest::{Offset, Partition, Topic};
use thiserror::Error;

use crate::build::Builder;
use crate::envelope::RawEvent;
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
    /// A record's place that is named twice: Kafka has one record there.
    #[error("the event holds partition {partition} offset {offset} of topic {topic} twice")]
    Repeated {
        /// The topic.
        topic: Topic,
        /// The partition.
        partition: Partition,
        /// The offset.
        offset: Offset,
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

impl PartitionRecords<'_> {
    /// Each place holds one record. Offsets usually ascend, which says so at once.
    fn check_places(&self) -> Result<(), EventError> {
        if self.records.is_sorted_by(|one, next| one.offset < next.offset) {
            return Ok(());
        }
        let mut seen = HashSet::with_capacity(self.records.len());
        match self.records.iter().find(|record| !seen.insert(record.offset)) {
            None => Ok(()),
            Some(record) => Err(EventError::Repeated {
                topic: self.topic.clone(),
                partition: self.partition,
                offset: record.offset,
            }),
        }
    }
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
        let text = simdutf8::basic::from_utf8(event).or_else(|_| std::str::from_utf8(event))?;
        // A half for each reader: the complete one begins anew. Memory that is not used costs nothing.
        let (fast, complete) = buffer.bytes(2 * event.len()).split_at_mut(event.len());
        let mut builder = Builder::new(fast);
        if let Some(raw) = scan::event(text, |record| builder.add(record).ok()) {
            return Self::new(raw, builder);
        }
        let (raw, records) = envelope::read(text)?;
        let mut builder = Builder::new(complete);
        records.iter().try_for_each(|record| builder.add(record))?;
        Self::new(raw, builder)
    }

    fn new(raw: RawEvent<'a>, records: Builder<'a>) -> Result<Self, EventError> {
        let partitions = records.finish();
        partitions.iter().try_for_each(PartitionRecords::check_places)?;
        Ok(Self {
            source: raw.source.and_then(string),
            source_arn: raw.source_arn.and_then(string),
            bootstrap_servers: raw.bootstrap_servers.and_then(string),
            partitions,
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
