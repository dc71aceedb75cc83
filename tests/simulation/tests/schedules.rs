//! Some hundred schedules, the same at each run; `cargo xtask simulate` runs more.

use std::ops::ControlFlow;

use icefall_simulation::{Lie, cores, in_order, run, run_with};

#[test]
fn no_schedule_loses_doubles_or_alters_a_record() {
    in_order(
        cores(),
        200,
        |index| run(index + 1),
        |_, outcome| {
            let seed = outcome.seed;
            assert_eq!(
                outcome.violation, None,
                "seed {seed}: `cargo xtask simulate --seed {seed}` shows what happened"
            );
            assert!(outcome.events >= 40 && outcome.tally.total() >= 3, "seed {seed} is too calm");
            ControlFlow::<()>::Continue(())
        },
    );
}

#[test]
fn a_seed_gives_the_same_schedule_again() {
    for seed in [1, 2, 3, 5, 8] {
        assert_eq!(run(seed).hash, run(seed).hash, "seed {seed}");
    }
    assert_ne!(run(1).hash, run(2).hash);
}

#[test]
fn a_seed_gives_the_same_schedule_however_many_run_at_once() {
    let hashes = |threads| {
        let mut hashes = Vec::new();
        in_order(
            threads,
            12,
            |seed| run(seed).hash,
            |_, hash| {
                hashes.push(hash);
                ControlFlow::<()>::Continue(())
            },
        );
        hashes
    };
    assert_eq!(hashes(1), hashes(4));
}

#[test]
fn a_part_that_breaks_its_word_is_noticed() {
    for lie in Lie::ALL {
        let noticed = (1..=300).any(|seed| run_with(seed, Some(*lie)).violation.is_some());
        assert!(noticed, "{}", lie.text());
    }
}
