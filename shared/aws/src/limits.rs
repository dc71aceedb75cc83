//! How long an adapter tries before it calls a service unreachable.

use std::time::Duration;

use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;

/// The limits of one call. Tries beyond the first follow the SDK's standard mode: only after
/// failures that may pass (throttling, 5xx, connections lost), with exponential backoff and jitter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallLimits {
    /// Tries in all.
    pub attempts: u32,
    /// The first pause between two tries; it doubles from there, up to 20 s.
    pub backoff: Duration,
    /// How long a connection may take to open.
    pub connect: Duration,
    /// How long one try may take. Above the 20 s of a long poll.
    pub attempt: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            attempts: 4,
            backoff: Duration::from_millis(200),
            connect: Duration::from_secs(5),
            attempt: Duration::from_secs(30),
        }
    }
}

impl CallLimits {
    /// The same as the SDK's own type.
    #[must_use]
    pub fn retry(self) -> RetryConfig {
        RetryConfig::standard().with_max_attempts(self.attempts).with_initial_backoff(self.backoff)
    }

    /// The same as the SDK's own type.
    #[must_use]
    pub fn timeout(self) -> TimeoutConfig {
        TimeoutConfig::builder().connect_timeout(self.connect).operation_attempt_timeout(self.attempt).build()
    }
}
