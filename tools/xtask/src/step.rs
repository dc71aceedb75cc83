//! A step: one external command with a name, so that when it fails the message says what failed and what
//! to do about it, instead of leaving a tool's last line of output to be guessed at.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A step that did not succeed. Its text is for the person at the terminal.
#[derive(Debug)]
pub(crate) struct StepFailed {
    what: String,
    remedy: String,
}

impl StepFailed {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for StepFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n  what to do: {}", self.what, self.remedy)
    }
}

/// Announces `title`, runs `command` with its output passed through, and turns any failure into `remedy`.
pub(crate) fn run(title: &str, command: &mut Command, remedy: &str) -> Result<(), StepFailed> {
    eprintln!("==> {title}");
    let shown = shown(command);
    let status = command
        .status()
        .map_err(|source| StepFailed::new(format!("{title}: could not start `{shown}`: {source}"), remedy))?;
    if status.success() {
        return Ok(());
    }
    Err(StepFailed::new(format!("{title}: `{shown}` ended with {status}"), remedy))
}

/// The repository's root: two folders above this crate, wherever the clone stands.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_the_command_and_the_remedy() {
        let failure =
            run("Trying", Command::new("false").arg("--really"), "try true").unwrap_err().to_string();
        assert!(failure.contains("Trying: `false --really` ended with"), "{failure}");
        assert!(failure.ends_with("what to do: try true"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_a_failure_of_its_step() {
        let failure = run("Trying", &mut Command::new("/nonexistent/program"), "install it").unwrap_err();
        assert!(failure.to_string().contains("could not start"), "{failure}");
    }

    #[test]
    fn the_repository_holds_the_workspace() {
        assert!(repository().join("Cargo.toml").is_file());
    }
}
