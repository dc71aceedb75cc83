//! The contract between writer and committer.
//!
//! A [`BatchManifest`] is what one writer invocation says about one table: these data files hold
//! these records, and these records became dead letters. The committer acts on nothing else, so
//! everything it decides by is in here and is checked when a message is received
//! ([`Message::decode`]): a batch manifest that contradicts itself never reaches the ledger.
//!
//! The crate is pure. It knows Kafka's coordinates and Iceberg's file entries as plain values; it
//! depends on neither a Kafka client nor a table library.

mod batch;
mod codec;
mod data_file;
mod dead_letter;
mod fingerprint;
mod kafka;
mod message;
mod records;
mod runs;
mod table;
pub mod wire;

pub use batch::{BatchFile, BatchId, BatchManifest, DeadLetterFile};
pub use codec::DecodeError;
pub use data_file::{Checksum, DataFileEntry, SingleValue};
pub use dead_letter::{Blob, DeadLetter, DeadLetterError, Header};
pub use fingerprint::{Encoding, Fingerprint};
pub use kafka::{ClusterName, NameError, Offset, Partition, PipelineId, Source, Topic};
pub use message::{MAX_MESSAGE_BYTES, Message, Release, SpilledBatch};
pub use records::{OffsetRun, RecordId, RecordList, RecordListError};
pub use table::{Branch, SchemaId, SpecId, TableName, TableUuid};
