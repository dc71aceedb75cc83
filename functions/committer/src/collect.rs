//! Gathering what is queued for one round.
//!
//! SQS gives ten messages to a call and may say "none" while some are hidden in another of its hosts,
//! so several long polls run side by side until enough has come, the commit interval is over, or the
//! queue has been empty for a while.

use std::time::Duration;

use futures::future::join_all;
use icefall_clock::{Clock, Timestamp};
use icefall_queue::{CommitQueue, QueueError, Received};
use tracing::warn;

use crate::hold::Hold;

/// Long polls that run side by side.
const POLLS: usize = 4;

/// The most that SQS gives to one call.
const MESSAGES_PER_POLL: usize = 10;

/// A long poll's wait. Short, so that a lone message is not held up by the polls that find nothing.
const POLL_WAIT: Duration = Duration::from_secs(1);

/// The bounds of a round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Bounds {
    /// Messages at the most (a last set of polls may bring up to 39 more).
    pub(crate) messages: usize,
    /// Bytes of message bodies at the most, in the same way.
    pub(crate) bytes: u64,
    /// When to stop at the latest.
    pub(crate) until: Timestamp,
    /// How long the queue has to be empty for the round to begin before that.
    pub(crate) linger: Duration,
}

/// What was gathered.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) messages: Vec<Received>,
    /// Whether the queue had no more to give.
    pub(crate) is_all: bool,
}

/// Receives until one of the bounds is met, beside the messages that are `held` already, and holds what comes. Messages that
/// came before a failing call are returned: they are hidden from others, so they are worked on now.
pub(crate) async fn collect(
    queue: &dyn CommitQueue,
    clock: &dyn Clock,
    hold: &Hold<'_>,
    held: Vec<Received>,
    bounds: Bounds,
) -> Result<Collected, QueueError> {
    let mut gathered = Gathered { messages: Vec::new(), bytes: 0, last_arrival: clock.now() };
    gathered.add(held);
    loop {
        let answers = join_all((0..POLLS).map(|_| queue.receive(MESSAGES_PER_POLL, POLL_WAIT))).await;
        let failure = gathered.take(answers, hold, clock.now());
        match failure {
            Some(error) if gathered.messages.is_empty() => return Err(error),
            Some(error) => {
                warn!(error = &error as &dyn std::error::Error, "receiving failed; going on with what came");
                return Ok(Collected { messages: gathered.messages, is_all: false });
            }
            None => {
                let is_all = gathered.is_all(bounds, clock.now());
                if is_all || gathered.is_enough(bounds, clock.now()) {
                    return Ok(Collected { messages: gathered.messages, is_all });
                }
            }
        }
    }
}

struct Gathered {
    messages: Vec<Received>,
    bytes: u64,
    last_arrival: Timestamp,
}

impl Gathered {
    fn take(
        &mut self,
        answers: Vec<Result<Vec<Received>, QueueError>>,
        hold: &Hold<'_>,
        now: Timestamp,
    ) -> Option<QueueError> {
        let mut failure = None;
        for answer in answers {
            match answer {
                Ok(messages) if messages.is_empty() => {}
                Ok(messages) => {
                    self.last_arrival = now;
                    hold.add(&messages);
                    self.add(messages);
                }
                Err(error) => failure = Some(error),
            }
        }
        failure
    }

    fn add(&mut self, messages: Vec<Received>) {
        self.bytes += messages.iter().map(|message| message.body.len() as u64).sum::<u64>();
        self.messages.extend(messages);
    }

    fn is_enough(&self, bounds: Bounds, now: Timestamp) -> bool {
        self.messages.len() >= bounds.messages || self.bytes >= bounds.bytes || now >= bounds.until
    }

    fn is_all(&self, bounds: Bounds, now: Timestamp) -> bool {
        now.since(self.last_arrival) >= bounds.linger
    }
}
