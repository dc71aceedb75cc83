//! The checks that every change must pass: formatting, clippy and documentation, each without a warning.

use crate::build::{SECOND_CATALOG, cargo};
use crate::step::{self, StepFailed};

const AS_CLIPPY_ASKS: &str = "change the code as clippy asks; an exception is an `#[expect]` with its reason";

pub(crate) fn run() -> Result<(), StepFailed> {
    step::run("Formatting", cargo().args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")?;
    step::run(
        "Clippy",
        cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        AS_CLIPPY_ASKS,
    )?;
    step::run(
        "Clippy, of the tests that need Java",
        cargo().args(["clippy", "--workspace", "--test", SECOND_CATALOG, "--", "-D", "warnings"]),
        AS_CLIPPY_ASKS,
    )?;
    step::run(
        "Documentation",
        cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"),
        "mend the documentation comments named above",
    )
}
