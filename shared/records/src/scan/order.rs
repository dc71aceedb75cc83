//! The order in which the fields of records stand.
//!
//! Whatever wrote the event wrote all of its records in one order. To compare a name with the one that
//! stood there in the record before is much cheaper than to find its end and look it up.

use crate::envelope::RawRecord;

/// A place for a field of a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Key,
    Value,
    Headers,
    KeySchema,
    ValueSchema,
    /// A field that nobody reads.
    Other,
}

impl Slot {
    pub(super) fn named(name: &str) -> Self {
        match name {
            "topic" => Self::Topic,
            "partition" => Self::Partition,
            "offset" => Self::Offset,
            "timestamp" => Self::Timestamp,
            "timestampType" => Self::TimestampType,
            "key" => Self::Key,
            "value" => Self::Value,
            "headers" => Self::Headers,
            "keySchemaMetadata" => Self::KeySchema,
            "valueSchemaMetadata" => Self::ValueSchema,
            _ => Self::Other,
        }
    }

    pub(super) const fn of<'r, 'a>(self, record: &'r mut RawRecord<'a>) -> Option<&'r mut Option<&'a str>> {
        Some(match self {
            Self::Topic => &mut record.topic,
            Self::Partition => &mut record.partition,
            Self::Offset => &mut record.offset,
            Self::Timestamp => &mut record.timestamp,
            Self::TimestampType => &mut record.timestamp_type,
            Self::Key => &mut record.key,
            Self::Value => &mut record.value,
            Self::Headers => &mut record.headers,
            Self::KeySchema => &mut record.key_schema,
            Self::ValueSchema => &mut record.value_schema,
            Self::Other => return None,
        })
    }
}

/// The names of a record's fields, each with its quotes, as they stood in the records before.
#[derive(Default)]
pub(super) struct Order<'a>(Vec<(&'a str, Slot)>);

/// More fields than that are not learnt: no event has them.
const MOST: usize = 32;

impl<'a> Order<'a> {
    pub(super) fn expected(&self, position: usize) -> Option<(&'a str, Slot)> {
        self.0.get(position).copied()
    }

    pub(super) fn learn(&mut self, position: usize, token: &'a str, slot: Slot) {
        if let Some(known) = self.0.get_mut(position) {
            *known = (token, slot);
        } else if self.0.len() < MOST {
            self.0.push((token, slot));
        }
    }
}
