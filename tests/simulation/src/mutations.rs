//! `simulate-mutations`: promises that are broken on purpose, and the schedule that notices each. Built with the feature
//! `mutations` alone, which no other program is.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

use icefall_mutations::Mutation;
use icefall_simulation::{Caught, catch, cores, in_order};

const USAGE: &str = "\
simulate-mutations [--seeds N] [--first S] [--note] [NAME...]

Breaks each promise (or those that are named) on purpose, in the schedule that is noted for it, then in up to N (3000)
from seed S on (1), until one notices. --note writes down which. Exit code 1: a mutation survived.";

/// A mutation that so many schedules don't notice has survived.
const MOST: u64 = 3000;
/// Where it is noted which schedule notices what.
const NOTES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/caught.txt");

struct Arguments {
    first: u64,
    count: u64,
    note: bool,
    chosen: Vec<Mutation>,
}

fn main() -> ExitCode {
    let Some(Arguments { first, count, note, chosen }) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}\n\nNames:");
        for mutation in Mutation::ALL {
            println!("  {}", mutation.name());
        }
        return ExitCode::from(2);
    };
    let (begun, mut caught, mut notes) = (Instant::now(), 0, String::new());
    let hunt = |index: u64| {
        let mutation = usize::try_from(index).ok().and_then(|index| chosen.get(index)).copied();
        mutation.map(|mutation| (mutation, catch(mutation, first..first + count)))
    };
    in_order(cores(), chosen.len() as u64, hunt, |_, found| {
        if let Some((mutation, found)) = found {
            tell(mutation, found.as_ref(), count);
            if let Some(Caught { seed, .. }) = found {
                caught += 1;
                // Writing to a string can't fail.
                let _ = writeln!(notes, "{} {seed}", mutation.name());
            }
        }
        ControlFlow::<()>::Continue(())
    });
    if note && let Err(fault) = std::fs::write(NOTES, notes) {
        println!("{NOTES} can't be written: {fault}");
        return ExitCode::FAILURE;
    }
    println!("{:.0} seconds", begun.elapsed().as_secs_f64());
    println!("{} mutations, {caught} caught", chosen.len());
    if caught == chosen.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { first: 1, count: MOST, note: false, chosen: Vec::new() };
    while let Some(word) = words.next() {
        match word.as_str() {
            // It is how this program is asked for.
            "--mutations" => {}
            "--seeds" => arguments.count = words.next()?.parse().ok()?,
            "--first" => arguments.first = words.next()?.parse().ok()?,
            "--note" => arguments.note = true,
            name => arguments.chosen.push(*Mutation::ALL.iter().find(|mutation| mutation.name() == name)?),
        }
    }
    if arguments.chosen.is_empty() {
        arguments.chosen = Mutation::ALL.to_vec();
    }
    Some(arguments)
}

/// One line.
fn tell(mutation: Mutation, found: Option<&Caught>, count: u64) {
    let (name, breaks) = (mutation.name(), mutation.breaks());
    match found {
        Some(Caught { seed, schedules, violation }) => {
            let violation = violation.lines().next().unwrap_or_default();
            let shown: String = violation.chars().take(120).collect();
            println!(
                "{name}: breaks \"{breaks}\": caught by seed {seed}, tried as number {schedules}: {shown}"
            );
        }
        None => println!("{name}: breaks \"{breaks}\": SURVIVED {count} schedules"),
    }
}
