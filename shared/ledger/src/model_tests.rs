//! The ledger against a model that is too small to be wrong: a plain map of what is settled.
//!
//! Random rounds of random batches (again, overlapping, with gaps, shuffled, of a topic that was
//! made anew, delivered in another encoding) are decided by both. The ledger starts from several
//! heights of its tree, so that rounds cross the point where nodes are sealed.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use icefall_manifest::{BatchManifest, Encoding, Fingerprint, Offset, Partition, RecordId, RecordList};
use proptest::prelude::*;

use crate::testing::{World, batch, record};
use crate::{Evidence, Verdict};

/// What the model holds of a record.
type Content = (Encoding, Fingerprint);

#[derive(Clone, Default)]
struct Model {
    committed: BTreeMap<(Partition, Offset), Content>,
    this_round: BTreeMap<(Partition, Offset), Content>,
    stopped: bool,
}

/// A verdict as the model tells it: free records by offset instead of by row.
#[derive(Debug, Eq, PartialEq)]
enum Expected {
    Commit,
    Duplicate(Evidence),
    Trim(Vec<RecordId>),
    Stop(RecordId),
    Stopped,
    Quarantine(RecordId),
}

impl Model {
    fn content(&self, record: &RecordId) -> Option<Content> {
        let place = (record.partition, record.offset);
        self.committed.get(&place).or_else(|| self.this_round.get(&place)).copied()
    }

    fn decide(&self, batch: &BatchManifest) -> Expected {
        if self.stopped {
            return Expected::Stopped;
        }
        let records: Vec<RecordId> = all(batch);
        let clash = |record: &&RecordId| {
            self.content(record)
                .is_some_and(|(encoding, print)| encoding == record.encoding && print != record.fingerprint)
        };
        if let Some(record) = records.iter().find(clash) {
            return Expected::Stop(*record);
        }
        let unproven = |record: &&RecordId| {
            self.content(record).is_some_and(|(encoding, _)| encoding != record.encoding)
        };
        if let Some(record) = records.iter().find(unproven) {
            return Expected::Quarantine(*record);
        }
        let free: Vec<_> = records.iter().filter(|record| self.content(record).is_none()).copied().collect();
        if free.len() == records.len() {
            return Expected::Commit;
        }
        if !free.is_empty() {
            return Expected::Trim(free);
        }
        let committed = |record: &RecordId| self.committed.contains_key(&(record.partition, record.offset));
        let evidence = if records.iter().all(committed) { Evidence::Committed } else { Evidence::ThisRound };
        Expected::Duplicate(evidence)
    }

    fn accept(&mut self, records: &[RecordId]) {
        let held =
            |record: &RecordId| ((record.partition, record.offset), (record.encoding, record.fingerprint));
        self.this_round.extend(records.iter().map(held));
    }

    fn commit(&mut self) {
        self.committed.append(&mut self.this_round);
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
        Verdict::Stop(conflict) => Expected::Stop(find(conflict.partition, conflict.offset)),
        Verdict::Stopped(_) => Expected::Stopped,
        Verdict::Quarantine(crate::Reason::OtherEncoding { record, .. }) => Expected::Quarantine(*record),
        Verdict::Quarantine(_) | Verdict::Discard(_) => panic!("nothing here gives {verdict:?}"),
    }
}

/// What a committer would commit of `batch`.
fn trimmed(verdict: &Verdict, batch: &BatchManifest) -> BatchManifest {
    let mut trimmed = batch.clone();
    let Verdict::Trim(free) = verdict else {
        return trimmed;
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
    let topic = prop_oneof![24 => Just(0), 1 => Just(1), 1 => Just(2)];
    let encoding = prop_oneof![24 => Just(Encoding::Raw), 1 => Just(Encoding::RegistryJson)];
    let places =
        prop::collection::vec(prop_oneof![1 => Just(0_u8), 4 => Just(1), 1 => Just(2), 1 => Just(3)], 1..20);
    (0_i64..3, 0_i64..60, places, topic, encoding, any::<bool>())
        .prop_filter("a batch has a record", |shape| shape.2.iter().any(|place| *place > 0))
        .prop_map(|(partition, start, places, topic, encoding, backwards)| Shape {
            partition,
            start,
            places,
            topic,
            encoding,
            backwards,
        })
}

/// A round: its batches, and whether a conflict in it really stops the source.
fn rounds() -> impl Strategy<Value = Vec<(Vec<Shape>, bool)>> {
    let batches = prop::collection::vec(shape(), 1..5);
    prop::collection::vec((batches, prop::bool::weighted(0.1)), 1..14)
}

/// Worlds with some rounds behind them, one below, at and above where nodes are sealed.
fn world(height: usize) -> (World, Model) {
    static WORLDS: OnceLock<Vec<(World, Model)>> = OnceLock::new();
    let worlds = WORLDS.get_or_init(|| {
        let (mut world, mut model) = (World::new(), Model::default());
        let mut worlds = vec![(world.clone(), model.clone())];
        for round in 0..388_i64 {
            let records = [record(0, round, 5), record(1, round * 3 % 400, 5)];
            world.settle(&[batch(&[&records], &[])]);
            model.accept(&records);
            model.commit();
            if [122, 127, 128, 129, 255, 256, 383, 388].contains(&(round + 1)) {
                worlds.push((world.clone(), model.clone()));
            }
        }
        worlds
    });
    worlds[height % worlds.len()].clone()
}

fn run(height: usize, rounds: &[(Vec<Shape>, bool)]) -> Result<(), TestCaseError> {
    let (mut world, mut model) = world(height);
    for (number, (shapes, stops)) in rounds.iter().enumerate() {
        // Some of the offsets lie among the settled ones of the world, some above.
        let batches: Vec<_> = shapes.iter().map(|shape| shape.batch(360)).collect();
        let held = if number % 2 == 0 { world.look_up(&batches) } else { world.look_up_warm(&batches) };
        let mut round = world.round(held);
        for batch in &batches {
            let verdict = round.decide(batch).expect("it was looked up");
            prop_assert_eq!(told(&verdict, batch), model.decide(batch));
            match verdict {
                Verdict::Commit | Verdict::Trim(_) => {
                    let part = trimmed(&verdict, batch);
                    round.accept(&part).expect("what is free can be committed");
                    model.accept(&all(&part));
                }
                Verdict::Stop(conflict) if *stops => {
                    round.stop(conflict, 1);
                    model.stopped = true;
                }
                _ => {}
            }
        }
        let settled = model.this_round.len();
        model.commit();
        if round.is_changed() {
            let result = world.commit(round);
            prop_assert_eq!(result.rows + result.dead_letters, settled);
            bounded(&result, settled)?;
        }
    }
    agree(&mut world, &model)
}

/// What a round puts does not depend on what lies behind it.
fn bounded(result: &crate::RoundResult, settled: usize) -> Result<(), TestCaseError> {
    let index = 2 * 128 * 60;
    let segment = result.objects.last().map_or(0, |object| object.bytes.len());
    prop_assert!(result.objects.len() <= 2, "at most one node is sealed at these heights");
    prop_assert!(segment <= index + 200 + settled * 16, "{} bytes for {} records", segment, settled);
    let outbox: usize = result.ledger.outbox().entries().len() * 400;
    prop_assert!(result.property_value.len() <= 600 + outbox);
    Ok(())
}

/// Every record of the model is found, and nothing else.
fn agree(world: &mut World, model: &Model) -> Result<(), TestCaseError> {
    let records: Vec<_> = model
        .committed
        .iter()
        .map(|((partition, offset), (encoding, fingerprint))| RecordId {
            partition: *partition,
            offset: *offset,
            encoding: *encoding,
            fingerprint: *fingerprint,
        })
        .collect();
    world.ledger.stop = None;
    let everything = batch(&[&records], &[]);
    let held = world.look_up(std::slice::from_ref(&everything));
    prop_assert_eq!(held.len(), records.len());
    let verdict = world.round(held).decide(&everything).expect("it was looked up");
    prop_assert_eq!(verdict, Verdict::Duplicate(Evidence::Committed));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_decides_as_the_model_does(height in 0_usize..9, rounds in rounds()) {
        run(height, &rounds)?;
    }
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
