//! What operators decide: stops that are accepted or discarded, dead letters that are replayed, rollbacks that are
//! rewound, and histories that contradict a ledger.

use icefall_manifest::RecordId;

use crate::testing::{World, batch, chain, record, rewind};
use crate::{
    ChainEnd, Conflict, Decided, Evidence, Incarnation, Kind, LedgerError, Lineage, LineageFault, Overruled,
    Reason, Round, SequenceNumber, SnapshotId, SnapshotMark, Stop, StopDecision, Verdict, lineage,
};

fn records(offsets: impl IntoIterator<Item = i64>, print: u32) -> Vec<RecordId> {
    offsets.into_iter().map(|offset| record(0, offset, print)).collect()
}

fn decide(world: &mut World, rows: &[RecordId]) -> Verdict {
    let batch = batch(&[rows], &[]);
    let held = world.look_up(std::slice::from_ref(&batch));
    world.round(held).decide(&batch).expect("it was looked up")
}

/// A world that stands still: `held` records from offset 0, another one came.
fn stopped(held: i64) -> (World, Stop) {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..held, 1)], &[])]);
    let stop = stand_still(&mut world);
    (world, stop)
}

/// Another record comes at the first offset.
fn stand_still(world: &mut World) -> Stop {
    let Verdict::Stop(conflict) = decide(world, &records(0..1, 2)) else { panic!("another record came") };
    let held = world.look_up(&[]);
    let mut round = world.round(held);
    round.stop(conflict, 7);
    world.commit(round);
    *world.ledger.stop().expect("it stands")
}

fn end(world: &mut World, decision: StopDecision, stop: &Stop) -> Result<(), LedgerError> {
    let held = world.look_up(&[]);
    let mut round = world.round(held);
    let (stop, because) = (stop.id(world.ledger.id()), "é".repeat(300));
    round.end_stop(Decided { stop, decision, because, when_ms: 9 })?;
    assert!(round.is_changed());
    let result = world.commit(round);
    assert_eq!((result.rows, result.segment()), (0, None), "an empty snapshot, no segment");
    let decided = world.ledger.decided().expect("it is kept");
    assert_eq!((decided.decision, decided.because.chars().count()), (decision, Decided::MAX_WORDS));
    Ok(())
}

#[test]
fn accepted_records_land_once_beside_the_older_ones_and_stop_within_their_own() {
    let (mut world, stop) = stopped(4);
    end(&mut world, StopDecision::Accept, &stop).expect("it stands");
    assert_eq!((world.ledger.incarnation(), world.ledger.stop()), (Incarnation(2), None));
    let anew = records(0..4, 2);
    assert_eq!(decide(&mut world, &anew), Verdict::Commit);
    world.settle(&[batch(&[&anew], &[])]);
    for settled in [&anew, &records(0..4, 1)] {
        assert_eq!(decide(&mut world, settled), Verdict::Duplicate(Evidence::Committed));
    }
    assert!(matches!(decide(&mut world, &records(0..1, 3)), Verdict::Stop(_)));
}

#[test]
fn discarded_copies_are_told_and_all_else_goes_on() {
    let (mut world, stop) = stopped(4);
    end(&mut world, StopDecision::Discard, &stop).expect("it stands");
    assert_eq!((world.ledger.incarnation(), world.ledger.stop()), (Incarnation(1), None));
    let Verdict::Discard(discard) = decide(&mut world, &records(2..8, 2)) else { panic!("two are copies") };
    assert_eq!(discard.copies.iter().collect::<Vec<_>>(), records(2..4, 2));
    let ranges = discard.free.files[0].ranges();
    assert_eq!((ranges.len(), ranges.first()), (1, Some(&(2..6))));
    let Verdict::Discard(discard) = decide(&mut world, &records(0..4, 2)) else { panic!("all are copies") };
    assert!(discard.free.is_empty());
    world.settle(&[batch(&[&records(4..8, 2)], &[])]);
    assert_eq!(decide(&mut world, &records(0..4, 1)), Verdict::Duplicate(Evidence::Committed));
    assert!(
        matches!(decide(&mut world, &records(4..5, 3)), Verdict::Stop(_)),
        "what was settled afterwards is no business of that decision"
    );
    assert!(matches!(decide(&mut world, &[record(0, 0, 2), record(0, 4, 3)]), Verdict::Stop(_)));
}

#[test]
fn a_discarded_copy_that_is_released_lands_beside() {
    let (mut world, stop) = stopped(4);
    end(&mut world, StopDecision::Discard, &stop).expect("it stands");
    let copy = batch(&[&records(0..2, 2)], &[]);
    let held = world.look_up(std::slice::from_ref(&copy));
    let mut round = world.round(held);
    assert_eq!(round.decide_overruled(&copy, Overruled::DiscardedCopy), Ok(Verdict::Commit));
    round.accept_overruled(&copy, Overruled::DiscardedCopy).expect("it is free");
    world.commit(round);
    assert_eq!(decide(&mut world, &records(0..2, 2)), Verdict::Duplicate(Evidence::Committed));
    assert_eq!(decide(&mut world, &records(0..4, 1)), Verdict::Duplicate(Evidence::Committed));
}

/// A record can be released beside a dead letter in the very round that replays it: neither stands in the other's way.
#[test]
fn a_released_copy_and_the_row_of_the_dead_letter_that_it_stands_beside_land_in_one_round() {
    for replayed_first in [true, false] {
        let mut world = World::new();
        world.settle(&[batch(&[], &records(0..2, 1))]);
        let stop = stand_still(&mut world);
        end(&mut world, StopDecision::Discard, &stop).expect("it stands");
        let (copy, row) = (batch(&[&records(0..2, 2)], &[]), batch(&[&records(0..2, 1)], &[]));
        let held = world.look_up(&[copy.clone(), row.clone()]);
        let mut round = world.round(held);
        let replay = |round: &mut Round| round.accept_replay(&row).expect("they are dead letters");
        if replayed_first {
            replay(&mut round);
        }
        assert_eq!(round.decide_overruled(&copy, Overruled::DiscardedCopy), Ok(Verdict::Commit));
        round.accept_overruled(&copy, Overruled::DiscardedCopy).expect("it is free");
        if !replayed_first {
            replay(&mut round);
        }
        assert_eq!(round.decide(&copy), Ok(Verdict::Duplicate(Evidence::ThisRound)));
        assert_eq!(round.decide_replay(&row), Ok(Verdict::Duplicate(Evidence::ThisRound)));
        let result = world.commit(round);
        assert_eq!((result.rows, result.objects.len()), (4, 2), "each offset once in a segment");
        for settled in [1, 2] {
            let verdict = decide(&mut world, &records(0..2, settled));
            assert_eq!(verdict, Verdict::Duplicate(Evidence::Committed));
        }
    }
}

/// What an operator said about a dead letter holds for the row that it became.
#[test]
fn copies_of_a_replayed_dead_letter_are_still_copies() {
    let mut world = World::new();
    world.settle(&[batch(&[], &records(0..2, 1))]);
    let stop = stand_still(&mut world);
    end(&mut world, StopDecision::Discard, &stop).expect("it stands");
    let row = batch(&[&records(0..2, 1)], &[]);
    let held = world.look_up(std::slice::from_ref(&row));
    let mut round = world.round(held);
    round.accept_replay(&row).expect("they are dead letters");
    assert!(matches!(round.decide(&batch(&[&records(0..1, 2)], &[])), Ok(Verdict::Discard(_))));
    world.commit(round);
    assert!(matches!(decide(&mut world, &records(0..1, 2)), Verdict::Discard(_)));
    assert!(matches!(decide(&mut world, &records(0..2, 2)), Verdict::Discard(_)));
}

#[test]
fn only_the_stop_that_was_looked_at_is_decided() {
    let (mut world, stop) = stopped(4);
    let id = stop.id(world.ledger.id());
    let other = Stop { since_ms: stop.since_ms + 1, ..stop };
    assert_ne!(id, other.id(world.ledger.id()));
    assert_eq!(end(&mut world, StopDecision::Accept, &other), Err(LedgerError::OtherStop(id)));
    end(&mut world, StopDecision::Accept, &stop).expect("it stands");
    assert_eq!(end(&mut world, StopDecision::Accept, &stop), Err(LedgerError::NoStop));
}

#[test]
fn a_decision_outlives_its_property() {
    let (mut world, stop) = stopped(4);
    end(&mut world, StopDecision::Discard, &stop).expect("it stands");
    assert_eq!(world.ledger.discards_through(), Some(SequenceNumber(2)));
    let mut conflict = stop.struck;
    conflict.found = icefall_manifest::Fingerprint(9);
    let held = world.look_up(&[]);
    let mut round = world.round(held);
    round.stop(conflict, 8);
    world.commit(round);
    let again = *world.ledger.stop().expect("it stands");
    end(&mut world, StopDecision::Accept, &again).expect("it stands");
    assert_eq!(world.ledger.discards_through(), None, "the next incarnation begins without");
}

fn replay(world: &mut World, rows: &[RecordId]) -> Verdict {
    let batch = batch(&[rows], &[]);
    let held = world.look_up(std::slice::from_ref(&batch));
    world.round(held).decide_replay(&batch).expect("it was looked up")
}

#[test]
fn a_dead_letter_is_replayed_once_and_nothing_else_is() {
    let mut world = World::new();
    world.settle(&[batch(&[&records(0..2, 1)], &records(2..5, 1))]);
    assert_eq!(replay(&mut world, &records(2..4, 1)), Verdict::Commit);
    for never in [record(0, 2, 9), record(0, 7, 1), record(1, 2, 1)] {
        assert_eq!(replay(&mut world, &[never]), Verdict::Quarantine(Reason::NoDeadLetter { record: never }));
    }
    assert_eq!(
        replay(&mut world, &records(0..2, 1)),
        Verdict::Duplicate(Evidence::Committed),
        "rows are rows"
    );
    let rows = batch(&[&records(2..4, 1)], &[]);
    let held = world.look_up(std::slice::from_ref(&rows));
    let mut round = world.round(held);
    round.accept_replay(&rows).expect("they are dead letters");
    assert_eq!(round.decide_replay(&rows), Ok(Verdict::Duplicate(Evidence::ThisRound)));
    let result = world.commit(round);
    assert_eq!((result.rows, result.dead_letters), (2, 0));
    assert_eq!(replay(&mut world, &records(2..4, 1)), Verdict::Duplicate(Evidence::Committed));
    assert!(matches!(replay(&mut world, &records(2..5, 1)), Verdict::Trim(free) if free.len() == 1));
    assert_eq!(
        decide(&mut world, &records(0..5, 1)),
        Verdict::Duplicate(Evidence::Committed),
        "delivered again"
    );
}

#[test]
fn a_row_belongs_to_the_incarnation_of_its_dead_letter() {
    let mut world = World::new();
    world.settle(&[batch(&[], &records(0..2, 1))]);
    let stop = stand_still(&mut world);
    assert_eq!(replay(&mut world, &records(0..1, 1)), Verdict::Stopped(stop));
    end(&mut world, StopDecision::Accept, &stop).expect("it stands");
    let (old, new) = (batch(&[&records(0..2, 1)], &[]), batch(&[&records(1..3, 2)], &[]));
    let held = world.look_up(&[old.clone(), new.clone()]);
    let mut round = world.round(held);
    round.accept_replay(&old).expect("they are dead letters");
    round.accept(&new).expect("it is free");
    let result = world.commit(round);
    assert_eq!((result.objects.len(), result.rows), (2, 4), "a segment for each incarnation");
    assert_eq!(
        decide(&mut world, &records(0..1, 2)),
        Verdict::Commit,
        "the older row does not stand in its way"
    );
    assert_eq!(decide(&mut world, &records(1..3, 2)), Verdict::Duplicate(Evidence::Committed));
    assert_eq!(replay(&mut world, &records(0..2, 1)), Verdict::Duplicate(Evidence::Committed));
}

#[test]
fn rewinding_frees_the_rows_of_snapshots_that_are_gone_and_no_others() {
    for (rounds, kept, end) in [
        (5, 2, ChainEnd::Root),
        (300, 127, ChainEnd::Unseen),
        (300, 128, ChainEnd::Unseen),
        (300, 200, ChainEnd::Root),
        (300, 256, ChainEnd::Unseen),
        (130, 129, ChainEnd::Unseen),
    ] {
        let mut world = World::new();
        for round in 0..rounds {
            world.settle(&[batch(&[&records([round * 2], 1)], &records([round * 2 + 1], 1))]);
        }
        let lowest = if end == ChainEnd::Root { 1 } else { (kept - 3).max(1) };
        let freed = rewind(&mut world, &chain((lowest..=kept).rev(), end)).expect("some are gone");
        let case = format!("{rounds} rounds, {kept} kept");
        assert_eq!(i64::try_from(freed), Ok(rounds - kept), "{case}");
        assert_eq!(world.ledger.last_rewind(), Some(SequenceNumber(rounds + 1)));
        for round in 0..rounds {
            let expected =
                if round < kept { Verdict::Duplicate(Evidence::Committed) } else { Verdict::Commit };
            assert_eq!(decide(&mut world, &records([round * 2], 1)), expected, "{case}, round {round}");
            let letter = decide(&mut world, &records([round * 2 + 1], 1));
            assert_eq!(letter, Verdict::Duplicate(Evidence::Committed), "{case}: dead letters stay");
        }
        world.settle(&[batch(&[&records([rounds * 2 - 2], 1)], &[])]);
        assert_eq!(
            decide(&mut world, &records([rounds * 2 - 2], 1)),
            Verdict::Duplicate(Evidence::Committed)
        );
    }
}

#[test]
fn what_was_committed_after_the_rollback_stays() {
    let mut world = World::new();
    for offset in 0..6 {
        world.settle(&[batch(&[&records([offset], 1)], &[])]);
    }
    rewind(&mut world, &chain([6, 5, 2, 1], ChainEnd::Root)).expect("two are gone");
    for offset in 0..6 {
        let is_gone = offset == 2 || offset == 3;
        let expected = if is_gone { Verdict::Commit } else { Verdict::Duplicate(Evidence::Committed) };
        assert_eq!(decide(&mut world, &records([offset], 1)), expected, "offset {offset}");
    }
}

#[test]
fn a_replayed_row_that_is_rewound_is_a_dead_letter_again() {
    let mut world = World::new();
    world.settle(&[batch(&[], &records(0..2, 1))]);
    let rows = batch(&[&records(0..1, 1)], &[]);
    let held = world.look_up(std::slice::from_ref(&rows));
    let mut round = world.round(held);
    round.accept_replay(&rows).expect("it is a dead letter");
    world.commit(round);
    rewind(&mut world, &chain([1], ChainEnd::Root)).expect("the replay is gone");
    assert_eq!(replay(&mut world, &records(0..2, 1)), Verdict::Commit);
    let held = world.look_up(&[batch(&[&records(0..2, 1)], &[])]);
    let kinds = |offset| {
        let RecordId { partition, offset, .. } = record(0, offset, 1);
        held.at(partition, offset).map(|settled| settled.kind).collect::<Vec<_>>()
    };
    assert_eq!((kinds(0), kinds(1)), (vec![Kind::DeadLetter], vec![Kind::DeadLetter]));
}

#[test]
fn what_can_not_be_proved_gone_is_not_rewound() {
    let mut world = World::new();
    for offset in 0..4 {
        world.settle(&[batch(&[&records([offset], 1)], &[])]);
    }
    let before = world.ledger.clone();
    let unseen = rewind(&mut world, &chain([9, 8], ChainEnd::Unseen));
    assert_eq!(unseen, Err(LedgerError::NothingToRewind), "all of them are older than what can be seen");
    assert_eq!(rewind(&mut world, &chain([4, 3, 2, 1], ChainEnd::Root)), Err(LedgerError::NothingToRewind));
    let mut picked = chain([9, 2, 1], ChainEnd::Root);
    picked.snapshots[0].picked = Some(Some(SequenceNumber(4)));
    assert_eq!(rewind(&mut world, &picked), Err(LedgerError::PickedSnapshot(SnapshotId(9 * 31))));
    assert_eq!(world.ledger, before);
    assert_eq!(rewind(&mut World::new(), &picked), Err(LedgerError::NothingToRewind));
}

/// A world whose ledger's last snapshot is the third.
fn three_commits() -> World {
    let mut world = World::new();
    for offset in 0..3 {
        world.settle(&[batch(&[&records([offset], 1)], &[])]);
    }
    world
}

#[test]
fn a_history_that_holds_the_ledgers_last_snapshot_continues_it() {
    let world = three_commits();
    let own = chain([3, 2, 1], ChainEnd::Root);
    for head in [own.clone(), chain([5, 4, 3], ChainEnd::Unseen), chain([3], ChainEnd::Unseen)] {
        assert_eq!(lineage(&world.ledger, &head, Some(&own)), Ok(Lineage::Continued));
    }
    assert_eq!(lineage(&World::new().ledger, &chain([], ChainEnd::Root), None), Ok(Lineage::Continued));
}

#[test]
fn a_branch_that_was_rolled_back_goes_on() {
    let world = three_commits();
    let own = chain([3, 2, 1], ChainEnd::Root);
    let to = |number: i64| Lineage::RolledBack {
        to: SnapshotMark { id: SnapshotId(number * 31), sequence_number: SequenceNumber(number) },
    };
    assert_eq!(lineage(&world.ledger, &chain([2, 1], ChainEnd::Root), Some(&own)), Ok(to(2)));
    assert_eq!(lineage(&world.ledger, &chain([7, 1], ChainEnd::Root), Some(&own)), Ok(to(1)));
}

#[test]
fn what_can_not_be_seen_is_unknown_and_goes_on() {
    let world = three_commits();
    let unseen = Ok(Lineage::Unknown);
    assert_eq!(lineage(&world.ledger, &chain([9, 8], ChainEnd::Unseen), None), unseen);
    assert_eq!(lineage(&world.ledger, &chain([9, 2], ChainEnd::Unseen), None), unseen);
    let expired = chain([3], ChainEnd::Unseen);
    assert_eq!(lineage(&world.ledger, &chain([9, 2], ChainEnd::Unseen), Some(&expired)), unseen);
}

#[test]
fn a_history_that_contradicts_the_ledger_stops_the_table() {
    let mut world = three_commits();
    let own = chain([3, 2, 1], ChainEnd::Root);
    let last = SnapshotId(93);
    let mut ours = chain([5, 4, 3], ChainEnd::Root);
    ours.snapshots[1].is_ours = true;
    let old = Err(LineageFault::OldProperty { newer: SnapshotId(124), last });
    assert_eq!(lineage(&world.ledger, &ours, Some(&own)), old);
    let other = Err(LineageFault::OtherHistory { last });
    for head in [chain([9, 8], ChainEnd::Root), chain([], ChainEnd::Root)] {
        assert_eq!(lineage(&world.ledger, &head, Some(&own)), other, "the table was replaced");
    }
    let mut beside = chain([9, 2], ChainEnd::Root);
    beside.snapshots[1].mark.id = SnapshotId(5);
    assert_eq!(lineage(&world.ledger, &beside, Some(&own)), other, "another history");
    let mut unseen = own.clone();
    (unseen.end, unseen.snapshots) = (ChainEnd::Unseen, own.snapshots[..2].to_vec());
    let mut fork = beside.clone();
    fork.snapshots[1].mark.sequence_number = SequenceNumber(3);
    fork.snapshots[1].mark.id = SnapshotId(6);
    assert_eq!(
        lineage(&world.ledger, &fork, Some(&unseen)),
        other,
        "its place in the ledger's own history is seen"
    );
    world.ledger.last_rewind = Some(SequenceNumber(3));
    let before = Err(LineageFault::BeforeRewind { found: SnapshotId(62), rewind: SequenceNumber(3) });
    assert_eq!(lineage(&world.ledger, &chain([9, 2, 1], ChainEnd::Root), Some(&own)), before);
    let mut picked = chain([9, 3], ChainEnd::Unseen);
    for (from, is_stopped) in [(None, true), (Some(2), true), (Some(4), false)] {
        picked.snapshots[0].picked = Some(from.map(SequenceNumber));
        let fault =
            LineageFault::PickedFromBeforeRewind { picked: SnapshotId(279), rewind: SequenceNumber(3) };
        let expected = if is_stopped { Err(fault) } else { Ok(Lineage::Continued) };
        assert_eq!(lineage(&world.ledger, &picked, Some(&own)), expected, "{from:?}");
    }
}

#[test]
fn a_stops_name_is_that_of_its_record_alone() {
    let (world, stop) = stopped(1);
    let id = stop.id(world.ledger.id());
    assert_eq!((id.as_str().len(), stop.id(world.ledger.id())), (12, id.clone()));
    let struck = Conflict { found: icefall_manifest::Fingerprint(8), ..stop.struck };
    assert_ne!(Stop { struck, ..stop }.id(world.ledger.id()), id);
}
