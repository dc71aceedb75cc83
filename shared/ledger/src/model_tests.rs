//! The ledger against a model that is too small to be wrong: plain lists of what stands at each offset.
//!
//! Random rounds of random batches (again, overlapping, with gaps, shuffled, of a topic that was
//! made anew, delivered in another encoding) are decided by both, and so are operators' decisions: stops that are
//! ended, batches released, dead letters replayed, rollbacks rewound. The ledger starts from several
//! heights of its tree, so that rounds cross the point where nodes are sealed.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use icefall_manifest::{BatchManifest, Encoding, Fingerprint, Offset, Partition, RecordId, RecordList};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::testing::{World, batch, chain, record, rewind};
use crate::{
    ChainEnd, Decided, Evidence, Kind, LedgerError, LedgerObject, Overruled, Reason, RoundResult, Segment,
    SequenceNumber, Settled, Standing, StopDecision, Verdict,
};

type Place = (Partition, Offset);

/// A record that stands in the table, or as a dead letter.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Stands {
    incarnation: u32,
    /// The commit that it came with.
    commit: i64,
    is_row: bool,
    encoding: Encoding,
    print: Fingerprint,
}

impl Stands {
    fn is(&self, record: &RecordId) -> bool {
        (self.encoding, self.print) == (record.encoding, record.fingerprint)
    }
}

#[derive(Clone, Default)]
struct Model {
    committed: BTreeMap<Place, Vec<Stands>>,
    this_round: BTreeMap<Place, Vec<Stands>>,
    /// The commits of the branch, which ends with the last of them.
    branch: Vec<i64>,
    commits: i64,
    incarnation: u32,
    stopped: bool,
    discards_through: i64,
    last_rewind: i64,
}

/// A verdict as the model tells it: free records by offset instead of by row.
#[derive(Debug, Eq, PartialEq)]
enum Expected {
    Commit,
    Duplicate(Evidence),
    Trim(Vec<RecordId>),
    Discard { free: Vec<RecordId>, copies: Vec<RecordId> },
    Stop(RecordId),
    Stopped,
    Quarantine(RecordId),
}

/// What the model says of one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Says {
    Free,
    There(Evidence),
    Other,
    Copy,
    Unproven,
}

/// Why a batch comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cause {
    Delivered(Overruled),
    Replayed,
}

impl Model {
    fn at(&self, record: &RecordId) -> (&[Stands], &[Stands]) {
        let at = (record.partition, record.offset);
        let [held, fresh] =
            [&self.committed, &self.this_round].map(|lists| lists.get(&at).map_or(&[][..], Vec::as_slice));
        (held, fresh)
    }

    /// Another record at an offset contradicts, if it is of the present incarnation and came the same way, unless an
    /// operator said that such are copies. One that came in another way proves nothing.
    fn delivered(&self, record: &RecordId, overruled: Overruled) -> Says {
        let (held, fresh) = self.at(record);
        let fresh: Vec<_> = fresh.iter().filter(|fresh| fresh.incarnation == self.incarnation).collect();
        if held.iter().any(|held| held.is(record)) {
            return Says::There(Evidence::Committed);
        }
        if fresh.iter().any(|fresh| fresh.is(record)) {
            return Says::There(Evidence::ThisRound);
        }
        let alike = |held: &&Stands| held.incarnation == self.incarnation && held.encoding == record.encoding;
        let by_then =
            |held: &&Stands| held.incarnation == self.incarnation && held.commit <= self.discards_through;
        // A row is the record that it was as a dead letter.
        let is_copied = |one: &Stands| {
            held.iter().filter(by_then).any(|held| (held.encoding, held.print) == (one.encoding, one.print))
        };
        let alike: Vec<&Stands> = held.iter().chain(fresh.iter().copied()).filter(alike).collect();
        if !alike.iter().all(|held| is_copied(held)) {
            return Says::Other;
        }
        if !alike.is_empty() && overruled != Overruled::DiscardedCopy {
            return Says::Copy;
        }
        let other = |held: &Stands| held.encoding != record.encoding;
        let is_doubted = overruled != Overruled::OtherEncoding && held.iter().any(other);
        if is_doubted || fresh.iter().any(|fresh| other(fresh)) { Says::Unproven } else { Says::Free }
    }

    /// The row of a dead letter is free until there is one.
    fn replayed(&self, record: &RecordId) -> Says {
        let (held, fresh) = self.at(record);
        let is_row = |stands: &&Stands| stands.is_row && stands.is(record);
        if !held.iter().any(|held| held.is(record)) {
            return Says::Unproven;
        }
        match (held.iter().any(|held| is_row(&held)), fresh.iter().any(|fresh| is_row(&fresh))) {
            (true, _) => Says::There(Evidence::Committed),
            (false, true) => Says::There(Evidence::ThisRound),
            (false, false) => Says::Free,
        }
    }

    fn says(&self, record: &RecordId, cause: Cause) -> Says {
        match cause {
            Cause::Delivered(overruled) => self.delivered(record, overruled),
            Cause::Replayed => self.replayed(record),
        }
    }

    fn decide(&self, batch: &BatchManifest, cause: Cause) -> Expected {
        if self.stopped {
            return Expected::Stopped;
        }
        let records: Vec<_> =
            all(batch).into_iter().map(|record| (record, self.says(&record, cause))).collect();
        let those = |what: Says| {
            let found = records.iter().filter(move |(_, says)| *says == what);
            found.map(|(record, _)| *record).collect::<Vec<_>>()
        };
        if let Some(record) = those(Says::Other).first() {
            return Expected::Stop(*record);
        }
        if let Some(record) = those(Says::Unproven).first() {
            return Expected::Quarantine(*record);
        }
        let (free, copies) = (those(Says::Free), those(Says::Copy));
        if !copies.is_empty() {
            return Expected::Discard { free, copies };
        }
        if free.len() == records.len() {
            return Expected::Commit;
        }
        if !free.is_empty() {
            return Expected::Trim(free);
        }
        let is_late = those(Says::There(Evidence::ThisRound)).is_empty();
        Expected::Duplicate(if is_late { Evidence::Committed } else { Evidence::ThisRound })
    }

    fn accept(&mut self, batch: &BatchManifest, cause: Cause) {
        let rows = batch.files.iter().flat_map(|file| file.records.iter()).map(|record| (true, record));
        let dead = batch.dead_letters.iter().flat_map(|file| file.records.iter());
        for (is_row, record) in rows.chain(dead.map(|record| (false, record))) {
            let letters = self.at(&record).0.iter().filter(|held| held.is(&record));
            // A row belongs to the incarnation of its dead letter.
            let incarnation = match cause {
                Cause::Replayed => letters.map(|letter| letter.incarnation).max(),
                Cause::Delivered(_) => None,
            };
            let stands = Stands {
                incarnation: incarnation.unwrap_or(self.incarnation),
                commit: self.commits + 1,
                is_row,
                encoding: record.encoding,
                print: record.fingerprint,
            };
            self.this_round.entry((record.partition, record.offset)).or_default().push(stands);
        }
    }

    /// Commits what was accepted; gives how many rows and dead letters that is.
    fn commit(&mut self) -> (usize, usize) {
        self.commits += 1;
        self.branch.push(self.commits);
        let accepted = std::mem::take(&mut self.this_round);
        let rows = accepted.values().flatten().filter(|stands| stands.is_row).count();
        let all = accepted.values().map(Vec::len).sum::<usize>();
        for (place, mut stands) in accepted {
            self.committed.entry(place).or_default().append(&mut stands);
        }
        (rows, all - rows)
    }

    fn end_stop(&mut self, decision: StopDecision) {
        self.stopped = false;
        match decision {
            StopDecision::Accept => (self.incarnation, self.discards_through) = (self.incarnation + 1, 0),
            StopDecision::Discard => self.discards_through = self.commits,
        }
    }

    /// The branch is set back by so many commits, but not to before the last rewind.
    fn roll_back(&mut self, commits: usize) {
        let kept = self.branch.len().saturating_sub(commits);
        let last_rewind = self.last_rewind;
        let is_after = self.branch.get(..kept).and_then(<[i64]>::last).is_some_and(|at| *at >= last_rewind);
        if kept > 0 && is_after {
            self.branch.truncate(kept);
        }
    }

    /// Rows of commits that are not in the branch go, dead letters stay as of now; `None` if there is nothing of such a
    /// commit.
    fn rewind(&mut self) -> Option<usize> {
        let (branch, now) = (self.branch.clone(), self.commits + 1);
        let is_gone = |stands: &Stands| branch.binary_search(&stands.commit).is_err();
        if !self.committed.values().flatten().any(is_gone) {
            return None;
        }
        let before = self.committed.values().map(Vec::len).sum::<usize>();
        for standing in self.committed.values_mut() {
            standing.retain(|stands| !(stands.is_row && is_gone(stands)));
            standing.iter_mut().filter(|stands| is_gone(stands)).for_each(|letter| letter.commit = now);
        }
        let freed = before - self.committed.values().map(Vec::len).sum::<usize>();
        self.last_rewind = now;
        self.commit();
        Some(freed)
    }
}

fn all(batch: &BatchManifest) -> Vec<RecordId> {
    batch.record_lists().flat_map(RecordList::iter).collect()
}

/// The ledger's verdict in the model's terms.
fn told(verdict: &Verdict, batch: &BatchManifest) -> Expected {
    let find = |partition, offset| {
        let here = |record: &RecordId| (record.partition, record.offset) == (partition, offset);
        all(batch).into_iter().find(here).expect("it is one of the batch's")
    };
    match verdict {
        Verdict::Commit => Expected::Commit,
        Verdict::Duplicate(evidence) => Expected::Duplicate(*evidence),
        Verdict::Trim(_) => Expected::Trim(all(&trimmed(verdict, batch))),
        Verdict::Discard(discard) => {
            Expected::Discard { free: all(&trimmed(verdict, batch)), copies: discard.copies.iter().collect() }
        }
        Verdict::Stop(conflict) => Expected::Stop(find(conflict.partition, conflict.offset)),
        Verdict::Stopped(_) => Expected::Stopped,
        Verdict::Quarantine(Reason::OtherEncoding { record, .. } | Reason::NoDeadLetter { record }) => {
            Expected::Quarantine(*record)
        }
        Verdict::Quarantine(_) => panic!("nothing here gives {verdict:?}"),
    }
}

/// What a committer would commit of `batch`.
fn trimmed(verdict: &Verdict, batch: &BatchManifest) -> BatchManifest {
    let mut trimmed = batch.clone();
    let free = match verdict {
        Verdict::Trim(free) => free,
        Verdict::Discard(discard) => &discard.free,
        _ => return trimmed,
    };
    for (file, rows) in trimmed.files.iter_mut().zip(&free.files) {
        file.records = rows.select(&file.records);
    }
    trimmed.files.retain(|file| !file.records.is_empty());
    if let Some(dead) = &mut trimmed.dead_letters {
        dead.records = free.dead_letters.select(&dead.records);
    }
    trimmed.dead_letters.take_if(|dead| dead.records.is_empty());
    trimmed
}

/// A batch: a stretch of offsets of which some are missing, each routed to a file or a dead letter.
#[derive(Clone, Debug)]
struct Shape {
    partition: i64,
    start: i64,
    /// Per offset: 0 is a gap, 1 and 2 are data files, 3 is the dead letters' file.
    places: Vec<u8>,
    topic: u32,
    encoding: Encoding,
    backwards: bool,
    overruled: Overruled,
}

impl Shape {
    fn batch(&self, base: i64) -> BatchManifest {
        let mut files: [Vec<RecordId>; 4] = Default::default();
        for (offset, place) in (base + self.start..).zip(&self.places) {
            let print = u32::try_from(offset).expect("offsets here are small").wrapping_mul(0x9e37_79b9);
            let id = record(self.partition, offset, print ^ self.topic);
            files[usize::from(*place)].push(RecordId { encoding: self.encoding, ..id });
        }
        if self.backwards {
            for records in &mut files {
                records.reverse();
            }
        }
        let [_, one, two, dead] = &files;
        let data: Vec<&[RecordId]> =
            [one, two].into_iter().filter(|file| !file.is_empty()).map(Vec::as_slice).collect();
        batch(&data, dead)
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let topic = prop_oneof![12 => Just(0), 2 => Just(1), 1 => Just(2)];
    let encoding = prop_oneof![24 => Just(Encoding::Raw), 1 => Just(Encoding::RegistryJson)];
    let places =
        prop::collection::vec(prop_oneof![1 => Just(0_u8), 4 => Just(1), 1 => Just(2), 1 => Just(3)], 1..20);
    let overruled = prop_oneof![
        8 => Just(Overruled::Nothing),
        1 => Just(Overruled::OtherEncoding),
        3 => Just(Overruled::DiscardedCopy),
    ];
    (0_i64..3, 0_i64..60, places, topic, encoding, any::<bool>(), overruled)
        .prop_filter("a batch has a record", |shape| shape.2.iter().any(|place| *place > 0))
        .prop_map(|(partition, start, places, topic, encoding, backwards, overruled)| Shape {
            partition,
            start,
            places,
            topic,
            encoding,
            backwards,
            overruled,
        })
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// Batches come, and among them dead letters are replayed: those of every so-manieth offset, so many of them. A
    /// conflict really stops the source, or is left to the next delivery.
    Round { batches: Vec<Shape>, stops: bool, replay: Option<(usize, usize)>, replay_first: bool },
    /// An operator ends the stop, if there is one.
    EndStop(StopDecision),
    /// The branch is set back by so many commits.
    RollBack(usize),
    /// An operator rewinds.
    Rewind,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let batches = prop::collection::vec(shape(), 1..5);
    let replay = prop::option::weighted(0.3, (1_usize..5, 1_usize..6));
    let round = (batches, prop::bool::weighted(0.4), replay, any::<bool>()).prop_map(
        |(batches, stops, replay, replay_first)| Step::Round { batches, stops, replay, replay_first },
    );
    let decision = prop_oneof![1 => Just(StopDecision::Accept), 3 => Just(StopDecision::Discard)];
    let step = prop_oneof![
        12 => round,
        3 => decision.prop_map(Step::EndStop),
        1 => (1_usize..4).prop_map(Step::RollBack),
        1 => Just(Step::Rewind),
    ];
    prop::collection::vec(step, 1..18)
}

/// Worlds with some rounds behind them, one below, at and above where nodes are sealed.
fn world(height: usize) -> (World, Model) {
    static WORLDS: OnceLock<Vec<(World, Model)>> = OnceLock::new();
    let worlds = WORLDS.get_or_init(|| {
        let (mut world, mut model) = (World::new(), Model::default());
        let mut worlds = vec![(world.clone(), model.clone())];
        for round in 0..388_i64 {
            let records = [record(0, round, 5), record(1, round * 3 % 400, 5)];
            let settled = batch(&[&records], &[]);
            world.settle(std::slice::from_ref(&settled));
            model.accept(&settled, Cause::Delivered(Overruled::Nothing));
            model.commit();
            if [122, 127, 128, 129, 255, 256, 383, 388].contains(&(round + 1)) {
                worlds.push((world.clone(), model.clone()));
            }
        }
        worlds
    });
    worlds[height % worlds.len()].clone()
}

/// How often rounds met what is rare.
#[derive(Debug, Default)]
struct Met {
    copies: usize,
    released: usize,
    /// Rounds with several segments of one incarnation.
    beside: usize,
}

fn run(height: usize, steps: &[Step], met: &mut Met) -> Result<(), TestCaseError> {
    let (mut world, mut model) = world(height);
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Round { batches, stops, replay, replay_first } => {
                // Some of the offsets lie among the settled ones of the world, some above.
                let came = batches.iter().map(|shape| (shape.batch(360), Cause::Delivered(shape.overruled)));
                let replay = replay.map(|(nth, most)| (letters(&model, nth, most), Cause::Replayed));
                let mut came: Vec<_> = came.collect();
                if let Some(replay) = replay.filter(|(batch, _)| !all(batch).is_empty()) {
                    came.insert(if *replay_first { 0 } else { came.len() }, replay);
                }
                round(&mut world, &mut model, &came, *stops, number % 2 == 0, met)?;
            }
            Step::EndStop(decision) => end_stop(&mut world, &mut model, *decision),
            Step::RollBack(commits) => model.roll_back(*commits),
            Step::Rewind => {
                let head = chain(model.branch.iter().rev().copied(), ChainEnd::Root);
                let freed = rewind(&mut world, &head);
                prop_assert_eq!(freed, model.rewind().ok_or(LedgerError::NothingToRewind));
            }
        }
    }
    agree(&mut world, &model)
}

/// A batch with rows for some of the dead letters that stand.
fn letters(model: &Model, nth: usize, most: usize) -> BatchManifest {
    let record = |((partition, offset), standing): (&Place, &Vec<Stands>)| {
        let letters: Vec<_> = standing.iter().filter(|stands| !stands.is_row).collect();
        let letter = letters.get(nth % letters.len().max(1))?;
        let (encoding, fingerprint) = (letter.encoding, letter.print);
        Some(RecordId { partition: *partition, offset: *offset, encoding, fingerprint })
    };
    let records: Vec<_> = model.committed.iter().filter_map(record).step_by(nth).take(most).collect();
    batch(&[&records], &[])
}

fn round(
    world: &mut World,
    model: &mut Model,
    came: &[(BatchManifest, Cause)],
    stops: bool,
    is_cold: bool,
    met: &mut Met,
) -> Result<(), TestCaseError> {
    let batches: Vec<_> = came.iter().map(|(batch, _)| batch.clone()).collect();
    let held = if is_cold { world.look_up(&batches) } else { world.look_up_warm(&batches) };
    let mut round = world.round(held);
    for (batch, cause) in came {
        let verdict = match cause {
            Cause::Delivered(overruled) => round.decide_overruled(batch, *overruled),
            Cause::Replayed => round.decide_replay(batch),
        };
        let verdict = verdict.expect("it was looked up");
        prop_assert_eq!(told(&verdict, batch), model.decide(batch, *cause));
        met.copies += usize::from(matches!(verdict, Verdict::Discard(_)));
        let is_copy = |record: &RecordId| model.delivered(record, Overruled::Nothing) == Says::Copy;
        let released = *cause == Cause::Delivered(Overruled::DiscardedCopy) && verdict == Verdict::Commit;
        met.released += usize::from(released && all(batch).iter().any(is_copy));
        match verdict {
            Verdict::Commit | Verdict::Trim(_) | Verdict::Discard(_) => {
                let part = trimmed(&verdict, batch);
                if all(&part).is_empty() {
                    continue;
                }
                let accepted = match cause {
                    Cause::Delivered(overruled) => round.accept_overruled(&part, *overruled),
                    Cause::Replayed => round.accept_replay(&part),
                };
                prop_assert_eq!(accepted, Ok(()), "what is free can be committed");
                model.accept(&part, *cause);
            }
            Verdict::Stop(conflict) if stops => {
                round.stop(conflict, 1);
                model.stopped = true;
            }
            _ => {}
        }
    }
    if round.is_changed() {
        let result = world.commit(round);
        let settled = model.commit();
        prop_assert_eq!((result.rows, result.dead_letters), settled);
        let segments = result.objects.iter().filter_map(|object| Segment::decode(&object.bytes).ok());
        let mut incarnations: Vec<_> = segments.map(|segment| segment.incarnation).collect();
        let all = incarnations.len();
        incarnations.dedup();
        met.beside += usize::from(incarnations.len() < all);
        bounded(&result, settled.0 + settled.1)?;
    }
    Ok(())
}

fn end_stop(world: &mut World, model: &mut Model, decision: StopDecision) {
    let Some(stop) = world.ledger.stop().copied() else { return };
    let held = world.look_up(&[]);
    let mut round = world.round(held);
    let (stop, because) = (stop.id(world.ledger.id()), "as the test says".to_owned());
    round.end_stop(Decided { stop, decision, because, when_ms: 9 }).expect("it stands");
    world.commit(round);
    model.end_stop(decision);
    model.commit();
}

/// What a round puts does not depend on what lies behind it.
fn bounded(result: &RoundResult, settled: usize) -> Result<(), TestCaseError> {
    let index = 2 * 128 * 60;
    let (segments, nodes): (Vec<_>, Vec<_>) =
        result.objects.iter().partition(|object| Segment::decode(&object.bytes).is_ok());
    prop_assert!(nodes.len() <= 1, "at most one node is sealed at these heights");
    for LedgerObject { bytes, .. } in segments {
        prop_assert!(
            bytes.len() <= index + 200 + settled * 16,
            "{} bytes for {settled} records",
            bytes.len()
        );
    }
    let outbox: usize = result.ledger.outbox().entries().len() * 400;
    prop_assert!(result.property_value.len() <= 700 + outbox);
    Ok(())
}

/// All that stands in the model is found, and nothing else.
fn agree(world: &mut World, model: &Model) -> Result<(), TestCaseError> {
    let place = |(partition, offset): &Place| record(partition.number().into(), offset.position(), 0);
    let places: Vec<_> = model.committed.keys().map(place).collect();
    let held = world.look_up(&[batch(&[&places], &[])]);
    prop_assert_eq!(held.len(), model.committed.values().map(Vec::len).sum::<usize>());
    for ((partition, offset), standing) in &model.committed {
        let mut expected = standing.clone();
        expected.sort_unstable();
        let here = held.partition(*partition).iter().filter(|held| held.offset == *offset);
        let mut found: Vec<_> = here.map(stands).collect();
        found.sort_unstable();
        prop_assert_eq!(found, expected, "partition {} offset {}", partition, offset);
    }
    Ok(())
}

/// What the ledger holds, in the model's terms.
fn stands(held: &Standing) -> Stands {
    let Settled { kind, encoding, fingerprint } = held.settled;
    let SequenceNumber(commit) = held.sequence_number;
    let incarnation = held.incarnation.0 - 1;
    Stands { incarnation, commit, is_row: kind == Kind::Row, encoding, print: fingerprint }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_decides_as_the_model_does(height in 0_usize..9, steps in steps()) {
        run(height, &steps, &mut Met::default())?;
    }
}

/// What is rare is among it.
#[test]
fn the_model_meets_copies_releases_and_records_beside_each_other() {
    let (mut runner, mut met) = (TestRunner::deterministic(), Met::default());
    for _ in 0..1500 {
        let steps = steps().new_tree(&mut runner).expect("steps").current();
        run(0, &steps, &mut met).expect("both decide alike");
    }
    assert!(met.copies > 20 && met.released > 5 && met.beside > 0, "{met:?}");
}

#[test]
fn a_tree_of_three_levels_finds_each_record_in_few_reads_and_grows_no_round() {
    let mut world = World::new();
    let rounds = 128 * 128 + 300_i64;
    let mut largest = 0;
    for offset in 0..rounds {
        let result = world.settle(&[batch(&[&[record(0, offset, 5)]], &[])]);
        largest = largest.max(result.objects.iter().map(|object| object.bytes.len()).sum());
    }
    assert!(largest < 24 * 1024, "a round put {largest} bytes");
    assert!(world.ledger.newest_segment().is_some());
    for offset in [0, 127, 128, 16_383, 16_384, 16_385, rounds - 130, rounds - 2, rounds - 1] {
        let known = batch(&[&[record(0, offset, 5)]], &[]);
        let held = world.look_up(std::slice::from_ref(&known));
        assert!(world.reads <= 4, "offset {offset} took {} reads", world.reads);
        let round = world.round(held);
        assert_eq!(round.decide(&known), Ok(Verdict::Duplicate(Evidence::Committed)), "offset {offset}");
        let other = batch(&[&[record(0, offset, 6)]], &[]);
        assert!(matches!(round.decide(&other), Ok(Verdict::Stop(_))), "offset {offset}");
    }
}
