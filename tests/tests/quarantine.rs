//! The operator's tool on real parts: an entry is listed, shown, released, decided about anew, and lands once.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use clap::Parser;
use icefall_cli::{Arguments, Desk, run};
use icefall_parts::ops_lister;
use icefall_tests::{Pipeline, click, event, event_ids, metadata};
use serde_json::Value;

/// `icefall quarantine <arguments> --json` with the settings of `pipeline`.
async fn icefall(pipeline: &Pipeline, arguments: &[&str]) -> Value {
    let parts = pipeline.parts().await;
    let lister = ops_lister(&parts.settings).await.expect("a lister");
    let desk = Desk::new(parts, lister);
    let line = ["icefall", "quarantine"].iter().chain(arguments).chain(&["--json"]);
    let arguments = Arguments::try_parse_from(line).expect("a command line");
    let mut out = Vec::new();
    run(&desk, arguments, &mut out).await.expect("it is done");
    serde_json::from_slice(&out).expect("JSON")
}

#[tokio::test]
async fn a_batch_of_a_renamed_cluster_waits_until_it_is_released_and_lands_once() {
    let pipeline = Pipeline::new("quarantine", 2).await;
    pipeline.drain().await.expect("the tables are made");
    let values = |from: u64| (from..from + 10).map(click).collect::<Vec<_>>();
    pipeline.write(&event(0, 0, &values(0))).await.expect("it is taken in");
    pipeline.drain().await.expect("it is settled");

    let renamed = pipeline.with("ICEFALL__KAFKA__CLUSTER", "renamed");
    renamed.write(&event(0, 10, &values(10))).await.expect("it is taken in");
    renamed.drain().await.expect("it is put aside");
    let listed = icefall(&renamed, &["list", "--reason", "another-cluster"]).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let entry = listed.get(0).expect("an entry");
    assert_eq!(entry.get("records"), Some(&10.into()), "{listed}");
    let id = entry.get("id").and_then(Value::as_str).expect("an id");
    let shown = icefall(&renamed, &["show", id]).await;
    assert!(shown.pointer("/entry/details/what-to-do").is_some(), "{shown}");

    icefall(&renamed, &["release", id, "--reason-overruled", "another-cluster"]).await;
    renamed.drain().await.expect("it is decided anew");
    assert_eq!(icefall(&renamed, &["list"]).await, Value::Array(Vec::new()));
    let decided = icefall(&renamed, &["list", "--all"]).await;
    assert_eq!(decided.pointer("/0/decision/decided"), Some(&"released".into()), "{decided}");

    let parts = renamed.parts().await;
    let metadata = metadata(&parts, &renamed.table()).await;
    let snapshot = metadata.current_snapshot().expect("a snapshot");
    let mut expected: Vec<String> = (0..20).map(|n| format!("e-{n}")).collect();
    expected.sort_unstable();
    assert_eq!(event_ids(&parts, &renamed.table(), snapshot).await, expected);
}
