//! What Icefall says about a snapshot in its summary.
//!
//! Each retained snapshot is paid for at every load and commit of its table, so the summary stays
//! below 1 KiB whatever a round held: lists are cut, counts are not.

use std::collections::BTreeMap;

use icefall_ledger::RoundResult;

use crate::plan::Settlement;
use crate::table::SOURCES_KEY;

/// The most that a list may take.
const MAX_LIST_BYTES: usize = 320;

/// The summary's entries.
pub(crate) fn of(settlement: &Settlement) -> BTreeMap<String, String> {
    let results = &settlement.results;
    let count = |of: fn(&RoundResult) -> usize| results.iter().map(of).sum::<usize>().to_string();
    let sources = results.iter().map(|result| result.ledger.id().source.to_string());
    let segments = results.iter().filter_map(|result| result.ledger.newest_segment());
    let mut entries = BTreeMap::from([
        (SOURCES_KEY.to_owned(), list(sources)),
        ("icefall.segments".to_owned(), list(segments.map(|hash| hash.to_string()))),
        ("icefall.batches".to_owned(), settlement.batches.to_string()),
        ("icefall.records".to_owned(), count(|result| result.rows)),
        ("icefall.dead-letters".to_owned(), count(|result| result.dead_letters)),
    ]);
    if let Some(newest) = settlement.newest_record_ms {
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
