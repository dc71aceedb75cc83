//! What tells one record from another at the same offset.
//!
//! A topic that was deleted and made again has the same offsets and other records. The ledger tells
//! them apart by a fingerprint of each record: 32 bits of a hash over time, key and value as they
//! were delivered. How they were encoded when delivered is kept beside it, since the same record
//! delivered decoded by a schema registry has other bytes: two fingerprints of different encodings
//! prove nothing about each other.

use serde::{Deserialize, Serialize};

/// 32 bits that identify a record's content among those that may stand at its offset.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Fingerprint(pub u32);

/// How key and value were encoded in the event that delivered a record. The byte is part of stored
/// formats: a number once given is never given another meaning.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "u8", into = "u8")]
#[repr(u8)]
pub enum Encoding {
    /// Base64 of the very bytes in Kafka.
    Raw = 1,
    /// Decoded to JSON by the event source mapping's schema registry.
    RegistryJson = 2,
    /// The original format with the registry's framing cut off by the event source mapping.
    RegistrySource = 3,
    /// Text that is not valid base64; it is kept and hashed as it came.
    Unreadable = 4,
}

impl From<Encoding> for u8 {
    fn from(encoding: Encoding) -> Self {
        encoding as Self
    }
}

impl TryFrom<u8> for Encoding {
    type Error = String;

    fn try_from(tag: u8) -> Result<Self, String> {
        match tag {
            1 => Ok(Self::Raw),
            2 => Ok(Self::RegistryJson),
            3 => Ok(Self::RegistrySource),
            4 => Ok(Self::Unreadable),
            other => Err(format!("{other} is no encoding tag that this version knows")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_reads_back_as_its_encoding() {
        for encoding in
            [Encoding::Raw, Encoding::RegistryJson, Encoding::RegistrySource, Encoding::Unreadable]
        {
            assert_eq!(Encoding::try_from(u8::from(encoding)), Ok(encoding));
        }
        assert!(Encoding::try_from(0).is_err());
        assert!(Encoding::try_from(5).is_err());
    }
}
