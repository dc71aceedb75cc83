//! What an audit can say of a record, and how much of it was said.

use std::collections::BTreeMap;

use icefall_manifest::{Offset, Partition};
use serde::Serialize;

/// What an audit says of one offset.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The ledger holds it as a row, with the topic's fingerprint.
    Row,
    /// The ledger holds it as a dead letter, with the topic's fingerprint.
    DeadLetter,
    /// It was a dead letter and is a row by now; both with the topic's fingerprint.
    Replayed,
    /// The ledger holds its offset, and a fingerprint of what a schema registry made of it: the topic has no such bytes.
    OtherEncoding,
    /// It stands in quarantine.
    Quarantined,
    /// It has no value, and its route says that such records are left out.
    Skipped,
    /// It is newer than all that is settled of its partition: in the queue, or still to come.
    Unsettled,
    /// Its entry of quarantine was released, and it is settled nowhere yet: on its way.
    Released,
    /// It was settled or put in quarantine while the audit ran, and was not compared.
    Late,
    /// It is settled, and the topic has it no longer: retention, or compaction.
    Gone,
    /// It is settled, and newer than what the audit read.
    Newer,
    /// It is settled in more than one table, as happens when a topic's route changes.
    SeveralTables,
    /// A dead letter that is still on its way to the dead-letter table.
    LetterUnderWay,
    /// It is in the topic, and nowhere else, though newer ones of its partition are settled.
    Missing,
    /// The ledger holds another record at its offset.
    Altered,
    /// The ledger holds it more than once.
    Doubled,
    /// A dead letter that the dead-letter table lacks.
    LetterLost,
    /// A dead letter that the dead-letter table has more than once.
    LetterDoubled,
    /// A row of the ledger that the table's files lack, by value.
    RowLost,
    /// A row that the table's files have more often than the ledger, by value.
    RowDoubled,
}

impl Kind {
    pub(crate) const ALL: [Self; 20] = [
        Self::Row,
        Self::DeadLetter,
        Self::Replayed,
        Self::OtherEncoding,
        Self::Quarantined,
        Self::Skipped,
        Self::Unsettled,
        Self::Released,
        Self::Late,
        Self::Gone,
        Self::Newer,
        Self::SeveralTables,
        Self::LetterUnderWay,
        Self::Missing,
        Self::Altered,
        Self::Doubled,
        Self::LetterLost,
        Self::LetterDoubled,
        Self::RowLost,
        Self::RowDoubled,
    ];

    /// Whether a record of this kind is not there exactly once.
    pub(crate) fn is_fault(self) -> bool {
        self >= Self::Missing
    }

    /// Whether its records are listed, and not only counted.
    fn is_listed(self) -> bool {
        !matches!(self, Self::Row | Self::DeadLetter | Self::Replayed | Self::Skipped)
    }

    /// What is said of so many of them.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Row => "are rows, by offset and fingerprint",
            Self::DeadLetter => "are dead letters, by offset and fingerprint",
            Self::Replayed => "were dead letters and are rows by now, by offset and fingerprint",
            Self::OtherEncoding => {
                "are settled, by offset alone: a schema registry decoded them on their way, so no fingerprint tells"
            }
            Self::Quarantined => "stand in quarantine",
            Self::Skipped => "have no value, and their route leaves such records out",
            Self::Unsettled => {
                "are newer than all that is settled of their partition: queued, or still to come"
            }
            Self::Released => "were released from quarantine and are settled nowhere yet: on their way",
            Self::Late => "were settled or put in quarantine while the audit ran, and were not compared",
            Self::Gone => {
                "are settled, and the topic has them no longer (retention, compaction): it can prove nothing about them"
            }
            Self::Newer => "are settled, and newer than what was read of the topic",
            Self::SeveralTables => "are settled in more than one table: the topic's route was changed",
            Self::LetterUnderWay => "are dead letters on their way to the dead-letter table",
            Self::Missing => "are MISSING: in the topic and nowhere else, though newer ones are settled",
            Self::Altered => "are ALTERED: another record is settled at their offset",
            Self::Doubled => "are DOUBLED: the ledger holds them more than once",
            Self::LetterLost => "are LOST dead letters: the dead-letter table lacks them",
            Self::LetterDoubled => "are DOUBLED dead letters: the dead-letter table has them more than once",
            Self::RowLost => "are LOST rows: settled, and not in the table's files, by value",
            Self::RowDoubled => {
                "are DOUBLED rows: more often in the table's files than in the ledger, by value"
            }
        }
    }
}

/// Neighbouring offsets of which the same is said.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(crate) partition: Partition,
    pub(crate) first: Offset,
    pub(crate) last: Offset,
    /// How many: offsets without a record lie between them.
    pub(crate) count: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
}

/// How many records of each kind there are, and where, up to a limit of runs for each kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Tally {
    counts: [u64; Kind::ALL.len()],
    listed: BTreeMap<Kind, Vec<Run>>,
    limit: usize,
    /// Records whose runs were not kept.
    unlisted: BTreeMap<Kind, u64>,
}

impl Tally {
    /// Nothing so far; of each kind at most `limit` runs will be kept.
    pub(crate) fn new(limit: usize) -> Self {
        Self { counts: [0; Kind::ALL.len()], listed: BTreeMap::new(), limit, unlisted: BTreeMap::new() }
    }

    /// One more record that needs no listing.
    #[inline]
    pub(crate) fn count(&mut self, kind: Kind) {
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// One more record at this place; of one kind they come in the order of their offsets.
    pub(crate) fn add(&mut self, kind: Kind, partition: Partition, offset: Offset, detail: String) {
        self.count(kind);
        if kind.is_listed() {
            self.list(Run { kind, partition, first: offset, last: offset, count: 1, detail });
        }
    }

    fn list(&mut self, run: Run) {
        let runs = self.listed.entry(run.kind).or_default();
        if let Some(last) = runs.last_mut().filter(|last| continues(last, &run)) {
            last.last = run.last;
            last.count += run.count;
        } else if runs.len() < self.limit {
            runs.push(run);
        } else {
            *self.unlisted.entry(run.kind).or_default() += run.count;
        }
    }

    /// Takes over all that `later` has; of one partition it comes after what is here.
    pub(crate) fn absorb(&mut self, later: Self) {
        for (count, more) in self.counts.iter_mut().zip(later.counts) {
            *count += more;
        }
        later.listed.into_values().flatten().for_each(|run| self.list(run));
        for (kind, count) in later.unlisted {
            *self.unlisted.entry(kind).or_default() += count;
        }
    }

    /// How many of this kind.
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or_default()
    }

    /// The runs of this kind that were kept, and how many records are in none of them.
    pub(crate) fn runs(&self, kind: Kind) -> (&[Run], u64) {
        let unlisted = self.unlisted.get(&kind).copied().unwrap_or_default();
        (self.listed.get(&kind).map_or(&[], Vec::as_slice), unlisted)
    }

    /// Says of listed runs of one kind what turned out since: each is judged anew, offset by offset.
    pub(crate) fn revise(&mut self, kind: Kind, judge: impl Fn(Partition, Offset) -> Kind) {
        let runs = self.listed.remove(&kind).unwrap_or_default();
        for run in runs {
            // Without gaps, each offset of the run has its record; a run with gaps was never joined.
            for step in 0..u32::try_from(run.count).unwrap_or(u32::MAX) {
                let Some(offset) = run.first.plus(step) else { break };
                if let Some(count) = self.counts.get_mut(kind as usize) {
                    *count -= 1;
                }
                self.add(judge(run.partition, offset), run.partition, offset, run.detail.clone());
            }
        }
    }
}

fn continues(last: &Run, next: &Run) -> bool {
    last.partition == next.partition && last.last.plus(1) == Some(next.first) && last.detail == next.detail
}
