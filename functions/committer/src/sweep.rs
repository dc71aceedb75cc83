//! The sweep: no message is left in the queue until the queue itself drops it.
//!
//! A queue forgets what it has kept for its retention, and says nothing. So what could not be settled
//! for three quarters of that time goes to quarantine, where it is kept for good: a message that is that
//! old, or one of a source that has stood still in its table for that long.
//!
//! That holds without a catalog, too: while it can't be reached nothing is settled, and the queue is looked through for
//! what is old, now and then.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use icefall_clock::Timestamp;
use icefall_mutations::{Mutation, is};
use icefall_queue::Received;

use crate::quarantine::{Copies, Reason};

/// When messages are parked, by the queue's retention.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sweep {
    retention: Duration,
}

/// Why a message that was not settled goes to quarantine, and how much store that may cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Due {
    pub(crate) reason: Reason,
    pub(crate) copies: Copies,
}

impl Default for Sweep {
    /// The retention of a queue that was made without any: what SQS gives it.
    fn default() -> Self {
        Self::of(Duration::from_hours(4 * 24))
    }
}

impl Sweep {
    pub(crate) const fn of(retention: Duration) -> Self {
        Self { retention }
    }

    /// Whether `message`, which could not be settled, is to be parked.
    pub(crate) fn due(&self, message: &Received, now: Timestamp) -> Option<Due> {
        let age = now.since(Timestamp::from_unix_ms(message.sent_ms?));
        (age >= self.limit(Mutation::SweepSkipped))
            .then(|| Due { reason: Reason::WaitedTooLong, copies: self.copies(message, now) })
    }

    /// The same for a message whose source has stood still in its table since `since_ms`.
    pub(crate) fn due_in_stop(&self, message: &Received, since_ms: u64, now: Timestamp) -> Option<Due> {
        let limit = self.limit(Mutation::StoppedSweepSkipped);
        let stood = now.since(Timestamp::from_unix_ms(since_ms)) >= limit;
        let stopped =
            stood.then(|| Due { reason: Reason::StoppedTooLong, copies: self.copies(message, now) });
        stopped.or_else(|| self.due(message, now))
    }

    /// Three quarters of the retention, unless the promise is broken that `unkept` breaks.
    fn limit(&self, unkept: Mutation) -> Duration {
        if is(unkept) { Duration::MAX } else { self.retention * 3 / 4 }
    }

    /// Close to the end a message without copies of its files is better than none.
    pub(crate) fn copies(&self, message: &Received, now: Timestamp) -> Copies {
        let age = message.sent_ms.map(|sent| now.since(Timestamp::from_unix_ms(sent)));
        if age.is_some_and(|age| age >= self.retention * 7 / 8) { Copies::WherePossible } else { Copies::All }
    }
}

/// When the queue was looked through for what is old without anything being settled.
///
/// To look takes a request for each ten messages, and an outage is invocation after invocation that settles nothing. A
/// hundredth of the retention is often enough for what has a quarter of it left.
#[derive(Debug, Default)]
pub(crate) struct LookedThrough(Mutex<Option<Timestamp>>);

impl LookedThrough {
    /// Whether it is time to look again.
    pub(crate) fn is_due(&self, sweep: Sweep, now: Timestamp) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|last| now.since(last) >= sweep.retention / 100)
    }

    /// All of it was looked at, and nothing that is old is left.
    pub(crate) fn done(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use icefall_queue::{MessageId, Receipt};

    use super::*;

    const DAY: u64 = 24 * 3_600_000;

    fn sent(day: u64) -> Received {
        Received {
            id: MessageId("m".to_owned()),
            receipt: Receipt("r".to_owned()),
            body: String::new(),
            sent_ms: Some(day * DAY),
            receive_count: 1,
        }
    }

    fn at(tenth_days: u64) -> Timestamp {
        Timestamp::from_unix_ms(tenth_days * DAY / 10)
    }

    #[test]
    fn three_quarters_of_the_retention_are_the_limit_and_seven_eighths_the_last_call() {
        let sweep = Sweep::of(Duration::from_hours(14 * 24));
        let due = |message: &Received, now| sweep.due(message, now).map(|due| due.copies);
        assert_eq!(due(&sent(100), at(1_104)), None);
        assert_eq!(due(&sent(100), at(1_105)), Some(Copies::All));
        assert_eq!(due(&sent(100), at(1_123)), Some(Copies::WherePossible));
        assert_eq!(due(&Received { sent_ms: None, ..sent(0) }, at(9_999)), None);
    }

    #[test]
    fn the_queue_is_looked_through_a_hundred_times_within_its_retention() {
        let (sweep, looked) = (Sweep::of(Duration::from_hours(100)), LookedThrough::default());
        let at_minute = |minute: u64| Timestamp::from_unix_ms(minute * 60_000);
        let look = |minute: &u64| {
            let is_due = looked.is_due(sweep, at_minute(*minute));
            // The first looks do not get to the end.
            if is_due && *minute >= 2 {
                looked.done(at_minute(*minute));
            }
            is_due
        };
        assert_eq!((0..180).filter(look).collect::<Vec<_>>(), [0, 1, 2, 62, 122]);
    }

    #[test]
    fn a_source_that_stood_that_long_parks_what_is_young() {
        let sweep = Sweep::default();
        let due = |stopped_day: u64, now| {
            sweep.due_in_stop(&sent(100), stopped_day * DAY, now).map(|due| due.reason)
        };
        assert_eq!(due(98, at(1_009)), None);
        assert_eq!(due(98, at(1_010)), Some(Reason::StoppedTooLong));
        assert_eq!(due(101, at(1_030)), Some(Reason::WaitedTooLong));
    }
}
