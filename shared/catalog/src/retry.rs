//! When a failed try is followed by another one.
//!
//! Reads are tried again when the failure may pass; anything else only when no connection could be made, for then
//! nothing was sent. Waits double and are drawn at random below that bound, so that many clients that failed together
//! don't come back together; a server that names a time to wait gets it. The last try is bounded in time.

use std::time::Duration;

use icefall_clock::Entropy;

use crate::{CatalogError, Limits};

/// The longest that a server's `Retry-After` is obeyed for; beyond it the caller decides.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What may be tried again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Repeatable {
    /// It changes nothing.
    Always,
    /// It may change something.
    IfNothingWasSent,
}

impl Repeatable {
    fn allows(self, failure: &CatalogError) -> bool {
        match failure {
            CatalogError::Unreachable(_) => true,
            CatalogError::Unavailable(_) | CatalogError::Throttled(_) => self == Self::Always,
            _ => false,
        }
    }
}

/// How far the tries have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Tries so far, 1 after the first.
    pub(crate) tries: u32,
    /// Time since the first began.
    pub(crate) elapsed: Duration,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
}

/// How long to wait before the next try; `None`: give up.
pub(crate) fn wait(
    limits: &Limits,
    repeatable: Repeatable,
    failure: &CatalogError,
    progress: Progress,
    entropy: &dyn Entropy,
) -> Option<Duration> {
    if progress.tries >= limits.tries || !repeatable.allows(failure) {
        return None;
    }
    let wait = match progress.retry_after {
        Some(asked) if asked > LONGEST_WAIT => return None,
        Some(asked) => asked,
        None => below(bound(limits.first_wait, progress.tries), entropy),
    };
    (progress.elapsed + wait <= limits.retry_within).then_some(wait)
}

fn bound(first: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

/// Between half of `bound` and all of it, in steps of a 65,536th.
fn below(bound: Duration, entropy: &dyn Entropy) -> Duration {
    let draw = u32::from(u16::try_from(entropy.bits() & 0xffff).unwrap_or(u16::MAX));
    bound / 2 + bound / 2 * draw / (1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operation, Reason};

    #[derive(Debug)]
    struct Fixed(u64);

    impl Entropy for Fixed {
        fn bits(&self) -> u64 {
            self.0
        }
    }

    fn reason() -> Reason {
        Reason::new(Operation::LoadTable, "ns.t", "")
    }

    fn after(tries: u32, failure: &CatalogError, repeatable: Repeatable) -> Option<Duration> {
        let progress = Progress { tries, elapsed: Duration::ZERO, retry_after: None };
        wait(&Limits::default(), repeatable, failure, progress, &Fixed(0xffff))
    }

    #[test]
    fn what_may_have_arrived_is_sent_again_only_when_it_changes_nothing() {
        let lost = CatalogError::Unavailable(reason());
        assert!(after(1, &lost, Repeatable::Always).is_some());
        assert_eq!(after(1, &lost, Repeatable::IfNothingWasSent), None);
        assert!(after(1, &CatalogError::Unreachable(reason()), Repeatable::IfNothingWasSent).is_some());
        let throttled = CatalogError::Throttled(reason());
        assert_eq!(after(1, &throttled, Repeatable::IfNothingWasSent), None);
    }

    #[test]
    fn refusals_are_final() {
        for failure in [CatalogError::Rejected(reason()), CatalogError::NotFound(reason())] {
            assert_eq!(after(1, &failure, Repeatable::Always), None);
        }
    }

    #[test]
    fn waits_grow_and_end() {
        let lost = CatalogError::Unavailable(reason());
        let waits: Vec<_> = (1..=4).map(|tries| after(tries, &lost, Repeatable::Always)).collect();
        assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
        assert_eq!(waits[3], None, "the fourth try is the last");
    }

    #[test]
    fn the_servers_wait_is_obeyed_within_reason() {
        let throttled = CatalogError::Throttled(reason());
        let ask = |seconds, elapsed| {
            let progress = Progress {
                tries: 1,
                elapsed: Duration::from_secs(elapsed),
                retry_after: Some(Duration::from_secs(seconds)),
            };
            wait(&Limits::default(), Repeatable::Always, &throttled, progress, &Fixed(0))
        };
        assert_eq!(ask(3, 0), Some(Duration::from_secs(3)));
        assert_eq!(ask(3600, 0), None);
        assert_eq!(ask(3, 58), None, "past the time for tries");
    }
}
