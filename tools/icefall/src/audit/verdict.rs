//! What the findings of an audit amount to. Pure: what is wrong (faults), what can't be proved though nothing is known to
//! be wrong (doubts), under which reservations the rest is proved, and what is to be warned of.
//!
//! "Proved" is said when there is neither a fault nor a doubt, and never of records that are not settled yet.

use std::iter;

use super::counts::{CountProof, Counted};
use super::kind::Kind;
use super::progress::grouped;
use super::report::{ByValue, Report};
use super::topic::Extent;

/// The kinds that say that a record of the topic has come to rest, as it should or not.
const AT_REST: [Kind; 9] = [
    Kind::Row,
    Kind::DeadLetter,
    Kind::Replayed,
    Kind::OtherEncoding,
    Kind::Quarantined,
    Kind::Skipped,
    Kind::Missing,
    Kind::Altered,
    Kind::Doubled,
];
/// The kinds that say that it has not.
const OPEN: [Kind; 3] = [Kind::Unsettled, Kind::Released, Kind::Late];

impl Report {
    /// Records of the topic that were read.
    pub(super) fn read(&self) -> u64 {
        AT_REST.into_iter().chain(OPEN).map(|kind| self.tally.of(kind)).sum()
    }

    /// What is not there exactly once, in a few words; empty if everything is.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = Kind::ALL
            .into_iter()
            .filter(|kind| self.is_fault(*kind) && self.tally.of(*kind) > 0)
            .map(|kind| format!("{} {}", grouped(self.tally.of(kind)), kind.text()))
            .collect();
        for counted in &self.counted {
            faults.extend(self.faults_of(counted));
        }
        faults
    }

    fn is_fault(&self, kind: Kind) -> bool {
        match kind {
            Kind::RowLost => !self.may_be_unnamed(),
            Kind::Unsettled | Kind::Released => self.drained,
            kind => kind.is_fault(),
        }
    }

    fn faults_of(&self, counted: &Counted) -> Vec<String> {
        let Counted { table, lost, surplus, appended_by_others, .. } = counted;
        let mut faults = Vec::new();
        let broken = self.objects.iter().flat_map(|objects| &objects.broken);
        let rows: Vec<u64> =
            broken.filter(|broken| broken.table == *table).map(|broken| broken.rows).collect();
        if !rows.is_empty() {
            faults.push(format!(
                "{} data files of {table} are not in the store as the table names them, with {} rows, of which the \
                 topic had at most so many",
                grouped(rows.len() as u64),
                grouped(rows.iter().sum())
            ));
        }
        if *lost > 0 {
            faults.push(format!("the files of {table} hold {} rows fewer than its ledgers", grouped(*lost)));
        }
        if *surplus > 0 {
            faults
                .push(format!("the files of {table} hold {} rows more than its ledgers", grouped(*surplus)));
        }
        if *appended_by_others > 0 && !self.others_append {
            faults.push(format!(
                "the files of {table} hold {} rows that others appended: if that is as it should be, say \
                 --others-append",
                grouped(*appended_by_others)
            ));
        }
        faults
    }

    /// Whether all rows that were not found by value may be among those that don't say which record they are.
    pub(super) fn may_be_unnamed(&self) -> bool {
        self.tally.of(Kind::RowLost) <= self.by_value.map_or(0, |by_value| by_value.unnamed)
    }

    /// What keeps the rest from being proved, though nothing is known to be wrong with it.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.read() == 0 {
            doubts.push("the topic shows no record at all, so nothing could be compared".to_owned());
        } else if AT_REST.into_iter().all(|kind| self.tally.of(kind) == 0) {
            doubts.push(
                "no record of the topic is settled in any table: its pipeline has not begun, never read it, or its \
                 table was made again"
                    .to_owned(),
            );
        }
        let not_found = self.tally.of(Kind::RowLost);
        if not_found > 0 && self.may_be_unnamed() {
            doubts.push(format!(
                "{} rows were not found by value, and {} rows don't say which record they are: the former may be \
                 among the latter. Fill the columns of these rows in, or leave out --offset-columns for a proof by count",
                grouped(not_found),
                grouped(self.by_value.map_or(0, |by_value| by_value.unnamed))
            ));
        }
        for counted in &self.counted {
            doubts.extend(self.doubts_of(counted));
        }
        if self.letters_deleted > 0 && !self.deletes_are_known {
            doubts.push(format!(
                "{} delete files of the dead-letter table may hide dead letters: if somebody deleted from it and that \
                 is known, say --deletes-are-known",
                grouped(self.letters_deleted)
            ));
        }
        let replaced = self.objects.as_ref().map_or(0, |objects| objects.replaced);
        if replaced > 0 {
            doubts.push(format!(
                "{} data files were replaced while the audit ran and are gone: audit once more",
                grouped(replaced)
            ));
        }
        if self.drained {
            doubts.extend(self.held_back());
        }
        doubts
    }

    fn doubts_of(&self, counted: &Counted) -> Vec<String> {
        let Counted { table, overwritten, delete_files, .. } = counted;
        let mut doubts = Vec::new();
        if *delete_files > 0 && !self.deletes_are_known {
            doubts.push(format!(
                "{} delete files of {table} may hide rows: which, can't be told. Rewrite the table's data files so that \
                 they are applied, and audit again; or say --deletes-are-known if it is others who delete, and meant",
                grouped(*delete_files)
            ));
        }
        let found_by_value = counted.by_value
            && self.by_value.is_some_and(|by_value| by_value.unnamed == 0)
            && self.tally.of(Kind::RowLost) == 0;
        if *overwritten > 0 && !found_by_value {
            doubts.push(format!(
                "others overwrote {} settled rows of {table} and put as many in their place: whether these are the \
                 same, counts can't tell. Where the table keeps partition and offset in columns, --offset-columns can",
                grouped(*overwritten)
            ));
        }
        doubts
    }

    /// Under which reservations the rest is proved.
    pub(crate) fn reservations(&self) -> Vec<String> {
        let mut reservations = Vec::new();
        let deletes =
            self.counted.iter().map(|counted| counted.delete_files).sum::<u64>() + self.letters_deleted;
        if deletes > 0 && self.deletes_are_known {
            reservations.push("but for rows that others' delete files hide".to_owned());
        }
        if self.objects.is_none() {
            reservations.push(
                "by metadata only: the store was not asked whether the tables' data files are there"
                    .to_owned(),
            );
        }
        for Counted { table, proof, .. } in &self.counted {
            if *proof == CountProof::InTotalUnseen {
                reservations.push(format!(
                    "in {table} by the total of its rows alone, which is weaker: the snapshots that rewrote its files \
                     are no longer shown, so lost rows could be made up for by others' rows"
                ));
            }
        }
        reservations
    }

    /// What somebody has to know who reads nothing else.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .unbegun
            .iter()
            .map(|partition| {
                format!(
                    "nothing at all is settled of partition {partition}: one that is never read looks like this, and \
                     one whose records all still come; once the pipeline has drained, --drained tells"
                )
            })
            .collect();
        if !self.drained {
            warnings.extend(self.held_back());
        }
        warnings
    }

    /// Partitions that were not read to their end.
    fn held_back(&self) -> Vec<String> {
        let held_back = self.extents.iter().filter(|extent| extent.end < extent.high);
        held_back
            .map(|Extent { partition, end, high, .. }| {
                format!(
                    "partition {partition} was read up to offset {end} and not to {high}: a transaction that is still \
                     open holds the rest back, which was not compared; what is settled there counts as newer"
                )
            })
            .collect()
    }

    /// The last sentence, where nothing is wrong or in doubt.
    pub(crate) fn closing(&self) -> String {
        let open: Vec<String> = OPEN
            .into_iter()
            .filter(|kind| self.tally.of(*kind) > 0)
            .map(|kind| format!("{} {}", grouped(self.tally.of(kind)), open_text(kind)))
            .collect();
        let open = match open.as_slice() {
            [] => String::new(),
            open => format!(". Nothing is proved of {}", open.join(", ")),
        };
        let proved = "proved: every record that is settled is there exactly once".to_owned();
        let sentence: Vec<String> = iter::once(proved).chain(self.reservations()).collect();
        format!("{}{open}", sentence.join("; "))
    }

    /// What is said of the records of a kind.
    pub(super) fn text(&self, kind: Kind) -> &'static str {
        if kind == Kind::RowLost && self.may_be_unnamed() {
            return "were not found by value: they may be among the rows that don't say which record they are";
        }
        kind.text()
    }

    /// Rows that were told by value, if they were.
    pub(super) fn by_value_text(&self) -> String {
        match self.by_value {
            Some(ByValue { named, unnamed }) => format!(
                "rows by value: {} say which record they are, {} don't",
                grouped(named),
                grouped(unnamed)
            ),
            None => {
                "rows by value: not looked at; a table that keeps partition and offset in columns can be: \
                     --offset-columns"
                    .to_owned()
            }
        }
    }
}

const fn open_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Released => "records that were released from quarantine and are on their way",
        Kind::Late => "records that were settled while the audit ran",
        _ => "records that are not settled yet",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use icefall_manifest::{ClusterName, Offset, Partition, PipelineId, Source, Topic};

    use super::super::kind::Tally;
    use super::super::objects::{Broken, Objects};
    use super::*;

    fn partition(number: i64) -> Partition {
        Partition::new(number).expect("a partition")
    }

    /// So many records of each kind, in a table whose files agree.
    fn report(of: &[(Kind, u64)]) -> Report {
        let mut tally = Tally::new(10);
        for (kind, count) in of {
            for position in 0..i64::try_from(*count).expect("few") {
                tally.add(*kind, partition(0), Offset::new(position).expect("an offset"), String::new());
            }
        }
        let source = Source {
            pipeline: PipelineId::try_from("demo").expect("a name"),
            cluster: ClusterName::try_from("local").expect("a name"),
            topic: Topic::try_from("clicks").expect("a name"),
        };
        Report {
            source,
            tables: Vec::new(),
            extents: vec![Extent { partition: partition(0), start: 0, end: 9, high: 9 }],
            tally,
            counted: vec![counted(CountProof::BySnapshot)],
            objects: Some(Objects::default()),
            by_value: None,
            unbegun: Vec::new(),
            letters_deleted: 0,
            others_append: false,
            deletes_are_known: false,
            drained: false,
            notes: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    fn counted(proof: CountProof) -> Counted {
        Counted {
            table: "shop.clicks".to_owned(),
            proof,
            settled: 5,
            in_files: 5,
            lost: 0,
            overwritten: 0,
            surplus: 0,
            appended_by_others: 0,
            delete_files: 0,
            by_value: false,
            uneven: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// What is wrong, and what is in doubt.
    fn judged(report: &Report) -> (usize, usize) {
        (report.faults().len(), report.doubts().len())
    }

    #[test]
    fn what_is_not_settled_yet_is_not_called_proved() {
        let found = report(&[(Kind::Row, 5), (Kind::Unsettled, 3), (Kind::Released, 2)]);
        assert_eq!(judged(&found), (0, 0));
        let said = found.closing();
        assert!(said.ends_with(
            "Nothing is proved of 3 records that are not settled yet, 2 records that were released from quarantine and \
             are on their way"
        ), "{said}");
        let drained = Report { drained: true, ..found };
        assert_eq!(judged(&drained), (2, 0), "once it has drained, both are faults");
    }

    #[test]
    fn nothing_settled_is_nothing_proved() {
        assert_eq!(judged(&report(&[(Kind::Unsettled, 3)])), (0, 1));
        assert_eq!(judged(&report(&[])), (0, 1));
        assert_eq!(judged(&report(&[(Kind::Gone, 3)])), (0, 1), "the topic has none of it");
        let unbegun =
            Report { unbegun: vec![partition(1)], ..report(&[(Kind::Row, 5), (Kind::Unsettled, 3)]) };
        assert_eq!((judged(&unbegun), unbegun.warnings().len()), ((0, 0), 1));
    }

    #[test]
    fn delete_files_leave_it_unproved_until_somebody_knows_of_them() {
        let with = |known| Report {
            counted: vec![Counted { delete_files: 1, ..counted(CountProof::BySnapshot) }],
            deletes_are_known: known,
            ..report(&[(Kind::Row, 5)])
        };
        assert_eq!(judged(&with(false)), (0, 1));
        assert_eq!(judged(&with(true)), (0, 0));
        assert!(with(true).closing().ends_with("; but for rows that others' delete files hide"));
        let letters = Report { letters_deleted: 1, ..report(&[(Kind::Row, 5)]) };
        assert_eq!(judged(&letters), (0, 1));
    }

    #[test]
    fn text_and_status_agree_on_rows_that_may_be_among_the_unnamed() {
        let lost = |unnamed| Report {
            by_value: Some(ByValue { named: 3, unnamed }),
            ..report(&[(Kind::Row, 5), (Kind::RowLost, 2)])
        };
        assert_eq!((judged(&lost(1)), judged(&lost(2))), ((1, 0), (0, 1)));
        assert!(lost(1).text(Kind::RowLost).contains("LOST"));
        assert!(!lost(2).text(Kind::RowLost).contains("LOST"));
        assert!(lost(2).doubts()[0].contains("leave out --offset-columns"));
    }

    #[test]
    fn overwritten_rows_are_in_doubt_unless_each_was_found_by_value() {
        let counted = Counted { overwritten: 5, ..counted(CountProof::None) };
        let plain = Report { counted: vec![counted.clone()], ..report(&[(Kind::Row, 5)]) };
        assert_eq!(judged(&plain), (0, 1));
        let counted = vec![Counted { by_value: true, ..counted }];
        let by_value = |unnamed| Report {
            by_value: Some(ByValue { named: 5, unnamed }),
            counted: counted.clone(),
            ..report(&[(Kind::Row, 5)])
        };
        assert_eq!((judged(&by_value(0)), judged(&by_value(1))), ((0, 0), (0, 1)));
    }

    #[test]
    fn how_weak_a_proof_is_stands_in_its_sentence() {
        let found = report(&[(Kind::Row, 5)]);
        assert!(found.closing().ends_with("is there exactly once"));
        let unseen =
            Report { counted: vec![counted(CountProof::InTotalUnseen)], ..report(&[(Kind::Row, 5)]) };
        assert!(unseen.closing().contains("in shop.clicks by the total of its rows alone"));
        let metadata = Report { objects: None, ..found };
        assert!(metadata.closing().contains("; by metadata only"));
    }

    #[test]
    fn a_data_file_that_is_not_there_is_a_fault() {
        let broken = Broken {
            table: "shop.clicks".to_owned(),
            path: "s3://lake/a.parquet".to_owned(),
            sequence_number: icefall_ledger::SequenceNumber(1),
            snapshot: None,
            rows: 5,
            size: 100,
            found: None,
        };
        let objects = Objects { asked: 1, broken: vec![broken], replaced: 0 };
        let found = Report { objects: Some(objects), ..report(&[(Kind::Row, 5)]) };
        assert_eq!(judged(&found), (1, 0));
        assert!(found.faults()[0].contains("1 data files of shop.clicks are not in the store"));
        let objects = Objects { asked: 1, broken: Vec::new(), replaced: 1 };
        assert_eq!(judged(&Report { objects: Some(objects), ..found }), (0, 1));
    }

    #[test]
    fn what_an_open_transaction_holds_back_is_warned_of() {
        let extents = vec![Extent { partition: partition(0), start: 0, end: 5, high: 9 }];
        let found = Report { extents, ..report(&[(Kind::Row, 5)]) };
        assert_eq!((judged(&found), found.warnings().len()), ((0, 0), 1));
        assert!(found.warnings()[0].contains("up to offset 5 and not to 9"));
        let drained = Report { drained: true, ..found };
        assert_eq!((judged(&drained), drained.warnings().len()), ((0, 1), 0));
    }
}
