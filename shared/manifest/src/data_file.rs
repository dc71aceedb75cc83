//! A data file as Iceberg's manifests describe it, in plain values.
//!
//! The writer knows the metrics when it has written the Parquet; the committer puts them into the
//! manifest without opening the file. Bounds and partition values travel in Iceberg's binary
//! single-value serialization (spec, appendix D), which loses nothing and needs no type of its own.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A value in Iceberg's binary single-value serialization.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct SingleValue(pub Vec<u8>);

impl From<SingleValue> for String {
    fn from(value: SingleValue) -> Self {
        STANDARD.encode(value.0)
    }
}

impl TryFrom<String> for SingleValue {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, base64::DecodeError> {
        STANDARD.decode(text).map(Self)
    }
}

/// XXH3-64 (seed 0) of a file's bytes, by which they are known again when they are read back. It guards
/// against damage, not against somebody who wants to deceive.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Checksum(pub u64);

/// One Parquet data file. Maps are keyed by field id and hold what is known; a missing key means
/// "not known", never zero.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DataFileEntry {
    /// Full URI of the file.
    pub path: String,
    /// Rows in the file.
    pub record_count: u64,
    /// Bytes of the file.
    pub file_size_in_bytes: u64,
    /// What the file's bytes add up to.
    pub checksum: Checksum,
    /// The partition's values in the order of the spec's fields; `None` is null.
    pub partition: Vec<Option<SingleValue>>,
    /// Bytes each column takes on disk.
    pub column_sizes: BTreeMap<i32, u64>,
    /// Values of each column, nulls and NaNs included.
    pub value_counts: BTreeMap<i32, u64>,
    /// Nulls of each column.
    pub null_value_counts: BTreeMap<i32, u64>,
    /// NaNs of each floating-point column.
    pub nan_value_counts: BTreeMap<i32, u64>,
    /// A value that no value of the column is below.
    pub lower_bounds: BTreeMap<i32, SingleValue>,
    /// A value that no value of the column is above.
    pub upper_bounds: BTreeMap<i32, SingleValue>,
    /// Where the file can be split: the offsets of its row groups, ascending.
    pub split_offsets: Vec<i64>,
}
