//! What is unavailable fails the batch: an error that says what to do, and nothing acknowledged.

use std::time::Duration;

use icefall_clock::Clock;
use icefall_testkit::{Call, Failure, Moment};
use icefall_writer::WriterError;

use crate::bench::{Bench, SETTINGS, event, record};

fn one(topic: &str) -> String {
    event(&[record(topic, 0, 1, Some(r#"{"n":1}"#))])
}

async fn refused(bench: &Bench, event: &str) -> (&'static str, String) {
    let error = bench.write(event).await.expect_err("the batch fails");
    (error.error_type(), error.chain())
}

#[tokio::test]
async fn a_topic_without_a_route_fails_the_whole_batch_before_anything_is_stored() {
    let bench = Bench::new().await;
    let records = [record("clicks", 0, 1, Some(r#"{"n":1}"#)), record("strange", 0, 1, Some("{}"))];
    let (kind, text) = refused(&bench, &event(&records)).await;
    assert_eq!(kind, "NoRoute");
    assert!(text.contains("[[route]]") && text.contains("\"strange\""), "{text}");
    assert!(bench.queue.is_empty() && bench.lake.keys("lake", "").is_empty());
}

#[tokio::test]
async fn a_missing_table_is_named() {
    let bench = Bench::new().await;
    let (kind, text) = refused(&bench, &one("lost")).await;
    assert_eq!(kind, "TableNotFound");
    assert!(text.contains("shop.lost"), "{text}");
}

#[tokio::test]
async fn a_cluster_that_nothing_names_is_asked_for() {
    let bench = Bench::with(&SETTINGS.replace("kafka = { cluster = \"local\" }", "")).await;
    let (kind, text) = refused(&bench, &one("clicks")).await;
    assert_eq!(kind, "NoCluster");
    assert!(text.contains("kafka.cluster"), "{text}");
    let arn = r#""eventSourceArn":"arn:aws:kafka:us-east-1:1:cluster/c/0a-1","records""#;
    bench.write(&one("clicks").replace("\"records\"", arn)).await.expect("MSK names its cluster");
    let manifests = bench.manifests();
    assert_eq!(
        manifests.first().map(|manifest| manifest.source.to_string()),
        Some("demo/0a-1/clicks".to_owned())
    );
}

#[tokio::test]
async fn whatever_part_fails_the_batch_comes_again_and_is_whole() {
    for (call, kind) in [
        (Call::LoadTable, "CatalogUnavailable"),
        (Call::Get, "OpsBucketUnavailable"),
        (Call::Send, "QueueUnavailable"),
    ] {
        for moment in [Moment::Before, Moment::After] {
            let bench = Bench::new().await;
            bench.heartbeat(bench.clock.now()).await;
            bench.faults.lose(call, 1, moment);
            assert_eq!(refused(&bench, &one("clicks")).await.0, kind);
            let before = bench.queue.len();
            assert!(before == 0 || moment == Moment::After, "only a send that was done leaves a message");
            bench.write(&one("clicks")).await.expect("it is back");
            let last = bench.manifests().pop().expect("a batch manifest");
            assert_eq!(bench.rows(&last), [(1, Some(1))]);
        }
    }
}

#[tokio::test]
async fn no_store_takes_less_than_all_files() {
    let bench = Bench::new().await;
    let event = event(&[record("clicks", 0, 1, Some(r#"{"n":1}"#)), record("clicks", 0, 2, None)]);
    for nth in 1..=2 {
        bench.faults.clear();
        bench.faults.lose(Call::Put, bench.faults.count(Call::Put) + nth, Moment::Before);
        let error = bench.write(&event).await.expect_err("a put fails");
        assert!(matches!(error, WriterError::Upload { .. } | WriterError::Ops { .. }), "{error}");
        assert!(bench.queue.is_empty());
    }
    bench.faults.clear();
    let report = bench.write(&event).await.expect("it is back");
    assert_eq!((report.rows, report.dead_letters), (1, 1));
}

#[tokio::test]
async fn an_unreadable_event_is_not_acknowledged_before_it_is_kept() {
    let bench = Bench::new().await;
    bench.faults.outage(Call::Put, Failure::Denied);
    let (kind, text) = refused(&bench, "{").await;
    assert_eq!(kind, "OpsBucketUnavailable");
    assert!(text.contains("quarantine"), "{text}");
}

#[tokio::test]
async fn batches_are_refused_while_nobody_commits() {
    let bench = Bench::new().await;
    bench.heartbeat(bench.clock.now()).await;
    bench.write(&one("clicks")).await.expect("the committer runs");
    bench.clock.advance(Duration::from_hours(13));
    let (kind, text) = refused(&bench, &one("clicks")).await;
    assert_eq!(kind, "CommitterStalled");
    assert!(text.contains("13 h") && text.contains("demo"), "{text}");
    bench.heartbeat(bench.clock.now()).await;
    bench.clock.advance(Duration::from_mins(1));
    bench.write(&one("clicks")).await.expect("the committer is back");
    let reads = bench.faults.count(Call::Get);
    bench.clock.advance(Duration::from_secs(59));
    bench.write(&one("clicks")).await.expect("still well");
    assert_eq!(bench.faults.count(Call::Get), reads, "the heartbeat is read once a minute");
}

#[tokio::test]
async fn a_table_that_grew_is_loaded_again_before_a_record_is_refused() {
    let bench = Bench::new().await;
    bench.write(&one("clicks")).await.expect("the table is loaded");
    bench.grow("clicks", &["n", "more"]);
    let grown = event(&[record("clicks", 0, 2, Some(r#"{"n":2,"more":3}"#))]);
    bench.write(&grown).await.expect("loaded a moment ago");
    bench.clock.advance(Duration::from_secs(30));
    bench.write(&grown).await.expect("loaded again");
    let schemas: Vec<_> = bench.manifests().iter().map(|manifest| manifest.schema_id.0).collect();
    assert_eq!(schemas, [0, 0, 1]);
    assert_eq!(bench.faults.count(Call::LoadTable), 2);
}

#[tokio::test]
async fn metadata_is_kept_for_a_minute_and_bad_records_do_not_hammer_the_catalog() {
    let bench = Bench::new().await;
    let bad = event(&[record("clicks", 0, 2, Some("[]"))]);
    for _ in 0..7 {
        bench.write(&bad).await.expect("a dead letter");
        bench.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(bench.faults.count(Call::LoadTable), 3, "at 0, 30 and 60 seconds");
    bench.clock.advance(Duration::from_mins(1));
    for _ in 0..6 {
        bench.write(&one("clicks")).await.expect("a row");
        bench.clock.advance(Duration::from_secs(9));
    }
    assert_eq!(bench.faults.count(Call::LoadTable), 4);
}
