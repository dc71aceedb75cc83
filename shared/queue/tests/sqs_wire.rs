//! What the SQS adapter makes of every kind of answer, above all of those that succeed in part.

use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use icefall_aws::{CachedCredentials, CallLimits, http_client};
use icefall_clock::SystemClock;
use icefall_queue::{CommitQueue, QueueError, Receipt, SqsConfig, SqsQueue};
use icefall_testkit::{Reply, ScriptedServer};

const LIMITS: CallLimits = CallLimits {
    attempts: 3,
    backoff: Duration::from_millis(1),
    connect: Duration::from_millis(500),
    attempt: Duration::from_millis(500),
};

async fn served(script: impl IntoIterator<Item = Reply>) -> (ScriptedServer, SqsQueue) {
    let server = ScriptedServer::start(script).await;
    let credentials = Credentials::new("AKIDQUEUE", "secret", None, None, "test");
    let config = SqsConfig {
        url: format!("{}/0/q", server.url()),
        endpoint: Some(server.url()),
        region: "eu-central-1".to_owned(),
        credentials: CachedCredentials::new(credentials, Arc::new(SystemClock)),
    };
    (server, SqsQueue::with_limits(config, http_client(), LIMITS))
}

fn sent(ids: &[usize]) -> String {
    let entries: Vec<String> = ids
        .iter()
        .map(|id| format!(r#"{{"Id":"{id}","MessageId":"m{id}","MD5OfMessageBody":"x"}}"#))
        .collect();
    format!(r#""Successful":[{}]"#, entries.join(","))
}

fn failed(id: usize, code: &str, sender: bool) -> String {
    format!(r#""Failed":[{{"Id":"{id}","Code":"{code}","SenderFault":{sender},"Message":"why"}}]"#)
}

fn answer(parts: &[String]) -> Reply {
    Reply::json(200, &format!("{{{}}}", parts.join(",")))
}

fn bodies() -> Vec<String> {
    ["a", "b"].map(ToOwned::to_owned).to_vec()
}

#[tokio::test]
async fn an_entry_that_failed_is_sent_again_by_itself() {
    let first = answer(&[sent(&[0]), failed(1, "InternalError", false)]);
    let (server, queue) = served([first, answer(&[sent(&[0])])]).await;
    queue.send(&bodies()).await.expect("the second try succeeds");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let again = String::from_utf8_lossy(&requests[1].body).into_owned();
    assert!(again.contains(r#""MessageBody":"b""#) && !again.contains(r#""MessageBody":"a""#), "{again}");
}

#[tokio::test]
async fn an_entry_that_the_answer_does_not_name_is_not_taken_for_sent() {
    let (server, queue) = served([answer(&[sent(&[0])]), answer(&[])]).await;
    let error = queue.send(&bodies()).await.expect_err("one is never accepted");
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn an_entry_that_is_refused_is_not_tried_again() {
    let (server, queue) = served([answer(&[sent(&[0]), failed(1, "InvalidMessageContents", true)])]).await;
    let error = queue.send(&bodies()).await.expect_err("it is refused");
    assert!(matches!(error, QueueError::Rejected { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_receipt_that_is_no_longer_held_counts_as_done() {
    let (server, queue) = served([answer(&[failed(0, "ReceiptHandleIsInvalid", true)])]).await;
    let receipts = [Receipt("r".to_owned())];
    queue.delete(&receipts).await.expect("deleting twice is fine");
    queue.hide(&receipts, Duration::from_secs(1)).await.expect("it is left alone");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_delete_that_keeps_failing_is_an_error() {
    let (_server, queue) = served([answer(&[failed(0, "InternalError", false)])]).await;
    let error = queue.delete(&[Receipt("r".to_owned())]).await.expect_err("it fails");
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_received_message_is_told_in_full() {
    let message = r#"{"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b",
        "Attributes":{"SentTimestamp":"1700000000000","ApproximateReceiveCount":"3"}}]}"#;
    let (_server, queue) = served([Reply::json(200, message)]).await;
    let got = queue.receive(10, Duration::ZERO).await.expect("it receives");
    assert_eq!(
        (got[0].sent_ms, got[0].receive_count, got[0].body.as_str()),
        (Some(1_700_000_000_000), 3, "b")
    );
}

#[tokio::test]
async fn what_is_received_is_hidden_for_the_span_that_was_asked_for() {
    let (server, queue) = served([Reply::json(200, "{}"), Reply::json(200, "{}")]).await;
    queue.receive(10, Duration::ZERO).await.expect("it receives");
    queue.hiding_for(Duration::from_secs(7)).receive(10, Duration::ZERO).await.expect("it receives");
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|request| String::from_utf8_lossy(&request.body).contains(r#""VisibilityTimeout":7"#))
        .collect();
    assert_eq!(asked, [false, true]);
}

#[tokio::test]
async fn a_message_without_its_receipt_is_no_message() {
    let (_server, queue) = served([Reply::json(200, r#"{"Messages":[{"MessageId":"m","Body":"b"}]}"#)]).await;
    let error = queue.receive(10, Duration::ZERO).await.expect_err("it can't be let go");
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
}

fn variant(error: &QueueError) -> &'static str {
    match error {
        QueueError::NotFound { .. } => "NotFound",
        QueueError::Denied { .. } => "Denied",
        QueueError::Throttled { .. } => "Throttled",
        QueueError::Unreachable { .. } => "Unreachable",
        QueueError::Rejected { .. } => "Rejected",
    }
}

#[tokio::test]
async fn every_answer_becomes_what_its_caller_can_act_on() {
    let error = |code: &str| format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"why"}}"#);
    let answers = [
        (Reply::json(400, &error("QueueDoesNotExist")), "NotFound"),
        (Reply::empty(404), "NotFound"),
        (Reply::json(403, &error("AccessDeniedException")), "Denied"),
        (Reply::empty(403), "Denied"),
        (Reply::json(400, &error("InvalidClientTokenId")), "Denied"),
        (Reply::json(400, &error("RequestThrottled")), "Throttled"),
        (Reply::empty(429), "Throttled"),
        (Reply::json(400, &error("BatchRequestTooLong")), "Rejected"),
        (Reply::json(500, &error("InternalFailure")), "Unreachable"),
        (Reply::Answer(200, "text/html", b"<html>".to_vec()), "Unreachable"),
        (Reply::HangUp, "Unreachable"),
        (Reply::Silence, "Unreachable"),
    ];
    for (reply, expected) in answers {
        let (_server, queue) = served([reply.clone()]).await;
        let error = queue.send(&bodies()).await.expect_err("it fails");
        assert_eq!(variant(&error), expected, "{reply:?}: {error:?}");
    }
}

#[tokio::test]
async fn how_long_messages_are_kept_is_read_and_not_guessed() {
    let kept = Reply::json(200, r#"{"Attributes":{"MessageRetentionPeriod":"1209600"}}"#);
    let (_server, queue) = served([kept, Reply::json(200, "{}")]).await;
    assert_eq!(queue.retention().await.expect("it says so"), Duration::from_hours(14 * 24));
    let error = queue.retention().await.expect_err("the second answer says nothing");
    assert!(matches!(error, QueueError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("read the attributes of"), "{error}");
}
