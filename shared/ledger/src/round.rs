//! One round of the committer for one ledger: batch manifests are decided one by one, what is
//! accepted counts for those that follow, and all of it becomes one segment and one property.
//!
//! A round is bound to the ledger that it was made for. When its commit meets a conflict, nothing of
//! it stands: load, look up and decide anew.

use icefall_manifest::{BatchManifest, DeadLetterFile, Offset, Partition, RecordId, RecordList};
use icefall_mutations::{Mutation, is};

use crate::held::{Held, Standing};
use crate::index::{Index, LedgerObject};
use crate::settlements::find;
use crate::tail::Tail;
use crate::{
    Conflict, EntryNumber, Evidence, Free, Kind, Ledger, LedgerError, LedgerId, ObjectHash, Overruled,
    Reason, Rows, Segment, Settled, Settlements, SnapshotMark, Stop, StopReason, Verdict,
};

/// A round under way.
#[derive(Clone, Debug)]
pub struct Round {
    ledger: Ledger,
    held: Held,
    accepted: Settlements,
    /// Numbered when the round ends, after what the dead-letter table has is cleared.
    dead_letters: Vec<DeadLetterFile>,
    changed: bool,
}

/// What a round comes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoundResult {
    /// The ledger as it stands once the snapshot is committed.
    pub ledger: Ledger,
    /// The property that the commit sets: its name.
    pub property_name: String,
    /// The property that the commit sets: its value.
    pub property_value: String,
    /// The objects to put, in this order, before the commit is sent. The last is the segment; there
    /// is none when the round settled no record.
    pub objects: Vec<LedgerObject>,
    /// What the next round's look-up can begin with, so that it need not read what this one wrote.
    pub tail: Option<Tail>,
    /// How many rows it settled.
    pub rows: usize,
    /// How many dead letters it settled.
    pub dead_letters: usize,
}

impl RoundResult {
    /// The segment of this round, which the snapshot's summary names; `None` if it settled nothing.
    #[must_use]
    pub fn segment(&self) -> Option<ObjectHash> {
        self.objects.last().map(|object| object.hash)
    }
}

impl Round {
    /// Begins a round on `ledger` with what a look-up of it found.
    pub fn new(ledger: Ledger, held: Held) -> Result<Self, LedgerError> {
        let newest = held.tail.as_ref().map(|tail| tail.hash);
        if newest != ledger.newest_segment && !is(Mutation::TailOfLostCommit) {
            return Err(LedgerError::StaleLookup);
        }
        Ok(Self { ledger, held, accepted: Settlements::default(), dead_letters: vec![], changed: false })
    }

    /// The ledger as it was loaded, but for a stop that this round brought and what it cleared.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is to happen with `batch`. The round is the same afterwards.
    pub fn decide(&self, batch: &BatchManifest) -> Result<Verdict, LedgerError> {
        self.decide_overruled(batch, Overruled::Nothing)
    }

    /// The same for a batch that a person released, with the doubt that was overruled.
    pub fn decide_overruled(
        &self,
        batch: &BatchManifest,
        overruled: Overruled,
    ) -> Result<Verdict, LedgerError> {
        let LedgerId { table_uuid, branch, source } = &self.ledger.id;
        if (branch, source) != (&batch.branch, &batch.source) {
            let found = LedgerId {
                table_uuid: *table_uuid,
                branch: batch.branch.clone(),
                source: batch.source.clone(),
            };
            let ledger = Box::new(self.ledger.id.clone());
            return Err(LedgerError::OtherLedger { found: Box::new(found), ledger });
        }
        if *table_uuid != batch.table_uuid && !is(Mutation::UuidIgnored) {
            let reason = Reason::OtherTable { named: batch.table_uuid, actual: *table_uuid };
            return Ok(Verdict::Quarantine(reason));
        }
        if let Some(stop) = self.ledger.stop.filter(|_| !is(Mutation::StopPassedOver)) {
            return Ok(Verdict::Stopped(stop));
        }
        let mut tally = Tally::default();
        let files = batch.files.iter().map(|file| self.weigh(&file.records, overruled, &mut tally));
        let files: Vec<Rows> = files.collect::<Result<_, _>>()?;
        let dead_letters =
            batch.dead_letters.iter().map(|file| self.weigh(&file.records, overruled, &mut tally));
        let dead_letters: Vec<Rows> = dead_letters.collect::<Result<_, _>>()?;
        let dead_letters = dead_letters.into_iter().next().unwrap_or_default();
        Ok(tally.verdict(Free { files, dead_letters }))
    }

    /// Settles all records of `batch`: one that the verdict was to commit, or the trimmed form of
    /// one. Nothing is settled unless every record is free.
    pub fn accept(&mut self, batch: &BatchManifest) -> Result<(), LedgerError> {
        self.accept_overruled(batch, Overruled::Nothing)
    }

    /// The same for a batch that a person released, with the doubt that was overruled.
    pub fn accept_overruled(
        &mut self,
        batch: &BatchManifest,
        overruled: Overruled,
    ) -> Result<(), LedgerError> {
        let verdict = self.decide_overruled(batch, overruled)?;
        if verdict != Verdict::Commit {
            return Err(LedgerError::NotToCommit { batch: batch.id, verdict: Box::new(verdict) });
        }
        let rows = batch.files.iter().flat_map(|file| file.records.iter()).map(|record| (Kind::Row, record));
        let dead = batch.dead_letters.iter().filter(|_| !is(Mutation::LettersOutsideLedger));
        let dead = dead.flat_map(|file| file.records.iter());
        let records = rows.chain(dead.map(|record| (Kind::DeadLetter, record))).collect();
        self.accepted.extend(records).map_err(LedgerError::Repeated)?;
        self.dead_letters.extend(batch.dead_letters.clone());
        self.changed = true;
        Ok(())
    }

    /// Lets the source stand still in this table from now on, because of `conflict`. What the round
    /// accepted before stands.
    pub fn stop(&mut self, conflict: Conflict, now_ms: u64) {
        if self.ledger.stop.is_none() && !is(Mutation::StopUnwritten) {
            self.ledger.stop =
                Some(Stop { reason: StopReason::OtherRecord, since_ms: now_ms, struck: conflict });
            self.changed = true;
        }
    }

    /// Drops the outbox's entries up to `applied`, which a load of the dead-letter table showed to
    /// be in it. Worth no commit of its own.
    pub fn clear_outbox(&mut self, applied: EntryNumber) -> Result<(), LedgerError> {
        self.ledger.outbox.clear_through(applied)
    }

    /// Whether there is anything to commit.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        self.changed
    }

    /// The round's objects and property, for a commit that adds `snapshot`.
    pub fn finish(self, snapshot: SnapshotMark) -> Result<RoundResult, LedgerError> {
        let Self { mut ledger, held, accepted, dead_letters, .. } = self;
        let counts = counts(&accepted);
        ledger.last_snapshot = Some(snapshot);
        for file in &dead_letters {
            ledger.outbox.push(file);
        }
        for (partition, records) in accepted.partitions() {
            let settled = records.last().map(|(offset, _)| *offset);
            let highest = ledger.highest.get(&partition).copied().max(settled);
            ledger.highest.extend(highest.map(|highest| (partition, highest)));
        }
        let (objects, tail) = sealed(&ledger, held.tail, accepted, snapshot);
        ledger.newest_segment = tail.as_ref().map(|tail| tail.hash);
        let (property_name, property_value) = ledger.property(snapshot)?;
        let (rows, dead_letters) = counts;
        Ok(RoundResult { ledger, property_name, property_value, objects, tail, rows, dead_letters })
    }

    /// Which records of `list` are free; the rest is added to `tally`.
    fn weigh(&self, list: &RecordList, overruled: Overruled, tally: &mut Tally) -> Result<Rows, LedgerError> {
        let mut rows = Rows::default();
        let mut view: Option<View<'_>> = None;
        for record in list.iter() {
            let view = match view {
                Some(ref view) if view.partition == record.partition => view,
                _ => view.insert(self.view(record.partition)),
            };
            let weight = self.weight(view, overruled, &record)?;
            rows.push(weight == Weight::Free);
            tally.add(weight);
        }
        Ok(rows)
    }

    fn view(&self, partition: Partition) -> View<'_> {
        View {
            partition,
            highest: self.ledger.highest.get(&partition).copied(),
            held: self.held.partition(partition),
            accepted: self.accepted.partition(partition),
        }
    }

    fn weight(
        &self,
        view: &View<'_>,
        overruled: Overruled,
        record: &RecordId,
    ) -> Result<Weight, LedgerError> {
        let reached = |highest: &Offset| *highest >= record.offset;
        if (is(Mutation::HighestForRecords) && view.highest.as_ref().is_some_and(reached))
            || (is(Mutation::HighestOfLedger) && self.ledger.highest.values().any(reached))
            || (is(Mutation::RangeForRecords)
                && view
                    .held
                    .first()
                    .zip(view.held.last())
                    .is_some_and(|(first, last)| first.offset <= record.offset && reached(&last.offset)))
        {
            return Ok(Weight::Held(Evidence::Committed));
        }
        let fresh = find(view.accepted, record.offset);
        if view.highest.is_none_or(|highest| highest < record.offset) {
            return Ok(self.compare(&[], fresh, overruled, record));
        }
        if !self.held.wanted.contains(view.partition, record.offset) {
            return Err(LedgerError::NotLookedUp(*record));
        }
        Ok(self.compare(view.at(record.offset), fresh, overruled, record))
    }

    /// Weighs `record` against all that stands at its offset, in the table and in this round.
    fn compare(
        &self,
        held: &[Standing],
        fresh: Option<Settled>,
        overruled: Overruled,
        record: &RecordId,
    ) -> Weight {
        if held.iter().any(|standing| is_same(standing.settled, record)) {
            return Weight::Held(Evidence::Committed);
        }
        if fresh.is_some_and(|settled| is_same(settled, record)) {
            return Weight::Held(Evidence::ThisRound);
        }
        let present = |standing: &&Standing| standing.incarnation == self.ledger.incarnation;
        let current = held.iter().filter(present).map(|standing| standing.settled).chain(fresh);
        let is_other =
            |settled: &Settled| settled.encoding == record.encoding && !is(Mutation::OtherRecordFree);
        if let Some(other) = current.clone().find(is_other) {
            return Weight::OtherRecord(conflict(record, other));
        }
        let proven = overruled == Overruled::OtherEncoding || is(Mutation::EncodingIgnored);
        let doubtful = held.iter().filter(|_| !proven);
        let all = doubtful.map(|standing| standing.settled).chain(fresh);
        all.map(|settled| settled.encoding)
            .find(|encoding| *encoding != record.encoding)
            .map_or(Weight::Free, |held| {
                Weight::OtherEncoding(Reason::OtherEncoding { record: *record, held })
            })
    }
}

/// The segment of what was settled, after the nodes that it seals, and the tail that it leaves. When
/// nothing was settled, the newest segment stays the one that it was.
fn sealed(
    ledger: &Ledger,
    before: Option<Tail>,
    settled: Settlements,
    snapshot: SnapshotMark,
) -> (Vec<LedgerObject>, Option<Tail>) {
    if settled.is_empty() {
        return (vec![], before);
    }
    let (mut index, mut objects) = (Index::default(), Vec::new());
    if let Some(tail) = before.filter(|_| !is(Mutation::IndexForgets)) {
        index = tail.index;
        objects = index.append(tail.entry);
    }
    let SnapshotMark { sequence_number, .. } = snapshot;
    let (owner, incarnation) = (ledger.id.clone(), ledger.incarnation);
    let segment = Segment { owner, incarnation, sequence_number, index, settled };
    let object = LedgerObject::new(segment.encode());
    let tail = Tail::of(object.hash, segment);
    objects.push(object);
    (objects, Some(tail))
}

/// Rows and dead letters.
fn counts(settled: &Settlements) -> (usize, usize) {
    let records = settled.partitions().flat_map(|(_, records)| records);
    let rows = records.filter(|(_, settled)| settled.kind == Kind::Row).count();
    (rows, settled.len() - rows)
}

fn is_same(settled: Settled, record: &RecordId) -> bool {
    settled.encoding == record.encoding
        && (settled.fingerprint == record.fingerprint || is(Mutation::FingerprintIgnored))
}

const fn conflict(record: &RecordId, held: Settled) -> Conflict {
    Conflict {
        partition: record.partition,
        offset: record.offset,
        held: held.fingerprint,
        found: record.fingerprint,
    }
}

/// All that is known of a partition.
struct View<'a> {
    partition: Partition,
    highest: Option<Offset>,
    held: &'a [Standing],
    accepted: &'a [(Offset, Settled)],
}

impl<'a> View<'a> {
    /// What the table holds at `offset`.
    fn at(&self, offset: Offset) -> &'a [Standing] {
        let from = self.held.partition_point(|standing| standing.offset < offset);
        let tail = self.held.get(from..).unwrap_or_default();
        let count = tail.iter().take_while(|standing| standing.offset == offset).count();
        tail.get(..count).unwrap_or_default()
    }
}

/// What the ledger says about one record.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Weight {
    Free,
    Held(Evidence),
    OtherRecord(Conflict),
    OtherEncoding(Reason),
}

/// What the ledger says about the records so far.
#[derive(Default)]
struct Tally {
    free: usize,
    held: usize,
    this_round: bool,
    conflict: Option<Conflict>,
    unproven: Option<Reason>,
}

impl Tally {
    fn add(&mut self, weight: Weight) {
        match weight {
            Weight::Free => self.free += 1,
            Weight::Held(evidence) => {
                self.held += 1;
                self.this_round |= evidence == Evidence::ThisRound;
            }
            Weight::OtherRecord(conflict) => self.conflict = self.conflict.or(Some(conflict)),
            Weight::OtherEncoding(reason) => self.unproven = self.unproven.take().or(Some(reason)),
        }
    }

    /// Another record weighs most: it says that the topic is another one, and then nothing else of
    /// the batch can be trusted. What is not proven comes next.
    fn verdict(self, free: Free) -> Verdict {
        let Self { free: free_count, held, this_round, conflict, unproven } = self;
        if let Some(conflict) = conflict {
            return Verdict::Stop(conflict);
        }
        if let Some(reason) = unproven {
            return Verdict::Quarantine(reason);
        }
        match (free_count, held) {
            (0, _) if is(Mutation::DuplicateCommitted) => Verdict::Commit,
            (0, _) if this_round => Verdict::Duplicate(Evidence::ThisRound),
            (0, _) => Verdict::Duplicate(Evidence::Committed),
            (_, 0) => Verdict::Commit,
            _ if is(Mutation::TrimSkipped) => Verdict::Commit,
            _ => Verdict::Trim(free),
        }
    }
}
