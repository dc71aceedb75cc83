//! The checks that every change must pass: formatting, clippy and documentation, each without a warning.

use crate::build::cargo;
use crate::step::{self, StepFailed};

pub(crate) fn run() -> Result<(), StepFailed> {
    step::run("Formatting", cargo().args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")?;
    step::run(
        "Clippy",
        cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        "change the code as clippy asks; an exception is an `#[expect]` with its reason",
    )?;
    step::run(
        "Documentation",
        cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"),
        "mend the documentation comments named above",
    )
}
