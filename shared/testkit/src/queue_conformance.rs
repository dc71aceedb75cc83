//! What every commit queue must do, fake or real.

#![expect(clippy::expect_used, reason = "a conformance suite fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use icefall_queue::{CommitQueue, QueueError, Receipt, Received};

/// Empty answers after which nothing more is expected: a queue may hold back what it has.
const EMPTY_ANSWERS: usize = 2;
/// How long each waits.
const WAIT: Duration = Duration::from_secs(1);

/// Runs the suite on a queue that nobody else uses, that is empty, and whose visibility time-out is
/// at least 20 s. It is empty afterwards.
///
/// # Panics
///
/// On what a queue does wrong.
pub async fn queue_conformance(queue: &dyn CommitQueue) {
    assert_eq!(queue.receive(10, Duration::ZERO).await.expect("receive"), [], "the queue must be empty");
    delivers_what_was_sent(queue).await;
    keeps_bodies_as_they_are(queue).await;
    delivers_again_what_is_given_back(queue).await;
    hides_what_is_held(queue).await;
    refuses_what_it_cant_carry(queue).await;
    takes_empty_calls(queue).await;
    assert!(queue.retention().await.expect("retention") >= Duration::from_mins(1), "SQS's least");
    assert_eq!(drain(queue, 10).await, [], "the queue must be empty again");
}

/// Receives until the queue has nothing more, each message once.
async fn drain(queue: &dyn CommitQueue, max: usize) -> Vec<Received> {
    let (mut messages, mut empty) = (Vec::new(), 0);
    while empty < EMPTY_ANSWERS {
        let answer = queue.receive(max, WAIT).await.expect("receive");
        assert!(answer.len() <= max, "asked for {max}, got {}", answer.len());
        empty = if answer.is_empty() { empty + 1 } else { 0 };
        messages.extend(answer);
    }
    messages
}

fn receipts(messages: &[Received]) -> Vec<Receipt> {
    messages.iter().map(|message| message.receipt.clone()).collect()
}

async fn send(queue: &dyn CommitQueue, bodies: &[&str]) {
    let bodies: Vec<String> = bodies.iter().map(|body| (*body).to_owned()).collect();
    queue.send(&bodies).await.expect("send");
}

/// More than one request's worth in number and in bytes.
async fn delivers_what_was_sent(queue: &dyn CommitQueue) {
    let large = |n: usize| format!("{n}:{}", "x".repeat(400_000));
    let bodies: Vec<String> = (0..23).map(|n| n.to_string()).chain((23..27).map(large)).collect();
    queue.send(&bodies).await.expect("send");
    let messages = drain(queue, 25).await;
    let (sent, got): (BTreeSet<_>, BTreeSet<_>) =
        (bodies.iter().collect(), messages.iter().map(|m| &m.body).collect());
    assert!(sent == got, "sent {} bodies, got {} different ones", sent.len(), got.len());
    let ids: BTreeSet<_> = messages.iter().map(|message| &message.id).collect();
    assert_eq!(ids.len(), bodies.len(), "each message has an id of its own");
    assert!(messages.iter().all(|message| message.receive_count >= 1 && message.sent_ms.is_some()));
    queue.delete(&receipts(&messages)).await.expect("delete");
    queue.delete(&receipts(&messages)).await.expect("deleting twice is fine");
}

async fn keeps_bodies_as_they_are(queue: &dyn CommitQueue) {
    let (largest, text) = ("y".repeat(1024 * 1024), "{\"a\":\"<&>\\u0000\"}\t\r\n\u{85} é \u{fffd} 😀 ");
    send(queue, &[&largest, text]).await;
    let messages = drain(queue, 10).await;
    let bodies: BTreeSet<&str> = messages.iter().map(|message| message.body.as_str()).collect();
    assert!(bodies == BTreeSet::from([largest.as_str(), text]), "bodies must not change");
    queue.delete(&receipts(&messages)).await.expect("delete");
}

async fn delivers_again_what_is_given_back(queue: &dyn CommitQueue) {
    send(queue, &["again"]).await;
    let first = drain(queue, 10).await;
    queue.hide(&receipts(&first), Duration::ZERO).await.expect("give back");
    let second = drain(queue, 10).await;
    let counts: Vec<_> = second.iter().map(|m| (m.body.as_str(), m.receive_count)).collect();
    assert_eq!(counts, [("again", 2)]);
    assert_eq!(first.first().map(|m| &m.id), second.first().map(|m| &m.id), "the id stays");
    queue.delete(&receipts(&second)).await.expect("delete");
}

async fn hides_what_is_held(queue: &dyn CommitQueue) {
    send(queue, &["held"]).await;
    let held = drain(queue, 10).await;
    queue.hide(&receipts(&held), Duration::from_secs(3)).await.expect("hide");
    assert_eq!(queue.receive(10, Duration::ZERO).await.expect("receive"), [], "it is held");
    let again = queue.receive(10, Duration::from_secs(10)).await.expect("receive");
    assert_eq!(again.len(), 1, "its time is over");
    queue.delete(&receipts(&again)).await.expect("delete");
    queue.hide(&receipts(&again), Duration::ZERO).await.expect("what is no longer held is left alone");
}

async fn refuses_what_it_cant_carry(queue: &dyn CommitQueue) {
    for body in [String::new(), "z".repeat(1024 * 1024 + 1), "a\u{1}b".to_owned()] {
        let error = queue.send(&["good".to_owned(), body]).await.expect_err("it must refuse");
        assert!(matches!(error, QueueError::Rejected { .. }), "{error:?}");
    }
    assert_eq!(drain(queue, 10).await, [], "nothing of a refused call is sent");
}

async fn takes_empty_calls(queue: &dyn CommitQueue) {
    queue.send(&[]).await.expect("send");
    queue.delete(&[]).await.expect("delete");
    queue.hide(&[], Duration::ZERO).await.expect("hide");
    assert_eq!(queue.receive(0, Duration::ZERO).await.expect("receive"), []);
}
