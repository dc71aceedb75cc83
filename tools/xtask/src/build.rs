//! The builds that a run needs, with cargo's own progress shown.
//!
//! Development, tests and the demo share the `dev` profile; only what is deployed or measured is built
//! with `release`, whose link-time optimisation would make every run wait for minutes.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::step::{self, StepFailed};

/// The test target that needs Java. Its manifest says `test = false`, so that it is never among "all tests" by
/// accident: it is selected by its name, or not at all.
pub(crate) const SECOND_CATALOG: &str = "second_catalog";

/// `cargo`, the very one that started this program, in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(step::repository());
    keep_package_back(&mut command);
    command
}

/// Keeps back what cargo told this program about its own package. Build scripts of dependencies (`ring`) watch these
/// variables, so that each change between `cargo xtask` and plain `cargo` would compile them, and all that depends
/// on them, anew.
pub(crate) fn keep_package_back(command: &mut Command) {
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_this_package(name)) {
        command.env_remove(name);
    }
}

fn is_of_this_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Writer and committer as the demo hosts them.
///
/// The whole workspace is selected, not the two packages: cargo unifies features over what is selected, and
/// the tests select everything, so that any other choice compiles the large dependencies a second time. For the
/// same reason the examples are built too: they count what only tests depend on.
pub(crate) fn functions() -> Result<(), StepFailed> {
    build("Building the writer and the committer", &["build", "--workspace", "--bins", "--examples"])
}

/// What promises can be broken in on purpose: one program, of a name of its own. The functions are not built here,
/// since what lies under their names would be as breakable.
const MUTATIONS: [&str; 6] =
    ["build", "--workspace", "--features", "icefall-simulation/mutations", "--bin", "simulate-mutations"];

/// The fault simulation with promises that can be broken on purpose.
pub(crate) fn mutations() -> Result<(), StepFailed> {
    build("Building the fault simulation with promises that can be broken", &MUTATIONS)
}

/// The operator's tool with TLS for Kafka, which links the machine's OpenSSL and so is nobody's default.
const WITH_TLS: [&str; 6] =
    ["build", "--workspace", "--features", "icefall-cli/kafka-tls", "--bin", "icefall"];

/// Builds it and puts it where no later build of the plain one replaces it.
fn operators_tool_with_tls() -> Result<(), StepFailed> {
    build("Building the operator's tool with TLS for Kafka (OpenSSL; Debian: libssl-dev)", &WITH_TLS)?;
    let built = env::current_exe().unwrap_or_default().with_file_name("icefall");
    let kept = step::repository().join(".local/kafka-tls/icefall");
    let folder = kept.parent().unwrap_or(&kept);
    let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(&built, &kept));
    let failed = |source| StepFailed::new(format!("{}: {source}", kept.display()), "make .local/ writable");
    copied.map(drop).map_err(failed)
}

/// Writer, committer and every test, so that nothing compiles while a stack is up. `all`: also the tests that need
/// Java, and what they take.
pub(crate) fn everything_tested(all: bool) -> Result<(), StepFailed> {
    if all {
        operators_tool_with_tls()?;
    }
    functions()?;
    build("Building the tests", &["test", "--workspace", "--no-run"])?;
    if all {
        let target = ["test", "--workspace", "--no-run", "--test", SECOND_CATALOG];
        build("Building the tests that need Java", &target)?;
    }
    Ok(())
}

/// Writer and committer as they are deployed, and the function that their init times are compared with.
pub(crate) fn release() -> Result<(), StepFailed> {
    let packages =
        ["-p", "icefall-writer", "-p", "icefall-committer", "-p", "icefall-hello", "-p", "icefall-cli"];
    build(
        "Building functions and operator's tool for release (link-time optimisation: ten minutes or more, the first time)",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_built_breakable_under_another_name() {
        let programs = MUTATIONS.iter().skip_while(|word| **word != "--bin").skip(1);
        assert_eq!(programs.collect::<Vec<_>>(), [&"simulate-mutations"]);
    }

    #[test]
    fn only_what_describes_this_package_is_kept_from_cargo() {
        let kept_back =
            ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"];
        assert!(kept_back.iter().all(|name| is_of_this_package(OsStr::new(name))));
        let passed_on = ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "PATH"];
        assert!(!passed_on.iter().any(|name| is_of_this_package(OsStr::new(name))));
    }
}
