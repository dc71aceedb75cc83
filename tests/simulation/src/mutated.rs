//! Looking for the schedule that notices a promise which is broken on purpose.

use std::ops::Range;

use icefall_mutations::{Mutation, with};

use crate::schedule::run;

/// For each mutation a seed that was seen to notice it, a name and a number a line: tried first, so that all of them
/// take seconds. It is no more than a hint. A change of the simulation deals other cards, and then the seed is looked
/// for; `simulate-mutations --note` writes what it found.
const CAUGHT: &str = include_str!("../caught.txt");

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

/// The seed that is noted for `mutation`, or the first of `seeds` that notices it.
#[must_use]
pub fn catch(mutation: Mutation, seeds: Range<u64>) -> Option<Caught> {
    let tried = noted(mutation).into_iter().chain(seeds).zip(1..);
    tried.into_iter().find_map(|(seed, schedules)| {
        let violation = with(mutation, || run(seed)).violation?;
        // What is found without the mutation was not brought about by it.
        if run(seed).violation.is_some() {
            return None;
        }
        Some(Caught { seed, schedules, violation })
    })
}

/// The seed that is noted for `mutation`.
#[must_use]
pub fn noted(mutation: Mutation) -> Option<u64> {
    let mut lines = CAUGHT.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == mutation.name())?.1.parse().ok()
}
