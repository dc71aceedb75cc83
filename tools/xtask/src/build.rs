//! The builds that a run needs, with cargo's own progress shown.
//!
//! Development, tests and the demo share the `dev` profile; only what is deployed or measured is built
//! with `release`, whose link-time optimisation would make every run wait for minutes.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::step::{self, StepFailed};

/// `cargo`, the very one that started this program, in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(step::repository());
    command
}

/// Writer and committer as the demo hosts them.
///
/// The whole workspace is selected, not the two packages: cargo unifies features over what is selected, and
/// the tests select everything, so that any other choice compiles the large dependencies a second time. For the
/// same reason the examples are built too: they count what only tests depend on.
pub(crate) fn functions() -> Result<(), StepFailed> {
    build("Building the writer and the committer", &["build", "--workspace", "--bins", "--examples"])
}

/// Writer, committer and every test, so that nothing compiles while a stack is up.
pub(crate) fn everything_tested() -> Result<(), StepFailed> {
    functions()?;
    build("Building the tests", &["test", "--workspace", "--no-run"])
}

/// Writer and committer as they are deployed, and the function that their init times are compared with.
pub(crate) fn release() -> Result<(), StepFailed> {
    let packages = ["-p", "icefall-writer", "-p", "icefall-committer", "-p", "icefall-hello"];
    build(
        "Building the functions for release (link-time optimisation: ten minutes or more, the first time)",
        &[&["build", "--release"], &packages[..]].concat(),
    )
}

/// Becomes `program` of the last build, which stands beside this one; returns only if that can't be started.
pub(crate) fn hand_over(program: &str, arguments: &[OsString]) -> StepFailed {
    let path = env::current_exe().unwrap_or_default().with_file_name(program);
    let source = Command::new(&path).args(arguments).exec();
    StepFailed::new(format!("could not start {}: {source}", path.display()), "run the command again")
}

fn build(title: &str, arguments: &[&str]) -> Result<(), StepFailed> {
    step::run(
        title,
        cargo().args(arguments),
        "read the compiler's message above; a C compiler and linker (Debian: build-essential) must be \
         installed, and the crate registry reachable for the first build",
    )
}
