//! Some hundred schedules, the same at each run; `cargo xtask simulate` runs more.

use icefall_simulation::{Lie, run, run_with};

#[test]
fn no_schedule_loses_doubles_or_alters_a_record() {
    for seed in 1..=200 {
        let outcome = run(seed);
        assert_eq!(
            outcome.violation, None,
            "seed {seed}: `cargo xtask simulate --seed {seed}` shows what happened"
        );
        assert!(outcome.events >= 40 && outcome.tally.total() >= 3, "seed {seed} is too calm");
    }
}

#[test]
fn a_seed_gives_the_same_schedule_again() {
    for seed in [1, 2, 3, 5, 8] {
        assert_eq!(run(seed).hash, run(seed).hash, "seed {seed}");
    }
    assert_ne!(run(1).hash, run(2).hash);
}

#[test]
fn a_part_that_breaks_its_word_is_noticed() {
    for lie in Lie::ALL {
        let noticed = (1..=300).any(|seed| run_with(seed, Some(*lie)).violation.is_some());
        assert!(noticed, "{}", lie.text());
    }
}
