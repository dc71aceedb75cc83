//! The real clock and the operating system's randomness, for the composition roots.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use uuid::Uuid;

use crate::{Clock, Entropy, Timestamp};

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system's clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The operating system's random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bits(&self) -> u64 {
        // Bytes 8.. of a version 4 UUID hold two fixed bits, so both halves are mixed.
        let (high, low) = (Uuid::new_v4().as_u64_pair(), Uuid::new_v4().as_u64_pair());
        high.0 ^ high.1.rotate_left(17) ^ low.0.rotate_left(31) ^ low.1.rotate_left(47)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn random_bits_do_not_repeat() {
        let drawn: HashSet<u64> = (0..10_000).map(|_| SystemEntropy.bits()).collect();
        assert_eq!(drawn.len(), 10_000);
    }

    #[test]
    fn uuids_have_their_versions_and_sort_by_time() {
        let (early, late) = (Timestamp::from_unix_ms(1_000), Timestamp::from_unix_ms(2_000));
        assert_eq!(SystemEntropy.uuid().get_version_num(), 4);
        assert_eq!(SystemEntropy.uuid_at(early).get_version_num(), 7);
        assert!(SystemEntropy.uuid_at(early) < SystemEntropy.uuid_at(late));
    }
}
