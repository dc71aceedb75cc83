//! The comparison: a partition's records against what the ledgers, the dead-letter table, quarantine and the table's own
//! files hold at the same offsets. Pure, one pass, and nothing is kept but counts and what is to be named.
//!
//! All sides come in the order of their offsets, cut to the same stretch. A record counts as proved when one ledger holds its
//! offset with its fingerprint, once as a row, once as a dead letter, or as both where a dead letter was replayed; an
//! earlier incarnation's record at the same offset is no contradiction. Everything else gets the one
//! [`Kind`] that says what it is.

use icefall_ledger::{Kind as Fate, OutboxSpan, Standing};
use icefall_manifest::{Encoding, Fingerprint, Offset, Partition};

use super::kind::{Kind, Tally};

/// A record as the topic has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Its offset.
    pub offset: Offset,
    /// What it is.
    pub fingerprint: Fingerprint,
    /// Whether it has no value.
    pub tombstone: bool,
}

/// An offset with a fingerprint, as quarantine and the dead-letter table have them.
pub(crate) type Print = (Offset, Fingerprint);

/// What one table's side has of a partition, ascending by offset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side<'a> {
    /// What its ledger holds.
    pub(crate) standings: &'a [Standing],
    /// The offsets of its files' rows, where it keeps them in columns.
    pub(crate) rows: Option<&'a [Offset]>,
    /// What the dead-letter table has of it.
    pub(crate) letters: &'a [Print],
    /// Which dead letters may still be on their way there.
    pub(crate) outbox: &'a [OutboxSpan],
}

/// What is known of a partition besides its records.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) partition: Partition,
    pub(crate) sides: Vec<Side<'a>>,
    pub(crate) quarantined: &'a [Print],
    /// What was released from quarantine, and is to be settled.
    pub(crate) released: &'a [Print],
    /// The highest settled offset, in any of the tables.
    pub(crate) highest: Option<Offset>,
    /// Whether the route leaves records without a value out.
    pub(crate) skips_tombstones: bool,
    /// Where the audit ends in this partition: what is settled from there on is newer.
    pub(crate) end: i64,
}

/// What one table's ledger says of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Nothing,
    Proved(Kind),
    Doubled,
    OtherEncoding,
    Altered(Fingerprint),
}

/// A comparison under way.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    known: Known<'a>,
    tally: Tally,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(known: Known<'a>, limit: usize) -> Self {
        Self { known, tally: Tally::new(limit) }
    }

    /// Takes the topic's next record.
    #[inline]
    pub(crate) fn see(&mut self, seen: Seen) {
        if let [side] = self.known.sides.as_mut_slice()
            && side.rows.is_none()
            && let [standing, rest @ ..] = side.standings
            && standing.offset == seen.offset
            && standing.settled.fingerprint == seen.fingerprint
            && standing.settled.kind == Fate::Row
            && rest.first().is_none_or(|next| next.offset != seen.offset)
        {
            side.standings = rest;
            self.tally.count(Kind::Row);
            return;
        }
        self.pass(seen.offset.position());
        self.judge(seen);
    }

    /// What was found, once the topic has no more records in this stretch.
    pub(crate) fn finish(mut self) -> Tally {
        self.pass(i64::MAX);
        self.tally
    }

    /// Passes over what is settled below `position`, which the topic has no record of.
    fn pass(&mut self, position: i64) {
        while let Some(next) = self.next().filter(|next| next.position() < position) {
            let kind = if next.position() >= self.known.end { Kind::Newer } else { Kind::Gone };
            let sides = self.take(next);
            if sides.iter().any(|(standings, _)| !standings.is_empty()) {
                self.tally.add(kind, self.known.partition, next, String::new());
            }
            self.check_copies(next, &sides);
        }
    }

    /// The lowest offset that any side has.
    fn next(&self) -> Option<Offset> {
        let lowest = |side: &Side<'_>| {
            let rows = side.rows.and_then(<[Offset]>::first).copied();
            side.standings.first().map(|standing| standing.offset).into_iter().chain(rows).min()
        };
        self.known.sides.iter().filter_map(lowest).min()
    }

    /// What each side has at `offset`: its ledger's records, and how many rows its files have if that is known.
    fn take(&mut self, offset: Offset) -> Vec<(&'a [Standing], Option<usize>)> {
        let take = |side: &mut Side<'a>| {
            let standings;
            let there = side.standings.iter().take_while(|standing| standing.offset == offset).count();
            (standings, side.standings) = side.standings.split_at(there);
            let rows = side.rows.map(|rows| rows.iter().take_while(|row| **row == offset).count());
            side.rows = side.rows.zip(rows).and_then(|(all, count)| all.get(count..));
            (standings, rows)
        };
        self.known.sides.iter_mut().map(take).collect()
    }

    fn judge(&mut self, seen: Seen) {
        let sides = self.take(seen.offset);
        let verdicts: Vec<Verdict> = sides.iter().map(|(standings, _)| verdict(standings, seen)).collect();
        let (kind, detail) = self.kind(seen, &verdicts);
        let Known { partition, .. } = self.known;
        self.tally.add(kind, partition, seen.offset, detail);
        let holding = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Proved(_))).count();
        if holding > 1 {
            self.tally.add(Kind::SeveralTables, partition, seen.offset, String::new());
        }
        self.check_copies(seen.offset, &sides);
    }

    fn kind(&self, seen: Seen, verdicts: &[Verdict]) -> (Kind, String) {
        let plain = |kind| (kind, String::new());
        if verdicts.contains(&Verdict::Doubled) {
            return plain(Kind::Doubled);
        }
        let proved = verdicts.iter().find_map(|verdict| match verdict {
            Verdict::Proved(kind) => Some(*kind),
            _ => None,
        });
        if let Some(kind) = proved {
            return plain(kind);
        }
        if self.known.quarantined.binary_search(&(seen.offset, seen.fingerprint)).is_ok() {
            return plain(Kind::Quarantined);
        }
        if self.known.released.binary_search(&(seen.offset, seen.fingerprint)).is_ok() {
            return plain(Kind::Released);
        }
        let altered = verdicts.iter().find_map(|verdict| match verdict {
            Verdict::Altered(held) => Some(*held),
            _ => None,
        });
        if let Some(held) = altered {
            let detail = format!("settled as {:08x}, and {:08x} is in the topic", held.0, seen.fingerprint.0);
            return (Kind::Altered, detail);
        }
        if verdicts.contains(&Verdict::OtherEncoding) {
            return plain(Kind::OtherEncoding);
        }
        if seen.tombstone && self.known.skips_tombstones {
            return plain(Kind::Skipped);
        }
        let passed = self.known.highest.is_some_and(|highest| seen.offset <= highest);
        plain(if passed { Kind::Missing } else { Kind::Unsettled })
    }

    /// Holds what the ledgers have at `offset` against the dead-letter table and the tables' own rows.
    fn check_copies(&mut self, offset: Offset, sides: &[(&[Standing], Option<usize>)]) {
        let partition = self.known.partition;
        for (side, (standings, rows)) in self.known.sides.iter().zip(sides) {
            for standing in standings.iter().filter(|standing| standing.settled.kind == Fate::DeadLetter) {
                if let Some(kind) = letter(side, partition, standing) {
                    self.tally.add(kind, partition, offset, String::new());
                }
            }
            let settled = standings.iter().filter(|standing| standing.settled.kind == Fate::Row).count();
            let (kind, times) = match rows {
                Some(rows) if *rows < settled => (Kind::RowLost, rows),
                Some(rows) if *rows > settled => (Kind::RowDoubled, rows),
                _ => continue,
            };
            let detail = format!("{times} times in the files, {settled} in the ledger");
            self.tally.add(kind, partition, offset, detail);
        }
    }
}

/// What a ledger that holds `standings` at its offset says of `seen`.
fn verdict(standings: &[Standing], seen: Seen) -> Verdict {
    let same = standings.iter().filter(|standing| standing.settled.fingerprint == seen.fingerprint);
    let (rows, letters) = same.fold((0, 0), |(rows, letters), standing| match standing.settled.kind {
        Fate::Row => (rows + 1, letters),
        Fate::DeadLetter => (rows, letters + 1),
    });
    match (rows, letters) {
        (0, 0) => standings.last().map_or(Verdict::Nothing, |newest| {
            if newest.settled.encoding == Encoding::Raw {
                Verdict::Altered(newest.settled.fingerprint)
            } else {
                Verdict::OtherEncoding
            }
        }),
        (1, 0) => Verdict::Proved(Kind::Row),
        (0, 1) => Verdict::Proved(Kind::DeadLetter),
        (1, 1) => Verdict::Proved(Kind::Replayed),
        _ => Verdict::Doubled,
    }
}

/// What is to be said of a dead letter's copy in the dead-letter table; `None` where it stands there once.
fn letter(side: &Side<'_>, partition: Partition, standing: &Standing) -> Option<Kind> {
    let at = side.letters.partition_point(|(offset, _)| *offset < standing.offset);
    let there = side.letters.iter().skip(at).take_while(|(offset, _)| *offset == standing.offset);
    // What was delivered in another encoding is told by its offset alone.
    let is_it = |(_, print): &&Print| {
        standing.settled.encoding != Encoding::Raw || *print == standing.settled.fingerprint
    };
    let under_way = |span: &OutboxSpan| {
        span.partition == partition && (span.lowest..=span.highest).contains(&standing.offset)
    };
    match there.filter(is_it).count() {
        1 => None,
        0 if side.outbox.iter().any(under_way) => Some(Kind::LetterUnderWay),
        0 => Some(Kind::LetterLost),
        _ => Some(Kind::LetterDoubled),
    }
}
