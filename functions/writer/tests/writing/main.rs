//! The writer's promises, over fakes: every record accounted for, nothing acknowledged before it is
//! durable, and a clear word about what failed.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod bench;
mod failures;
mod partitions;

use bench::{Bench, event, raw, record};

#[tokio::test]
async fn records_of_several_partitions_become_rows_that_lead_back_to_them() {
    let bench = Bench::new().await;
    let records = [
        record("clicks", 0, 10, Some(r#"{"n":100}"#)),
        record("clicks", 1, 7, Some(r#"{"n":70}"#)),
        record("clicks", 0, 12, Some(r#"{"n":120}"#)),
    ];
    let report = bench.write(&event(&records)).await.expect("all is well");
    assert_eq!((report.records, report.rows, report.files, report.batches), (3, 3, 1, 1));
    let manifests = bench.manifests();
    let [manifest] = manifests.as_slice() else { panic!("one batch manifest") };
    assert_eq!(bench.rows(manifest), [(10, Some(100)), (12, Some(120)), (7, Some(70))]);
    assert_eq!(manifest.source.to_string(), "demo/local/clicks");
    assert_eq!(manifest.newest_record_ms, Some(1_700_000_000_012));
    assert_eq!(manifest.dead_letters, None);
    let table = bench.catalog.peek(&bench::ident("clicks")).expect("a table");
    assert_eq!(manifest.table_uuid.0, table.uuid());
    assert_eq!(manifest.file_outside(table.location()), None);
}

#[tokio::test]
async fn bad_records_become_dead_letters_with_the_reason_and_the_rest_goes_on() {
    let bench = Bench::new().await;
    let records = [
        record("clicks", 0, 1, Some(r#"{"n":1}"#)),
        record("clicks", 0, 2, Some(r#"{"n":"two"}"#)),
        record("clicks", 0, 3, Some("[]")),
        record("clicks", 0, 4, Some(r#"{"n":"#)),
        record("clicks", 0, 5, Some("{}")),
        record("clicks", 0, 6, Some(r#"{"n":9223372036854775808}"#)),
        record("clicks", 0, 7, None),
        raw("clicks", 0, 8, r#""not base64!""#),
        raw("clicks", 0, 9, r#""/w==""#),
        record("clicks", 0, 10, Some("")),
        record("clicks", 0, 11, Some(r#"{"n":11}"#)),
    ];
    let report = bench.write(&event(&records)).await.expect("bad records are no failure");
    assert_eq!((report.rows, report.dead_letters, report.skipped), (2, 9, 0));
    let manifests = bench.manifests();
    let [manifest] = manifests.as_slice() else { panic!("one batch manifest") };
    assert_eq!(bench.rows(manifest), [(1, Some(1)), (11, Some(11))]);
    let letters = bench.dead_letters(manifest);
    let classes: Vec<_> = letters.iter().map(|letter| letter.error_class.as_str()).collect();
    let expected = [
        "wrong-type",
        "not-an-object",
        "malformed-json",
        "missing-required",
        "out-of-range",
        "tombstone",
        "unreadable-value",
        "invalid-utf8",
        "malformed-json",
    ];
    assert_eq!(classes, expected);
    let first = letters.first().expect("nine letters");
    assert!(first.error_text.starts_with("n: long expected"), "{}", first.error_text);
    assert_eq!(first.value.as_ref().map(|value| value.0.as_slice()), Some(br#"{"n":"two"}"#.as_slice()));
    assert_eq!(first.key.as_ref().map(|key| key.0.as_slice()), Some(b"k".as_slice()));
    assert_eq!(
        first.headers.first().and_then(|header| header.value.clone()).map(|value| value.0),
        Some(vec![255])
    );
    let unreadable = letters.get(6).expect("nine letters");
    assert!(unreadable.error_text.contains("not base64!"), "{}", unreadable.error_text);
}

#[tokio::test]
async fn each_topic_has_a_batch_manifest_of_its_own() {
    let bench = Bench::new().await;
    let records = [
        record("orders", 0, 1, Some(r#"{"n":1}"#)),
        record("clicks", 0, 1, Some(r#"{"n":2}"#)),
        record("orders", 0, 2, Some(r#"{"n":3}"#)),
    ];
    let report = bench.write(&event(&records)).await.expect("all is well");
    assert_eq!((report.rows, report.files, report.batches), (3, 2, 2));
    let manifests = bench.manifests();
    let tables: Vec<_> = manifests.iter().map(|manifest| manifest.table.to_string()).collect();
    assert_eq!(tables, ["shop.clicks", "shop.orders"]);
    let rows: Vec<_> = manifests.iter().map(|manifest| bench.rows(manifest)).collect();
    assert_eq!(rows, [vec![(1, Some(2))], vec![(1, Some(1)), (2, Some(3))]]);
}

#[tokio::test]
async fn tombstones_that_a_route_skips_are_counted_and_sent_nowhere() {
    let bench = Bench::new().await;
    let report = bench.write(&event(&[record("orders", 0, 1, None)])).await.expect("all is well");
    assert_eq!((report.records, report.skipped, report.dead_letters, report.batches), (1, 1, 0, 0));
    assert!(bench.queue.is_empty() && bench.lake.keys("lake", "").is_empty());
    let mut metrics = Vec::new();
    bench.writer.flush_metrics(&mut metrics).expect("memory takes all");
    let metrics = String::from_utf8(metrics).expect("text");
    assert!(
        metrics.contains("\"TombstonesSkipped\":1") && metrics.contains("\"RecordsReceived\":1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn an_event_without_records_is_fine() {
    let bench = Bench::new().await;
    let report = bench.write(&event(&[])).await.expect("nothing to do");
    assert_eq!(report, icefall_writer::Report::default());
}

#[tokio::test]
async fn an_unreadable_event_is_kept_byte_by_byte() {
    let bench = Bench::new().await;
    let odd = event(&[raw("clicks", 0, 1, "null").replace("\"offset\":1", "\"offset\":\"?\"")]);
    for unreadable in [odd.as_str(), "null", "{", "{\"Records\":[]}"] {
        let report = bench.write(unreadable).await.expect("it is put aside");
        assert!(report.quarantined && bench.queue.is_empty());
        let place =
            icefall_store::Location::s3("ops", "quarantine/2024-01-01/unreadable-event/request-1.raw");
        assert_eq!(bench.ops.peek(&place).as_deref(), Some(unreadable.as_bytes()));
    }
}

#[tokio::test]
async fn every_attempt_uses_names_of_its_own() {
    let bench = Bench::new().await;
    let event = event(&[record("clicks", 0, 1, Some(r#"{"n":1}"#)), record("clicks", 0, 2, None)]);
    bench.write(&event).await.expect("the first");
    bench.write(&event).await.expect("the second");
    assert_eq!(bench.lake.keys("lake", "").len(), 2);
    assert_eq!(bench.ops.keys("ops", "dead-letters/").len(), 2);
    let manifests = bench.manifests();
    let records: Vec<_> =
        manifests.iter().map(|manifest| manifest.record_lists().cloned().collect::<Vec<_>>()).collect();
    assert_eq!(records.first(), records.get(1), "the same records, told the same way");
}

#[tokio::test]
async fn a_batch_manifest_too_large_for_a_message_is_pointed_to() {
    let bench = Bench::new().await;
    // Every second offset: each record needs a run of its own.
    let records: Vec<_> = (0..150_000).map(|n| record("clicks", 0, n * 2, Some(r#"{"n":1}"#))).collect();
    let report = bench.write(&event(&records)).await.expect("all is well");
    assert_eq!((report.rows, report.batches), (150_000, 1));
    let bodies = bench.queue.bodies();
    assert!(bodies.iter().all(|body| body.len() < 20_000 && body.contains("\"spilled\"")));
    let manifests = bench.manifests();
    assert_eq!(manifests.first().map(|manifest| bench.rows(manifest).len()), Some(150_000));
}

/// T32: "batch that makes 3,000 files; 7 MB of manifest: body goes to S3, queue carries a pointer; never
/// refused, never truncated".
#[tokio::test]
async fn t32_a_batch_that_makes_3_000_files_is_pointed_to() {
    let bench = Bench::with(&bench::SETTINGS.replace("shop.lost", "shop.spread")).await;
    bench.create_spread("spread").await;
    let value = |n: i64| format!(r#"{{"n":{n}}}"#);
    let records: Vec<_> = (0..3_000).map(|n| record("lost", 0, n, Some(&value(n)))).collect();
    let report = bench.write(&event(&records)).await.expect("all is well");
    assert_eq!((report.rows, report.files, report.batches), (3_000, 3_000, 1));
    let bodies = bench.queue.bodies();
    assert!(
        bodies.len() == 1 && bodies.iter().all(|body| body.len() < 20_000 && body.contains("\"spilled\""))
    );
    let spilled = bench.ops.keys("ops", "spill/");
    let place = icefall_store::Location::s3("ops", spilled.first().expect("an object").as_str());
    assert!(bench.ops.peek(&place).is_some_and(|body| body.len() > 1024 * 1024), "more than a message takes");
    let manifests = bench.manifests();
    let [manifest] = manifests.as_slice() else { panic!("one batch manifest") };
    let rows: Vec<_> = (0..3_000).map(|n| (n, Some(n))).collect();
    assert_eq!(bench.rows(manifest), rows);
}
