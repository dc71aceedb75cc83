//! Time and randomness as ports.
//!
//! Nothing below the composition roots reads a clock or draws a random number by itself: it takes a
//! [`Clock`] and an [`Entropy`]. That keeps the core pure, makes every id and every deadline
//! reproducible in tests, and lets a simulation drive the shipped code from one seed.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

mod system;
mod timestamp;

pub use system::{SystemClock, SystemEntropy};
pub use timestamp::Timestamp;

/// Where "now" comes from, and how waiting is done.
#[async_trait]
pub trait Clock: Debug + Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;

    /// Returns once `duration` has passed on this clock.
    async fn sleep(&self, duration: Duration);
}

/// Where random bits come from.
pub trait Entropy: Debug + Send + Sync {
    /// 64 uniformly random bits.
    fn bits(&self) -> u64;

    /// A random UUID (version 4), for names that must be unique.
    fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.bytes()).into_uuid()
    }

    /// A UUID (version 7) that sorts by `now`, for ids that are read in order of time.
    fn uuid_at(&self, now: Timestamp) -> Uuid {
        let [_, _, _, _, _, _, random @ ..] = self.bytes();
        uuid::Builder::from_unix_timestamp_millis(now.unix_ms(), &random).into_uuid()
    }

    /// 16 uniformly random bytes.
    fn bytes(&self) -> [u8; 16] {
        ((u128::from(self.bits()) << 64) | u128::from(self.bits())).to_be_bytes()
    }
}
