//! Dead letters on their way to the dead-letter table.
//!
//! A dead letter is settled by the commit to its own table; the dead-letter table follows when it
//! can. Until then the ledger names the file that holds it. Entries are numbered once and for all,
//! and the dead-letter table's metadata holds the highest number that it has taken in, so an entry is
//! applied exactly once whatever happens between the two commits.

use std::collections::BTreeMap;

use icefall_manifest::{DeadLetterFile, Offset, Partition, RecordList};
use serde::{Deserialize, Serialize};

use crate::EntryNumber;

/// The dead letters of one partition in a file, for people: the file itself names each.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OutboxSpan {
    /// The partition.
    pub partition: Partition,
    /// The lowest offset among them.
    pub lowest: Offset,
    /// The highest offset among them.
    pub highest: Offset,
    /// How many there are.
    pub count: u64,
}

/// One file of dead letters.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OutboxEntry {
    /// Its number, never given twice.
    pub number: EntryNumber,
    /// The file's key in the ops bucket.
    pub key: String,
    /// What is in it, one span per partition: bounded, unlike a list of runs.
    pub spans: Vec<OutboxSpan>,
}

/// The files of dead letters that the dead-letter table may still lack.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outbox {
    next: EntryNumber,
    entries: Vec<OutboxEntry>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { next: EntryNumber(1), entries: Vec::new() }
    }
}

impl Outbox {
    /// The outbox of stored parts, if they fit: numbers ascend, and all are below the next one.
    pub(crate) fn from_parts(next: EntryNumber, entries: Vec<OutboxEntry>) -> Result<Self, &'static str> {
        let ascending =
            entries.iter().zip(entries.iter().skip(1)).all(|(one, other)| one.number < other.number);
        let numbered = entries.iter().all(|entry| entry.number > EntryNumber(0) && entry.number < next);
        if next == EntryNumber(0) || !ascending || !numbered {
            return Err("the outbox's numbers do not ascend to the next one");
        }
        Ok(Self { next, entries })
    }

    /// The entries, in the order of their numbers.
    #[must_use]
    pub fn entries(&self) -> &[OutboxEntry] {
        &self.entries
    }

    /// The number that the next entry gets.
    #[must_use]
    pub const fn next_number(&self) -> EntryNumber {
        self.next
    }

    /// Adds a file of dead letters under the next number.
    pub(crate) fn push(&mut self, file: &DeadLetterFile) {
        let entry = OutboxEntry { number: self.next, key: file.key.clone(), spans: spans(&file.records) };
        self.entries.push(entry);
        self.next = self.next.next();
    }

    /// Drops the entries up to `applied`, the number that a load of the dead-letter table showed.
    /// Numbers go on after the higher of both: one that the dead-letter table counts as applied must
    /// never be given to a new entry, which would then be passed over.
    pub(crate) fn clear_through(&mut self, applied: EntryNumber) {
        self.entries.retain(|entry| entry.number > applied);
        self.next = self.next.max(applied.next());
    }
}

fn spans(records: &RecordList) -> Vec<OutboxSpan> {
    let mut spans: BTreeMap<Partition, OutboxSpan> = BTreeMap::new();
    for record in records.iter() {
        let (partition, offset) = (record.partition, record.offset);
        let span = spans.entry(partition).or_insert(OutboxSpan {
            partition,
            lowest: offset,
            highest: offset,
            count: 0,
        });
        span.lowest = span.lowest.min(offset);
        span.highest = span.highest.max(offset);
        span.count += 1;
    }
    spans.into_values().collect()
}
