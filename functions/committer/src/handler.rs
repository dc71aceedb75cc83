//! Lambda's side: an invocation becomes a drain of the queue, and what it came to the answer.
//!
//! Two triggers invoke the committer, and the shape of the event tells which it was. A scheduler's
//! event says nothing: whoever sends it wants the queue drained. An event source mapping of the queue
//! brings messages, and wants to be told which of them to keep: those are settled together with more
//! that the committer takes from the queue itself, and the ones that are not settled are named in a
//! partial batch response. When the invocation fails as a whole, Lambda keeps all that are still there.

use std::io;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use icefall_clock::Timestamp;
use icefall_queue::{MessageId, Receipt, Received};
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::Serialize;
use serde_json::Value;
use tracing::warn;

use crate::{Committer, DrainError, Report};

/// What an invocation answers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To a schedule: what was done, for whoever reads it.
    Drained(Report),
    /// To an event source mapping: the messages that it must keep.
    Batch(SqsBatchResponse),
}

/// Drains until the invocation's deadline nears. Metrics are written round by round.
pub async fn handle(committer: &Committer, event: LambdaEvent<Value>) -> Result<Answer, DrainError> {
    let LambdaEvent { payload, context } = event;
    let answer = answer(committer, payload, Timestamp::from_unix_ms(context.deadline)).await;
    write_metrics(committer);
    answer
}

async fn answer(committer: &Committer, event: Value, deadline: Timestamp) -> Result<Answer, DrainError> {
    let after_round = &|| write_metrics(committer);
    let Some(brought) = brought(event)? else {
        return committer.drain_by_rounds(deadline, after_round).await.map(Answer::Drained);
    };
    let kept = committer.drain_with(brought, deadline, after_round).await?;
    let mut response = SqsBatchResponse::default();
    for message in kept {
        response.add_failure(message.0);
    }
    Ok(Answer::Batch(response))
}

/// The messages that the event brings; `None` if it is not one of a queue.
fn brought(event: Value) -> Result<Option<Vec<Received>>, DrainError> {
    if event.get("Records").is_none() {
        return Ok(None);
    }
    let event: SqsEvent =
        serde_json::from_value(event).map_err(|fault| DrainError::Event(fault.to_string()))?;
    let messages = event.records.into_iter().map(received).collect::<Option<_>>();
    let incomplete = || DrainError::Event("a record has no message id, receipt handle or body".to_owned());
    messages.ok_or_else(incomplete).map(Some)
}

fn received(message: SqsMessage) -> Option<Received> {
    let number = |name: &str| message.attributes.get(name)?.parse::<u64>().ok();
    let (sent_ms, count) = (number("SentTimestamp"), number("ApproximateReceiveCount"));
    Some(Received {
        sent_ms,
        receive_count: count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1),
        id: MessageId(message.message_id?),
        receipt: Receipt(message.receipt_handle?),
        body: message.body?,
    })
}

fn write_metrics(committer: &Committer) {
    let now = committer.ports.clock.now();
    if let Err(fault) = committer.ports.metrics.flush(now, &mut io::stdout().lock()) {
        warn!(error = &fault as &dyn std::error::Error, "the metrics can't be written");
    }
}

impl From<DrainError> for Diagnostic {
    /// Stable names, which alarms and log filters can rest on.
    fn from(error: DrainError) -> Self {
        let error_type = match &error {
            DrainError::Queue(_) => "Icefall.QueueUnreadable",
            DrainError::Catalog(_) => "Icefall.CatalogUnreachable",
            DrainError::Tables { .. } => "Icefall.TablesNotSettled",
            DrainError::Quarantine(..) => "Icefall.QuarantineNotWritten",
            DrainError::Event(_) => "Icefall.EventUnreadable",
        };
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let error_message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { error_type: error_type.to_owned(), error_message }
    }
}
