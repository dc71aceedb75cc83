//! The decision about batch manifests, case by case: each test is one sentence of what the ledger
//! promises.

use icefall_manifest::{Branch, Encoding, Fingerprint, RecordId, TableUuid};
use uuid::Uuid;

use crate::testing::{World, batch, ledger_id, record, table};
use crate::{
    Conflict, Evidence, Incarnation, Ledger, LedgerError, Lookup, Overruled, Reason, Round, Verdict, Wanted,
};

fn records(offsets: impl IntoIterator<Item = i64>, print: u32) -> Vec<RecordId> {
    offsets.into_iter().map(|offset| record(0, offset, print)).collect()
}

/// What a cold committer says about `batch`.
fn verdict(world: &mut World, batch: &icefall_manifest::BatchManifest) -> Verdict {
    let held = world.look_up(std::slice::from_ref(batch));
    world.round(held).decide(batch).expect("it was looked up")
}

fn decide(world: &mut World, records: &[RecordId]) -> Verdict {
    verdict(world, &batch(&[records], &[]))
}

fn conflict_at(offset: i64, held: u32, found: u32) -> Conflict {
    let RecordId { partition, offset, .. } = record(0, offset, 0);
    Conflict { partition, offset, held: Fingerprint(held), found: Fingerprint(found) }
}

#[test]
fn a_batch_that_comes_again_after_further_commits_is_a_duplicate() {
    let mut world = World::new();
    for start in [0, 100, 200, 300] {
        world.settle(&[batch(&[&records(start..start + 100, 1)], &[])]);
    }
    let again = decide(&mut world, &records(0..100, 1));
    assert_eq!(again, Verdict::Duplicate(Evidence::Committed));
}

#[test]
fn other_batch_boundaries_change_nothing() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..100, 1)], &[])]);
    world.settle(&[batch(&[&records(100..200, 1)], &[])]);
    let across = decide(&mut world, &records(50..150, 1));
    assert_eq!(across, Verdict::Duplicate(Evidence::Committed));
}

#[test]
fn batches_out_of_order_both_land() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(200..300, 1)], &[])]);
    let earlier = batch(&[&records(100..200, 1)], &[]);
    assert_eq!(verdict(&mut world, &earlier), Verdict::Commit);
    world.settle(&[earlier]);
    assert_eq!(decide(&mut world, &records(100..300, 1)), Verdict::Duplicate(Evidence::Committed));
    assert_eq!(world.ledger.highest().values().map(|offset| offset.position()).collect::<Vec<_>>(), [299]);
}

#[test]
fn gaps_hold_nothing_and_are_free_when_they_come() {
    let mut world = World::new();
    world.settle(&[batch(&[&records([10, 11, 15, 40], 1)], &[])]);
    let held = world.look_up(&[batch(&[&records(0..50, 1)], &[])]);
    assert_eq!(held.len(), 4);
    assert_eq!(decide(&mut world, &records([12, 13, 14, 39, 41], 1)), Verdict::Commit);
}

#[test]
fn the_same_content_at_two_offsets_is_two_records() {
    let mut world = World::new();
    world.settle(&[batch(&[&records([5], 1)], &[])]);
    assert_eq!(decide(&mut world, &records([4, 6], 1)), Verdict::Commit);
}

#[test]
fn what_is_held_is_trimmed_away_file_by_file() {
    let mut world = World::new();
    world.settle(&[batch(&[&records([0, 1, 4], 1)], &records([8], 1))]);
    let files = [records(0..6, 1), records([1], 1), records(10..12, 1)];
    let dead = records(7..10, 1);
    let mixed = batch(&[&files[0], &files[1], &files[2]], &dead);
    let Verdict::Trim(free) = verdict(&mut world, &mixed) else {
        panic!("some are held, some are not");
    };
    assert_eq!(free.files[0].ranges(), [2..4, 5..6]);
    assert!(free.files[1].is_empty());
    assert!(free.files[2].is_all());
    assert_eq!(free.dead_letters.ranges(), [0..1, 2..3]);
    assert_eq!(free.len(), 7);
    let kept: Vec<_> = free.files[0].select(&mixed.files[0].records).iter().collect();
    assert_eq!(kept, records([2, 3, 5], 1));
}

#[test]
fn a_row_that_comes_again_as_a_dead_letter_is_settled_and_the_other_way_round() {
    let mut world = World::new();
    world.settle(&[batch(&[&records([0], 1)], &records([1], 1))]);
    let swapped = batch(&[&records([1], 1)], &records([0], 1));
    assert_eq!(verdict(&mut world, &swapped), Verdict::Duplicate(Evidence::Committed));
}

#[test]
fn another_record_at_a_settled_offset_stops_the_source() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..100, 1)], &[])]);
    let anew = batch(&[&records(40..140, 2)], &[]);
    let held = world.look_up(std::slice::from_ref(&anew));
    let mut round = world.round(held);
    let conflict = conflict_at(40, 1, 2);
    assert_eq!(round.decide(&anew), Ok(Verdict::Stop(conflict)));
    assert!(matches!(round.accept(&anew), Err(LedgerError::NotToCommit { .. })));
    round.stop(conflict, 1_000);
    assert!(round.is_changed());
    let result = world.commit(round);
    assert_eq!((result.segment(), result.rows), (None, 0));
    let stop = *world.ledger.stop().expect("it was committed");
    assert_eq!((stop.since_ms, stop.struck), (1_000, conflict));
    assert_eq!(decide(&mut world, &records(500..600, 1)), Verdict::Stopped(stop));
}

#[test]
fn what_a_round_accepted_before_a_stop_stands() {
    let mut world = World::new();
    let (first, other) = (batch(&[&records(0..2, 1)], &[]), batch(&[&records(1..3, 2)], &[]));
    let held = world.look_up(&[first.clone(), other.clone()]);
    let mut round = world.round(held);
    round.accept(&first).expect("it is free");
    assert_eq!(round.decide(&other), Ok(Verdict::Stop(conflict_at(1, 1, 2))));
    round.stop(conflict_at(1, 1, 2), 5);
    let result = world.commit(round);
    assert_eq!(result.rows, 2);
    assert!(world.ledger.stop().is_some());
}

#[test]
fn another_encoding_proves_nothing_and_another_record_weighs_more() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..2, 1)], &[])]);
    let decoded = RecordId { encoding: Encoding::RegistryJson, ..record(0, 0, 9) };
    let reason = Reason::OtherEncoding { record: decoded, held: Encoding::Raw };
    assert_eq!(decide(&mut world, &[decoded, record(0, 1, 1)]), Verdict::Quarantine(reason));
    assert_eq!(decide(&mut world, &[decoded, record(0, 1, 2)]), Verdict::Stop(conflict_at(1, 1, 2)));
}

#[test]
fn a_person_who_overrules_the_encoding_overrules_nothing_else() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..3, 1)], &[])]);
    let decoded = |offset| RecordId { encoding: Encoding::RegistryJson, ..record(0, offset, 9) };
    let released = batch(&[&[decoded(0), record(0, 1, 1), decoded(5)]], &[]);
    let held = world.look_up(std::slice::from_ref(&released));
    let mut round = world.round(held);
    let verdict = round.decide_overruled(&released, Overruled::OtherEncoding).expect("it was looked up");
    let Verdict::Trim(free) = verdict else { panic!("one record is held: {verdict}") };
    assert_eq!(free.len(), 2);
    let trimmed = batch(&[&[decoded(0), decoded(5)]], &[]);
    assert!(round.accept(&trimmed).is_err(), "not without the person's word");
    round.accept_overruled(&trimmed, Overruled::OtherEncoding).expect("both are free");
    world.commit(round);
    assert_eq!(decide(&mut world, &[decoded(0), decoded(5)]), Verdict::Duplicate(Evidence::Committed));
    assert_eq!(decide(&mut world, &records(0..3, 1)), Verdict::Duplicate(Evidence::Committed));
    let stopped = batch(&[&[decoded(0), record(0, 1, 2)]], &[]);
    let held = world.look_up(std::slice::from_ref(&stopped));
    let verdict = world.round(held).decide_overruled(&stopped, Overruled::OtherEncoding);
    assert_eq!(verdict, Ok(Verdict::Stop(conflict_at(1, 1, 2))));
}

#[test]
fn a_batch_for_another_table_of_the_name_is_quarantined() {
    let mut world = World::new();
    let other = TableUuid(Uuid::from_u128(8));
    let mut waiting = batch(&[&records(0..2, 1)], &[]);
    waiting.table_uuid = other;
    let reason = Reason::OtherTable { named: other, actual: table() };
    assert_eq!(verdict(&mut world, &waiting), Verdict::Quarantine(reason));
}

#[test]
fn a_batch_of_another_branch_is_an_error_of_the_caller() {
    let mut world = World::new();
    let mut other = batch(&[&records(0..2, 1)], &[]);
    other.branch = Branch::try_from("audit".to_owned()).expect("a branch");
    let held = world.look_up(&[]);
    let round = world.round(held);
    assert!(matches!(round.decide(&other), Err(LedgerError::OtherLedger { .. })));
}

#[test]
fn batches_of_one_round_see_each_other() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..2, 1)], &[])]);
    let (one, two) = (batch(&[&records(2..4, 1)], &[]), batch(&[&records(3..5, 1)], &[]));
    let three = batch(&[&records([0, 3], 1)], &[]);
    let held = world.look_up(&[one.clone(), two.clone(), three.clone()]);
    let mut round = world.round(held);
    assert_eq!(round.decide(&two), Ok(Verdict::Commit));
    round.accept(&one).expect("it is free");
    assert!(
        matches!(round.decide(&two), Ok(Verdict::Trim(free)) if free.files[0].ranges().first() == Some(&(1..2)))
    );
    assert_eq!(round.decide(&three), Ok(Verdict::Duplicate(Evidence::ThisRound)));
    assert_eq!(round.decide(&one), Ok(Verdict::Duplicate(Evidence::ThisRound)));
}

#[test]
fn a_record_that_stands_twice_in_a_batch_settles_nothing() {
    let mut world = World::new();
    let twice = batch(&[&records([1, 1], 1)], &[]);
    let held = world.look_up(std::slice::from_ref(&twice));
    let mut round = world.round(held);
    assert_eq!(round.accept(&twice), Err(LedgerError::Repeated(record(0, 1, 1))));
    assert!(!round.is_changed());
    assert_eq!(round.decide(&batch(&[&records([1], 1)], &[])), Ok(Verdict::Commit));
}

#[test]
fn what_was_not_looked_up_is_not_decided() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..10, 1)], &[])]);
    let held = world.look_up(&[batch(&[&records(0..3, 1)], &[])]);
    let round = world.round(held);
    let decided = round.decide(&batch(&[&records(2..5, 1)], &[]));
    assert_eq!(decided, Err(LedgerError::NotLookedUp(record(0, 3, 1))));
}

#[test]
fn a_look_up_serves_only_the_ledger_that_it_was_made_in() {
    let mut world = World::new();
    let held = world.look_up(&[]);
    world.settle(&[batch(&[&records(0..10, 1)], &[])]);
    assert_eq!(Round::new(world.ledger.clone(), held).err(), Some(LedgerError::StaleLookup));
}

#[test]
fn in_a_new_incarnation_conflicts_with_older_ones_land_beside_and_within_it_stop() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..4, 1)], &[])]);
    world.ledger.incarnation = Incarnation(2);
    let anew = batch(&[&records(0..2, 2)], &[]);
    assert_eq!(verdict(&mut world, &anew), Verdict::Commit);
    world.settle(&[anew]);
    assert_eq!(decide(&mut world, &records(0..2, 2)), Verdict::Duplicate(Evidence::Committed));
    assert_eq!(decide(&mut world, &records(0..4, 1)), Verdict::Duplicate(Evidence::Committed));
    assert_eq!(decide(&mut world, &records(0..2, 3)), Verdict::Stop(conflict_at(0, 2, 3)));
    assert_eq!(decide(&mut world, &records(2..4, 3)), Verdict::Commit);
}

#[test]
fn two_committers_with_the_same_batch_come_to_the_same_objects() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..4, 1)], &[])]);
    let mut other = world.clone();
    let next = batch(&[&records(4..9, 1)], &records([9], 1));
    let first = world.settle(std::slice::from_ref(&next));
    let held = other.look_up(std::slice::from_ref(&next));
    let mut cold = other.round(held);
    cold.accept(&next).expect("it is free");
    assert_eq!(other.commit(cold), first);
    assert_eq!(verdict(&mut world, &next), Verdict::Duplicate(Evidence::Committed));
}

#[test]
fn offsets_that_only_go_up_need_no_object_when_the_tail_is_kept() {
    let mut world = World::new();
    for start in 0..300 {
        world.settle(&[batch(&[&records([start], 1)], &[])]);
        assert_eq!(world.reads, 0);
    }
    let held = world.look_up(&[batch(&[&records([300], 1)], &[])]);
    assert_eq!((world.reads, held.len()), (1, 0), "a cold one reads the newest segment");
}

#[test]
fn objects_that_are_not_what_was_asked_for_are_refused_and_stay_needed() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..4, 1)], &[])]);
    let wanted = Wanted::of(&[batch(&[&records(0..4, 1)], &[])]);
    let newest = world.ledger.newest_segment().expect("something is settled");
    let mut lookup = Lookup::new(&world.ledger, &wanted);
    assert!(matches!(lookup.supply(newest, b"other"), Err(LedgerError::WrongContent { .. })));
    let stranger = crate::ObjectHash::of(b"other");
    assert_eq!(lookup.supply(stranger, b"other"), Err(LedgerError::NotNeeded(stranger)));
    assert_eq!(lookup.needed(), [newest]);
    assert_eq!(lookup.clone().finish().err(), Some(LedgerError::StillNeeded(newest)));
    lookup.supply(newest, &world.objects[&newest]).expect("it is what its name says");
    assert_eq!(lookup.finish().expect("all is there").len(), 4);
}

#[test]
fn a_segment_of_another_source_is_refused() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..4, 1)], &[])]);
    let newest = world.ledger.newest_segment().expect("something is settled");
    let mut id = ledger_id();
    id.source.topic = "orders".try_into().expect("a topic");
    let astray = Ledger { id, ..world.ledger.clone() };
    let mut lookup = Lookup::new(&astray, &Wanted::default());
    let refused = lookup.supply(newest, &world.objects[&newest]);
    assert!(matches!(refused, Err(LedgerError::OtherOwner { .. })));
}
