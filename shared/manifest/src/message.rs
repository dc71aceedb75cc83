//! The queue's messages: a batch manifest itself, or a pointer to one that is too large for it.

use serde::{Deserialize, Serialize};

use crate::codec::{DecodeError, check};
use crate::{BatchManifest, OffsetRun, Source, TableName, TableUuid};

/// The largest body that SQS takes: 1 MiB
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// The format that this version writes, and the newest that it reads.
const FORMAT: u64 = 1;

/// A batch manifest that lies in the ops bucket. What an operator needs to know about its records
/// stays in the message, so that it can be told even when the object can't be read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SpilledBatch {
    /// The object's key within the ops bucket.
    pub key: String,
    /// Where the records come from.
    pub source: Source,
    /// The table that they were routed to.
    pub table: TableName,
    /// Which table that was.
    pub table_uuid: TableUuid,
    /// The records' offsets, at most the first hundred runs.
    pub offsets: Vec<OffsetRun>,
}

/// What a person decided about a batch manifest that stood in quarantine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The one reason that is overruled: all others hold as for any batch.
    pub overruled: String,
    /// The key of the entry in quarantine.
    pub entry: String,
}

/// A message of the commit queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Message {
    /// A batch manifest.
    Batch(Box<BatchManifest>),
    /// One that a person released from quarantine.
    Released(Box<BatchManifest>, Release),
    /// A pointer to one.
    Spilled(SpilledBatch),
}

/// Exactly one of the two bodies is there; a release goes with a batch manifest alone.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    format: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<Box<BatchManifest>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    release: Option<Release>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spilled: Option<SpilledBatch>,
}

/// Read first: a newer format may hold anything but still says that it is newer.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

impl Message {
    /// Reads and checks a message.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let FormatOnly { format } = serde_json::from_str(text)?;
        if format > FORMAT {
            return Err(DecodeError::NewerFormat(format));
        }
        let envelope: Envelope = serde_json::from_str(text)?;
        match (envelope.batch, envelope.release, envelope.spilled) {
            (Some(batch), None, None) => check(&batch).map(|()| Self::Batch(batch)),
            (Some(batch), Some(release), None) => check(&batch).map(|()| Self::Released(batch, release)),
            (None, None, Some(spilled)) => Ok(Self::Spilled(spilled)),
            _ => Err(DecodeError::OneBody),
        }
    }

    /// The message's text.
    pub fn encode(self) -> Result<String, serde_json::Error> {
        let (batch, release, spilled) = match self {
            Self::Batch(batch) => (Some(batch), None, None),
            Self::Released(batch, release) => (Some(batch), Some(release), None),
            Self::Spilled(spilled) => (None, None, Some(spilled)),
        };
        serde_json::to_string(&Envelope { format: FORMAT, batch, release, spilled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BatchFile, BatchId, Branch, DataFileEntry, Encoding, Fingerprint, Offset, Partition, RecordId,
        RecordList, SchemaId, SpecId,
    };

    fn records(offsets: std::ops::Range<i64>) -> RecordList {
        offsets
            .map(|offset| RecordId {
                partition: Partition::new(0).expect("a partition"),
                offset: Offset::new(offset).expect("an offset"),
                encoding: Encoding::Raw,
                fingerprint: Fingerprint(7),
            })
            .collect()
    }

    fn file(rows: u64, offsets: std::ops::Range<i64>) -> BatchFile {
        BatchFile {
            data_file: DataFileEntry {
                path: "s3://lake/t/data/a.parquet".to_owned(),
                record_count: rows,
                file_size_in_bytes: 4,
                checksum: crate::Checksum(9),
                partition: vec![None],
                column_sizes: [(1, 9)].into(),
                value_counts: [(1, rows)].into(),
                null_value_counts: [].into(),
                nan_value_counts: [].into(),
                lower_bounds: [(1, crate::SingleValue(vec![0, 255]))].into(),
                upper_bounds: [].into(),
                split_offsets: vec![4],
            },
            records: records(offsets),
        }
    }

    fn batch(files: Vec<BatchFile>) -> BatchManifest {
        BatchManifest {
            id: BatchId(uuid::Uuid::from_u128(1)),
            made_at_ms: 1,
            source: Source {
                pipeline: "demo".try_into().expect("a pipeline id"),
                cluster: "local".try_into().expect("a cluster name"),
                topic: "clicks".try_into().expect("a topic"),
            },
            table: "a.b".try_into().expect("a table name"),
            branch: Branch::main(),
            table_uuid: TableUuid(uuid::Uuid::from_u128(2)),
            schema_id: SchemaId(0),
            spec_id: SpecId(0),
            files,
            dead_letters: None,
            newest_record_ms: None,
        }
    }

    fn decoded(files: Vec<BatchFile>) -> Result<Message, DecodeError> {
        let text = Message::Batch(Box::new(batch(files))).encode().expect("it serializes");
        Message::decode(&text)
    }

    #[test]
    fn a_batch_manifest_reads_back_equal() {
        let sent = batch(vec![file(3, 0..3)]);
        let message = decoded(vec![file(3, 0..3)]).expect("it agrees with itself");
        assert_eq!(message, Message::Batch(Box::new(sent)));
    }

    #[test]
    fn a_released_batch_manifest_keeps_what_was_overruled() {
        let release =
            Release { overruled: "another-cluster".to_owned(), entry: "quarantine/x.json".to_owned() };
        let sent = Message::Released(Box::new(batch(vec![file(3, 0..3)])), release);
        let text = sent.clone().encode().expect("it serializes");
        assert_eq!(Message::decode(&text).expect("it agrees with itself"), sent);
        let alone = r#"{"format":1,"release":{"overruled":"x","entry":"y"}}"#;
        assert!(matches!(Message::decode(alone), Err(DecodeError::OneBody)));
    }

    #[test]
    fn a_batch_manifest_that_contradicts_itself_is_refused() {
        assert!(matches!(decoded(vec![file(2, 0..3)]), Err(DecodeError::RowsDiffer { .. })));
        assert!(matches!(decoded(vec![file(0, 0..0)]), Err(DecodeError::RowsDiffer { .. })));
        assert!(matches!(decoded(vec![]), Err(DecodeError::Empty)));
        assert!(matches!(decoded(vec![file(3, 0..3), file(3, 2..5)]), Err(DecodeError::Repeated(_))));
    }

    #[test]
    fn a_newer_format_is_named_as_such() {
        assert!(matches!(Message::decode(r#"{"format":2,"news":{}}"#), Err(DecodeError::NewerFormat(2))));
        assert!(matches!(Message::decode("{}"), Err(DecodeError::Malformed(_))));
        assert!(matches!(Message::decode("\u{1}"), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn files_beside_the_tables_location_are_found() {
        let batch = batch(vec![file(3, 0..3)]);
        assert_eq!(batch.file_outside("s3://lake/t/"), None);
        assert_eq!(batch.file_outside("s3://lake/t"), None);
        assert_eq!(batch.file_outside("s3://lake/t2"), Some("s3://lake/t/data/a.parquet"));
    }
}
