//! A Kafka event of Lambda's event source mapping as borrowed records.
//!
//! The public event types refuse whole events for what real producers send: a missing header list, a
//! header byte above 127, a timestamp of -1. Since the runtime would refuse such an event before any
//! handler runs, one odd record would block its partition for ever. [`KafkaEvent::parse`] therefore
//! takes the bytes as they came. What can't be read in one record is that record's [`RecordFault`]
//! and the others go on; only an event whose topics, partitions and offsets can't be read is an
//! [`EventError`].
//!
//! Each record carries its [`Fingerprint`](icefall_manifest::Fingerprint), whose exact input is
//! described in [`fingerprint`], since audits compute it again.

mod build;
mod envelope;
mod event;
pub mod fingerprint;
mod headers;
mod record;
mod scan;

pub use event::{DecodeBuffer, EventError, KafkaEvent, PartitionRecords};
pub use headers::{Header, Headers};
pub use record::{FaultPart, Form, Payload, Record, RecordFault, SchemaMetadata};
