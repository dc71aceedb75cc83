//! Fuzzing with libFuzzer on the stable compiler.
//!
//! The coverage counters that libFuzzer steers by are a pass of LLVM, which stable Rust can be asked for; only
//! sanitizers need another compiler, and safe Rust gains little by them. What was found stays below
//! `.local/fuzz/<target>`: the inputs that reach new code, and those that crashed.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use crate::build::cargo;
use crate::step::{self, StepFailed};

const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";
const SECONDS: &str = "60";

/// Fuzzes `[TARGET…] [--seconds N]`: each target for that long, all of them when none is named.
pub(crate) fn run(arguments: &[OsString]) -> Result<(), StepFailed> {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (targets, seconds) = chosen(&words)?;
    let corpus = step::repository().join(".local/fuzz");
    step::run(
        "Writing seeds",
        cargo()
            .args(["run", "--quiet", "--package", "icefall-tests", "--example", "fuzz_seeds", "--"])
            .arg(&corpus),
        "make .local/ writable",
    )?;
    let host = host()?;
    let manifest = step::repository().join("tests/fuzz/Cargo.toml");
    let output = step::repository().join("target/fuzz");
    step::run(
        "Building the fuzz targets (all dependencies anew, with coverage counters)",
        cargo()
            .args(["build", "--release", "--bins", "--target", &host, "--manifest-path"])
            .arg(&manifest)
            .arg("--target-dir")
            .arg(&output)
            .env("RUSTFLAGS", FLAGS),
        "libFuzzer needs a C++ compiler (Debian: build-essential)",
    )?;
    for target in targets {
        let folder = corpus.join(&target);
        fs::create_dir_all(&folder).map_err(|source| {
            StepFailed::new(format!("{}: {source}", folder.display()), "make .local/ writable")
        })?;
        step::run(
            &format!("Fuzzing {target} for {seconds} s"),
            Command::new(output.join(&host).join("release").join(&target))
                .arg(format!("-max_total_time={seconds}"))
                .arg(format!("-artifact_prefix={}/crash-", folder.display()))
                .args(["-max_len=65536", "-timeout=10", "-print_final_stats=1"])
                .arg(&folder),
            "the input that crashed is kept under the name above: make it a test of its kind, then mend the code",
        )?;
    }
    Ok(())
}

fn chosen(words: &[String]) -> Result<(Vec<String>, String), StepFailed> {
    let all = targets()?;
    let (mut targets, mut seconds) = (Vec::new(), SECONDS.to_owned());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let number = words.next().filter(|number| number.parse::<u32>().is_ok());
            seconds =
                number.cloned().ok_or_else(|| StepFailed::new("--seconds takes a number", "give one"))?;
        } else if all.contains(word) {
            targets.push(word.clone());
        } else {
            return Err(StepFailed::new(
                format!("there is no fuzz target `{word}`"),
                format!("choose of {}", all.join(", ")),
            ));
        }
    }
    Ok((if targets.is_empty() { all } else { targets }, seconds))
}

/// A target is a program in `tests/fuzz/src`.
fn targets() -> Result<Vec<String>, StepFailed> {
    let folder = step::repository().join("tests/fuzz/src");
    let unreadable =
        |source| StepFailed::new(format!("{}: {source}", folder.display()), "restore the folder");
    let mut targets: Vec<String> = fs::read_dir(&folder)
        .map_err(unreadable)?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    Ok(targets)
}

/// Named, so that the flags reach the targets and not the build scripts.
fn host() -> Result<String, StepFailed> {
    let unknown = || StepFailed::new("rustc does not say which host it is", "check that `rustc -vV` works");
    let said = Command::new("rustc").arg("-vV").output().map_err(|_| unknown())?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn all_targets_unless_some_are_named() {
        let (all, seconds) = chosen(&[]).unwrap();
        assert!(all.len() >= 5 && all.contains(&"kafka_event".to_owned()));
        assert_eq!(seconds, SECONDS);
        assert_eq!(chosen(&words("json_value --seconds 5")).unwrap(), (words("json_value"), "5".to_owned()));
    }

    #[test]
    fn what_is_no_target_is_named_with_those_that_are() {
        let said = chosen(&words("jsonvalue")).unwrap_err().to_string();
        assert!(said.contains("jsonvalue") && said.contains("json_value"), "{said}");
        assert!(chosen(&words("--seconds many")).is_err());
    }
}
