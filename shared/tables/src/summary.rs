//! What Icefall says about a snapshot in its summary.
//!
//! Each retained snapshot is paid for at every load and commit of its table, so the summary stays below 1 KiB
//! whatever a round held. Nothing is left out for that: by the sources that a snapshot names it is told whether an old
//! value of a ledger's property was put back. Where their names take too much, short marks of them stand there, and a
//! commit has no more sources than their marks have room ([`MAX_SOURCES`]).

use std::collections::BTreeMap;

use icefall_ledger::{Ledger, ObjectHash};
use icefall_manifest::Source;

use crate::table::SOURCES_KEY;

/// The most that the sources may take.
const MAX_SOURCES_BYTES: usize = 320;
/// As many sources as one commit may have.
pub const MAX_SOURCES: usize = MAX_SOURCES_BYTES / (MARK_LENGTH + 1);
/// No name of a pipeline begins with it.
const MARK: char = '~';
/// The sign, and 48 bits in hexadecimal digits.
const MARK_LENGTH: usize = 13;

/// The entries of a snapshot that brings `ledgers` about, settles as many rows and dead letters as `records` says out of
/// `batches` batch manifests, and whose newest Kafka timestamp is `newest_record_ms`.
#[must_use]
pub fn summary<'a>(
    ledgers: impl IntoIterator<Item = &'a Ledger>,
    [rows, dead_letters]: [usize; 2],
    batches: usize,
    newest_record_ms: Option<i64>,
) -> BTreeMap<String, String> {
    let ledgers: Vec<&Ledger> = ledgers.into_iter().collect();
    let mut entries = BTreeMap::from([
        (SOURCES_KEY.to_owned(), sources(ledgers.iter().map(|ledger| &ledger.id().source))),
        ("icefall.batches".to_owned(), batches.to_string()),
        ("icefall.records".to_owned(), rows.to_string()),
        ("icefall.dead-letters".to_owned(), dead_letters.to_string()),
    ]);
    if let Some(newest) = newest_record_ms {
        entries.insert("icefall.valid-through-ms".to_owned(), newest.to_string());
    }
    // Those of several sources stand in their ledgers' properties alone.
    if let [ledger] = ledgers.as_slice()
        && let Some(segment) = ledger.newest_segment()
    {
        entries.insert("icefall.segment".to_owned(), segment.to_string());
    }
    entries
}

/// The sources by their names, or by their marks where the names take too much.
fn sources<'a>(sources: impl Iterator<Item = &'a Source> + Clone) -> String {
    let names = sources.clone().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if names.len() <= MAX_SOURCES_BYTES {
        return names;
    }
    sources.map(mark).collect::<Vec<_>>().join(" ")
}

/// Whether the sources that a summary names hold `source`.
pub(crate) fn holds(sources: &str, source: &Source) -> bool {
    let (name, mark) = (source.to_string(), mark(source));
    sources.split(' ').any(|held| held == name || held == mark)
}

/// What stands for a source. Two may share one, once in many billions: the worst of it is a stop that nobody needed.
fn mark(source: &Source) -> String {
    let hash = ObjectHash::of(source.to_string().as_bytes()).to_string();
    std::iter::once(MARK).chain(hash.chars()).take(MARK_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(number: usize, length: usize) -> Source {
        let text = format!("{number:0>length$}");
        Source {
            pipeline: text.as_str().try_into().expect("an id"),
            cluster: text.as_str().try_into().expect("a name"),
            topic: text.as_str().try_into().expect("a topic"),
        }
    }

    #[test]
    fn sources_are_named_and_each_is_found_however_many_and_however_long_they_are() {
        for (count, length) in [(1, 2), (1, 40), (5, 20), (MAX_SOURCES, 2), (MAX_SOURCES, 40)] {
            let all: Vec<Source> = (0..count).map(|number| named(number, length)).collect();
            let text = sources(all.iter());
            assert!(text.len() <= MAX_SOURCES_BYTES, "{count} of {length}: {}", text.len());
            assert!(all.iter().all(|source| holds(&text, source)), "{text}");
            assert!(!(count..99).any(|other| holds(&text, &named(other, length))), "{text}");
        }
    }

    #[test]
    fn no_name_is_taken_for_a_mark() {
        assert!(icefall_manifest::PipelineId::try_from(format!("{MARK}a").as_str()).is_err());
    }
}
