//! What one writer invocation says about one table.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Branch, DataFileEntry, RecordList, SchemaId, Source, SpecId, TableName, TableUuid};

/// A batch manifest's own id, for logs and for names in the ops bucket. Decisions never rest on it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct BatchId(pub Uuid);

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A data file and the records in it: row `i` of the file is record `i` of `records`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BatchFile {
    /// The file, for Iceberg.
    pub data_file: DataFileEntry,
    /// Its records, for the ledger.
    pub records: RecordList,
}

/// The file in the ops bucket that holds a batch's dead letters, line `i` being record `i`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterFile {
    /// The object's key within the ops bucket.
    pub key: String,
    /// The records that could not be converted.
    pub records: RecordList,
}

/// The message that the writer enqueues for one table and source.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BatchManifest {
    /// Its id.
    pub id: BatchId,
    /// When the writer made it, in milliseconds since the epoch.
    pub made_at_ms: u64,
    /// Where all of its records come from.
    pub source: Source,
    /// The table that they were routed to.
    pub table: TableName,
    /// The branch of it.
    pub branch: Branch,
    /// Which table that was when the files were written.
    pub table_uuid: TableUuid,
    /// The schema that the files were written with.
    pub schema_id: SchemaId,
    /// The partition spec that the files were written with.
    pub spec_id: SpecId,
    /// The data files, each with its records.
    pub files: Vec<BatchFile>,
    /// The dead letters, if there are any.
    pub dead_letters: Option<DeadLetterFile>,
    /// The newest Kafka timestamp among the records, in milliseconds since the epoch.
    pub newest_record_ms: Option<i64>,
}

impl BatchManifest {
    /// The lists of all its records: those of the files, then the dead letters.
    pub fn record_lists(&self) -> impl Iterator<Item = &RecordList> {
        let dead = self.dead_letters.iter().map(|file| &file.records);
        self.files.iter().map(|file| &file.records).chain(dead)
    }

    /// How many records it accounts for.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.record_lists().map(RecordList::len).sum()
    }

    /// A data file that does not lie below `location`, the table's own.
    #[must_use]
    pub fn file_outside(&self, location: &str) -> Option<&str> {
        let root = location.trim_end_matches('/');
        let inside = |path: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        self.files.iter().map(|file| file.data_file.path.as_str()).find(|path| !inside(path))
    }
}
