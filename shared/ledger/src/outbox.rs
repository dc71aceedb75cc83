//! Dead letters on their way to the dead-letter table.
//!
//! A dead letter is settled by the commit to its own table; the dead-letter table follows when it
//! can. Until then the ledger names the file that holds it. Entries are numbered once and for all,
//! and the dead-letter table's metadata holds the highest number that it has taken in, so an entry is
//! applied exactly once whatever happens between the two commits.

use std::collections::BTreeMap;

use icefall_manifest::{DeadLetterFile, Offset, Partition, RecordList};
use icefall_mutations::{Mutation, is};
use serde::{Deserialize, Serialize};

use crate::{EntryNumber, LedgerError};

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

    /// The entries above `applied`, the number that the dead-letter table holds.
    ///
    /// A number that was never given out here says that the ledger is older than the dead-letter
    /// table. What the outbox then names may be there or not, which a person has to find out.
    pub(crate) fn above(&self, applied: EntryNumber) -> Result<&[OutboxEntry], LedgerError> {
        if applied >= self.next && !self.entries.is_empty() {
            return Err(LedgerError::OutboxBehind { applied: applied.0, next: self.next.0 });
        }
        let from = self.entries.partition_point(|entry| entry.number <= applied);
        Ok(self.entries.get(from..).unwrap_or_default())
    }

    /// Drops the entries up to `applied`, the number that a load of the dead-letter table showed.
    /// Numbers go on after the higher of both: one that the dead-letter table counts as applied must
    /// never be given to a new entry, which would then be passed over.
    pub(crate) fn clear_through(&mut self, applied: EntryNumber) -> Result<(), LedgerError> {
        self.entries = self.above(applied)?.to_vec();
        self.next = self.next.max(applied.next());
        if self.entries.is_empty() && is(Mutation::NumbersReused) {
            self.next = EntryNumber(1);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn file(key: &str) -> DeadLetterFile {
        let records = [record(1, 40, 1), record(0, 7, 1), record(0, 5, 1)].into_iter().collect();
        DeadLetterFile { key: key.to_owned(), records }
    }

    fn outbox(files: usize) -> Outbox {
        let mut outbox = Outbox::default();
        (0..files).for_each(|index| outbox.push(&file(&index.to_string())));
        outbox
    }

    #[test]
    fn an_entry_tells_its_records_by_partition() {
        let outbox = outbox(1);
        let spans: Vec<_> = outbox.entries()[0]
            .spans
            .iter()
            .map(|span| {
                (span.partition.number(), span.lowest.position(), span.highest.position(), span.count)
            })
            .collect();
        assert_eq!(spans, [(0, 5, 7, 2), (1, 40, 40, 1)]);
    }

    #[test]
    fn entries_leave_once_applied_and_numbers_are_never_given_twice() {
        let mut outbox = outbox(3);
        outbox.clear_through(EntryNumber(2)).expect("a number that was given");
        assert_eq!(outbox.entries().iter().map(|entry| entry.number.0).collect::<Vec<_>>(), [3]);
        outbox.clear_through(EntryNumber(3)).expect("a number that was given");
        outbox.push(&file("next"));
        assert_eq!(outbox.entries()[0].number, EntryNumber(4));
    }

    #[test]
    fn a_dead_letter_table_that_is_ahead_is_only_followed_when_nothing_is_on_its_way() {
        let mut behind = outbox(3);
        let ahead = EntryNumber(9);
        assert_eq!(behind.clear_through(ahead), Err(LedgerError::OutboxBehind { applied: 9, next: 4 }));
        assert_eq!(behind.entries().len(), 3);
        let mut empty = Outbox::default();
        empty.clear_through(ahead).expect("nothing can be lost");
        assert_eq!(empty.next_number(), EntryNumber(10));
    }

    #[test]
    fn stored_parts_that_contradict_each_other_are_refused() {
        let entries = outbox(2).entries().to_vec();
        assert!(Outbox::from_parts(EntryNumber(3), entries.clone()).is_ok());
        assert!(Outbox::from_parts(EntryNumber(2), entries.clone()).is_err());
        assert!(Outbox::from_parts(EntryNumber(3), entries.into_iter().rev().collect()).is_err());
        assert!(Outbox::from_parts(EntryNumber(0), vec![]).is_err());
    }
}
