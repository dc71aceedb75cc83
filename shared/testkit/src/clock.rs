//! Time that passes only when somebody waits, or when a test says so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use icefall_clock::{Clock, Entropy, Timestamp};

/// What one look at a sleeper lets pass: small beside any pause in Icefall.
const STEP: Duration = Duration::from_millis(10);

/// A clock whose time moves by hand. Sleeping moves it too, in small steps between which other work
/// goes on, so that of two sleepers the one with the shorter sleep wakes first.
#[derive(Debug)]
pub struct FakeClock {
    now_ms: AtomicU64,
}

impl FakeClock {
    /// A clock that shows `start`.
    #[must_use]
    pub const fn new(start: Timestamp) -> Self {
        Self { now_ms: AtomicU64::new(start.unix_ms()) }
    }

    /// Lets `duration` pass.
    pub fn advance(&self, duration: Duration) {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    /// 2024-01-01T00:00:00Z: late enough to subtract days from.
    fn default() -> Self {
        Self::new(Timestamp::from_unix_ms(1_704_067_200_000))
    }
}

#[async_trait]
impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.now_ms.load(Ordering::SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        let end = self.now().plus(duration);
        while self.now() < end {
            self.advance(end.since(self.now()).min(STEP));
            tokio::task::yield_now().await;
        }
    }
}

/// Random numbers that follow from a seed: splitmix64, which is uniform and needs no state but a
/// counter.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// The numbers of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn bits(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = self.state.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeping_moves_the_clock() {
        let clock = FakeClock::default();
        let before = clock.now();
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(clock.now().since(before), Duration::from_hours(1));
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let entropy = SeededEntropy::new(seed);
            (0..4).map(|_| entropy.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        // The generator's published first number for seed 0.
        assert_eq!(draw(0).first(), Some(&0xe220_a839_7b1d_cdaf));
    }
}
