//! `simulate-mutations [--seeds N] [--first S] [NAME...]`: promises that are broken on purpose, and the schedule that
//! notices each. Built with the feature `mutations` alone, which no other program is.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;

use icefall_mutations::Mutation;
use icefall_simulation::{Caught, catch};

const USAGE: &str = "\
simulate-mutations [--seeds N] [--first S] [NAME...]

Breaks each promise (or those that are named) on purpose, in up to N schedules (3000) from seed S on (1), until one
notices. Exit code 1: a mutation survived.";

/// A mutation that so many schedules don't notice has survived.
const MOST: u64 = 3000;

struct Arguments {
    first: u64,
    count: u64,
    chosen: Vec<Mutation>,
}

fn main() -> ExitCode {
    let Some(Arguments { first, count, chosen }) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}\n\nNames:");
        Mutation::ALL.iter().for_each(|mutation| println!("  {}", mutation.name()));
        return ExitCode::from(2);
    };
    let caught = chosen.iter().filter(|mutation| tell(**mutation, first, count)).count();
    println!("{} mutations, {caught} caught", chosen.len());
    if caught == chosen.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { first: 1, count: MOST, chosen: Vec::new() };
    while let Some(word) = words.next() {
        match word.as_str() {
            // It is how this program is asked for.
            "--mutations" => {}
            "--seeds" => arguments.count = words.next()?.parse().ok()?,
            "--first" => arguments.first = words.next()?.parse().ok()?,
            name => arguments.chosen.push(*Mutation::ALL.iter().find(|mutation| mutation.name() == name)?),
        }
    }
    if arguments.chosen.is_empty() {
        arguments.chosen = Mutation::ALL.to_vec();
    }
    Some(arguments)
}

/// One line, and whether it was caught.
fn tell(mutation: Mutation, first: u64, count: u64) -> bool {
    let (name, breaks) = (mutation.name(), mutation.breaks());
    match catch(mutation, first..first + count) {
        Some(Caught { seed, schedules, violation }) => {
            let violation = violation.lines().next().unwrap_or_default();
            let shown: String = violation.chars().take(120).collect();
            println!(
                "{name}: breaks \"{breaks}\": caught by seed {seed} after {schedules} schedules: {shown}"
            );
            true
        }
        None => {
            println!("{name}: breaks \"{breaks}\": SURVIVED {count} schedules");
            false
        }
    }
}
