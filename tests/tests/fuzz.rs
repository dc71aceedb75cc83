//! Each fuzz target on good input that was damaged: a short look that runs with every test, between the long ones
//! by `cargo xtask fuzz`.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::Path;

use icefall_tests::fuzz::{TARGETS, Target, seeds};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// A change to some bytes: where, how much is cut there, and what stands there instead.
type Damage = (Index, usize, Vec<u8>);

fn damage() -> impl Strategy<Value = Damage> {
    let token = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3),
        prop::sample::select(vec![
            "{", "}", "[", "]", "\"", "\\", ",", "null", "-1", "1e999", "\\ud800", "\u{0}"
        ])
        .prop_map(|token| token.as_bytes().to_vec()),
    ];
    (any::<Index>(), 0_usize..4, token)
}

fn damaged(seed: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (at, cut, token) in damages {
        let at = at.index(bytes.len() + 1);
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, token.iter().copied());
    }
    bytes
}

fn look((name, target): Target) {
    let mut runner = TestRunner::new(Config { cases: 2_000, ..Config::default() });
    let seeds: Vec<Vec<u8>> =
        seeds().into_iter().filter(|(of, _)| *of == name).map(|(_, seed)| seed).collect();
    for seed in &seeds {
        target(seed);
    }
    let input = (any::<Index>(), prop::collection::vec(damage(), 0..6));
    runner
        .run(&input, |(which, damages)| {
            let none = Vec::new();
            let seed = if seeds.is_empty() { &none } else { which.get(&seeds) };
            target(&damaged(seed, &damages));
            Ok(())
        })
        .unwrap();
}

#[test]
fn no_damage_makes_a_target_panic() {
    TARGETS.into_iter().for_each(look);
}

#[test]
fn good_input_is_taken() {
    for (name, seed) in seeds() {
        let text = || std::str::from_utf8(&seed).unwrap();
        match name {
            "queue_message" => drop(icefall_manifest::Message::decode(text()).unwrap()),
            "kafka_event" => {
                let mut buffer = icefall_records::DecodeBuffer::default();
                assert!(!icefall_records::KafkaEvent::parse(&seed, &mut buffer).unwrap().is_empty());
            }
            _ => {}
        }
    }
}

#[test]
fn every_target_has_a_program_for_the_fuzzer() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/src");
    let mut found: Vec<String> = fs::read_dir(programs)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut expected: Vec<String> = TARGETS.map(|(name, _)| name.to_owned()).to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
