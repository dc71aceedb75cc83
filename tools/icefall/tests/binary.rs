//! The program itself, as a person starts it.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::process::{Command, Output};

fn icefall(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_icefall"));
    command.env_clear().args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_says_what_it_can_do() {
    let help = icefall(&["quarantine", "release", "--help"]);
    let said = text(&help.stdout);
    assert!(help.status.success() && said.contains("--reason-overruled <REASON>"), "{said}");
    let short = icefall(&["quarantine", "discard", "m-1"]);
    assert_eq!(short.status.code(), Some(2));
    assert!(text(&short.stderr).contains("--because <TEXT>"), "{}", text(&short.stderr));
}

#[test]
fn without_settings_it_says_where_it_looked() {
    let failed = icefall(&["--settings", "/nowhere/icefall.toml", "quarantine", "list"]);
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.starts_with("icefall: can't read the settings at /nowhere/icefall.toml"), "{said}");
}

/// What could not be audited is told from what is not as it should be.
#[test]
fn an_audit_that_can_not_begin_ends_with_2() {
    let failed = icefall(&["--settings", "/nowhere/icefall.toml", "audit", "clicks"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("/nowhere/icefall.toml"), "{}", text(&failed.stderr));
    let help = text(&icefall(&["audit", "--help"]).stdout);
    assert!(help.contains("--offset-columns <COLUMNS>") && help.contains("read_committed"), "{help}");
}
