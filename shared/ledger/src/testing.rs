//! What the tests of this crate are made of: short ways to records, batch manifests and rounds.

use std::collections::HashMap;

use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Branch, DataFileEntry, DeadLetterFile, Encoding, Fingerprint, Offset,
    Partition, RecordId, RecordList, SchemaId, SpecId, TableUuid,
};
use uuid::Uuid;

use crate::{
    Ancestor, Chain, ChainEnd, Held, Ledger, LedgerError, LedgerId, LedgerObject, Lookup, ObjectHash, Rewind,
    Round, RoundResult, SequenceNumber, SnapshotId, SnapshotMark, Tail, Wanted,
};

pub(crate) fn record(partition: i64, offset: i64, fingerprint: u32) -> RecordId {
    RecordId {
        partition: Partition::new(partition).expect("a partition"),
        offset: Offset::new(offset).expect("an offset"),
        encoding: Encoding::Raw,
        fingerprint: Fingerprint(fingerprint),
    }
}

pub(crate) fn table() -> TableUuid {
    TableUuid(Uuid::from_u128(7))
}

pub(crate) fn ledger_id() -> LedgerId {
    format!("{}/main/demo/local/clicks", table()).parse().expect("an id")
}

fn data_file(records: RecordList) -> BatchFile {
    let data_file = DataFileEntry {
        path: "s3://lake/t/data/a.parquet".to_owned(),
        record_count: records.len() as u64,
        file_size_in_bytes: 4,
        checksum: icefall_manifest::Checksum(9),
        partition: vec![],
        column_sizes: [].into(),
        value_counts: [].into(),
        null_value_counts: [].into(),
        nan_value_counts: [].into(),
        lower_bounds: [].into(),
        upper_bounds: [].into(),
        split_offsets: vec![],
    };
    BatchFile { data_file, records }
}

/// A batch manifest with one data file for each of `files`, and `dead` letters.
pub(crate) fn batch(files: &[&[RecordId]], dead: &[RecordId]) -> BatchManifest {
    let list = |records: &[RecordId]| records.iter().copied().collect::<RecordList>();
    let key = "dead-letters/x.jsonl.zst".to_owned();
    BatchManifest {
        id: BatchId(Uuid::from_u128(1)),
        made_at_ms: 0,
        source: ledger_id().source,
        table: "shop.clicks".try_into().expect("a name"),
        branch: Branch::main(),
        table_uuid: table(),
        schema_id: SchemaId(0),
        spec_id: SpecId(0),
        files: files.iter().map(|records| data_file(list(records))).collect(),
        dead_letters: (!dead.is_empty()).then(|| DeadLetterFile { key, records: list(dead) }),
        newest_record_ms: None,
    }
}

/// A table's property and the ops bucket, as a committer finds them.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) objects: HashMap<ObjectHash, Vec<u8>>,
    pub(crate) tail: Option<Tail>,
    pub(crate) commits: i64,
    pub(crate) reads: usize,
}

impl World {
    pub(crate) fn new() -> Self {
        let ledger = Ledger::new(ledger_id());
        Self { ledger, objects: HashMap::new(), tail: None, commits: 0, reads: 0 }
    }

    /// Looks up, cold: nothing is kept from earlier rounds.
    pub(crate) fn look_up(&mut self, batches: &[BatchManifest]) -> Held {
        self.drive(Lookup::new(&self.ledger, &Wanted::of(batches)))
    }

    /// Looks up with the tail of the round before.
    pub(crate) fn look_up_warm(&mut self, batches: &[BatchManifest]) -> Held {
        let wanted = Wanted::of(batches);
        match self.tail.clone() {
            Some(tail) => self.drive(Lookup::with_tail(&self.ledger, &wanted, tail)),
            None => self.drive(Lookup::new(&self.ledger, &wanted)),
        }
    }

    fn drive(&mut self, mut lookup: Lookup) -> Held {
        self.reads = 0;
        while let needed = lookup.needed()
            && !needed.is_empty()
        {
            for hash in needed {
                self.reads += 1;
                lookup.supply(hash, &self.objects[&hash]).expect("we wrote it");
            }
        }
        lookup.finish().expect("nothing is needed any more")
    }

    pub(crate) fn round(&self, held: Held) -> Round {
        Round::new(self.ledger.clone(), held).expect("looked up in this very ledger")
    }

    /// Commits a round: its objects are put, and the ledger is read back from its property.
    pub(crate) fn commit(&mut self, round: Round) -> RoundResult {
        self.commits += 1;
        let (id, sequence_number) = (SnapshotId(self.commits * 31), SequenceNumber(self.commits));
        let result = round.finish(SnapshotMark { id, sequence_number }).expect("a property");
        let put = |LedgerObject { hash, bytes }: LedgerObject| (hash, bytes);
        self.objects.extend(result.objects.iter().cloned().map(put));
        self.ledger =
            Ledger::read(&result.property_name, &result.property_value, table()).expect("we wrote it");
        assert_eq!(self.ledger, result.ledger);
        self.tail.clone_from(&result.tail);
        result
    }

    /// Commits `batches`, which are all free, warm.
    pub(crate) fn settle(&mut self, batches: &[BatchManifest]) -> RoundResult {
        let held = self.look_up_warm(batches);
        let mut round = self.round(held);
        for batch in batches {
            round.accept(batch).expect("it is free");
        }
        self.commit(round)
    }
}

/// Snapshots of the world, by the sequence numbers that it gave them.
pub(crate) fn chain(numbers: impl IntoIterator<Item = i64>, end: ChainEnd) -> Chain {
    let ancestor = |number: i64| Ancestor {
        mark: SnapshotMark { id: SnapshotId(number * 31), sequence_number: SequenceNumber(number) },
        is_ours: false,
        picked: None,
    };
    Chain { snapshots: numbers.into_iter().map(ancestor).collect(), end }
}

/// Rewinds the world's ledger to `head`; gives how many rows are free again.
pub(crate) fn rewind(world: &mut World, head: &Chain) -> Result<usize, LedgerError> {
    let mut rewind = Rewind::new(world.ledger.clone(), head)?;
    while let Some(hash) = rewind.needed().first().copied() {
        rewind.supply(hash, &world.objects[&hash])?;
    }
    let rows = rewind.rows();
    let number = world.commits + 1;
    let mark = SnapshotMark { id: SnapshotId(number * 31), sequence_number: SequenceNumber(number) };
    let result = rewind.finish(mark)?;
    world.commits = number;
    world.objects.extend(result.objects.iter().map(|object| (object.hash, object.bytes.clone())));
    (world.ledger, world.tail) = (result.ledger, result.tail);
    Ok(rows)
}
