//! `cargo xtask`: the one way into a local run, on a machine that has Rust and Python and nothing else.
//!
//! It owns what must happen before the Python tools in `tools/local` can run: finding a usable Python,
//! installing the pinned parts into `.local/` and building the functions. Then it hands over to
//! `python -m icefall_local`, in its own place, so that signals and the exit code are that program's.
//! It has no dependencies, because it is the first thing that a fresh clone compiles.

mod build;
mod environments;
mod fuzz;
mod java;
mod java_parts;
mod lint;
mod maven;
mod python;
mod step;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use step::StepFailed;

const USAGE: &str = "\
cargo xtask <command>

  up    [--kafka embedded|apache|HOST:PORT] [--catalog seaweedfs|iceberg] [--trigger schedule|queue]
                                               start the local stack with the main job on it, and leave it up
  down                                         stop it
  demo  [--records N] [--bad PERMILLE] [--rate R] [--kafka embedded|apache|HOST:PORT]
        [--catalog seaweedfs|iceberg] [--keep] [--json] [--seed N]
        [--transactions] [--isolation read_committed|read_uncommitted] [--restart-broker [SIGTERM|SIGKILL]]
        [--trigger schedule|queue] [--sabotage drop|double|alter|lose-dead-letter]
        [--committers N] [--kill-writers] [--kill-committers] [--duplicates] [--hostile [SEED]]
                                               the main job, end to end, verified by two readers
  test  [--all | --builds] [--kafka embedded|apache|HOST:PORT] [arguments of cargo test]
                                               every test, on a stack of its own; --all: also those that need Java or OpenSSL;
                                               --builds: only the release builds by SAM and cargo-lambda
  simulate [--seeds N] [--fresh N] [--seed S] [--sabotage]
                                               writer and committer over parts that fail in every way, from one seed
           [--mutations [--seeds N] [NAME...]]  promises broken on purpose in the shipped code: each has to be noticed
  bench [--json]                               the benchmarks, on release builds
  fuzz  [TARGET...] [--seconds N]              the fuzz targets of tests/fuzz, 60 seconds each
  lint                                         formatting, clippy and docs, with no warning allowed

`cargo xtask <command> --help` says more. Everything installed or written is below .local/ and target/.";

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let command = arguments.next().unwrap_or_else(|| OsString::from("help"));
    let rest: Vec<OsString> = arguments.collect();
    match run(&command.to_string_lossy(), &rest) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("\nxtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command. Commands that end in the Python tools return only when those can't be started.
fn run(command: &str, arguments: &[OsString]) -> Result<ExitCode, StepFailed> {
    match command {
        "up" | "demo" => {
            let tools = environments::ensure()?;
            if !asks_for_help(arguments) {
                if asks_for_apache_kafka(arguments) {
                    maven::ensure_kafka()?;
                }
                if asks_for_iceberg_catalog(arguments) {
                    java_parts::ensure()?;
                }
                build::functions()?;
            }
            Err(tools.hand_over("icefall_local", command, arguments))
        }
        "down" => Err(environments::ensure()?.hand_over("icefall_local", command, arguments)),
        "test" => {
            let tools = environments::ensure()?;
            let all = asks_for_all(arguments);
            if asks_for_builds(arguments) {
                environments::ensure_deployment()?;
                return Err(tools.hand_over("icefall_local", command, arguments));
            }
            if all {
                environments::ensure_deployment()?;
                java_parts::ensure()?;
            }
            if all || asks_for_apache_kafka(arguments) {
                maven::ensure_kafka()?;
            }
            build::everything_tested(all)?;
            Err(tools.hand_over("icefall_local", command, arguments))
        }
        "simulate" if asks_for_mutations(arguments) => {
            build::mutations()?;
            Err(build::hand_over("simulate-mutations", arguments))
        }
        "simulate" => {
            build::functions()?;
            Err(build::hand_over("simulate", arguments))
        }
        "bench" => {
            let tools = environments::ensure()?;
            if !asks_for_help(arguments) {
                build::release()?;
            }
            Err(tools.hand_over_module("icefall_local.bench", arguments))
        }
        "fuzz" => fuzz::run(arguments).map(|()| ExitCode::SUCCESS),
        "lint" => lint::run().map(|()| ExitCode::SUCCESS),
        "help" | "--help" | "-h" => {
            eprintln!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        unknown => {
            eprintln!("xtask: there is no command `{unknown}`\n\n{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}

/// Whether it is one of the run's own arguments; those after `--` are a test's.
fn own_arguments(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    arguments.iter().map_while(|argument| argument.to_str()).take_while(|argument| *argument != "--")
}

fn asks_for_all(arguments: &[OsString]) -> bool {
    own_arguments(arguments).any(|argument| argument == "--all")
}

fn asks_for_builds(arguments: &[OsString]) -> bool {
    own_arguments(arguments).any(|argument| argument == "--builds")
}

fn asks_for_mutations(arguments: &[OsString]) -> bool {
    own_arguments(arguments).any(|argument| argument == "--mutations")
}

fn asks_for_apache_kafka(arguments: &[OsString]) -> bool {
    gives(arguments, "--kafka", "apache")
}

fn asks_for_iceberg_catalog(arguments: &[OsString]) -> bool {
    gives(arguments, "--catalog", "iceberg")
}

/// Whether an option has this value, as the next argument or behind an equals sign.
fn gives(arguments: &[OsString], option: &str, value: &str) -> bool {
    let mut left = own_arguments(arguments).skip_while(|argument| argument.split('=').next() != Some(option));
    match left.next() {
        Some(given) if given == option => left.next() == Some(value),
        Some(given) => given.split_once('=').is_some_and(|(_, given)| given == value),
        None => false,
    }
}

fn asks_for_help(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn java_is_needed_only_by_who_asks_for_it() {
        assert!(asks_for_apache_kafka(&arguments("--records 10 --kafka apache --json")));
        assert!(asks_for_apache_kafka(&arguments("--kafka=apache")));
        assert!(!asks_for_apache_kafka(&arguments("--records 10")));
        assert!(!asks_for_apache_kafka(&arguments("--kafka embedded apache")));
        assert!(!asks_for_apache_kafka(&arguments("ledger -- --kafka apache")));
        assert!(!asks_for_apache_kafka(&arguments("--records 10 --kafka")));
        assert!(asks_for_iceberg_catalog(&arguments("--kafka apache --catalog iceberg --json")));
        assert!(asks_for_iceberg_catalog(&arguments("--catalog=iceberg")));
        assert!(!asks_for_iceberg_catalog(&arguments("--kafka apache --catalog seaweedfs")));
        assert!(!asks_for_iceberg_catalog(&arguments("--json")));
        assert!(asks_for_all(&arguments("--all ledger")));
        assert!(!asks_for_all(&arguments("ledger -- --all")));
        assert!(asks_for_mutations(&arguments("--seeds 10 --mutations")));
        assert!(!asks_for_mutations(&arguments("--seeds 10")));
    }
}
