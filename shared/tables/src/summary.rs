//! What Icefall says about a snapshot in its summary.
//!
//! Each retained snapshot is paid for at every load and commit of its table, so the summary stays
//! below 1 KiB whatever a round held: lists are cut, counts are not.

use std::collections::BTreeMap;

use icefall_ledger::Ledger;

use crate::table::SOURCES_KEY;

/// The most that a list may take.
const MAX_LIST_BYTES: usize = 320;

/// The entries of a snapshot that brings `ledgers` about, settles as many rows and dead letters as `records` says out of
/// `batches` batch manifests, and whose newest Kafka timestamp is `newest_record_ms`.
#[must_use]
pub fn summary<'a>(
    ledgers: impl IntoIterator<Item = &'a Ledger, IntoIter: Clone>,
    [rows, dead_letters]: [usize; 2],
    batches: usize,
    newest_record_ms: Option<i64>,
) -> BTreeMap<String, String> {
    let ledgers = ledgers.into_iter();
    let sources = ledgers.clone().map(|ledger| ledger.id().source.to_string());
    let segments = ledgers.filter_map(Ledger::newest_segment);
    let mut entries = BTreeMap::from([
        (SOURCES_KEY.to_owned(), list(sources)),
        ("icefall.segments".to_owned(), list(segments.map(|hash| hash.to_string()))),
        ("icefall.batches".to_owned(), batches.to_string()),
        ("icefall.records".to_owned(), rows.to_string()),
        ("icefall.dead-letters".to_owned(), dead_letters.to_string()),
    ]);
    if let Some(newest) = newest_record_ms {
        entries.insert("icefall.valid-through-ms".to_owned(), newest.to_string());
    }
    entries
}

/// As many items as fit, separated by spaces.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for item in items {
        if text.len() + item.len() < MAX_LIST_BYTES {
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(&item);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_at_whole_items() {
        let items = || (0..100).map(|number| format!("demo/local/topic-{number}"));
        let text = list(items());
        assert!(text.len() <= MAX_LIST_BYTES);
        assert!(text.split(' ').all(|item| items().any(|known| known == item)));
    }
}
