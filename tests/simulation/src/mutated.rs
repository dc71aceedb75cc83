//! Looking for the schedule that notices a promise which is broken on purpose.

use std::ops::Range;

use icefall_mutations::{Mutation, with};

use crate::schedule::run;

/// What noticed a mutation.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The schedule.
    pub seed: u64,
    /// How many schedules it took.
    pub schedules: u64,
    /// What it found wrong.
    pub violation: String,
}

/// The first of `seeds` that notices `mutation`.
#[must_use]
pub fn catch(mutation: Mutation, seeds: Range<u64>) -> Option<Caught> {
    let first = seeds.start;
    seeds.into_iter().find_map(|seed| {
        let violation = with(mutation, || run(seed)).violation?;
        Some(Caught { seed, schedules: seed - first + 1, violation })
    })
}
