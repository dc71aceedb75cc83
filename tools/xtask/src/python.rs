//! Finds a Python that can run the tools: 3.10 or newer, with the `venv` module.
//!
//! The version is asked of the interpreter itself; names and folders prove nothing.

use std::process::Command;

use crate::step::StepFailed;

/// The oldest Python that the tools and their pinned packages run on.
const OLDEST: (u32, u32) = (3, 10);

/// Tried in this order; the first that is new enough is used.
const NAMES: [&str; 5] = ["python3", "python3.13", "python3.12", "python3.11", "python3.10"];

/// The name of a usable interpreter on the PATH.
pub(crate) fn find() -> Result<&'static str, StepFailed> {
    NAMES.into_iter().find(|name| version(name).is_some_and(|version| version >= OLDEST)).ok_or_else(|| {
        StepFailed::new(
            "no Python 3.10 or newer was found on the PATH",
            "install Python 3.10 to 3.13 with its venv module (Debian: apt-get install python3 python3-venv)",
        )
    })
}

fn version(name: &str) -> Option<(u32, u32)> {
    let script = "import sys, venv, ensurepip; print(*sys.version_info[:2])";
    let output = Command::new(name).args(["-c", script]).output().ok()?;
    output.status.success().then(|| parsed(&String::from_utf8_lossy(&output.stdout)))?
}

fn parsed(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(parsed("3 9\n").unwrap() < OLDEST);
        assert!(parsed("3 11\n").unwrap() >= OLDEST);
        assert_eq!(parsed("nonsense"), None);
    }
}
