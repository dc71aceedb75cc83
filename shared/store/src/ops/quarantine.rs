//! What can't be decided automatically, kept for a person.

use bytes::Bytes;
use chrono::DateTime;
use icefall_clock::Timestamp;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Location;

/// A message or an event that was put aside. Its JSON holds all but the raw bytes, which lie beside
/// it.
#[derive(Clone, Debug)]
pub struct QuarantineEntry<'a> {
    /// Why, in kebab-case: part of the key, so that an operator sees what there is without opening it.
    pub reason: &'static str,
    /// What tells it from others: the message's id, or the invocation's.
    pub id: &'a str,
    /// When it was put aside.
    pub when: Timestamp,
    /// The message's body or the event, byte by byte.
    pub raw: Bytes,
    /// What the operator needs to know: table, offsets, what to do.
    pub details: Value,
}

impl QuarantineEntry<'_> {
    /// The key that its objects' keys begin with.
    pub(crate) fn key(&self) -> String {
        format!("quarantine/{}/{}/{}", day(self.when), self.reason, safe(self.id))
    }

    /// The key of the copy of its `index`-th data file.
    pub(crate) fn copy_key(&self, index: usize, file: &Location) -> String {
        let name = file.key().rsplit('/').next().unwrap_or_default();
        format!("{}/{index}-{}", self.key(), safe(name))
    }
}

impl Serialize for QuarantineEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("QuarantineEntry", 5)?;
        entry.serialize_field("reason", self.reason)?;
        entry.serialize_field("id", self.id)?;
        entry.serialize_field("when_ms", &self.when.unix_ms())?;
        entry.serialize_field("raw", &format!("{}.raw", self.key()))?;
        entry.serialize_field("details", &self.details)?;
        entry.end()
    }
}

/// The day of `when` in UTC, as `yyyy-mm-dd`.
fn day(when: Timestamp) -> String {
    DateTime::from_timestamp_millis(when.unix_ms_signed()).unwrap_or_default().format("%Y-%m-%d").to_string()
}

/// `text` with every byte that a key should not hold as `_` and two hex digits. Different texts stay
/// different, so that no entry replaces another.
fn safe(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |safe, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => {
            safe + char::from(byte).encode_utf8(&mut [0; 4])
        }
        _ => safe + &format!("_{byte:02x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str) -> QuarantineEntry<'_> {
        QuarantineEntry {
            reason: "another-table",
            id,
            when: Timestamp::from_unix_ms(1_709_251_199_999),
            raw: Bytes::from_static(b"raw"),
            details: serde_json::json!({ "table": "a.b" }),
        }
    }

    #[test]
    fn the_key_tells_day_and_reason() {
        assert_eq!(entry("m-1").key(), "quarantine/2024-02-29/another-table/m-1");
    }

    #[test]
    fn ids_can_neither_leave_their_folder_nor_meet() {
        assert_eq!(entry("../a b_").key(), "quarantine/2024-02-29/another-table/.._2fa_20b_5f");
        assert_ne!(safe("a/b"), safe("a_2fb"));
    }

    #[test]
    fn copies_keep_their_names_and_stay_apart() {
        let file = Location::s3("lake", "t/data/h=1/x.parquet");
        let other = Location::s3("lake", "t/data/h=2/x.parquet");
        let entry = entry("m");
        assert_eq!(entry.copy_key(0, &file), "quarantine/2024-02-29/another-table/m/0-x.parquet");
        assert_ne!(entry.copy_key(0, &file), entry.copy_key(1, &other));
    }

    #[test]
    fn the_entry_points_to_its_raw_bytes() {
        let json = serde_json::to_value(entry("m")).expect("it serializes");
        assert_eq!(json["raw"], "quarantine/2024-02-29/another-table/m.raw");
        assert_eq!(json["when_ms"], 1_709_251_199_999_u64);
    }
}
