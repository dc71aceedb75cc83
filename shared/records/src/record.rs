//! One Kafka record as the event delivered it.
//!
//! Absent and null are one thing here (`None`), an empty value is another (`Some` of no bytes):
//! the first is a tombstone, the second is not. Nothing is repaired: what can't be read is kept as
//! the text that was delivered, with the fault beside it.

use std::borrow::Cow;
use std::fmt;

use icefall_manifest::{Encoding, Fingerprint, Offset};

use crate::headers::Headers;

/// What the bytes of a [`Payload`] are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// The decoded bytes of a base64 string.
    Bytes,
    /// JSON text that stood in the event unencoded (an object, list, number or boolean).
    Json,
    /// A string that is not base64: its text as it was delivered.
    Unreadable,
}

/// A key or a value that is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Payload<'a> {
    /// What the bytes are.
    pub form: Form,
    /// The bytes, possibly none.
    pub bytes: &'a [u8],
}

/// What a schema registry at the event source mapping says about a key or value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaMetadata<'a> {
    /// `AVRO`, `JSON` or `PROTOBUF`, as delivered.
    pub data_format: Option<Cow<'a, str>>,
    /// The registry's id of the schema; a number is kept as its digits.
    pub schema_id: Option<Cow<'a, str>>,
    /// The whole JSON text as delivered.
    pub text: &'a str,
}

/// The part of a record that can't be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultPart {
    /// `timestamp`.
    Timestamp,
    /// `key`.
    Key,
    /// `value`.
    Value,
    /// `headers`.
    Headers,
}

impl FaultPart {
    /// The stable class that a dead letter is filed under.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Timestamp => "unreadable-timestamp",
            Self::Key => "unreadable-key",
            Self::Value => "unreadable-value",
            Self::Headers => "unreadable-headers",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Key => "key",
            Self::Value => "value",
            Self::Headers => "headers",
        }
    }
}

/// Why a record can't become a row whatever its table: a part of it can't be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordFault {
    /// The part.
    pub part: FaultPart,
    /// What it should have been.
    pub rule: &'static str,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part.name(), self.rule)
    }
}

/// A record. Topic and partition are those of the [`PartitionRecords`](crate::PartitionRecords) it
/// stands in.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its position in the partition.
    pub offset: Offset,
    /// Milliseconds since the epoch; `None` when Kafka has none (absent, null or -1).
    pub timestamp_ms: Option<i64>,
    /// `CREATE_TIME`, `LOG_APPEND_TIME` or whatever was delivered.
    pub timestamp_type: Option<Cow<'a, str>>,
    /// The key; `None` when absent or null.
    pub key: Option<Payload<'a>>,
    /// The value; `None` when absent or null, which is a tombstone.
    pub value: Option<Payload<'a>>,
    /// The headers in their order; names may repeat.
    pub headers: Headers<'a>,
    /// What the mapping's schema registry says about the key. Boxed, as it is rare and records are many.
    pub key_schema: Option<Box<SchemaMetadata<'a>>>,
    /// What the mapping's schema registry says about the value.
    pub value_schema: Option<Box<SchemaMetadata<'a>>>,
    /// What tells it from another record at the same offset.
    pub fingerprint: Fingerprint,
    /// How key and value were encoded; goes with the fingerprint.
    pub encoding: Encoding,
    /// Set when a part can't be read: the record is a dead letter.
    pub fault: Option<RecordFault>,
    /// The record's JSON as delivered, for a dead letter that must keep all of it.
    pub text: &'a str,
}
