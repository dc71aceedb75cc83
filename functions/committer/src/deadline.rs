//! Ending by one's own deadline, before the platform's.
//!
//! Lambda kills a function at its time limit without a word. A round that ends by itself lets its
//! messages be seen again soon, leaves no heartbeat that looks like a crash, and says what it left.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use icefall_clock::{Clock, Timestamp};
use tracing::warn;

/// The longest that Lambda lets an invocation run.
const LONGEST_INVOCATION: Duration = Duration::from_mins(15);

/// How long an invocation works that has no deadline.
const WITHOUT_DEADLINE: Duration = Duration::from_mins(1);

/// Until when new work is begun, and when begun work is given up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Deadline {
    begun: Timestamp,
    left: Duration,
    reserve: Duration,
    platform: Timestamp,
}

/// Work that was given up at the deadline. What it had sent may still arrive: its outcome is unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct GivenUp;

impl Deadline {
    /// The deadline of an invocation that the platform ends at `platform`. A tenth of the time left is
    /// kept for ending in order (at most 10 s), a quarter (at most 60 s) for work that has begun.
    ///
    /// A platform that names a moment longer ago than any invocation lasts has no deadline to name
    /// (`cargo lambda watch` always says 1970): then the invocation works for a minute. One that was missed
    /// by less is a deadline, and nothing new is begun.
    #[must_use]
    pub(crate) fn before(platform: Timestamp, now: Timestamp) -> Self {
        let platform = if now.since(platform) > LONGEST_INVOCATION {
            warn!(deadline_ms = platform.unix_ms(), "the platform names no deadline; working for a minute");
            now.plus(WITHOUT_DEADLINE)
        } else {
            platform
        };
        let left = platform.since(now);
        let ending = (left / 10).min(Duration::from_secs(10));
        let reserve = (left / 4).min(Duration::from_mins(1));
        Self { begun: now, left: left.saturating_sub(ending), reserve, platform }
    }

    /// When the platform ends the invocation.
    #[must_use]
    pub(crate) const fn platform(&self) -> Timestamp {
        self.platform
    }

    /// Whether new work may still begin.
    #[must_use]
    pub(crate) fn allows_work(&self, now: Timestamp) -> bool {
        now.plus(self.reserve) < self.give_up()
    }

    /// The deadline of work that may take half of the time that is left. What could go on for longer than an invocation
    /// lasts must leave time for what comes after it: else each invocation would begin it again, and none would come to
    /// an end.
    #[must_use]
    pub(crate) fn half(&self, now: Timestamp) -> Self {
        let left = self.give_up().since(now) / 2;
        Self { begun: now, left, reserve: self.reserve.min(left / 4), platform: self.platform }
    }

    /// The deadline of putting messages in quarantine: it may go on when nothing else is begun any more, and is given up
    /// in time for what was brought away to be noted.
    #[must_use]
    pub(crate) fn parking(&self) -> Self {
        Self { left: self.left.saturating_sub(self.reserve / 2), reserve: Duration::ZERO, ..*self }
    }

    /// Whether begun work is given up.
    #[must_use]
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.give_up()
    }

    /// The last moment at which a round should stop gathering messages.
    #[must_use]
    pub(crate) fn gather_until(&self, wanted: Timestamp, now: Timestamp) -> Timestamp {
        let latest = now.plus(self.give_up().since(now).saturating_sub(self.reserve));
        wanted.min(latest)
    }

    /// Runs `work`, and gives it up when the deadline comes.
    pub(crate) async fn hold<T>(
        &self,
        clock: &dyn Clock,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, GivenUp> {
        let alarm = clock.sleep(self.give_up().since(clock.now()));
        match select(pin!(work), alarm).await {
            Either::Left((result, _)) => Ok(result),
            Either::Right(((), _)) => Err(GivenUp),
        }
    }

    fn give_up(&self) -> Timestamp {
        self.begun.plus(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_000_000);

    fn deadline(seconds: u64) -> Deadline {
        Deadline::before(NOW.plus(Duration::from_secs(seconds)), NOW)
    }

    #[test]
    fn time_is_kept_for_ending_in_order() {
        let deadline = deadline(60);
        assert!(deadline.allows_work(NOW.plus(Duration::from_secs(38))));
        assert!(!deadline.allows_work(NOW.plus(Duration::from_secs(40))));
        assert!(!deadline.parking().is_over(NOW.plus(Duration::from_secs(46))));
        assert!(deadline.parking().is_over(NOW.plus(Duration::from_secs(47))));
    }

    #[test]
    fn half_of_the_time_that_is_left_is_for_what_could_take_all_of_it() {
        let late = NOW.plus(Duration::from_secs(14));
        let half = deadline(60).half(late);
        assert!(!half.is_over(NOW.plus(Duration::from_secs(33))), "of 54 seconds 40 are left");
        assert!(half.is_over(NOW.plus(Duration::from_secs(34))));
        assert!(half.allows_work(NOW.plus(Duration::from_secs(28))));
        assert!(!half.allows_work(NOW.plus(Duration::from_secs(29))));
        assert_eq!(half.platform(), deadline(60).platform());
    }

    #[test]
    fn a_moment_longer_ago_than_any_invocation_is_no_deadline() {
        let now = NOW.plus(Duration::from_hours(1));
        let watch = Deadline::before(Timestamp::from_unix_ms(600_000), now);
        assert_eq!(watch, Deadline::before(now.plus(Duration::from_mins(1)), now));
        assert!(watch.allows_work(now));
    }

    #[test]
    fn a_deadline_that_was_just_missed_allows_nothing() {
        for late in [Duration::ZERO, Duration::from_secs(1), Duration::from_mins(15)] {
            let now = NOW.plus(late);
            assert!(!Deadline::before(NOW, now).allows_work(now), "{late:?}");
        }
    }

    #[test]
    fn gathering_ends_before_the_reserve_begins() {
        let wanted = NOW.plus(Duration::from_mins(10));
        assert_eq!(deadline(60).gather_until(wanted, NOW), NOW.plus(Duration::from_secs(39)));
        assert_eq!(deadline(60).gather_until(NOW, NOW), NOW);
    }
}
