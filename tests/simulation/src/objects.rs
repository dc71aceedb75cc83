//! What kind of thing a call is about: a process that dies at the put of a segment has died at another point than one that
//! dies at the put of a data file.

use crate::weather::Part;
use crate::world::DEAD_LETTERS;

/// A sealed node of a ledger's index.
pub(crate) const NODE: &str = "an index node";
/// What is said of a message in quarantine.
pub(crate) const ENTRY: &str = "a quarantine entry";
/// A copy of a data file, in quarantine.
pub(crate) const COPY: &str = "a quarantined copy";
/// Dead letters on their way.
pub(crate) const LETTERS: &str = "dead letters";
/// A batch manifest that a message points to.
pub(crate) const SPILL: &str = "a large batch manifest";
/// A manifest.
pub(crate) const MANIFEST: &str = "a manifest";
/// The table of the dead letters.
pub(crate) const DEAD_LETTER_TABLE: &str = "the dead-letter table";

/// What sealed nodes of a ledger's index begin with: part of the stored format.
const NODE_MAGIC: &[u8] = b"IFLN";

/// Whether these are the bytes of a sealed index node.
pub(crate) fn is_node(body: &[u8]) -> bool {
    body.starts_with(NODE_MAGIC)
}

/// What the catalog is asked about.
pub(crate) fn of_catalog(name: &str) -> &'static str {
    match name {
        DEAD_LETTERS => DEAD_LETTER_TABLE,
        name if name.contains('.') => "a table",
        _ => "a namespace",
    }
}

/// What a store is asked about, by its key, and by its bytes where it is put.
pub(crate) fn of_store(part: Part, key: &str, body: Option<&[u8]>) -> &'static str {
    let (folder, name) =
        (key.split('/').next().unwrap_or_default(), key.rsplit('/').next().unwrap_or_default());
    match (part, folder) {
        (Part::Lake, _) => of_lake(name),
        (_, "segments") if body.is_some_and(is_node) => NODE,
        // What is read by its hash may be either.
        (_, "segments") if body.is_none() => "an object of a ledger",
        (_, "segments") => "a segment",
        (_, "quarantine") => of_quarantine(key, name),
        (_, "quarantine-decisions") => "a decision",
        (_, "dead-letters") => LETTERS,
        (_, "heartbeat") => "a heartbeat",
        (_, "register") => "a register entry",
        (_, "clusters") => "a topic's clusters",
        (_, "spill") => SPILL,
        _ => "something else",
    }
}

fn of_lake(name: &str) -> &'static str {
    match name {
        name if name.ends_with(".parquet") => "a data file",
        name if name.starts_with("snap-") => "a manifest list",
        name if name.ends_with(".avro") => MANIFEST,
        _ => "a metadata file",
    }
}

/// An entry is three objects: what is said about it, the message, and copies in a folder of their own.
fn of_quarantine(key: &str, name: &str) -> &'static str {
    match (key.split('/').count(), name.rsplit('.').next()) {
        (4, Some("json")) => ENTRY,
        (4, Some("raw")) => "a quarantined message",
        (5, _) => COPY,
        _ => "quarantine",
    }
}
