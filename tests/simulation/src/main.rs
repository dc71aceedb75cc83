//! `simulate [--seeds N] [--seed S] [--sabotage]`: many schedules, one with its trace, or parts that lie.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use icefall_simulation::{Fault, Lie, Outcome, Tally, run, run_with};

const USAGE: &str = "\
simulate [--seeds N] [--first S]   N schedules (1000), from seed S on (1)
simulate --seed S [--log]          one schedule with its trace, and the functions' own log
simulate --sabotage                parts that break their word: each must be noticed

Exit code 1: a record was lost, doubled or altered, or something never struck in 1000 schedules or more.";

/// From so many schedules on every fault must have struck.
const ENOUGH: u64 = 1000;

struct Arguments {
    first: u64,
    count: u64,
    single: Option<u64>,
    log: bool,
    sabotage: bool,
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    if arguments.sabotage {
        return sabotage();
    }
    match arguments.single {
        Some(seed) => single(seed, arguments.log),
        None => many(arguments.first, arguments.count),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { first: 1, count: ENOUGH, single: None, log: false, sabotage: false };
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match word.as_str() {
            "--seeds" => arguments.count = number()?,
            "--first" => arguments.first = number()?,
            "--seed" => arguments.single = Some(number()?),
            "--log" => arguments.log = true,
            "--sabotage" => arguments.sabotage = true,
            _ => return None,
        }
    }
    Some(arguments)
}

fn single(seed: u64, log: bool) -> ExitCode {
    if log {
        tracing_subscriber::fmt().without_time().with_ansi(false).init();
    }
    let outcome = run(seed);
    println!("{}\n", outcome.trace);
    println!("seed {seed}: {} events, trace {:016x}", outcome.events, outcome.hash);
    verdict(&outcome)
}

fn verdict(outcome: &Outcome) -> ExitCode {
    match &outcome.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}

/// Lets each part lie until a schedule notices.
fn sabotage() -> ExitCode {
    let mut unnoticed = 0;
    for lie in Lie::ALL {
        let noticed = (1..=ENOUGH).find_map(|seed| Some((seed, run_with(seed, Some(*lie)).violation?)));
        let Some((seed, violation)) = noticed else {
            println!("{}: NOT NOTICED in {ENOUGH} schedules", lie.text());
            unnoticed += 1;
            continue;
        };
        println!(
            "{}: noticed with seed {seed}: {}",
            lie.text(),
            violation.lines().next().unwrap_or_default()
        );
    }
    if unnoticed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(first: u64, count: u64) -> ExitCode {
    let mut told = Instant::now();
    let mut all = Tally::default();
    for (done, seed) in (first..first + count).enumerate() {
        let outcome = run(seed);
        all.add(&outcome.tally);
        if outcome.violation.is_some() {
            println!("{}\n", outcome.trace);
            println!("after {done} good schedules, seed {seed} breaks a promise:");
            println!("simulate --seed {seed} replays it (trace {:016x})", outcome.hash);
            return verdict(&outcome);
        }
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            println!("{} of {count} schedules, {} faults", done + 1, all.total());
        }
    }
    report(&all, count)
}

/// The CPU time of this process, in milliseconds, where the system says it: in ticks of 10 ms (proc(5)).
fn cpu_ms() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the program's name, is in parentheses and may hold anything.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) * 10.0)
}

fn report(all: &Tally, count: u64) -> ExitCode {
    println!("\nwhat struck                                      how often");
    let mut spared = Vec::new();
    for fault in Fault::ALL {
        println!("{:<48} {:>9}", fault.text(), all.count(*fault));
        if all.count(*fault) == 0 {
            spared.push(fault.text());
        }
    }
    let calls: std::collections::BTreeSet<_> =
        all.crashes.iter().map(|(role, call, _, moment)| (role, call, moment)).collect();
    println!();
    println!("{} records, {} invocations, {} calls", all.records, all.invocations, all.calls);
    println!(
        "processes died at {} await points ({} kinds of calls and moments)",
        all.crashes.len(),
        calls.len()
    );
    if let Some(cpu_ms) = cpu_ms() {
        let per_schedule = cpu_ms / f64::from(u32::try_from(count.max(1)).unwrap_or(u32::MAX));
        println!("{per_schedule:.1} ms of CPU time per schedule");
    }
    println!("{count} schedules, {} faults, 0 lost, 0 doubled", all.total());
    if count >= ENOUGH && !spared.is_empty() {
        println!("never struck: {}", spared.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
