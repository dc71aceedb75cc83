//! The committer behind an event source mapping of its queue: what it answers, and that nothing is lost
//! whatever it answers.

use std::time::Duration;

use icefall_queue::{CommitQueue, Received};
use icefall_testkit::{Call, Failure};
use serde_json::{Value, json};

use crate::bench::{self, Bench, Letters, TABLE, VISIBILITY, records};

const OTHER: &str = "analytics.orders";
/// `committer.hold`, when nothing is set.
const HOLD: Duration = Duration::from_secs(30);

/// The event that Lambda makes of these messages.
fn event(messages: &[Received]) -> Value {
    let record = |message: &Received| {
        json!({
            "messageId": message.id.0,
            "receiptHandle": message.receipt.0,
            "body": message.body,
            "attributes": {
                "ApproximateReceiveCount": message.receive_count.to_string(),
                "SentTimestamp": message.sent_ms.map(|sent| sent.to_string()),
                "SenderId": "AROAEXAMPLE:icefall-writer",
                "ApproximateFirstReceiveTimestamp": "1704067200001",
            },
            "messageAttributes": {},
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:icefall-commits",
            "awsRegion": "us-east-1",
        })
    };
    json!({ "Records": messages.iter().map(record).collect::<Vec<_>>() })
}

/// What a poller of Lambda's takes from the queue.
async fn polled(bench: &Bench) -> Vec<Received> {
    bench.queue.receive(10, Duration::ZERO).await.expect("it receives")
}

async fn answer(bench: &Bench, event: Value) -> Value {
    serde_json::to_value(bench.invoke(event).await.expect("an answer")).expect("JSON")
}

#[tokio::test]
async fn a_schedules_event_drains_the_queue() {
    let scheduled = json!({
        "version": "0", "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa", "detail-type": "Scheduled Event",
        "source": "aws.scheduler", "account": "123456789012", "time": "2026-03-01T10:00:00Z",
        "region": "us-east-1", "resources": [], "detail": "{}",
    });
    for event in [scheduled, json!({}), Value::Null, json!("drain")] {
        let bench = Bench::new().await;
        bench.send(&bench.batch(records(0, 0..3), Letters::none()).await).await;
        assert_eq!(answer(&bench, event).await["settled"], 1);
        assert_eq!(bench.rows().await, bench::keys(0, 0..3));
    }
}

#[tokio::test]
async fn the_events_messages_are_settled_together_with_what_else_is_queued() {
    let bench = Bench::new().await;
    for start in 0..25 {
        bench.send(&bench.batch(records(0, start..start + 1), Letters::none()).await).await;
    }
    let event = event(&polled(&bench).await);
    assert_eq!(answer(&bench, event).await, json!({ "batchItemFailures": [] }));
    assert_eq!(bench.rows().await, bench::keys(0, 0..25));
    assert_eq!((bench.snapshots(TABLE), bench.queue.len()), (1, 0), "one commit, and all are gone");
}

#[tokio::test]
async fn what_is_not_settled_is_named_and_nothing_else_is() {
    let bench = Bench::of_tables(&[TABLE, OTHER]).await;
    for table in [TABLE, OTHER, TABLE, OTHER] {
        let offset = i64::try_from(bench.queue.sent()).expect("a small number");
        let batch = bench.batch_for(table, records(0, offset..offset + 1), Letters::none()).await;
        bench.send(&batch).await;
    }
    bench.queue.inject("not a batch manifest");
    let messages = polled(&bench).await;
    bench.catalog_faults.outage_of(Call::Commit, OTHER, Failure::Denied);
    let kept = json!({ "batchItemFailures": [
        { "itemIdentifier": messages[1].id.0 }, { "itemIdentifier": messages[3].id.0 } ] });
    assert_eq!(answer(&bench, event(&messages)).await, kept);
    assert_eq!(bench.rows().await, [(0, 0), (0, 2)]);
    assert_eq!(bench.quarantine().len(), 2, "what is no batch manifest was put aside");

    bench.catalog_faults.clear();
    bench.clock.advance(HOLD);
    let messages = polled(&bench).await;
    assert_eq!(messages.len(), 2, "what was named comes again after one hold; the rest was deleted");
    assert_eq!(answer(&bench, event(&messages)).await, json!({ "batchItemFailures": [] }));
    assert_eq!(bench.snapshots(OTHER), 1);
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn an_invocation_that_fails_as_a_whole_loses_nothing() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    let messages = polled(&bench).await;
    bench.queue_faults.outage(Call::Receive, Failure::Unreachable);
    let failed = bench.invoke(event(&messages)).await.expect_err("nothing more can be received");
    assert_eq!(lambda_runtime::Diagnostic::from(failed).error_type, "Icefall.QueueUnreadable");
    assert_eq!(bench.rows().await, bench::keys(0, 0..5), "what came with the event was settled before");
    assert!(bench.queue.is_empty(), "and deleted, so that it does not come again");

    bench.queue_faults.clear();
    bench.send(&bench.batch(records(0, 5..9), Letters::none()).await).await;
    let unreadable = json!({ "Records": [{ "messageId": "m", "eventSource": "aws:sqs" }] });
    let failed = bench.invoke(unreadable).await.expect_err("there is no body");
    assert_eq!(lambda_runtime::Diagnostic::from(failed).error_type, "Icefall.EventUnreadable");
    assert_eq!(bench.queue.len(), 1);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, bench::keys(0, 0..9));
}

/// An outage is no reason to be invoked without a pause.
#[tokio::test]
async fn without_a_catalog_what_the_event_brought_comes_again_after_one_hold() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    let brought = polled(&bench).await;
    bench.send(&bench.batch(records(0, 5..9), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::LoadTable, Failure::NoConnection);
    let failed = bench.invoke(event(&brought)).await.expect_err("nobody is there");
    assert_eq!(lambda_runtime::Diagnostic::from(failed).error_type, "Icefall.CatalogUnreachable");
    let at_once = polled(&bench).await;
    assert!(at_once.len() == 1 && at_once[0].id != brought[0].id, "what was taken besides is given back");
    bench.clock.advance(HOLD);
    assert!(polled(&bench).await.iter().any(|message| message.id == brought[0].id));
}

#[tokio::test]
async fn an_event_that_comes_again_is_a_duplicate() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
    let event = event(&polled(&bench).await);
    for _ in 0..3 {
        assert_eq!(answer(&bench, event.clone()).await, json!({ "batchItemFailures": [] }));
    }
    assert_eq!(bench.rows().await, bench::keys(0, 0..5));
    assert_eq!(bench.snapshots(TABLE), 1);
}

#[tokio::test]
async fn the_process_dies_at_any_call_and_the_events_messages_come_again() {
    for nth in 1..60 {
        let bench = Bench::with_shared_faults().await;
        bench.send(&bench.batch(records(0, 0..3), Letters::of(0, 3..4)).await).await;
        let event = event(&polled(&bench).await);
        bench.catalog_faults.crash(bench.catalog_faults.total() + nth, icefall_testkit::Moment::After);
        let _died = bench.invoke(event).await;
        bench.catalog_faults.clear();
        bench.clock.advance(VISIBILITY * 2);
        let bench = bench.restarted();
        let messages = polled(&bench).await;
        answer(&bench, crate::queue_trigger::event(&messages)).await;
        assert_eq!(bench.rows().await, bench::keys(0, 0..3), "call {nth}");
        assert_eq!(bench.dead_letters().await, bench::keys(0, 3..4), "call {nth}");
        assert!(bench.queue.is_empty(), "call {nth}");
    }
}
