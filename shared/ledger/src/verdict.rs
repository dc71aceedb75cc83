//! What the ledger says about a batch manifest.

use std::fmt;
use std::ops::Range;

use icefall_manifest::{Encoding, Fingerprint, Offset, Partition, RecordId, RecordList, Source, TableUuid};
use serde::{Deserialize, Serialize};

use crate::Stop;

/// What is to happen with a batch manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// None of its records is settled: commit it as it is.
    Commit,
    /// All of them are, with the same content: let the message go.
    Duplicate(Evidence),
    /// Some are: rewrite its files with the free ones alone, and commit those.
    Trim(Free),
    /// Some are copies that an operator discarded: what is free is committed without them, and the message goes
    /// once they stand in quarantine.
    Discard(Discard),
    /// One of them is settled with another content: the source stops in this table.
    Stop(Conflict),
    /// The source stands still already: the message stays queued.
    Stopped(Stop),
    /// It can't be decided: the message goes to quarantine.
    Quarantine(Reason),
}

impl fmt::Display for Verdict {
    /// In a word or two, for logs and metrics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commit => "commit",
            Self::Duplicate(_) => "duplicate",
            Self::Trim(_) => "trim",
            Self::Discard(_) => "discard",
            Self::Stop(_) => "stop",
            Self::Stopped(_) => "stopped",
            Self::Quarantine(_) => "quarantine",
        })
    }
}

/// Where the records of a duplicate are settled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evidence {
    /// In the ledger that was loaded: its message can be let go at once.
    Committed,
    /// Some only in what this round is about to commit: not before that is done.
    ThisRound,
}

/// A batch manifest of which an operator discarded records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Discard {
    /// Its free records, maybe none.
    pub free: Free,
    /// Those that are copies of settled ones.
    pub copies: RecordList,
}

/// A record whose offset is settled with another content, delivered in the same encoding.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// The record's partition.
    pub partition: Partition,
    /// The record's offset.
    pub offset: Offset,
    /// The fingerprint that is settled there.
    pub held: Fingerprint,
    /// The fingerprint that came.
    pub found: Fingerprint,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, offset, held, found } = self;
        write!(
            f,
            "partition {partition} offset {offset} is settled as record {:08x}, but {:08x} came: \
             is the topic a new one?",
            held.0, found.0
        )
    }
}

/// Why a batch manifest can't be decided.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It was written for another table of the same name.
    OtherTable {
        /// The table that its files were written for.
        named: TableUuid,
        /// The table of that name today.
        actual: TableUuid,
    },
    /// One of its records is settled, but was delivered in another encoding then: that it is the
    /// same can be neither shown nor ruled out.
    OtherEncoding {
        /// The record.
        record: RecordId,
        /// How the settled one was delivered.
        held: Encoding,
    },
    /// It is to be replayed, but the ledger holds it neither as a dead letter nor as the row that one became.
    NoDeadLetter {
        /// The record.
        record: RecordId,
    },
    /// The table holds the topic under the name of a cluster that the settings don't name.
    UnnamedCluster {
        /// The source that the table holds.
        held: Source,
    },
}

impl Reason {
    /// A short name, for keys in the ops bucket and for metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OtherTable { .. } => "other-table",
            Self::OtherEncoding { .. } => "other-encoding",
            Self::NoDeadLetter { .. } => "no-dead-letter",
            Self::UnnamedCluster { .. } => "unnamed-cluster",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherTable { named, actual } => write!(
                f,
                "its files were written for table {named}, but the table of that name is {actual} now: \
                 release it to write its records into the present table, or discard it"
            ),
            Self::OtherEncoding { record: RecordId { partition, offset, encoding, .. }, held } => write!(
                f,
                "partition {partition} offset {offset} was settled as delivered {held:?} and came again \
                 {encoding:?}: set the event source mapping's schema registry as it was, or release the batch"
            ),
            Self::NoDeadLetter { record: RecordId { partition, offset, .. } } => write!(
                f,
                "partition {partition} offset {offset} was to be replayed, but the ledger holds no such dead letter: \
                 find out whether the ledger was rewound or restored since, and replay again"
            ),
            Self::UnnamedCluster { held } => write!(
                f,
                "the table holds this topic as {held}, a cluster that the settings don't name: \
                 give the cluster its former name, or name both, in kafka.cluster and kafka.known_clusters"
            ),
        }
    }
}

/// The doubt of the ledger's that a person overruled when they released a batch from quarantine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Overruled {
    /// None: it is decided as any other.
    #[default]
    Nothing,
    /// [`Reason::OtherEncoding`]: what is held under another encoding proves nothing, so its records land
    /// beside that.
    OtherEncoding,
    /// That its records are copies which an operator discarded: they land beside what they are copies of.
    DiscardedCopy,
}

/// The records of a batch manifest that are free, file by file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Free {
    /// For each of its data files the rows to keep, maybe none.
    pub files: Vec<Rows>,
    /// The lines of the dead letters' file to keep; empty if it has none.
    pub dead_letters: Rows,
}

impl Free {
    /// How many records are free.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.iter().map(Rows::len).sum::<usize>() + self.dead_letters.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Some rows of a file, or some records of a list, by index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rows {
    ranges: Vec<Range<usize>>,
    total: usize,
}

impl Rows {
    /// Notes whether the next row is among them.
    pub(crate) fn push(&mut self, selected: bool) {
        let row = self.total;
        self.total += 1;
        match self.ranges.last_mut() {
            _ if !selected => {}
            Some(last) if last.end == row => last.end += 1,
            _ => self.ranges.push(row..row + 1),
        }
    }

    /// Their indices, as ranges that ascend and don't touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether they are all rows of the file, so that it can be kept as it is.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.len() == self.total
    }

    /// How many rows the file has.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }

    /// The records of these rows.
    #[must_use]
    pub fn select(&self, records: &RecordList) -> RecordList {
        let mut ranges = self.ranges.iter().peekable();
        let selected = |(row, _): &(usize, RecordId)| {
            while ranges.next_if(|range| range.end <= *row).is_some() {}
            ranges.peek().is_some_and(|range| range.start <= *row)
        };
        records.iter().enumerate().filter(selected).map(|(_, record)| record).collect()
    }
}
