//! The ledgers' rows held against the rows of the table's own files. Pure, and by counts alone.
//!
//! An Icefall snapshot's rows stand in the data files that it added, so ledger and files are compared snapshot by
//! snapshot. Rows that are missing there may stand elsewhere since, and where they may depends on who moved them: a
//! `replace` keeps rows, so its files make up for what it took; an `overwrite` puts other rows in the place of what it
//! took, so nothing is proved by its number of rows; a snapshot that expired can't be asked what it was, so its files make
//! up for what is missing, and the proof is one by totals alone and is called that. What a visible `overwrite` or `delete`
//! took out of our files is made up for by nobody.

use std::collections::BTreeMap;

use iceberg::spec::{Operation, SnapshotRef, TableMetadata};
use icefall_ledger::SequenceNumber;
use icefall_tables::SOURCES_KEY;
use serde::Serialize;

use super::ledgers::RowsBySnapshot;

/// What the counts of rows could prove.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CountProof {
    /// The files of each snapshot hold as many rows as the ledgers say that it settled.
    BySnapshot,
    /// Snapshots that keep all rows rewrote files since: what is left holds as many rows as the ledgers say, in total.
    InTotal,
    /// The same, but the snapshots that rewrote files are no longer shown, so what they did is not known.
    InTotalUnseen,
    /// They don't.
    None,
}

/// A snapshot whose files hold more or fewer rows than it settled.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Uneven {
    pub(crate) sequence_number: SequenceNumber,
    /// The snapshot's id, while the table still knows it.
    pub(crate) snapshot: Option<i64>,
    /// What it did, as its summary says.
    pub(crate) operation: Option<&'static str>,
    pub(crate) settled: u64,
    pub(crate) in_files: u64,
}

/// Settled rows that a snapshot of others took out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Taken {
    pub(crate) snapshot: i64,
    pub(crate) operation: &'static str,
    pub(crate) rows: u64,
}

/// The table's files, counted.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Counted {
    pub(crate) table: String,
    pub(crate) proof: CountProof,
    /// Rows that the ledgers of all sources hold for this branch.
    pub(crate) settled: u64,
    /// Rows in its files.
    pub(crate) in_files: u64,
    /// Rows that the files lack.
    pub(crate) lost: u64,
    /// Rows that others' rows stand in the place of: the same, perhaps, and perhaps not.
    pub(crate) overwritten: u64,
    /// Rows that the files have and no ledger does.
    pub(crate) surplus: u64,
    /// Rows that others added in snapshots of their own.
    pub(crate) appended_by_others: u64,
    /// Delete files: rows that they hide are still counted.
    pub(crate) delete_files: u64,
    /// Whether its rows were looked up by value.
    pub(crate) by_value: bool,
    pub(crate) uneven: Vec<Uneven>,
    pub(crate) taken: Vec<Taken>,
}

/// What is known of a snapshot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Known {
    pub(crate) id: i64,
    pub(crate) operation: &'static str,
    pub(crate) is_ours: bool,
}

/// The snapshots that a table's metadata shows, by their sequence number.
pub(crate) type SnapshotsKnown = BTreeMap<SequenceNumber, Known>;

/// The snapshots that `metadata` shows.
pub(crate) fn known(metadata: &TableMetadata) -> SnapshotsKnown {
    let one = |snapshot: &SnapshotRef| {
        let summary = snapshot.summary();
        let operation = match summary.operation {
            Operation::Append => "append",
            Operation::Replace => "replace",
            Operation::Overwrite => "overwrite",
            Operation::Delete => "delete",
        };
        let is_ours = summary.additional_properties.contains_key(SOURCES_KEY);
        let known = Known { id: snapshot.snapshot_id(), operation, is_ours };
        (SequenceNumber(snapshot.sequence_number()), known)
    };
    metadata.snapshots().map(one).collect()
}

/// What a snapshot of others took out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Removal {
    pub(crate) snapshot: i64,
    pub(crate) operation: &'static str,
    /// Rows of the files that it removed, by the snapshot that had added these.
    pub(crate) rows: RowsBySnapshot,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides<'a> {
    /// Rows that were settled here.
    pub(crate) settled: &'a RowsBySnapshot,
    /// Those that other branches settled: this one may have inherited their files.
    pub(crate) inherited: &'a RowsBySnapshot,
    /// Rows in the branch's files, by the snapshot that added these.
    pub(crate) in_files: &'a RowsBySnapshot,
    pub(crate) known: &'a SnapshotsKnown,
    pub(crate) removals: &'a [Removal],
}

/// Where rows are missing, and where rows stand that may be these.
#[derive(Clone, Copy, Debug, Default)]
struct Pools {
    /// Missing in the files of the snapshots that settled them.
    missing: u64,
    /// More than their snapshot settled: no rewrite explains that, since its files are its own.
    doubled: u64,
    rewritten: u64,
    overwriting: u64,
    appended: u64,
    unseen: u64,
}

impl Sides<'_> {
    /// Whether any snapshot's files lack rows, so that it has to be known who took them out.
    pub(crate) fn lacks_rows(&self) -> bool {
        self.settled.iter().any(|(number, rows)| of(self.in_files, *number) < *rows)
    }

    pub(crate) fn counted(&self, table: String) -> Counted {
        let mut uneven = Vec::new();
        let mut pools = Pools::default();
        let mut numbers: Vec<_> = self.settled.keys().chain(self.in_files.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        for sequence_number in numbers {
            let (here, there) = (of(self.settled, sequence_number), of(self.in_files, sequence_number));
            if here == there || (here == 0 && of(self.inherited, sequence_number) == there) {
                continue;
            }
            let snapshot = self.known.get(&sequence_number);
            pools.missing += here.saturating_sub(there);
            *self.pool(&mut pools, sequence_number) += there.saturating_sub(here);
            uneven.push(Uneven {
                sequence_number,
                snapshot: snapshot.map(|snapshot| snapshot.id),
                operation: snapshot.map(|snapshot| snapshot.operation),
                settled: here,
                in_files: there,
            });
        }
        self.sort_out_rewritten(&mut pools);
        let taken = self.taken();
        let (made_up_unseen, overwritten, lost) = pools.settle(taken.iter().map(|taken| taken.rows).sum());
        let surplus = pools.doubled + pools.rewritten + pools.unseen;
        let proof = match (lost + overwritten + surplus, pools.missing, made_up_unseen) {
            (0, 0, _) => CountProof::BySnapshot,
            (0, _, 0) => CountProof::InTotal,
            (0, ..) => CountProof::InTotalUnseen,
            _ => CountProof::None,
        };
        Counted {
            table,
            proof,
            settled: self.settled.values().sum(),
            in_files: self.in_files.values().sum(),
            lost,
            overwritten,
            surplus,
            appended_by_others: pools.appended + pools.overwriting,
            delete_files: 0,
            by_value: false,
            uneven,
            taken,
        }
    }

    /// Where rows beyond what a snapshot settled belong.
    fn pool<'a>(&self, pools: &'a mut Pools, number: SequenceNumber) -> &'a mut u64 {
        if of(self.settled, number) > 0 {
            return &mut pools.doubled;
        }
        match self.known.get(&number) {
            None => &mut pools.unseen,
            Some(known) if known.is_ours => &mut pools.doubled,
            Some(known) => match known.operation {
                "replace" => &mut pools.rewritten,
                "append" => &mut pools.appended,
                _ => &mut pools.overwriting,
            },
        }
    }

    /// A rewrite takes others' rows along as well: these make up for nothing of ours. Whose those are that a snapshot
    /// added which nobody can see any more is not known, wherever they were moved to.
    fn sort_out_rewritten(&self, pools: &mut Pools) {
        let rewrites = self.removals.iter().filter(|removal| removal.operation == "replace");
        for (number, rows) in rewrites.flat_map(|removal| &removal.rows) {
            if of(self.settled, *number) > 0 {
                continue;
            }
            let moved = (*rows).min(pools.rewritten);
            if of(self.inherited, *number) > 0 {
                pools.rewritten -= moved;
                continue;
            }
            let into = match self.known.get(number) {
                Some(known) if known.is_ours || known.operation == "replace" => continue,
                Some(known) if known.operation == "append" => &mut pools.appended,
                Some(_) => &mut pools.overwriting,
                None => &mut pools.unseen,
            };
            *into += moved;
            pools.rewritten -= moved;
        }
    }

    /// Who took settled rows out and did not put them elsewhere, as far as that can still be seen.
    fn taken(&self) -> Vec<Taken> {
        // Files of rewrites, and of who is no longer shown, may hold ours.
        let may_be_ours = |number: SequenceNumber| {
            let rewrote = self.known.get(&number).is_none_or(|known| known.operation == "replace");
            of(self.settled, number) > 0 || (rewrote && of(self.inherited, number) == 0)
        };
        let one = |removal: &Removal| {
            let ours = removal.rows.iter().filter(|(number, _)| may_be_ours(**number));
            let rows = ours.map(|(_, rows)| rows).sum();
            Taken { snapshot: removal.snapshot, operation: removal.operation, rows }
        };
        let others = self.removals.iter().filter(|removal| removal.operation != "replace");
        others.map(one).filter(|taken| taken.rows > 0).collect()
    }
}

impl Pools {
    /// Makes up for what is missing, but for what was seen to be `taken`: how many rows snapshots that nobody can see
    /// any more make up for, how many rows others' stand in the place of, and how many are lost.
    fn settle(&mut self, taken: u64) -> (u64, u64, u64) {
        let taken = taken.min(self.missing);
        let mut left = self.missing - taken;
        let make_up = |pool: &mut u64, left: &mut u64| {
            let rows = (*pool).min(*left);
            *pool -= rows;
            *left -= rows;
            rows
        };
        make_up(&mut self.rewritten, &mut left);
        let unseen = make_up(&mut self.unseen, &mut left);
        left += taken;
        let overwritten = make_up(&mut self.overwriting, &mut left);
        (unseen, overwritten, left)
    }
}

fn of(rows: &RowsBySnapshot, number: SequenceNumber) -> u64 {
    rows.get(&number).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(i64, u64)]) -> RowsBySnapshot {
        of.iter().map(|(number, rows)| (SequenceNumber(*number), *rows)).collect()
    }

    /// A removal: the number of its snapshot, what that was, and the rows with the snapshot that had added them.
    type Removed<'a> = (i64, &'static str, &'a [(i64, u64)]);

    fn compared(
        settled: &[(i64, u64)],
        in_files: &[(i64, u64)],
        others: &[(i64, &'static str)],
        removed: &[Removed<'_>],
    ) -> Counted {
        let other = |(number, operation): &(i64, &'static str)| {
            (SequenceNumber(*number), Known { id: *number, operation, is_ours: false })
        };
        let removal = |(snapshot, operation, of): &Removed<'_>| Removal {
            snapshot: *snapshot,
            operation,
            rows: rows(of),
        };
        let removals: Vec<Removal> = removed.iter().map(removal).collect();
        let sides = Sides {
            settled: &rows(settled),
            inherited: &rows(&[(9, 4)]),
            in_files: &rows(in_files),
            known: &others.iter().map(other).collect(),
            removals: &removals,
        };
        sides.counted("a.b".to_owned())
    }

    #[test]
    fn as_many_rows_in_each_snapshot_is_the_best_proof() {
        let all = compared(&[(1, 5), (2, 7)], &[(1, 5), (2, 7)], &[], &[]);
        assert_eq!((all.proof, all.settled, all.in_files), (CountProof::BySnapshot, 12, 12));
        assert!(all.uneven.is_empty());
        assert_eq!(
            compared(&[(1, 5)], &[(1, 5), (9, 4)], &[], &[]).proof,
            CountProof::BySnapshot,
            "inherited"
        );
    }

    #[test]
    fn compacted_files_are_compared_by_their_sum() {
        let removed: [Removed<'_>; 1] = [(3, "replace", &[(1, 5), (2, 7)])];
        let all = compared(&[(1, 5), (2, 7), (4, 1)], &[(3, 12), (4, 1)], &[(3, "replace")], &removed);
        assert_eq!((all.proof, all.lost, all.surplus), (CountProof::InTotal, 0, 0));
    }

    #[test]
    fn a_rewrite_that_nobody_can_see_any_more_is_a_weaker_proof_and_called_that() {
        let all = compared(&[(1, 5), (2, 7)], &[(3, 12)], &[], &[]);
        assert_eq!((all.proof, all.lost, all.surplus), (CountProof::InTotalUnseen, 0, 0));
        // One of the two can be seen.
        let all = compared(&[(1, 5), (2, 7)], &[(3, 5), (4, 7)], &[(4, "replace")], &[]);
        assert_eq!(all.proof, CountProof::InTotalUnseen);
        // What it rewrote came from one that can't.
        let removed: [Removed<'_>; 1] = [(4, "replace", &[(3, 12)])];
        let all = compared(&[(1, 5), (2, 7)], &[(4, 12)], &[(4, "replace")], &removed);
        assert_eq!(all.proof, CountProof::InTotalUnseen);
    }

    #[test]
    fn what_is_lost_doubled_or_somebody_elses_is_told_apart() {
        let lost = compared(&[(1, 5), (2, 7)], &[(1, 5)], &[], &[]);
        assert_eq!((lost.proof, lost.lost, lost.uneven.len()), (CountProof::None, 7, 1));
        let doubled = compared(&[(1, 5)], &[(1, 5), (2, 5)], &[], &[]);
        assert_eq!((doubled.proof, doubled.surplus), (CountProof::None, 5));
        let theirs = compared(&[(1, 5)], &[(1, 5), (2, 5)], &[(2, "append")], &[]);
        assert_eq!((theirs.proof, theirs.appended_by_others), (CountProof::BySnapshot, 5));
        let both = compared(&[(1, 5)], &[(1, 0), (2, 5)], &[(2, "append")], &[]);
        assert_eq!((both.proof, both.lost, both.appended_by_others), (CountProof::None, 5, 5));
    }

    #[test]
    fn rows_that_an_overwrite_put_in_make_up_for_none_that_it_took() {
        let removed: [Removed<'_>; 1] = [(2, "overwrite", &[(1, 50)])];
        let all = compared(&[(1, 50)], &[(2, 50)], &[(2, "overwrite")], &removed);
        assert_eq!((all.proof, all.lost, all.overwritten), (CountProof::None, 0, 50));
        assert_eq!(all.taken, [Taken { snapshot: 2, operation: "overwrite", rows: 50 }]);
        let fewer = compared(&[(1, 50)], &[(2, 49)], &[(2, "overwrite")], &removed);
        assert_eq!((fewer.lost, fewer.overwritten), (1, 49));
    }

    /// The sums are equal, and yet the rows that were deleted are not those that others put in.
    #[test]
    fn what_was_seen_to_be_deleted_is_made_up_for_by_nobody() {
        let removed: [Removed<'_>; 1] = [(3, "delete", &[(1, 50)])];
        let all = compared(&[(1, 50)], &[(2, 50)], &[(3, "delete")], &removed);
        assert_eq!((all.proof, all.lost, all.surplus), (CountProof::None, 50, 50));
        // It deleted from a file that a rewrite had made of ours.
        let removed: [Removed<'_>; 2] = [(3, "delete", &[(2, 50)]), (2, "replace", &[(1, 50)])];
        let all = compared(&[(1, 50)], &[(7, 50)], &[(2, "replace"), (3, "delete")], &removed);
        assert_eq!((all.proof, all.lost), (CountProof::None, 50));
    }

    /// A compaction moves what others appended as well.
    #[test]
    fn others_rows_that_a_rewrite_took_along_make_up_for_none_of_ours() {
        let removed: [Removed<'_>; 1] = [(3, "replace", &[(1, 5), (2, 5)])];
        let others = [(2, "append"), (3, "replace")];
        let well = compared(&[(1, 5)], &[(3, 10)], &others, &removed);
        assert_eq!((well.proof, well.appended_by_others), (CountProof::InTotal, 5));
        let lost = compared(&[(1, 10)], &[(3, 10)], &others, &removed);
        assert_eq!((lost.proof, lost.lost, lost.appended_by_others), (CountProof::None, 5, 5));
    }

    #[test]
    fn more_rows_than_a_snapshot_settled_make_up_for_none_that_another_lacks() {
        let all = compared(&[(1, 5), (2, 5)], &[(1, 10)], &[], &[]);
        assert_eq!((all.proof, all.lost, all.surplus), (CountProof::None, 5, 5));
    }
}
