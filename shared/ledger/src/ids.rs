//! Names and numbers of the ledger: whose it is, what its objects are called, where it stands.

use std::fmt;
use std::str::FromStr;

use icefall_manifest::{Branch, Source, TableUuid};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Whose ledger it is: each table has one per branch and source.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LedgerId {
    /// The table.
    pub table_uuid: TableUuid,
    /// The branch of it.
    pub branch: Branch,
    /// Where the records come from.
    pub source: Source,
}

impl fmt::Display for LedgerId {
    /// `table uuid/branch/pipeline/cluster/topic`: unambiguous, since no part may hold a slash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.table_uuid, self.branch, self.source)
    }
}

impl FromStr for LedgerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [uuid, branch, pipeline, cluster, topic] = parts.as_slice() else {
            return Err(format!("{text:?} is not table uuid/branch/pipeline/cluster/topic"));
        };
        Ok(Self {
            table_uuid: TableUuid(
                uuid.parse().map_err(|error| format!("{uuid:?} is no table uuid: {error}"))?,
            ),
            branch: Branch::try_from((*branch).to_owned()).map_err(|error| error.to_string())?,
            source: source(pipeline, cluster, topic)?,
        })
    }
}

/// The source of three names.
pub(crate) fn source(pipeline: &str, cluster: &str, topic: &str) -> Result<Source, String> {
    Ok(Source {
        pipeline: pipeline.try_into().map_err(|error: icefall_manifest::NameError| error.to_string())?,
        cluster: cluster.try_into().map_err(|error: icefall_manifest::NameError| error.to_string())?,
        topic: topic.try_into().map_err(|error: icefall_manifest::NameError| error.to_string())?,
    })
}

/// The name of an immutable object of the ledger: the SHA-256 of its bytes, 64 hex digits as text.
#[derive(Clone, Copy, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectHash([u8; 32]);

impl ObjectHash {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectHash({self})")
    }
}

impl FromStr for ObjectHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is no SHA-256 in 64 lower-case hex digits");
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(fault());
        };
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(fault)
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl TryFrom<String> for ObjectHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ObjectHash> for String {
    fn from(hash: ObjectHash) -> Self {
        hash.to_string()
    }
}

/// An Iceberg snapshot's id.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct SnapshotId(pub i64);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An Iceberg sequence number: it only ever grows within a table, rolled back or not.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct SequenceNumber(pub i64);

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One snapshot, by id and by its place in the table's history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotMark {
    /// Its id.
    pub id: SnapshotId,
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
}

/// How often an operator said that the topic holds other records now. A record may stand beside one
/// of an earlier incarnation at the same offset, never beside one of its own.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Incarnation(pub u32);

impl Incarnation {
    /// The incarnation that every ledger begins with.
    pub const FIRST: Self = Self(1);

    /// The incarnation after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The number of an entry in an outbox; the first is 1, and 0 stands for none.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct EntryNumber(pub u64);

impl EntryNumber {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for EntryNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_back_as_it_prints() {
        let hash = ObjectHash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        for bad in ["", "ba78", &text.to_uppercase(), &text.replace('b', "g"), &format!("{text}00")] {
            assert!(bad.parse::<ObjectHash>().is_err(), "{bad:?} should be refused");
        }
    }

    #[test]
    fn a_ledgers_id_reads_back_as_it_prints() {
        let text = "00000000-0000-0000-0000-000000000001/main/demo/local/shop.orders";
        let id: LedgerId = text.parse().expect("an id");
        assert_eq!(id.to_string(), text);
        assert!("x/main/demo/local/orders".parse::<LedgerId>().is_err());
        assert!("00000000-0000-0000-0000-000000000001/main/demo/local".parse::<LedgerId>().is_err());
    }
}
