//! The binary objects: each content has one encoding, other bytes are refused and never panic, and
//! what a record and a round cost stays what the docs say.

use icefall_manifest::{Encoding, RecordId};
use proptest::prelude::*;

use crate::testing::{World, batch, ledger_id, record};
use crate::{Incarnation, Index, Kind, LedgerError, Segment, SequenceNumber, Settlements, fuzz_object};

/// A segment with some index behind it, as it lies in the ops bucket.
fn with_index(rounds: i64) -> Vec<u8> {
    let mut world = World::new();
    let mut newest = Vec::new();
    for offset in 0..rounds {
        let records = [record(0, offset, 5), record(7, offset * 1_000, 6)];
        let result = world.settle(&[batch(&[&records], &[record(9, rounds - offset, 1)])]);
        newest = result.objects.last().expect("it settled records").bytes.clone();
    }
    newest
}

/// A sealed node.
fn node() -> Vec<u8> {
    let mut world = World::new();
    let rounds = (0..130).map(|offset| world.settle(&[batch(&[&[record(0, offset, 5)]], &[])]));
    let sealing = rounds.into_iter().find(|result| result.objects.len() == 2).expect("one seals a node");
    sealing.objects.into_iter().next().expect("the node is put first").bytes
}

fn settlement() -> impl Strategy<Value = (Kind, RecordId)> {
    let kind = prop_oneof![Just(Kind::Row), Just(Kind::DeadLetter)];
    let encoding = (1_u8..=4).prop_map(|tag| Encoding::try_from(tag).expect("a tag"));
    let offset = prop_oneof![0_i64..30, Just(i64::MAX - 1), 0..i64::MAX];
    let partition = prop_oneof![0_i64..4, Just(i64::from(i32::MAX))];
    (kind, encoding, partition, offset, any::<u32>()).prop_map(
        |(kind, encoding, partition, offset, print)| {
            (kind, RecordId { encoding, ..record(partition, offset, print) })
        },
    )
}

fn segment() -> impl Strategy<Value = Segment> {
    let records = prop::collection::vec(settlement(), 0..80);
    (records, any::<u32>(), any::<i64>()).prop_map(|(records, incarnation, sequence)| {
        let mut settled = Settlements::default();
        for record in records {
            // A place that is taken already stays as it is.
            let _taken = settled.extend(vec![record]);
        }
        let (incarnation, sequence_number) = (Incarnation(incarnation), SequenceNumber(sequence));
        Segment { owner: ledger_id(), incarnation, sequence_number, index: Index::default(), settled }
    })
}

/// A change to some bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), 1_u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        1 => at().prop_map(Damage::Cut),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        1 => at().prop_map(Damage::Remove),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match damage {
            Damage::Flip(at, bits) => bytes[at.index(length)] ^= bits,
            Damage::Cut(at) => bytes.truncate(at.index(length)),
            Damage::Insert(at, byte) => bytes.insert(at.index(length), *byte),
            Damage::Remove(at) => drop(bytes.remove(at.index(length))),
        }
    }
    bytes
}

proptest! {
    #[test]
    fn a_segment_reads_back_equal(segment in segment()) {
        let bytes = segment.encode();
        prop_assert_eq!(Segment::decode(&bytes), Ok(segment));
        fuzz_object(&bytes);
    }

    #[test]
    fn damaged_segments_are_refused_or_are_other_segments(
        segment in segment(), damages in prop::collection::vec(damage(), 1..6),
    ) {
        fuzz_object(&damaged(segment.encode(), &damages));
    }

    #[test]
    fn damaged_indexes_and_nodes_are_too(damages in prop::collection::vec(damage(), 1..6)) {
        fuzz_object(&damaged(with_index(12), &damages));
        fuzz_object(&damaged(node(), &damages));
    }

    #[test]
    fn any_bytes_are_refused_without_harm(
        node in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        fuzz_object(&bytes);
        let magic: &[u8] = if node { b"IFLN\x01" } else { b"IFLS\x01" };
        fuzz_object(&[magic, &bytes].concat());
    }
}

#[test]
fn what_is_put_reads_back_and_its_encoding_is_the_only_one() {
    fuzz_object(&with_index(300));
    fuzz_object(&node());
    assert!(Segment::decode(&with_index(300)).is_ok());
}

#[test]
fn newer_formats_and_other_objects_are_told_apart() {
    let mut bytes = with_index(1);
    bytes[4] = 2;
    assert!(matches!(Segment::decode(&bytes), Err(LedgerError::Newer { version: 2, .. })));
    assert!(matches!(Segment::decode(&node()), Err(LedgerError::Malformed { .. })));
    assert!(matches!(Segment::decode(b""), Err(LedgerError::Malformed { .. })));
}

#[test]
fn a_length_that_is_merely_claimed_allocates_nothing() {
    let empty = Segment {
        owner: ledger_id(),
        incarnation: Incarnation::FIRST,
        sequence_number: SequenceNumber(1),
        index: Index::default(),
        settled: Settlements::default(),
    };
    let mut bytes = empty.encode();
    assert_eq!(bytes.pop(), Some(0), "no partition");
    // One partition, number 0, of one run: gap 0, 2^62 records, rows delivered raw.
    bytes.extend([1, 0, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1]);
    assert!(matches!(Segment::decode(&bytes), Err(LedgerError::Malformed { .. })));
}

#[test]
fn a_record_costs_four_bytes() {
    let records: Vec<_> =
        (0..64).flat_map(|partition| (0..1_000).map(move |offset| record(partition, offset, 1))).collect();
    let result = World::new().settle(&[batch(&[&records], &[])]);
    let bytes = result.objects[0].bytes.len();
    assert!(bytes < 64_000 * 4 + 64 * 8 + 100, "{bytes} bytes");
}

/// 64 partitions of a transactional topic, a round a minute of 10 records per partition in runs of 5
/// between markers: what a round puts besides its fingerprints is bounded by two full levels.
#[test]
fn a_round_of_a_wide_transactional_topic_puts_a_bounded_index() {
    let mut world = World::new();
    let mut largest = 0;
    for round in 0..400_i64 {
        let offsets = (0..11).filter(|step| *step != 5).map(|step| round * 12 + step);
        let records: Vec<_> = (0..64)
            .flat_map(|partition| offsets.clone().map(move |offset| record(partition, offset, 1)))
            .collect();
        let result = world.settle(&[batch(&[&records], &[])]);
        let put: usize = result.objects.iter().map(|object| object.bytes.len()).sum();
        largest = largest.max(put - records.len() * 4);
    }
    assert!(largest < 96 * 1024, "a round put {largest} bytes besides fingerprints");
}
