//! The port over Amazon SQS, standard queues.
//!
//! SQS answers a batch entry by entry, and an answer of 200 may hold failures. So every entry is
//! accounted for: what the answer does not name as done is tried again by itself, and is an error
//! when it still fails. A receipt that SQS no longer knows belongs to a message that is deleted or
//! visible again; neither is ours to change, so it counts as done.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Builder, IdentityCache, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::receive_message::ReceiveMessageOutput;
use aws_sdk_sqs::types::{BatchResultErrorEntry, Message, MessageSystemAttributeName, QueueAttributeName};
use futures::future::join_all;
use futures::{StreamExt, stream};
use icefall_aws::{CachedCredentials, CallLimits, Kind, SharedHttpClient, entry_failure, failure};

use crate::batches::{MAX_ENTRIES, batches};
use crate::{CommitQueue, MessageId, Operation, QueueError, Receipt, Received};

mod entries;

use entries::{deletes, hides, sends};

/// Requests of one change that are under way at the same time: thousands of messages are renewed every few seconds.
const CHANGES_AT_ONCE: usize = 8;
/// The longest that SQS waits for a message.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// The longest that SQS hides a message: 12 hours.
const MAX_VISIBILITY: Duration = Duration::from_hours(12);
/// Requests at a time when more than one batch is received.
const PARALLEL_RECEIVES: usize = 8;

/// Where a queue is, and who asks.
#[derive(Clone, Debug)]
pub struct SqsConfig {
    /// The queue's URL.
    pub url: String,
    /// The service's endpoint; AWS's own of the region if there is none.
    pub endpoint: Option<String>,
    /// The region, which is signed too.
    pub region: String,
    /// Where credentials come from.
    pub credentials: CachedCredentials,
}

/// A standard queue of SQS.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    url: String,
    credentials: CachedCredentials,
    limits: CallLimits,
    /// In whole seconds; the queue's own visibility time-out without.
    hidden_for: Option<i32>,
}

/// What one request says about its entries: the ids of those that are done, and the failures.
#[derive(Debug)]
struct Outcome {
    done: HashSet<String>,
    failed: Vec<BatchResultErrorEntry>,
}

/// A change of messages that SQS takes in batches.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    Send(&'a [String]),
    Delete(&'a [Receipt]),
    Hide(&'a [Receipt], i32),
}

impl SqsQueue {
    /// The queue at `config`. Sends no request and asks for no credentials yet.
    #[must_use]
    pub fn new(config: SqsConfig, http: SharedHttpClient) -> Self {
        Self::with_limits(config, http, CallLimits::default())
    }

    /// The same with other limits of patience.
    #[must_use]
    pub fn with_limits(config: SqsConfig, http: SharedHttpClient, limits: CallLimits) -> Self {
        let mut sdk = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .region(Region::new(config.region))
            .credentials_provider(config.credentials.clone())
            // They are cached already, by what can also renew them.
            .identity_cache(IdentityCache::no_cache())
            .retry_config(limits.retry())
            .timeout_config(limits.timeout());
        sdk.set_endpoint_url(config.endpoint);
        let SqsConfig { url, credentials, .. } = config;
        Self { client: Client::from_conf(sdk.build()), url, credentials, limits, hidden_for: None }
    }

    /// Hides what it receives for `span` in place of the queue's own visibility time-out.
    #[must_use]
    pub fn hiding_for(self, span: Duration) -> Self {
        Self { hidden_for: Some(seconds(span)), ..self }
    }

    /// Makes `call`, and once more when it was denied and there are newer credentials.
    async fn signed<T, F>(&self, call: impl Fn() -> F + Send + Sync) -> Result<T, QueueError>
    where
        T: Send,
        F: Future<Output = Result<T, QueueError>> + Send,
    {
        self.credentials.retried(call, |error| matches!(error, QueueError::Denied { .. })).await
    }

    fn error(&self, kind: Kind, operation: Operation, source: impl Into<crate::error::Source>) -> QueueError {
        QueueError::new(kind, operation, &self.url, source)
    }

    fn failed<E>(&self, operation: Operation) -> impl FnOnce(SdkError<E>) -> QueueError
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let queue = self.url.clone();
        move |error| {
            let (kind, source) = failure(error);
            QueueError::new(kind, operation, &queue, source)
        }
    }

    /// Makes one request's change: all its entries together, then those that were not done one by one.
    async fn apply(&self, change: Change<'_>) -> Result<(), QueueError> {
        let outcome = self.request(change).await?;
        for index in (0..change.len()).filter(|index| !outcome.done.contains(&index.to_string())) {
            let answer = outcome.failed.iter().find(|entry| entry.id() == index.to_string());
            self.settle_entry(change, index, answer.cloned()).await?;
        }
        Ok(())
    }

    /// Tries one entry again until it is done, or its failure says that it won't be.
    async fn settle_entry(
        &self,
        change: Change<'_>,
        index: usize,
        mut answer: Option<BatchResultErrorEntry>,
    ) -> Result<(), QueueError> {
        let mut pause = self.limits.backoff;
        for _ in 1..self.limits.attempts {
            match change.verdict(answer.as_ref()) {
                None => return Ok(()),
                Some((Kind::Rejected | Kind::Denied | Kind::NotFound, _)) => break,
                Some(_) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
            let outcome = self.request(change.only(index)).await?;
            if !outcome.done.is_empty() {
                return Ok(());
            }
            answer = outcome.failed.into_iter().next();
        }
        match change.verdict(answer.as_ref()) {
            None => Ok(()),
            Some((kind, source)) => Err(self.error(kind, change.operation(), source)),
        }
    }

    async fn request(&self, change: Change<'_>) -> Result<Outcome, QueueError> {
        self.signed(|| self.request_once(change)).await
    }

    async fn request_once(&self, change: Change<'_>) -> Result<Outcome, QueueError> {
        match change {
            Change::Send(bodies) => self.send_batch(bodies).await,
            Change::Delete(receipts) => self.delete_batch(receipts).await,
            Change::Hide(receipts, seconds) => self.hide_batch(receipts, seconds).await,
        }
    }

    async fn send_batch(&self, bodies: &[String]) -> Result<Outcome, QueueError> {
        let entries = sends(bodies).map_err(|error| self.error(Kind::Rejected, Operation::Send, error))?;
        let request = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let answer = request.send().await.map_err(self.failed(Operation::Send))?;
        let done = answer.successful.into_iter().map(|entry| entry.id).collect();
        Ok(Outcome { done, failed: answer.failed })
    }

    async fn delete_batch(&self, receipts: &[Receipt]) -> Result<Outcome, QueueError> {
        let entries =
            deletes(receipts).map_err(|error| self.error(Kind::Rejected, Operation::Delete, error))?;
        let request = self.client.delete_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let answer = request.send().await.map_err(self.failed(Operation::Delete))?;
        let done = answer.successful.into_iter().map(|entry| entry.id).collect();
        Ok(Outcome { done, failed: answer.failed })
    }

    async fn hide_batch(&self, receipts: &[Receipt], seconds: i32) -> Result<Outcome, QueueError> {
        let entries =
            hides(receipts, seconds).map_err(|error| self.error(Kind::Rejected, Operation::Hide, error))?;
        let request =
            self.client.change_message_visibility_batch().queue_url(&self.url).set_entries(Some(entries));
        let answer = request.send().await.map_err(self.failed(Operation::Hide))?;
        let done = answer.successful.into_iter().map(|entry| entry.id).collect();
        Ok(Outcome { done, failed: answer.failed })
    }

    /// Makes a change of held messages in batches; all are tried, the first error is returned.
    async fn apply_all(&self, changes: impl Iterator<Item = Change<'_>>) -> Result<(), QueueError> {
        // Collected first: a stream that holds the closure itself is not known to be `Send`.
        let changes: Vec<_> = changes.map(|change| self.apply(change)).collect();
        let results: Vec<_> = stream::iter(changes).buffered(CHANGES_AT_ONCE).collect().await;
        results.into_iter().collect()
    }

    /// One request for up to ten messages.
    async fn receive_batch(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        self.signed(|| self.receive_once(max, wait)).await
    }

    async fn receive_once(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        let request = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(max.min(MAX_ENTRIES)).unwrap_or(1))
            .wait_time_seconds(i32::try_from(wait.min(MAX_WAIT).as_secs()).unwrap_or(0))
            .set_visibility_timeout(self.hidden_for)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let answer = request.send().await.map_err(self.failed(Operation::Receive))?;
        received(answer).ok_or_else(|| {
            let source = "the answer holds a message without id, receipt handle or body";
            self.error(Kind::Unreachable, Operation::Receive, source)
        })
    }
}

#[async_trait]
impl CommitQueue for SqsQueue {
    async fn send(&self, bodies: &[String]) -> Result<(), QueueError> {
        let batches = batches(bodies).map_err(|error| self.error(Kind::Rejected, Operation::Send, error))?;
        for batch in batches {
            self.apply(Change::Send(bodies.get(batch).unwrap_or_default())).await?;
        }
        Ok(())
    }

    /// The first request waits; while answers are full, further ones follow side by side. A failure
    /// after the first answer ends it, with what has been received: those messages are held now.
    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let mut messages = self.receive_batch(max, wait).await?;
        let mut full = messages.len() == MAX_ENTRIES;
        while full && messages.len() < max {
            let requests = (max - messages.len()).div_ceil(MAX_ENTRIES).min(PARALLEL_RECEIVES);
            let sizes = (0..requests).map(|index| max - messages.len() - index * MAX_ENTRIES);
            let answers = join_all(sizes.map(|size| self.receive_batch(size, Duration::ZERO))).await;
            full = answers.iter().all(|answer| answer.as_ref().is_ok_and(|got| got.len() == MAX_ENTRIES));
            messages.extend(answers.into_iter().flatten().flatten());
        }
        Ok(messages)
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.apply_all(receipts.chunks(MAX_ENTRIES).map(Change::Delete)).await
    }

    async fn hide(&self, receipts: &[Receipt], visibility: Duration) -> Result<(), QueueError> {
        let seconds = seconds(visibility);
        self.apply_all(receipts.chunks(MAX_ENTRIES).map(|chunk| Change::Hide(chunk, seconds))).await
    }

    async fn retention(&self) -> Result<Duration, QueueError> {
        let name = QueueAttributeName::MessageRetentionPeriod;
        let request = self.client.get_queue_attributes().queue_url(&self.url).attribute_names(name.clone());
        let answer = request.send().await.map_err(self.failed(Operation::Describe))?;
        let seconds = answer.attributes.as_ref().and_then(|held| held.get(&name)?.parse().ok());
        seconds.map(Duration::from_secs).ok_or_else(|| {
            let source = "the answer does not say how long messages are kept";
            self.error(Kind::Unreachable, Operation::Describe, source)
        })
    }
}

impl Change<'_> {
    const fn operation(self) -> Operation {
        match self {
            Self::Send(_) => Operation::Send,
            Self::Delete(_) => Operation::Delete,
            Self::Hide(..) => Operation::Hide,
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Send(bodies) => bodies.len(),
            Self::Delete(receipts) | Self::Hide(receipts, _) => receipts.len(),
        }
    }

    /// The same change of one entry alone.
    fn only(self, index: usize) -> Self {
        let range = index..index + 1;
        match self {
            Self::Send(bodies) => Self::Send(bodies.get(range).unwrap_or_default()),
            Self::Delete(receipts) => Self::Delete(receipts.get(range).unwrap_or_default()),
            Self::Hide(receipts, seconds) => Self::Hide(receipts.get(range).unwrap_or_default(), seconds),
        }
    }

    /// How an entry failed that was not named as done; none if it counts as done all the same.
    fn verdict(self, answer: Option<&BatchResultErrorEntry>) -> Option<(Kind, String)> {
        let Some(answer) = answer else {
            return Some((Kind::Unreachable, "the answer does not say what became of a message".to_owned()));
        };
        if !matches!(self, Self::Send(_)) && is_no_longer_held(answer) {
            return None;
        }
        let source = format!("{}: {}", answer.code(), answer.message().unwrap_or("no message"));
        Some((entry_failure(answer.code(), answer.sender_fault()), source))
    }
}

/// A visibility time-out as SQS takes it.
fn seconds(visibility: Duration) -> i32 {
    i32::try_from(visibility.min(MAX_VISIBILITY).as_secs()).unwrap_or(0)
}

/// The message behind the receipt is deleted, or visible again.
fn is_no_longer_held(answer: &BatchResultErrorEntry) -> bool {
    ["ReceiptHandleIsInvalid", "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight"]
        .contains(&answer.code())
}

fn received(answer: ReceiveMessageOutput) -> Option<Vec<Received>> {
    answer.messages.unwrap_or_default().into_iter().map(message).collect()
}

fn message(message: Message) -> Option<Received> {
    let number = |name| message.attributes.as_ref()?.get(&name)?.parse::<u64>().ok();
    let sent_ms = number(MessageSystemAttributeName::SentTimestamp);
    let receive_count = number(MessageSystemAttributeName::ApproximateReceiveCount);
    Some(Received {
        sent_ms,
        receive_count: receive_count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1),
        id: MessageId(message.message_id?),
        receipt: Receipt(message.receipt_handle?),
        body: message.body?,
    })
}
