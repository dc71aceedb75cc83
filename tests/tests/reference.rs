//! The lists of settings and metrics are what the code says. `ICEFALL_WRITE_REFERENCE=1` writes them anew.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::path::Path;

fn assert_current(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("ICEFALL_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, text).expect("it can be written");
    }
    let found = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(found, text, "{file} is out of date: run this test with ICEFALL_WRITE_REFERENCE=1");
}

#[test]
fn every_setting_is_listed() {
    let text = format!("# Settings\n\n{}", icefall_settings::reference());
    assert_current("shared/settings/SETTINGS.md", &text);
}

#[test]
fn every_metric_is_listed() {
    let text = format!("# Metrics\n\n{}", icefall_telemetry::reference());
    assert_current("shared/telemetry/METRICS.md", &text);
}
