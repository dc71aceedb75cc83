//! The comparison against a model that keeps everything in plain maps and looks at one offset at a time.

use std::collections::BTreeMap;

use icefall_ledger::{Incarnation, Kind as Fate, OutboxSpan, SequenceNumber, Settled, Standing};
use icefall_manifest::{Encoding, Fingerprint, Offset, Partition};
use proptest::prelude::*;

use super::compare::{Comparison, Known, Print, Seen, Side};
use super::kind::{Kind, Tally};
use super::window::{Stretch, windows};

const OFFSETS: i64 = 12;

/// Everything, by offset.
#[derive(Clone, Debug)]
struct World {
    topic: BTreeMap<i64, (u32, bool)>,
    /// Of two tables.
    ledgers: [Vec<(i64, u32, bool, bool)>; 2],
    rows: Option<Vec<i64>>,
    letters: Vec<(i64, u32)>,
    outbox: Option<(i64, i64)>,
    quarantined: Vec<(i64, u32)>,
    released: Vec<(i64, u32)>,
    highest: Option<i64>,
    skips: bool,
    end: i64,
}

fn world() -> impl Strategy<Value = World> {
    let print = 0_u32..3;
    let topic = prop::collection::btree_map(0..OFFSETS, (print.clone(), any::<bool>()), 0..12);
    let standing = (0..OFFSETS, print.clone(), any::<bool>(), prop::bool::weighted(0.2));
    let few = prop::collection::vec(standing.clone(), 0..4);
    let ledgers = (prop::collection::vec(standing, 0..14), few);
    let places = (
        prop::option::of(prop::collection::vec(0..OFFSETS, 0..10)),
        prop::collection::vec((0..OFFSETS, print.clone()), 0..8),
    );
    let outbox = prop::option::of((0..OFFSETS, 0..OFFSETS));
    let rest = (
        (
            prop::collection::vec((0..OFFSETS, print.clone()), 0..4),
            prop::collection::vec((0..OFFSETS, print), 0..4),
        ),
        prop::option::of(0..OFFSETS),
        any::<bool>(),
        0..=OFFSETS,
    );
    (topic, ledgers, places, outbox, rest).prop_map(
        |(
            topic,
            (first, second),
            (rows, letters),
            outbox,
            ((quarantined, released), highest, skips, end),
        )| World {
            topic,
            ledgers: [first, second],
            rows,
            letters,
            outbox,
            quarantined,
            released,
            highest,
            skips,
            end,
        },
    )
}

fn offset(position: i64) -> Offset {
    Offset::new(position).expect("an offset")
}

fn partition() -> Partition {
    Partition::new(3).expect("a partition")
}

fn standings(ledger: &[(i64, u32, bool, bool)]) -> Vec<Standing> {
    let mut all: Vec<Standing> = ledger
        .iter()
        .map(|(position, print, is_letter, is_decoded)| Standing {
            offset: offset(*position),
            incarnation: Incarnation::FIRST,
            sequence_number: SequenceNumber(1),
            settled: Settled {
                kind: if *is_letter { Fate::DeadLetter } else { Fate::Row },
                encoding: if *is_decoded { Encoding::RegistryJson } else { Encoding::Raw },
                fingerprint: Fingerprint(*print),
            },
        })
        .collect();
    all.sort_by_key(|standing| standing.offset);
    all
}

fn prints(of: &[(i64, u32)]) -> Vec<Print> {
    let mut all: Vec<Print> =
        of.iter().map(|(position, print)| (offset(*position), Fingerprint(*print))).collect();
    all.sort_unstable();
    all
}

/// What the shipped comparison says, in windows of `at_once` offsets.
fn compared(world: &World, at_once: u64) -> Tally {
    let ledgers = world.ledgers.each_ref().map(|ledger| standings(ledger));
    let (letters, quarantined) = (prints(&world.letters), prints(&world.quarantined));
    let released = prints(&world.released);
    let mut rows = world.rows.clone();
    if let Some(rows) = &mut rows {
        rows.sort_unstable();
    }
    let rows: Option<Vec<Offset>> = rows.map(|rows| rows.into_iter().map(offset).collect());
    let outbox: Vec<OutboxSpan> = world
        .outbox
        .map(|(lowest, highest)| OutboxSpan {
            partition: partition(),
            lowest: offset(lowest),
            highest: offset(highest),
            count: 1,
        })
        .into_iter()
        .collect();
    let whole = [Stretch { partition: partition(), positions: 0..OFFSETS }];
    let mut tally = Tally::new(100);
    for window in windows(&whole, at_once) {
        let Some(Stretch { positions, .. }) = window.first() else { continue };
        let within = |offset: &Offset| positions.contains(&offset.position());
        // With one table alone, the comparison has a way of its own for what is nearly always the case.
        let tables = if world.ledgers[1].is_empty() { 1 } else { 2 };
        let cut: Vec<Vec<Standing>> = ledgers
            .iter()
            .take(tables)
            .map(|all| all.iter().filter(|standing| within(&standing.offset)).copied().collect())
            .collect();
        let rows: Option<Vec<Offset>> =
            rows.as_ref().map(|rows| rows.iter().copied().filter(within).collect());
        let sides = cut.iter().enumerate().map(|(table, standings)| Side {
            standings,
            rows: rows.as_deref().filter(|_| table == 0),
            letters: if table == 0 { &letters } else { &[] },
            outbox: if table == 0 { &outbox } else { &[] },
        });
        let known = Known {
            partition: partition(),
            sides: sides.collect(),
            quarantined: &quarantined,
            released: &released,
            highest: world.highest.map(offset),
            skips_tombstones: world.skips,
            end: world.end,
        };
        let mut comparison = Comparison::new(known, 100);
        for (position, (print, tombstone)) in world.topic.range(positions.clone()) {
            let (offset, fingerprint) = (offset(*position), Fingerprint(*print));
            comparison.see(Seen { offset, fingerprint, tombstone: *tombstone });
        }
        tally.absorb(comparison.finish());
    }
    tally
}

/// What the model says of one offset.
fn expected(world: &World, position: i64) -> Vec<Kind> {
    let at = |ledger: &[(i64, u32, bool, bool)]| -> Vec<(u32, bool, bool)> {
        let here = ledger.iter().filter(|(other, ..)| *other == position);
        here.map(|(_, print, is_letter, is_decoded)| (*print, *is_letter, *is_decoded)).collect()
    };
    let sides = [at(&world.ledgers[0]), at(&world.ledgers[1])];
    let mut kinds = Vec::new();
    match world.topic.get(&position) {
        Some((print, tombstone)) => kinds.extend(of_record(world, position, *print, *tombstone, &sides)),
        None if sides.iter().all(Vec::is_empty) => {}
        None if position >= world.end => kinds.push(Kind::Newer),
        None => kinds.push(Kind::Gone),
    }
    for (table, side) in sides.iter().enumerate() {
        for (print, _, is_decoded) in side.iter().filter(|(_, is_letter, _)| *is_letter) {
            let same = |(other, there): &&(i64, u32)| *other == position && (*is_decoded || there == print);
            let copies = if table == 0 { world.letters.iter().filter(same).count() } else { 0 };
            let under_way = table == 0
                && world.outbox.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&position));
            match copies {
                1 => {}
                0 if under_way => kinds.push(Kind::LetterUnderWay),
                0 => kinds.push(Kind::LetterLost),
                _ => kinds.push(Kind::LetterDoubled),
            }
        }
    }
    if let Some(rows) = &world.rows {
        let there = rows.iter().filter(|row| **row == position).count();
        let settled = sides[0].iter().filter(|(_, is_letter, _)| !*is_letter).count();
        match there.cmp(&settled) {
            std::cmp::Ordering::Less => kinds.push(Kind::RowLost),
            std::cmp::Ordering::Greater => kinds.push(Kind::RowDoubled),
            std::cmp::Ordering::Equal => {}
        }
    }
    kinds
}

fn of_record(
    world: &World,
    position: i64,
    print: u32,
    tombstone: bool,
    sides: &[Vec<(u32, bool, bool)>; 2],
) -> Vec<Kind> {
    let count = |side: &[(u32, bool, bool)], letters: bool| {
        side.iter().filter(|(other, is_letter, _)| *other == print && *is_letter == letters).count()
    };
    let counts = sides.each_ref().map(|side| (count(side, false), count(side, true)));
    let proved: Vec<Kind> = counts
        .iter()
        .filter_map(|counts| match counts {
            (1, 0) => Some(Kind::Row),
            (0, 1) => Some(Kind::DeadLetter),
            (1, 1) => Some(Kind::Replayed),
            _ => None,
        })
        .collect();
    let newest = |side: &Vec<(u32, bool, bool)>| side.last().copied();
    let unlike: Vec<bool> = sides
        .iter()
        .zip(counts)
        .filter(|(_, counts)| *counts == (0, 0))
        .filter_map(|(side, _)| newest(side).map(|(_, _, is_decoded)| is_decoded))
        .collect();
    let first = if counts.iter().any(|(rows, letters)| *rows > 1 || *letters > 1) {
        Kind::Doubled
    } else if let Some(kind) = proved.first() {
        *kind
    } else if world.quarantined.contains(&(position, print)) {
        Kind::Quarantined
    } else if world.released.contains(&(position, print)) {
        Kind::Released
    } else if unlike.contains(&false) {
        Kind::Altered
    } else if unlike.contains(&true) {
        Kind::OtherEncoding
    } else if tombstone && world.skips {
        Kind::Skipped
    } else if world.highest.is_some_and(|highest| position <= highest) {
        Kind::Missing
    } else {
        Kind::Unsettled
    };
    let mut kinds = vec![first];
    if proved.len() > 1 {
        kinds.push(Kind::SeveralTables);
    }
    kinds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_says_what_the_model_says_however_it_is_cut(world in world(), at_once in 1_u64..14) {
        let tally = compared(&world, at_once);
        let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
        (0..OFFSETS).flat_map(|position| expected(&world, position)).for_each(|kind| *kinds.entry(kind).or_default() += 1);
        for kind in Kind::ALL {
            prop_assert_eq!(tally.of(kind), kinds.get(&kind).copied().unwrap_or_default(), "{:?}", kind);
        }
    }

    /// Each fault is named at its offset.
    #[test]
    fn what_is_missing_is_listed_and_nothing_else(world in world()) {
        let tally = compared(&world, 5);
        let (runs, unlisted) = tally.runs(Kind::Missing);
        let listed: Vec<i64> = runs.iter().flat_map(|run| run.first.position()..=run.last.position()).collect();
        let missing: Vec<i64> =
            (0..OFFSETS).filter(|position| expected(&world, *position).contains(&Kind::Missing)).collect();
        prop_assert_eq!((listed, unlisted), (missing, 0));
    }
}

#[test]
fn what_turned_out_since_is_moved_and_the_rest_stays() {
    let mut tally = Tally::new(10);
    for position in [1, 2, 3, 7] {
        tally.add(Kind::Missing, partition(), offset(position), String::new());
    }
    tally.revise(Kind::Missing, |_, found| if found.position() == 2 { Kind::Late } else { Kind::Missing });
    assert_eq!((tally.of(Kind::Missing), tally.of(Kind::Late)), (3, 1));
    let (runs, _) = tally.runs(Kind::Missing);
    assert_eq!(runs.iter().map(|run| run.first.position()).collect::<Vec<_>>(), [1, 3, 7]);
}

#[test]
fn beyond_the_limit_records_are_counted_and_not_listed() {
    let mut tally = Tally::new(2);
    for position in [1, 3, 5, 7] {
        tally.add(Kind::Altered, partition(), offset(position), String::new());
    }
    let (runs, unlisted) = tally.runs(Kind::Altered);
    assert_eq!((tally.of(Kind::Altered), runs.len(), unlisted), (4, 2, 2));
}
