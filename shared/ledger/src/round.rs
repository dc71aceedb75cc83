//! One round of the committer for one ledger: batch manifests are decided one by one, what is
//! accepted counts for those that follow, and all of it becomes one segment and one property.
//!
//! A round is bound to the ledger that it was made for. When its commit meets a conflict, nothing of
//! it stands: load, look up and decide anew.

use std::collections::BTreeMap;

use icefall_manifest::{BatchManifest, DeadLetterFile, Offset, Partition, RecordId, RecordList};
use icefall_mutations::{Mutation, is};

use crate::held::{Held, Standing};
use crate::index::{Index, LedgerObject};
use crate::settlements::find;
use crate::tail::Tail;
use crate::{
    Conflict, Decided, Discard, EntryNumber, Evidence, Free, Incarnation, Kind, Ledger, LedgerError,
    LedgerId, ObjectHash, Overruled, Reason, Rows, Segment, Settled, Settlements, SnapshotMark, Stop,
    StopDecision, StopReason, Verdict,
};

/// A round under way.
#[derive(Clone, Debug)]
pub struct Round {
    ledger: Ledger,
    held: Held,
    /// By the incarnation that they belong to: a replayed row has that of its dead letter. Several only where records stand
    /// beside each other at an offset, as a released copy does.
    accepted: BTreeMap<Incarnation, Vec<Settlements>>,
    /// Numbered when the round ends, after what the dead-letter table has is cleared.
    dead_letters: Vec<DeadLetterFile>,
    changed: bool,
}

/// Why a batch manifest is decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cause {
    /// It was delivered, maybe once more by a person who overruled a doubt.
    Delivered(Overruled),
    /// Its records are dead letters that became rows.
    Replayed,
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
    /// The objects to put, in this order, before the commit is sent. The last is the newest segment; there
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
    /// The newest segment of this round, which the snapshot's summary names; `None` if it settled nothing.
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
        Ok(Self { ledger, held, accepted: BTreeMap::new(), dead_letters: vec![], changed: false })
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
        self.decide_for(batch, Cause::Delivered(overruled))
    }

    /// What is to happen with rows that `batch` holds for dead letters: one is free as long as the ledger
    /// holds it as a dead letter and not as a row, and never when it holds neither.
    pub fn decide_replay(&self, batch: &BatchManifest) -> Result<Verdict, LedgerError> {
        self.decide_for(batch, Cause::Replayed)
    }

    fn decide_for(&self, batch: &BatchManifest, cause: Cause) -> Result<Verdict, LedgerError> {
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
        let files = batch.files.iter().map(|file| self.weigh(&file.records, cause, &mut tally));
        let files: Vec<Rows> = files.collect::<Result<_, _>>()?;
        let dead_letters = batch.dead_letters.iter().map(|file| self.weigh(&file.records, cause, &mut tally));
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
        self.check(batch, Cause::Delivered(overruled))?;
        let rows = batch.files.iter().flat_map(|file| file.records.iter()).map(|record| (Kind::Row, record));
        let dead = batch.dead_letters.iter().filter(|_| !is(Mutation::LettersOutsideLedger));
        let dead = dead.flat_map(|file| file.records.iter());
        let records = rows.chain(dead.map(|record| (Kind::DeadLetter, record))).collect();
        add(self.accepted.entry(self.ledger.incarnation).or_default(), records)?;
        self.dead_letters.extend(batch.dead_letters.clone());
        self.changed = true;
        Ok(())
    }

    /// The same for rows of dead letters. Each is settled in the incarnation of its dead letter, in a segment of
    /// that one.
    pub fn accept_replay(&mut self, batch: &BatchManifest) -> Result<(), LedgerError> {
        self.check(batch, Cause::Replayed)?;
        let mut by_incarnation: BTreeMap<Incarnation, Vec<(Kind, RecordId)>> = BTreeMap::new();
        for record in batch.files.iter().flat_map(|file| file.records.iter()) {
            if is(Mutation::ReplayOutsideLedger) {
                continue;
            }
            let letter = self.letter(&record).unwrap_or(self.ledger.incarnation);
            by_incarnation.entry(letter).or_default().push((Kind::Row, record));
        }
        let mut accepted = self.accepted.clone();
        for (incarnation, records) in by_incarnation {
            add(accepted.entry(incarnation).or_default(), records)?;
        }
        self.accepted = accepted;
        self.changed = true;
        Ok(())
    }

    /// Lets the source go on as `decided` says, if it was decided about the very stop that stands.
    pub fn end_stop(&mut self, decided: Decided) -> Result<(), LedgerError> {
        let stop = self.ledger.stop.ok_or(LedgerError::NoStop)?.id(&self.ledger.id);
        if stop != decided.stop {
            return Err(LedgerError::OtherStop(stop));
        }
        self.ledger.stop = None;
        match decided.decision {
            StopDecision::Accept if is(Mutation::AcceptForgotten) => {}
            StopDecision::Accept => {
                self.ledger.incarnation = self.ledger.incarnation.next();
                self.ledger.discards_through = None;
            }
            StopDecision::Discard => {
                self.ledger.discards_through = self.ledger.last_snapshot.map(|last| last.sequence_number);
            }
        }
        let because = decided.because.chars().take(Decided::MAX_WORDS).collect();
        self.ledger.decided = Some(Decided { because, ..decided });
        self.changed = true;
        Ok(())
    }

    /// Nothing is settled that was not found free.
    fn check(&self, batch: &BatchManifest, cause: Cause) -> Result<(), LedgerError> {
        match self.decide_for(batch, cause)? {
            Verdict::Commit => Ok(()),
            verdict => Err(LedgerError::NotToCommit { batch: batch.id, verdict: Box::new(verdict) }),
        }
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
        for (partition, records) in accepted.values().flatten().flat_map(Settlements::partitions) {
            let settled = records.last().map(|(offset, _)| *offset);
            let highest = ledger.highest.get(&partition).copied().max(settled);
            ledger.highest.extend(highest.map(|highest| (partition, highest)));
        }
        let (mut objects, mut tail) = (Vec::new(), held.tail);
        let accepted = accepted
            .into_iter()
            .flat_map(|(incarnation, lists)| lists.into_iter().map(move |settled| (incarnation, settled)));
        for (incarnation, settled) in accepted.filter(|(_, settled)| !settled.is_empty()) {
            let (index, sealed) = grown(tail);
            objects.extend(sealed);
            let segment = new_segment(&ledger.id, incarnation, snapshot, index, settled);
            tail = Some(put(&mut objects, segment));
        }
        ledger.newest_segment = tail.as_ref().map(|tail| tail.hash);
        let (property_name, property_value) = ledger.property(snapshot)?;
        let (rows, dead_letters) = counts;
        Ok(RoundResult { ledger, property_name, property_value, objects, tail, rows, dead_letters })
    }

    /// Which records of `list` are free; the rest is added to `tally`.
    fn weigh(&self, list: &RecordList, cause: Cause, tally: &mut Tally) -> Result<Rows, LedgerError> {
        let mut rows = Rows::default();
        let mut view: Option<View<'_>> = None;
        for record in list.iter() {
            let view = match view {
                Some(ref view) if view.partition == record.partition => view,
                _ => &*view.insert(self.view(record.partition)),
            };
            let weight = self.weight(view, cause, &record)?;
            rows.push(weight == Weight::Free);
            tally.add(weight, record);
        }
        Ok(rows)
    }

    fn view(&self, partition: Partition) -> View<'_> {
        View {
            partition,
            highest: self.ledger.highest.get(&partition).copied(),
            held: self.held.partition(partition),
            accepted: self
                .accepted
                .get(&self.ledger.incarnation)
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .map(|present| present.partition(partition))
                .collect(),
        }
    }

    fn weight(&self, view: &View<'_>, cause: Cause, record: &RecordId) -> Result<Weight, LedgerError> {
        if self.is_concluded(view, record) {
            return Ok(Weight::Held(Evidence::Committed));
        }
        let is_above = view.highest.is_none_or(|highest| highest < record.offset);
        if !is_above && !self.held.wanted.contains(view.partition, record.offset) {
            return Err(LedgerError::NotLookedUp(*record));
        }
        let held = if is_above { &[] } else { view.at(record.offset) };
        Ok(match cause {
            Cause::Delivered(overruled) => {
                let fresh = view.accepted.iter().filter_map(|accepted| find(accepted, record.offset));
                self.compare(held, fresh, overruled, record)
            }
            Cause::Replayed => self.replay(held, record),
        })
    }

    /// Conclusions that are never drawn; see [`Mutation`].
    fn is_concluded(&self, view: &View<'_>, record: &RecordId) -> bool {
        let reached = |highest: &Offset| *highest >= record.offset;
        let between =
            |(first, last): (&Standing, &Standing)| first.offset <= record.offset && reached(&last.offset);
        (is(Mutation::HighestForRecords) && view.highest.as_ref().is_some_and(reached))
            || (is(Mutation::HighestOfLedger) && self.ledger.highest.values().any(reached))
            || (is(Mutation::RangeForRecords) && view.held.first().zip(view.held.last()).is_some_and(between))
    }

    /// Weighs the row of a dead letter.
    fn replay(&self, held: &[Standing], record: &RecordId) -> Weight {
        let mut same = held.iter().map(|standing| standing.settled).filter(|held| is_same(*held, record));
        let Some(first) = same.next() else {
            return Weight::Unproven(Reason::NoDeadLetter { record: *record });
        };
        if is(Mutation::ReplayIsDuplicate) {
            return Weight::Held(Evidence::Committed);
        }
        if first.kind == Kind::Row || same.any(|held| held.kind == Kind::Row) {
            return Weight::Held(Evidence::Committed);
        }
        let at = |settled: &Settlements| settled.at(record.partition, record.offset);
        let is_row = |settled: Settled| settled.kind == Kind::Row && is_same(settled, record);
        if self.accepted.values().flatten().filter_map(at).any(is_row) {
            return Weight::Held(Evidence::ThisRound);
        }
        Weight::Free
    }

    /// The incarnation that the dead letter of `record` belongs to, the newest if there are several.
    fn letter(&self, record: &RecordId) -> Option<Incarnation> {
        let held = self.view(record.partition).at(record.offset);
        let same = held.iter().filter(|standing| is_same(standing.settled, record));
        same.map(|standing| standing.incarnation).max()
    }

    /// Weighs `record` against all that stands at its offset, in the table and in this round.
    fn compare(
        &self,
        held: &[Standing],
        fresh: impl Iterator<Item = Settled> + Clone,
        overruled: Overruled,
        record: &RecordId,
    ) -> Weight {
        if held.iter().any(|standing| is_same(standing.settled, record)) {
            return Weight::Held(Evidence::Committed);
        }
        if fresh.clone().any(|settled| is_same(settled, record)) {
            return Weight::Held(Evidence::ThisRound);
        }
        let alike = |settled: Settled| settled.encoding == record.encoding && !is(Mutation::OtherRecordFree);
        let present =
            |standing: &&Standing| standing.incarnation == self.ledger.incarnation && alike(standing.settled);
        let alike_held = held.iter().filter(present).map(|standing| standing.settled);
        let mut alike = alike_held.chain(fresh.clone().filter(|fresh| alike(*fresh))).peekable();
        let is_copied = alike.peek().is_some();
        if let Some(other) = alike.find(|settled| !self.is_discarded(held, *settled)) {
            return Weight::OtherRecord(conflict(record, other));
        }
        if is(Mutation::CopiesLand) {
            return Weight::Free;
        }
        if is_copied && overruled != Overruled::DiscardedCopy {
            return Weight::Copy;
        }
        let proven = overruled == Overruled::OtherEncoding || is(Mutation::EncodingIgnored);
        let doubtful = held.iter().filter(|_| !proven);
        let all = doubtful.map(|standing| standing.settled).chain(fresh);
        all.map(|settled| settled.encoding)
            .find(|encoding| *encoding != record.encoding)
            .map_or(Weight::Free, |held| Weight::Unproven(Reason::OtherEncoding { record: *record, held }))
    }

    /// Whether an operator said that what differs from this record is a copy of it: of those that are `held` at its offset
    /// it was settled by then, if as the dead letter that it was before.
    fn is_discarded(&self, held: &[Standing], settled: Settled) -> bool {
        let by_then = |standing: &Standing| {
            let through = self.ledger.discards_through;
            standing.incarnation == self.ledger.incarnation
                && through.is_some_and(|through| standing.sequence_number <= through)
        };
        let is_it = |standing: &Standing| {
            (standing.settled.encoding, standing.settled.fingerprint)
                == (settled.encoding, settled.fingerprint)
        };
        held.iter().any(|standing| is_it(standing) && by_then(standing))
    }
}

/// The index that the segment after `tail` carries, and the nodes that it seals.
pub(crate) fn grown(tail: Option<Tail>) -> (Index, Vec<LedgerObject>) {
    let tail = tail.filter(|_| !is(Mutation::IndexForgets));
    let Some(Tail { mut index, entry, .. }) = tail else { return (Index::default(), Vec::new()) };
    let sealed = index.append(entry);
    (index, sealed)
}

pub(crate) fn new_segment(
    owner: &LedgerId,
    incarnation: Incarnation,
    snapshot: SnapshotMark,
    index: Index,
    settled: Settlements,
) -> Segment {
    let SnapshotMark { sequence_number, .. } = snapshot;
    Segment { owner: owner.clone(), incarnation, sequence_number, index, settled }
}

/// Adds a segment to the objects of a round; gives the tail that it leaves.
pub(crate) fn put(objects: &mut Vec<LedgerObject>, segment: Segment) -> Tail {
    let object = LedgerObject::new(segment.encode());
    let tail = Tail::of(object.hash, segment);
    objects.push(object);
    tail
}

/// Adds records to the first of `lists` that has none at their offsets.
fn add(lists: &mut Vec<Settlements>, records: Vec<(Kind, RecordId)>) -> Result<(), LedgerError> {
    let is_free = |list: &Settlements| {
        records.iter().all(|(_, record)| list.at(record.partition, record.offset).is_none())
    };
    if let Some(list) = lists.iter_mut().find(|list| is_free(list)) {
        return list.extend(records).map_err(LedgerError::Repeated);
    }
    let mut list = Settlements::default();
    list.extend(records).map_err(LedgerError::Repeated)?;
    lists.push(list);
    Ok(())
}

/// Rows and dead letters.
fn counts(accepted: &BTreeMap<Incarnation, Vec<Settlements>>) -> (usize, usize) {
    let lists = accepted.values().flatten();
    let records = lists.clone().flat_map(Settlements::partitions).flat_map(|(_, records)| records);
    let rows = records.filter(|(_, settled)| settled.kind == Kind::Row).count();
    (rows, lists.map(Settlements::len).sum::<usize>() - rows)
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
    accepted: Vec<&'a [(Offset, Settled)]>,
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
    /// It differs from a record that an operator said to come again as copies.
    Copy,
    Unproven(Reason),
}

/// What the ledger says about the records so far.
#[derive(Default)]
struct Tally {
    free: usize,
    held: usize,
    this_round: bool,
    copies: RecordList,
    conflict: Option<Conflict>,
    unproven: Option<Reason>,
}

impl Tally {
    fn add(&mut self, weight: Weight, record: RecordId) {
        match weight {
            Weight::Free => self.free += 1,
            Weight::Held(evidence) => {
                self.held += 1;
                self.this_round |= evidence == Evidence::ThisRound;
            }
            Weight::OtherRecord(conflict) => self.conflict = self.conflict.or(Some(conflict)),
            Weight::Copy => self.copies.push(record),
            Weight::Unproven(reason) => self.unproven = self.unproven.take().or(Some(reason)),
        }
    }

    /// Another record weighs most: it says that the topic is another one, and then nothing else of
    /// the batch can be trusted. What is not proven comes next.
    fn verdict(self, free: Free) -> Verdict {
        let Self { free: free_count, held, this_round, copies, conflict, unproven } = self;
        if let Some(conflict) = conflict {
            return Verdict::Stop(conflict);
        }
        if let Some(reason) = unproven {
            return Verdict::Quarantine(reason);
        }
        if !copies.is_empty() {
            return Verdict::Discard(Discard { free, copies });
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
