//! Keeping messages hidden for as long as this process lives, and hardly longer.
//!
//! A visibility time-out that covers the longest run would keep the messages of a committer that was
//! killed from the next one for just as long. So it is short and renewed while the work goes on. What a
//! dead process had received is seen again after one hold at the most. Correctness never rests on a
//! renewal: a message that two committers have is decided by the ledger.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use icefall_clock::Clock;
use icefall_queue::{CommitQueue, Receipt, Received};
use tracing::warn;

/// How often a message is renewed within one hold: two renewals may fail before it is seen by others.
const RENEWALS: u32 = 3;

/// The messages that an invocation has in hand.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    queue: &'a dyn CommitQueue,
    clock: &'a dyn Clock,
    span: Duration,
    receipts: Mutex<Vec<Receipt>>,
}

impl<'a> Hold<'a> {
    /// Nothing held yet; what is will be hidden for `span` at a time.
    pub(crate) fn new(queue: &'a dyn CommitQueue, clock: &'a dyn Clock, span: Duration) -> Self {
        Self { queue, clock, span, receipts: Mutex::default() }
    }

    /// Takes in what was just received, and so is hidden for a while.
    pub(crate) fn add(&self, messages: &[Received]) {
        self.receipts().extend(messages.iter().map(|message| message.receipt.clone()));
    }

    /// Takes in what others received and hid for a time of their own, and hides it from now on for as long as
    /// everything else.
    pub(crate) async fn take_over(&self, messages: &[Received]) {
        self.add(messages);
        self.renew().await;
    }

    /// Renews nothing of what was held so far: it is settled, or the next one's to try.
    pub(crate) fn release(&self) {
        self.receipts().clear();
    }

    /// Renews what is held, time and again, while `work` goes on.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        match select(pin!(work), pin!(self.renew_for_ever())).await {
            Either::Left((result, _)) => result,
            Either::Right((never, _)) => match never {},
        }
    }

    async fn renew_for_ever(&self) -> Infallible {
        loop {
            self.clock.sleep(self.span / RENEWALS).await;
            self.renew().await;
        }
    }

    async fn renew(&self) {
        let receipts = self.receipts().clone();
        if let Err(fault) = self.queue.hide(&receipts, self.span).await {
            warn!(
                messages = receipts.len(),
                error = &fault as &dyn std::error::Error,
                "messages can't be held for as long as they should; they come again sooner or later than that"
            );
        }
    }

    /// A panic elsewhere leaves the list whole.
    fn receipts(&self) -> MutexGuard<'_, Vec<Receipt>> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use icefall_testkit::{FakeClock, FakeQueue};

    use super::*;

    const SPAN: Duration = Duration::from_secs(6);

    async fn received() -> (Arc<FakeClock>, FakeQueue, Vec<Received>) {
        let clock = Arc::new(FakeClock::default());
        let queue = FakeQueue::new(Arc::clone(&clock), SPAN);
        queue.send(&["a".to_owned(), "b".to_owned()]).await.expect("it sends");
        let messages = queue.receive(10, Duration::ZERO).await.expect("it receives");
        (clock, queue, messages)
    }

    #[tokio::test]
    async fn what_is_held_stays_hidden_while_the_work_goes_on_and_is_seen_soon_after() {
        let (clock, queue, messages) = received().await;
        let hold = Hold::new(&queue, clock.as_ref(), SPAN);
        hold.add(&messages);
        hold.during(clock.sleep(SPAN * 10)).await;
        assert_eq!(queue.receive(10, Duration::ZERO).await.expect("it receives"), []);
        clock.advance(SPAN);
        assert_eq!(queue.receive(10, Duration::ZERO).await.expect("it receives").len(), 2);
    }

    #[tokio::test]
    async fn what_another_hid_for_long_is_seen_as_soon_as_everything_else() {
        let clock = Arc::new(FakeClock::default());
        let queue = FakeQueue::new(Arc::clone(&clock), SPAN * 100);
        queue.send(&["a".to_owned()]).await.expect("it sends");
        let messages = queue.receive(10, Duration::ZERO).await.expect("it receives");
        Hold::new(&queue, clock.as_ref(), SPAN).take_over(&messages).await;
        clock.advance(SPAN);
        assert_eq!(queue.receive(10, Duration::ZERO).await.expect("it receives").len(), 1);
    }

    #[tokio::test]
    async fn what_is_released_is_not_renewed() {
        let (clock, queue, messages) = received().await;
        let hold = Hold::new(&queue, clock.as_ref(), SPAN);
        hold.add(&messages);
        hold.release();
        hold.during(clock.sleep(SPAN * 2)).await;
        assert_eq!(queue.receive(10, Duration::ZERO).await.expect("it receives").len(), 2);
    }
}
