//! A handful of promises, broken on purpose: `cargo xtask simulate --mutations` breaks all of them.

use icefall_mutations::{Mutation, mark};
use icefall_simulation::{catch, noted};

#[test]
fn a_broken_promise_is_noticed() {
    let handful = [
        Mutation::AcknowledgedBeforeCommit,
        Mutation::FingerprintIgnored,
        Mutation::HighestForRecords,
        Mutation::TrimSkipped,
        Mutation::OutboxClearedEarly,
        Mutation::AnsweredBeforeQueued,
    ];
    for mutation in handful {
        assert!(catch(mutation, 1..200).is_some(), "{} survived", mutation.name());
    }
}

#[test]
fn a_program_that_can_be_mutated_is_known_by_its_mark() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_simulate-mutations")).expect("it was built");
    assert!(program.windows(mark().len()).any(|bytes| bytes == mark().as_bytes()));
}

/// So that all of them are tried in seconds.
#[test]
fn for_every_mutation_it_is_noted_what_noticed_it() {
    let unknown = Mutation::ALL.iter().filter(|mutation| noted(**mutation).is_none());
    assert_eq!(unknown.map(|mutation| mutation.name()).collect::<Vec<_>>(), [""; 0]);
}
