//! A year of a busy source's ledger, round by round: what a round puts, how large the property is, and how many objects
//! a look-up reads. The index tree exists for these three, so they are measured on it as it is shipped.
//!
//! `cargo run --release --example year` takes some minutes. The test below runs the same with fewer partitions, for as
//! many rounds as it takes until the tree has three levels.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(clippy::expect_used, reason = "what was just written can be read")]

use std::collections::HashMap;
use std::ops::Range;

use icefall_ledger::{
    Ledger, LedgerId, Lookup, ObjectHash, Round, RoundResult, SequenceNumber, SnapshotId, SnapshotMark, Tail,
    Wanted,
};
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Branch, Checksum, DataFileEntry, Encoding, Fingerprint, Offset,
    Partition, RecordId, RecordList, SchemaId, SpecId, TableUuid,
};
use uuid::Uuid;

const MINUTES_OF_A_YEAR: i64 = 365 * 24 * 60;
/// Records of a transaction; its marker takes one offset more.
const RECORDS: i64 = 10;
/// One round of so many brings in one partition what an earlier one should have brought.
const ONE_IS_LATE: i64 = 50;
/// By how many rounds.
const LATE_BY: i64 = 45;

/// A topic of transactions, one per partition and round.
#[derive(Clone, Copy)]
struct Topic {
    partitions: i64,
}

/// What a year comes to.
#[derive(Debug, Default)]
struct Figures {
    rounds: i64,
    records: usize,
    put: Bytes,
    property: usize,
    /// Objects that the committer read to settle records that came in order, or late.
    read_on_the_way: usize,
    /// For rounds that are delivered again at the end, the oldest first.
    read_again: Vec<usize>,
}

#[derive(Debug, Default)]
struct Bytes {
    most: usize,
    all: usize,
}

fn main() {
    let topic = Topic { partitions: 64 };
    let figures = topic.run(MINUTES_OF_A_YEAR, |round| println!("{round} of {MINUTES_OF_A_YEAR} rounds"));
    let rounds = usize::try_from(figures.rounds).expect("it fits");
    println!("{} rounds of {} partitions settled {} records", rounds, topic.partitions, figures.records);
    println!("put per round: {} bytes at most, {} on average", figures.put.most, figures.put.all / rounds);
    println!("the property: {} bytes at most", figures.property);
    println!("objects read by all rounds together: {}", figures.read_on_the_way);
    println!("objects read for one round delivered again, from the oldest on: {:?}", figures.read_again);
}

impl Topic {
    fn run(self, rounds: i64, tell: impl Fn(i64)) -> Figures {
        let mut bucket = Bucket::new(rounds);
        let (mut ledger, mut tail) = (Ledger::new(id()), None);
        let mut figures = Figures { rounds, ..Figures::default() };
        for round in 0..rounds {
            if round % 10_000 == 0 {
                tell(round);
            }
            let batch = self.batch(round);
            let lookup = looked_up(&ledger, tail.take(), &batch);
            let (held, read) = bucket.read(lookup);
            figures.read_on_the_way += read;
            let mut decided = Round::new(ledger, held).expect("looked up in this very ledger");
            decided.accept(&batch).expect("it is new");
            let mark = SnapshotMark { id: SnapshotId(round + 1), sequence_number: SequenceNumber(round + 1) };
            let result = decided.finish(mark).expect("a property");
            figures.add(&result);
            bucket.put(round, &result);
            (ledger, tail) = (result.ledger, result.tail);
        }
        figures.read_again =
            bucket.kept.iter().map(|round| bucket.read_again(&ledger, &self.batch(*round))).collect();
        figures
    }

    /// What a round brings: a transaction of each partition, but for one that comes with a later round.
    fn batch(self, round: i64) -> BatchManifest {
        let due = |partition: i64| (partition, round);
        let held_back =
            |round: i64| (round % ONE_IS_LATE == 0).then_some((round / ONE_IS_LATE) % self.partitions);
        let now = (0..self.partitions).filter(|partition| held_back(round) != Some(*partition)).map(due);
        let late = round.checked_sub(LATE_BY).filter(|earlier| *earlier >= 0);
        let late = late.and_then(|earlier| Some((held_back(earlier)?, earlier)));
        let mut transactions: Vec<_> = now.chain(late).collect();
        transactions.sort_unstable();
        let records = transactions.into_iter().flat_map(|(partition, round)| transaction(partition, round));
        batch(records.collect())
    }
}

impl Figures {
    fn add(&mut self, result: &RoundResult) {
        let bytes = result.objects.iter().map(|object| object.bytes.len()).sum();
        self.records += result.rows;
        self.put.most = self.put.most.max(bytes);
        self.put.all += bytes;
        self.property = self.property.max(result.property_value.len());
    }
}

/// The ops bucket: all sealed nodes, the newest segments, and those that are read again at the end with what may
/// stand around them. All segments of a year would be tens of gigabytes.
struct Bucket {
    kept: Vec<i64>,
    objects: HashMap<ObjectHash, Vec<u8>>,
    /// Segments that are dropped when they are no longer among the newest, by round.
    newest: HashMap<i64, ObjectHash>,
}

/// So many rounds around one may hold offsets between its own.
const AROUND: i64 = LATE_BY + 1;

impl Bucket {
    fn new(rounds: i64) -> Self {
        let kept = [0, rounds / 3, rounds / 2, rounds - rounds / 50, rounds - 60, rounds - 1].into();
        Self { kept, objects: HashMap::new(), newest: HashMap::new() }
    }

    fn put(&mut self, round: i64, result: &RoundResult) {
        self.objects.extend(result.objects.iter().map(|object| (object.hash, object.bytes.clone())));
        let around = |kept: &i64| -> Range<i64> { kept - AROUND..kept + AROUND + 1 };
        if !self.kept.iter().any(|kept| around(kept).contains(&round)) {
            self.newest.extend(result.segment().map(|hash| (round, hash)));
        }
        if let Some(old) = self.newest.remove(&(round - 2 * AROUND)) {
            self.objects.remove(&old);
        }
    }

    fn read(&self, mut lookup: Lookup) -> (icefall_ledger::Held, usize) {
        let mut read = 0;
        while let needed = lookup.needed()
            && !needed.is_empty()
        {
            for hash in needed {
                let bytes = self.objects.get(&hash).expect("it was put, and kept");
                lookup.supply(hash, bytes).expect("it is what was put");
                read += 1;
            }
        }
        (lookup.finish().expect("nothing is needed any more"), read)
    }

    /// How many objects a committer reads that has just started, for a batch that is settled.
    fn read_again(&self, ledger: &Ledger, batch: &BatchManifest) -> usize {
        let (held, read) = self.read(looked_up(ledger, None, batch));
        let round = Round::new(ledger.clone(), held).expect("looked up in this very ledger");
        let verdict = round.decide(batch).expect("decided");
        assert!(matches!(verdict, icefall_ledger::Verdict::Duplicate(_)), "{verdict:?}");
        read
    }
}

fn looked_up(ledger: &Ledger, tail: Option<Tail>, batch: &BatchManifest) -> Lookup {
    let wanted = Wanted::of([batch]);
    match tail {
        Some(tail) => Lookup::with_tail(ledger, &wanted, tail),
        None => Lookup::new(ledger, &wanted),
    }
}

fn transaction(partition: i64, round: i64) -> impl Iterator<Item = RecordId> {
    let first = round * (RECORDS + 1);
    (first..first + RECORDS).map(move |offset| RecordId {
        partition: Partition::new(partition).expect("a partition"),
        offset: Offset::new(offset).expect("an offset"),
        encoding: Encoding::Raw,
        fingerprint: fingerprint(partition, offset),
    })
}

/// Evenly spread, as those of real records are, so that nothing compresses them.
fn fingerprint(partition: i64, offset: i64) -> Fingerprint {
    let mixed = partition.wrapping_mul(0x9E37_79B9).wrapping_add(offset).wrapping_mul(0x2545_F491_4F6C_DD1D);
    let [.., a, b, c, d] = (mixed ^ (mixed >> 29)).to_le_bytes();
    Fingerprint(u32::from_le_bytes([a, b, c, d]))
}

const TABLE: TableUuid = TableUuid(Uuid::from_u128(7));

fn id() -> LedgerId {
    format!("{TABLE}/main/demo/local/clicks").parse().expect("an id")
}

fn batch(records: RecordList) -> BatchManifest {
    let data_file = DataFileEntry {
        path: "s3://lake/t/data/a.parquet".to_owned(),
        record_count: records.len() as u64,
        file_size_in_bytes: 4,
        checksum: Checksum(9),
        partition: vec![],
        column_sizes: [].into(),
        value_counts: [].into(),
        null_value_counts: [].into(),
        nan_value_counts: [].into(),
        lower_bounds: [].into(),
        upper_bounds: [].into(),
        split_offsets: vec![],
    };
    BatchManifest {
        id: BatchId(Uuid::from_u128(1)),
        made_at_ms: 0,
        source: id().source,
        table: "shop.clicks".try_into().expect("a name"),
        branch: Branch::main(),
        table_uuid: TABLE,
        schema_id: SchemaId(0),
        spec_id: SpecId(0),
        files: vec![BatchFile { data_file, records }],
        dead_letters: None,
        newest_record_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice as many rounds put no more, make no larger property and are read through no more objects.
    #[test]
    fn what_a_round_puts_and_reads_is_bounded_however_many_came_before() {
        const TWO_LEVELS_FULL: i64 = 128 * 128;
        let topic = Topic { partitions: 4 };
        let earlier = topic.run(TWO_LEVELS_FULL - 1, |_| ());
        let later = topic.run(2 * TWO_LEVELS_FULL - 1, |_| ());
        assert!(later.records > 2 * earlier.records - 1000);
        assert!(later.put.most * 100 < earlier.put.most * 102, "{later:?} beside {earlier:?}");
        assert!(later.property <= earlier.property + 8, "{later:?} beside {earlier:?}");
        let most = |figures: &Figures| figures.read_again.iter().copied().max();
        assert!(most(&later) <= most(&earlier).map(|most| most + 1), "{later:?} beside {earlier:?}");
    }
}
