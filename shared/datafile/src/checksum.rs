//! What a file's bytes add up to.

use icefall_manifest::Checksum;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) fn checksum(file: &[u8]) -> Checksum {
    Checksum(xxh3_64(file))
}
