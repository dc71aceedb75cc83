//! A queue in memory with SQS's manners: visibility time-outs, receive counts, and, when a test asks
//! for it, duplicates and another order.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use icefall_clock::{Clock, Entropy, Timestamp};
use icefall_queue::{CommitQueue, MessageId, QueueError, Receipt, Received};

use crate::{FakeClock, SeededEntropy};

/// The largest body that SQS takes.
const MAX_BYTES: usize = 1024 * 1024;

/// The longest that SQS keeps a message.
const LONGEST_RETENTION: Duration = Duration::from_hours(14 * 24);

/// A queue in memory. Its time is a [`FakeClock`]'s: waiting for a message moves that.
#[derive(Debug)]
pub struct FakeQueue {
    clock: Arc<FakeClock>,
    visibility: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    sent: u64,
    deliveries: u64,
    retention: Option<Duration>,
    most_receives: u32,
    shuffle: Option<SeededEntropy>,
}

#[derive(Debug)]
struct Message {
    id: MessageId,
    body: String,
    sent: Timestamp,
    visible_from: Timestamp,
    receive_count: u32,
    receipt: Option<Receipt>,
}

impl FakeQueue {
    /// An empty queue that hides what it delivers for `visibility`.
    #[must_use]
    pub fn new(clock: Arc<FakeClock>, visibility: Duration) -> Self {
        Self { clock, visibility, state: Mutex::default() }
    }

    /// From now on messages come in an order that follows from `seed`.
    pub fn shuffle(&self, seed: u64) {
        self.state().shuffle = Some(SeededEntropy::new(seed));
    }

    /// From now on messages are kept for `retention`, and dropped without a word afterwards.
    pub fn keep_for(&self, retention: Duration) {
        self.state().retention = Some(retention);
    }

    /// The most often that any message was delivered, deleted ones included.
    #[must_use]
    pub fn most_receives(&self) -> u32 {
        self.state().most_receives
    }

    /// Makes every message visible at once, held or not: those that are held will be delivered twice. Says how many
    /// were held.
    pub fn redeliver_all(&self) -> usize {
        let now = self.clock.now();
        let mut state = self.state();
        let held = state.messages.iter_mut().filter(|message| message.visible_from > now);
        held.map(|message| message.visible_from = now).count()
    }

    /// Puts a message of the past in, or one that has been deleted, under an id of its own.
    pub fn inject(&self, body: &str) -> MessageId {
        self.state().push(body, self.clock.now())
    }

    /// The bodies that are in the queue, held ones included, in the order in which they were sent.
    #[must_use]
    pub fn bodies(&self) -> Vec<String> {
        self.state().messages.iter().map(|message| message.body.clone()).collect()
    }

    /// How many messages are in the queue, held ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().messages.len()
    }

    /// Whether no message is in the queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages were ever sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long until the first held message is visible again.
    fn until_visible(&self) -> Option<Duration> {
        let first = self.state().messages.iter().map(|message| message.visible_from).min()?;
        Some(first.since(self.clock.now()))
    }
}

impl State {
    fn push(&mut self, body: &str, now: Timestamp) -> MessageId {
        self.sent += 1;
        let id = MessageId(format!("message-{}", self.sent));
        let (body, receipt) = (body.to_owned(), None);
        self.messages.push(Message {
            id: id.clone(),
            body,
            sent: now,
            visible_from: now,
            receive_count: 0,
            receipt,
        });
        id
    }

    fn deliver(&mut self, max: usize, now: Timestamp, visibility: Duration) -> Vec<Received> {
        let kept = self.retention.unwrap_or(LONGEST_RETENTION);
        let Self { messages, deliveries, most_receives, shuffle, .. } = self;
        // Messages stand in the order in which they were sent.
        let dropped = messages.iter().take_while(|message| now.since(message.sent) >= kept).count();
        messages.drain(..dropped);
        let visible = messages.iter_mut().filter(|message| message.visible_from <= now);
        let visible: Vec<&mut Message> = match shuffle {
            None => visible.take(max).collect(),
            Some(entropy) => {
                let mut all: Vec<_> = visible.collect();
                all.sort_by_cached_key(|_| entropy.bits());
                all.into_iter().take(max).collect()
            }
        };
        let delivered = visible.into_iter().map(|message| {
            *deliveries += 1;
            *most_receives = (*most_receives).max(message.receive_count + 1);
            message.deliver(Receipt(format!("receipt-{deliveries}")), now.plus(visibility))
        });
        delivered.collect()
    }

    /// The message that is held by `receipt`, unless it is visible again.
    fn held(&mut self, receipt: &Receipt, now: Timestamp) -> Option<&mut Message> {
        let mut held = self.messages.iter_mut();
        held.find(|message| message.receipt.as_ref() == Some(receipt) && message.visible_from > now)
    }
}

impl Message {
    fn deliver(&mut self, receipt: Receipt, visible_from: Timestamp) -> Received {
        self.receive_count += 1;
        self.visible_from = visible_from;
        self.receipt = Some(receipt.clone());
        Received {
            id: self.id.clone(),
            receipt,
            body: self.body.clone(),
            sent_ms: Some(self.sent.unix_ms()),
            receive_count: self.receive_count,
        }
    }
}

#[async_trait]
impl CommitQueue for FakeQueue {
    async fn send(&self, bodies: &[String]) -> Result<(), QueueError> {
        if bodies.iter().any(|body| body.is_empty() || body.len() > MAX_BYTES || body.contains(is_illegal)) {
            return Err(QueueError::Rejected {
                operation: icefall_queue::Operation::Send,
                queue: "fake".to_owned(),
                source: "a body is empty, above 1 MiB, or holds a control character".into(),
            });
        }
        let now = self.clock.now();
        let mut state = self.state();
        for body in bodies {
            state.push(body, now);
        }
        Ok(())
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        let messages = self.state().deliver(max, self.clock.now(), self.visibility);
        if !messages.is_empty() || wait.is_zero() || max == 0 {
            return Ok(messages);
        }
        self.clock.sleep(self.until_visible().unwrap_or(wait).min(wait)).await;
        Ok(self.state().deliver(max, self.clock.now(), self.visibility))
    }

    /// A receipt of an earlier delivery deletes nothing: the message may be in other hands.
    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let receipts: HashSet<&Receipt> = receipts.iter().collect();
        self.state()
            .messages
            .retain(|message| !message.receipt.as_ref().is_some_and(|receipt| receipts.contains(receipt)));
        Ok(())
    }

    async fn hide(&self, receipts: &[Receipt], visibility: Duration) -> Result<(), QueueError> {
        let now = self.clock.now();
        let mut state = self.state();
        for receipt in receipts {
            if let Some(message) = state.held(receipt, now) {
                message.visible_from = now.plus(visibility);
            }
        }
        Ok(())
    }

    async fn retention(&self) -> Result<Duration, QueueError> {
        Ok(self.state().retention.unwrap_or(LONGEST_RETENTION))
    }
}

/// What is not a character of XML.
const fn is_illegal(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_conformance;

    const VISIBILITY: Duration = Duration::from_secs(30);

    fn queue() -> (Arc<FakeClock>, FakeQueue) {
        let clock = Arc::new(FakeClock::default());
        (Arc::clone(&clock), FakeQueue::new(clock, VISIBILITY))
    }

    async fn receive(queue: &FakeQueue) -> Vec<Received> {
        queue.receive(100, Duration::ZERO).await.expect("it receives")
    }

    #[tokio::test]
    async fn the_fake_is_a_queue() {
        let (_, queue) = queue();
        queue_conformance(&queue).await;
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn a_message_comes_back_when_its_time_is_over() {
        let (clock, queue) = queue();
        queue.send(&["a".to_owned()]).await.expect("it sends");
        let first = receive(&queue).await;
        clock.advance(Duration::from_millis(29_999));
        assert_eq!(receive(&queue).await, []);
        clock.advance(Duration::from_millis(1));
        let second = receive(&queue).await;
        assert_eq!((&first[0].id, second[0].receive_count), (&second[0].id, 2));
        queue.delete(&[first[0].receipt.clone()]).await.expect("a stale receipt is no error");
        assert_eq!(queue.len(), 1);
    }

    #[tokio::test]
    async fn duplicates_and_disorder_come_on_demand() {
        let (_, queue) = queue();
        let bodies: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        queue.send(&bodies).await.expect("it sends");
        assert_eq!(receive(&queue).await.len(), 50);
        queue.redeliver_all();
        queue.shuffle(7);
        let again: Vec<String> = receive(&queue).await.into_iter().map(|message| message.body).collect();
        assert_eq!(again.len(), 50);
        assert_ne!(again, bodies);
    }
}
