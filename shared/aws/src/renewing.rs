//! What is lent for a time, renewed ahead of its end.
//!
//! Keys of a role, tokens, credentials that a catalog hands out: each is good until a moment that its
//! issuer names, and a function's environment outlives it. [`Renewing`] holds one such thing. It asks for
//! the next one some minutes ahead, one question at a time; it goes on with the old one while that is good
//! and the issuer isn't; and when a service refuses what should be good, it asks at once, once.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use icefall_clock::{Clock, Timestamp};
use tokio::sync::Mutex;
use tracing::warn;

/// The most that is renewed ahead of the end; of a short life it is the last third.
const AHEAD: Duration = Duration::from_mins(5);
/// When to look again for a successor of what names no end.
const ENDLESS: Duration = Duration::from_mins(15);
/// What is younger than this and refused is refused for another reason than its age.
const FRESH: Duration = Duration::from_secs(5);
/// The pause after an issuer failed while the old one is still good.
const PAUSE: Duration = Duration::from_secs(10);

/// Something lent, and until when.
#[derive(Clone)]
pub struct Lent<T> {
    /// The thing.
    pub value: T,
    /// Its end, when the issuer names one.
    pub expires: Option<Timestamp>,
}

impl<T> fmt::Debug for Lent<T> {
    /// Its end alone: what is lent may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Who lends it.
#[async_trait]
pub trait Issuer: Send + Sync {
    /// What is lent. Compared to see whether a successor is another one.
    type Value: Clone + PartialEq + Send + Sync;
    /// Why nothing is.
    type Error: std::error::Error + Send + Sync + 'static;

    /// A new one.
    async fn issue(&self) -> Result<Lent<Self::Value>, Self::Error>;
}

/// The loan that is in use.
pub struct Renewing<I: Issuer> {
    issuer: I,
    clock: Arc<dyn Clock>,
    held: RwLock<Held<I::Value>>,
    /// Held by the one who asks.
    asking: Mutex<()>,
}

#[derive(Clone)]
struct Held<T> {
    lent: Option<Lent<T>>,
    issued: Timestamp,
    renew_at: Timestamp,
    generation: Generation,
}

/// Tells one loan from the next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Generation(u64);

impl<T: Clone> Held<T> {
    /// The value, while it needs no successor.
    fn current(&self, now: Timestamp) -> Option<(T, Generation)> {
        self.lent.as_ref().filter(|_| now < self.renew_at).map(|lent| (lent.value.clone(), self.generation))
    }

    /// The value, while it is good at all.
    fn good(&self, now: Timestamp) -> Option<(T, Generation)> {
        let good = |lent: &&Lent<T>| lent.expires.is_none_or(|end| now < end);
        self.lent.as_ref().filter(good).map(|lent| (lent.value.clone(), self.generation))
    }
}

impl<I: Issuer> Renewing<I> {
    /// Holds nothing yet; `issuer` is asked at the first use.
    pub fn new(issuer: I, clock: Arc<dyn Clock>) -> Self {
        let never = Timestamp::from_unix_ms(0);
        let held = Held { lent: None, issued: never, renew_at: never, generation: Generation::default() };
        Self { issuer, clock, held: RwLock::new(held), asking: Mutex::new(()) }
    }

    /// What is good now, and its generation, to name should it be refused.
    pub async fn current(&self) -> Result<(I::Value, Generation), I::Error> {
        let held = self.held();
        if let Some(current) = held.current(self.clock.now()) {
            return Ok(current);
        }
        let _asking = match (self.asking.try_lock(), held.good(self.clock.now())) {
            (Ok(asking), _) => asking,
            // Somebody asks already, and the old one is good until then.
            (Err(_), Some(good)) => return Ok(good),
            (Err(_), None) => self.asking.lock().await,
        };
        if let Some(current) = self.held().current(self.clock.now()) {
            return Ok(current);
        }
        match self.issuer.issue().await {
            Ok(lent) => Ok(self.hold(lent)),
            Err(error) => self.put_off(error),
        }
    }

    /// A service refused `refused`. Whether there is another one now, with which to try once more.
    pub async fn renew(&self, refused: Generation) -> bool {
        let _asking = self.asking.lock().await;
        let held = self.held();
        if held.generation != refused {
            return true;
        }
        if held.lent.is_none() || self.clock.now().since(held.issued) < FRESH {
            return false;
        }
        match self.issuer.issue().await {
            Ok(lent) => self.hold(lent).1 != refused,
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "what was refused can't be renewed");
                false
            }
        }
    }

    /// Takes what came without asking. The same once more proves nothing new about it.
    pub fn offer(&self, lent: Lent<I::Value>) {
        let known =
            self.held().lent.is_some_and(|held| held.value == lent.value && held.expires == lent.expires);
        if !known {
            self.hold(lent);
        }
    }

    fn held(&self) -> Held<I::Value> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hold(&self, lent: Lent<I::Value>) -> (I::Value, Generation) {
        let now = self.clock.now();
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.lent.as_ref().is_none_or(|old| old.value != lent.value) {
            held.generation = Generation(held.generation.0 + 1);
        }
        held.issued = now;
        held.renew_at = now.plus(lent.expires.map_or(ENDLESS, |end| until_renewal(end.since(now))));
        let current = (lent.value.clone(), held.generation);
        held.lent = Some(lent);
        current
    }

    /// The issuer failed: the old one goes on while it is good.
    fn put_off(&self, error: I::Error) -> Result<(I::Value, Generation), I::Error> {
        let now = self.clock.now();
        let Some(good) = self.held().good(now) else { return Err(error) };
        warn!(
            error = &error as &dyn std::error::Error,
            "can't be renewed now; the old one is used while it is good"
        );
        self.held.write().unwrap_or_else(PoisonError::into_inner).renew_at = now.plus(PAUSE);
        Ok(good)
    }
}

/// How long something with this much life left is used before its successor is asked for.
fn until_renewal(life: Duration) -> Duration {
    life.saturating_sub((life / 3).min(AHEAD))
}

impl<I: Issuer> fmt::Debug for Renewing<I> {
    /// Nothing of what is lent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held();
        let expires = held.lent.as_ref().and_then(|lent| lent.expires);
        f.debug_struct("Renewing")
            .field("generation", &held.generation.0)
            .field("expires", &expires)
            .finish_non_exhaustive()
    }
}
