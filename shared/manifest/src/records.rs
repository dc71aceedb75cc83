//! Lists of records by identity, compactly.
//!
//! Batches are mostly unbroken stretches of offsets, so a list holds runs; gaps (compaction,
//! transaction markers, records that went elsewhere) simply start the next run. Each record's
//! fingerprint stands beside it, in the same order.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::wire::Fault;
use crate::{Encoding, Fingerprint, Offset, Partition, runs};

/// Consecutive offsets of one partition, delivered in one encoding.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OffsetRun {
    /// The partition.
    pub partition: Partition,
    /// The first offset.
    pub first: Offset,
    /// How many offsets, at least 1.
    pub count: u32,
    /// How each of them was delivered.
    pub encoding: Encoding,
}

/// One record: where it stands and what it is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RecordId {
    /// Its partition.
    pub partition: Partition,
    /// Its offset.
    pub offset: Offset,
    /// How it was delivered.
    pub encoding: Encoding,
    /// What it is.
    pub fingerprint: Fingerprint,
}

/// Why a list of records is none.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum RecordListError {
    /// A run without offsets, or one that passes the last offset there is.
    #[error("the run of {count} offsets from {first} of partition {partition} is empty or too long")]
    BadRun {
        /// The run's partition.
        partition: Partition,
        /// The run's first offset.
        first: Offset,
        /// The run's length.
        count: u32,
    },
    /// The fingerprints are not one per record.
    #[error("{fingerprints} fingerprints for {records} records")]
    Fingerprints {
        /// How many fingerprints there are.
        fingerprints: u64,
        /// How many records the runs name.
        records: u64,
    },
    /// The runs' text is not what this version writes.
    #[error("the runs of offsets can't be read: {0}")]
    UnreadableRuns(&'static str),
    /// The fingerprints' text is not base64 of whole 32-bit words.
    #[error("the fingerprints are not base64 of 32-bit words")]
    Unreadable,
}

/// Records in an order that means something: row `i` of a data file is record `i` of its list.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct RecordList {
    runs: Vec<OffsetRun>,
    fingerprints: Vec<Fingerprint>,
}

impl RecordList {
    /// The list of `runs` with `fingerprints`, if they fit each other.
    pub fn new(runs: Vec<OffsetRun>, fingerprints: Vec<Fingerprint>) -> Result<Self, RecordListError> {
        for OffsetRun { partition, first, count, .. } in runs.iter().copied() {
            if count == 0 || first.plus(count).is_none() {
                return Err(RecordListError::BadRun { partition, first, count });
            }
        }
        let records = runs.iter().map(|run| u64::from(run.count)).sum();
        let found = fingerprints.len() as u64;
        if found != records {
            return Err(RecordListError::Fingerprints { fingerprints: found, records });
        }
        Ok(Self { runs, fingerprints })
    }

    /// Adds a record at the end.
    pub fn push(&mut self, record: RecordId) {
        self.fingerprints.push(record.fingerprint);
        if let Some(last) = self.runs.last_mut()
            && last.partition == record.partition
            && last.encoding == record.encoding
            && last.first.plus(last.count) == Some(record.offset)
            && last.count < u32::MAX
        {
            last.count += 1;
            return;
        }
        let RecordId { partition, offset, encoding, .. } = record;
        self.runs.push(OffsetRun { partition, first: offset, count: 1, encoding });
    }

    /// How many records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fingerprints.is_empty()
    }

    /// The runs of offsets, in order.
    #[must_use]
    pub fn runs(&self) -> &[OffsetRun] {
        &self.runs
    }

    /// The records one by one, in order.
    pub fn iter(&self) -> impl Iterator<Item = RecordId> + '_ {
        let offsets = self.runs.iter().flat_map(|run| {
            (0..run.count).filter_map(move |step| run.first.plus(step).map(|offset| (run, offset)))
        });
        offsets.zip(&self.fingerprints).map(|((run, offset), fingerprint)| RecordId {
            partition: run.partition,
            offset,
            encoding: run.encoding,
            fingerprint: *fingerprint,
        })
    }

    /// A record that stands more than once in `lists` together.
    #[must_use]
    pub fn repeated<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Option<RecordId> {
        let lists: Vec<&Self> = lists.into_iter().collect();
        let mut runs: Vec<OffsetRun> = lists.iter().flat_map(|list| list.runs()).copied().collect();
        runs.sort_unstable_by_key(|run| (run.partition, run.first));
        let apart = |(one, next): (&OffsetRun, &OffsetRun)| {
            one.partition != next.partition || one.first.plus(one.count).is_some_and(|end| end <= next.first)
        };
        if runs.iter().zip(runs.iter().skip(1)).all(apart) { None } else { first_repeated(&lists) }
    }
}

/// The first record of `lists` that stood before.
#[cold]
fn first_repeated(lists: &[&RecordList]) -> Option<RecordId> {
    let mut seen = HashSet::new();
    let mut records = lists.iter().flat_map(|list| list.iter());
    records.find(|record| !seen.insert((record.partition, record.offset)))
}

impl FromIterator<RecordId> for RecordList {
    fn from_iter<T: IntoIterator<Item = RecordId>>(records: T) -> Self {
        let mut list = Self::default();
        records.into_iter().for_each(|record| list.push(record));
        list
    }
}

/// The list as it travels, both parts as base64: runs of a few bytes each, and fingerprints as
/// little-endian words.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    runs: String,
    fingerprints: String,
}

impl From<RecordList> for Wire {
    fn from(list: RecordList) -> Self {
        let bytes: Vec<u8> = list.fingerprints.iter().flat_map(|print| print.0.to_le_bytes()).collect();
        Self { runs: STANDARD.encode(runs::encode(&list.runs)), fingerprints: STANDARD.encode(bytes) }
    }
}

impl TryFrom<Wire> for RecordList {
    type Error = RecordListError;

    fn try_from(wire: Wire) -> Result<Self, RecordListError> {
        let bytes = STANDARD.decode(&wire.fingerprints).map_err(|_| RecordListError::Unreadable)?;
        let (words, []) = bytes.as_chunks::<4>() else {
            return Err(RecordListError::Unreadable);
        };
        let fingerprints = words.iter().map(|word| Fingerprint(u32::from_le_bytes(*word))).collect();
        let runs =
            STANDARD.decode(&wire.runs).map_err(|_| RecordListError::UnreadableRuns("they are no base64"))?;
        let runs = runs::decode(&runs).map_err(|Fault(why)| RecordListError::UnreadableRuns(why))?;
        Self::new(runs, fingerprints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: i64, offset: i64, fingerprint: u32) -> RecordId {
        RecordId {
            partition: Partition::new(partition).expect("a partition"),
            offset: Offset::new(offset).expect("an offset"),
            encoding: Encoding::Raw,
            fingerprint: Fingerprint(fingerprint),
        }
    }

    #[test]
    fn gaps_and_other_partitions_start_new_runs_and_order_is_kept() {
        let records =
            [record(0, 10, 1), record(0, 11, 2), record(0, 15, 3), record(1, 16, 4), record(0, 16, 5)];
        let list: RecordList = records.into_iter().collect();
        assert_eq!(list.runs().len(), 4);
        assert_eq!(list.iter().collect::<Vec<_>>(), records);
    }

    #[test]
    fn the_wire_form_reads_back_equal() {
        let list: RecordList = [record(3, 7, u32::MAX), record(3, 8, 0)].into_iter().collect();
        let text = serde_json::to_string(&list).expect("a list always serializes");
        assert_eq!(serde_json::from_str::<RecordList>(&text).expect("it was written by us"), list);
    }

    #[test]
    fn runs_and_fingerprints_that_differ_are_refused() {
        let runs = vec![OffsetRun {
            partition: Partition::new(0).expect("a partition"),
            first: Offset::new(0).expect("an offset"),
            count: 2,
            encoding: Encoding::Raw,
        }];
        let error = RecordList::new(runs, vec![Fingerprint(1)]).expect_err("one fingerprint is missing");
        assert_eq!(error, RecordListError::Fingerprints { fingerprints: 1, records: 2 });
    }

    #[test]
    fn a_run_past_the_last_offset_is_refused() {
        let run = OffsetRun {
            partition: Partition::new(0).expect("a partition"),
            first: Offset::new(i64::MAX - 1).expect("an offset"),
            count: 5,
            encoding: Encoding::Raw,
        };
        let text = format!(r#"{{"runs":"{}","fingerprints":""}}"#, STANDARD.encode(runs::encode(&[run])));
        let error = serde_json::from_str::<RecordList>(&text).expect_err("there are no such offsets");
        assert!(error.to_string().contains("too long"), "{error}");
    }

    #[test]
    fn a_record_named_twice_is_found_across_lists() {
        let one: RecordList = [record(0, 1, 1)].into_iter().collect();
        let two: RecordList = [record(0, 2, 2), record(0, 1, 9)].into_iter().collect();
        assert_eq!(RecordList::repeated([&one, &two]), Some(record(0, 1, 9)));
        assert_eq!(RecordList::repeated([&one]), None);
    }
}
