//! `simulate`: many schedules, one with its trace, or parts that lie.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use icefall_simulation::{Fault, Lie, Outcome, Tally, cores, in_order, run, run_with};

const USAGE: &str = "\
simulate [--seeds N] [--first S] [--fresh N]   N schedules (1000) from seed S on (1), and N of new seeds (none)
simulate --seed S [--log]                      one schedule with its trace, and the functions' own log
simulate --sabotage                            parts that break their word: each must be noticed

  --threads N   so many at once: as many as there are cores, unless it is said; what is printed is the same

Exit code 1: a record was lost, doubled or altered, something never struck in 1000
schedules or more, or no process died at one of the calls in 10000 or more.";

/// From so many schedules on every fault must have struck.
const ENOUGH: u64 = 1000;
/// From so many on a process must have died before and after each of the calls that they make.
const ALL_POINTS: u64 = 10_000;
/// It is asked of those of which there were so many: of fewer, none may have been struck by mere chance.
const OFTEN: u64 = 1_500;
/// New seeds begin below this, so that they are short enough to be typed.
const FRESH_BELOW: u64 = 1 << 40;

struct Arguments {
    seeds: Seeds,
    single: Option<u64>,
    log: bool,
    sabotage: bool,
    threads: usize,
}

/// Which schedules are run: those of fixed seeds, then those of new ones.
struct Seeds {
    first: u64,
    fixed: Option<u64>,
    first_fresh: u64,
    fresh: u64,
}

impl Seeds {
    /// Where nothing is said, fixed ones alone.
    fn fixed(&self) -> u64 {
        self.fixed.unwrap_or(if self.fresh == 0 { ENOUGH } else { 0 })
    }

    fn count(&self) -> u64 {
        self.fixed() + self.fresh
    }

    fn at(&self, index: u64) -> u64 {
        let fixed = self.fixed();
        if index < fixed { self.first + index } else { self.first_fresh + (index - fixed) }
    }
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    if arguments.sabotage {
        return sabotage(arguments.threads);
    }
    match arguments.single {
        Some(seed) => single(seed, arguments.log),
        None => many(&arguments.seeds, arguments.threads),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    // The system seeds each hasher anew.
    let first_fresh = RandomState::new().hash_one(std::process::id()) % FRESH_BELOW;
    let seeds = Seeds { first: 1, fixed: None, first_fresh, fresh: 0 };
    let mut arguments = Arguments { seeds, single: None, log: false, sabotage: false, threads: cores() };
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse().ok();
        match word.as_str() {
            "--seeds" => arguments.seeds.fixed = Some(number()?),
            "--first" => arguments.seeds.first = number()?,
            "--fresh" => arguments.seeds.fresh = number()?,
            "--seed" => arguments.single = Some(number()?),
            "--threads" => arguments.threads = usize::try_from(number()?).ok()?,
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
fn sabotage(threads: usize) -> ExitCode {
    let mut unnoticed = 0;
    for lie in Lie::ALL {
        let noticed = in_order(
            threads,
            ENOUGH,
            |index| run_with(index + 1, Some(*lie)).violation,
            |index, violation| {
                violation
                    .map_or(ControlFlow::Continue(()), |violation| ControlFlow::Break((index + 1, violation)))
            },
        );
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

fn many(seeds: &Seeds, threads: usize) -> ExitCode {
    let (mut told, count) = (Instant::now(), seeds.count());
    if seeds.fresh > 0 {
        let last = seeds.first_fresh + seeds.fresh - 1;
        println!(
            "fresh seeds: {} to {last} (--first {} runs them again)",
            seeds.first_fresh, seeds.first_fresh
        );
    }
    let (mut all, mut hash) = (Tally::default(), 0_u64);
    let failed = in_order(
        threads,
        count,
        |index| run(seeds.at(index)),
        |done, outcome| {
            all.add(&outcome.tally);
            hash = hash.rotate_left(5) ^ outcome.hash;
            if outcome.violation.is_some() {
                return ControlFlow::Break((done, outcome));
            }
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                println!("{} of {count} schedules, {} faults", done + 1, all.total());
            }
            ControlFlow::Continue(())
        },
    );
    match failed {
        None => report(&all, count, hash),
        Some((done, outcome)) => {
            println!("{}\n", outcome.trace);
            println!("after {done} good schedules, seed {} breaks a promise:", outcome.seed);
            println!("simulate --seed {} replays it (trace {:016x})", outcome.seed, outcome.hash);
            verdict(&outcome)
        }
    }
}

/// The CPU time of this process, in milliseconds, where the system says it: in ticks of 10 ms (proc(5)).
fn cpu_ms() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the program's name, is in parentheses and may hold anything.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) * 10.0)
}

fn report(all: &Tally, count: u64, hash: u64) -> ExitCode {
    println!("\nwhat struck                                      how often");
    let mut spared = Vec::new();
    for fault in Fault::ALL {
        println!("{:<48} {:>9}", fault.text(), all.count(*fault));
        if all.count(*fault) == 0 {
            spared.push(fault.text());
        }
    }
    println!();
    println!("{} records, {} invocations, {} calls", all.records, all.invocations, all.calls);
    let survived = all.survived();
    println!(
        "processes died at {} await points: before and after {} of the {} kinds of calls that they make",
        all.crashes.len(),
        all.kinds.len() - survived.len(),
        all.kinds.len()
    );
    if let Some(cpu_ms) = cpu_ms() {
        let per_schedule = cpu_ms / f64::from(u32::try_from(count.max(1)).unwrap_or(u32::MAX));
        println!("{per_schedule:.1} ms of CPU time per schedule");
    }
    println!("all traces together: {hash:016x}");
    let spares_faults = count >= ENOUGH && !spared.is_empty();
    if spares_faults {
        println!("never struck: {}", spared.join(", "));
    }
    let spares_calls = count >= ALL_POINTS && survived.iter().any(|(_, calls)| *calls >= OFTEN);
    if !survived.is_empty() && count >= ENOUGH {
        let survived: Vec<_> =
            survived.iter().map(|(kind, calls)| format!("{kind}, {calls} times")).collect();
        println!("no process ever died both before and after: {}", survived.join("; "));
    }
    println!("{count} schedules, {} faults, 0 lost, 0 doubled", all.total());
    if !spares_faults && !spares_calls { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
