//! Checks that a batch manifest must pass before anything is decided by it.

use thiserror::Error;

use crate::batch::BatchManifest;
use crate::records::{RecordId, RecordList};

/// Why a message is no batch manifest. Such a message is quarantined as it came.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Not the JSON that this version writes and reads.
    #[error("the message is not a batch manifest of a format that this version reads")]
    Malformed(#[from] serde_json::Error),
    /// Written by a newer version.
    #[error(
        "the batch manifest has format {0}, which is newer than this version reads: update the committer"
    )]
    NewerFormat(u64),
    /// Not exactly one of the bodies that a message can have.
    #[error("the message holds not exactly one of a batch manifest and a pointer to one")]
    OneBody,
    /// Neither files nor dead letters.
    #[error("the batch manifest names no record")]
    Empty,
    /// A file's rows are not its records.
    #[error("{path} has {rows} rows, but {records} records are named for it")]
    RowsDiffer {
        /// The data file.
        path: String,
        /// Rows that its entry states.
        rows: u64,
        /// Records that its list names.
        records: u64,
    },
    /// A record named twice.
    #[error("partition {} offset {} is named twice", .0.partition, .0.offset)]
    Repeated(RecordId),
}

/// Whether `batch` agrees with itself.
pub(crate) fn check(batch: &BatchManifest) -> Result<(), DecodeError> {
    for file in &batch.files {
        let (rows, records) = (file.data_file.record_count, file.records.len() as u64);
        if rows != records || rows == 0 {
            return Err(DecodeError::RowsDiffer { path: file.data_file.path.clone(), rows, records });
        }
    }
    if batch.record_count() == 0 {
        return Err(DecodeError::Empty);
    }
    RecordList::repeated(batch.record_lists()).map_or(Ok(()), |record| Err(DecodeError::Repeated(record)))
}
