//! The machine's own Java and Maven: whether they are there, and new enough for all that runs on them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::StepFailed;

/// The oldest Java that Apache Kafka 4 and the sources of the tests run on.
const OLDEST_JAVA: u32 = 17;

/// Java is there and new enough; `remedy` says what to do when it is not.
pub(crate) fn require_java(remedy: &str) -> Result<(), StepFailed> {
    let program = java();
    let said = require(&program.to_string_lossy(), "-version", remedy)?;
    match major_version(&said) {
        Some(version) if version >= OLDEST_JAVA => Ok(()),
        Some(version) => Err(StepFailed::new(format!("`{}` is Java {version}", program.display()), remedy)),
        None => {
            let what = format!("`{} -version` did not say which Java it is: {said}", program.display());
            Err(StepFailed::new(what, remedy))
        }
    }
}

/// Maven is there.
pub(crate) fn require_maven(remedy: &str) -> Result<(), StepFailed> {
    require("mvn", "--version", remedy).map(|_| ())
}

/// What the program says about its version; Java says it on its standard error.
pub(crate) fn require(program: &str, version: &str, remedy: &str) -> Result<String, StepFailed> {
    let output = Command::new(program)
        .arg(version)
        .output()
        .map_err(|source| StepFailed::new(format!("`{program}` could not be started: {source}"), remedy))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(StepFailed::new(format!("`{program} {version}` ended with {}: {said}", output.status), remedy))
}

/// As Maven looks for it: in `JAVA_HOME` when that is set, or on the PATH.
fn java() -> PathBuf {
    env::var_os("JAVA_HOME")
        .filter(|home| !home.is_empty())
        .map_or_else(|| PathBuf::from("java"), |home| Path::new(&home).join("bin/java"))
}

/// Of `openjdk version "17.0.15" 2025-04-15` and whatever stands around that line.
fn major_version(said: &str) -> Option<u32> {
    let quoted = said.split_once(" version \"")?.1;
    quoted.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_java_says() {
        assert_eq!(major_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(major_version("Picked up JAVA_TOOL_OPTIONS: -X\njava version \"21\" 2023"), Some(21));
        assert_eq!(major_version("java version \"1.8.0_392\""), Some(1));
        assert_eq!(major_version("no such program"), None);
        assert_eq!(
            major_version("Picked up JAVA_TOOL_OPTIONS: -X\njava version \"21\" 2023-09-19 LTS"),
            Some(21)
        );
        assert_eq!(major_version("The program can't be found"), None);
    }
}
