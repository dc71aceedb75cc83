//! Failures on purpose: the k-th call of a kind, a whole outage, a crash.
//!
//! A call can fail before it was done, or after: then the work is done and only the answer is lost.
//! The second is what makes exactly-once hard, so both are first-class here. One [`Faults`] is shared
//! by the wrappers of all ports, which lets a simulation crash at the n-th call of any.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use icefall_queue::{CommitQueue, QueueError, Receipt, Received};
use icefall_store::{Location, ObjectMeta, ObjectStore, StoreError};

use crate::errors::{queue_error, store_error};

/// The kinds of calls that can fail.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Call {
    /// Storing an object.
    Put,
    /// Reading one, or a range.
    Get,
    /// Asking for its size.
    Head,
    /// Sending messages.
    Send,
    /// Receiving messages.
    Receive,
    /// Deleting messages.
    Delete,
    /// Hiding messages.
    Hide,
    /// Loading a table.
    LoadTable,
    /// Creating a table.
    CreateTable,
    /// Committing to a table.
    Commit,
    /// Creating a namespace.
    CreateNamespace,
    /// Loading a namespace.
    LoadNamespace,
    /// Listing the tables of a namespace.
    ListTables,
}

/// When a call fails.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Moment {
    /// Nothing was done.
    Before,
    /// It was done; the answer is lost.
    After,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Failure {
    /// There is no such thing.
    NotFound,
    /// The credentials don't allow it.
    Denied,
    /// Too many calls.
    Throttled,
    /// No usable answer; of a commit, an unknown outcome.
    Unreachable,
    /// No connection, so that nothing can have been sent.
    NoConnection,
    /// Somebody else was faster. Stores and queues know no such thing and refuse the request.
    Conflict,
    /// The request is refused as such.
    Rejected,
}

/// A stretch of calls that fail.
#[derive(Clone, Debug)]
struct Fault {
    /// The kind whose calls are counted; every kind if none.
    call: Option<Call>,
    /// What the subject must hold: then all such calls fail, whatever their number.
    subject: Option<String>,
    calls: Range<u64>,
    moment: Moment,
    failure: Failure,
}

/// What fails when, and how many calls there were. Calls are counted from 1.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    plan: Vec<Fault>,
    deadly: Vec<(Call, String)>,
    dead: bool,
    counts: HashMap<Call, u64>,
    total: u64,
}

impl Faults {
    /// No failures yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The `nth` call of this kind from the beginning brings no usable answer.
    pub fn lose(&self, call: Call, nth: u64, moment: Moment) {
        self.fail(call, nth..nth + 1, moment, Failure::Unreachable);
    }

    /// These calls of this kind fail.
    pub fn fail(&self, call: Call, calls: Range<u64>, moment: Moment, failure: Failure) {
        self.state().plan.push(Fault { call: Some(call), subject: None, calls, moment, failure });
    }

    /// From now on every call of this kind fails and does nothing, until [`Faults::clear`].
    pub fn outage(&self, call: Call, failure: Failure) {
        self.fail(call, 0..u64::MAX, Moment::Before, failure);
    }

    /// From now on every call of this kind fails and does nothing that is about something whose name holds
    /// `subject`: a table, an object.
    pub fn outage_of(&self, call: Call, subject: &str, failure: Failure) {
        let (subject, moment) = (Some(subject.to_owned()), Moment::Before);
        self.state().plan.push(Fault { call: Some(call), subject, calls: 0..u64::MAX, moment, failure });
    }

    /// The process dies as soon as a call of this kind is about something whose name holds `subject`: as
    /// when a message is such that nobody can handle it. Nothing is done then, until [`Faults::revive`].
    pub fn deadly(&self, call: Call, subject: &str) {
        self.state().deadly.push((call, subject.to_owned()));
    }

    /// Whether the process is dead.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Another process begins; what was deadly is deadly still.
    pub fn revive(&self) {
        self.state().dead = false;
    }

    /// The process dies at the `nth` call of any kind: that one is done or not, and no later call
    /// does anything, until [`Faults::clear`].
    pub fn crash(&self, nth: u64, moment: Moment) {
        let failure = Failure::Unreachable;
        let fault = |calls, moment| Fault { call: None, subject: None, calls, moment, failure };
        self.state().plan.extend([fault(nth..nth + 1, moment), fault(nth + 1..u64::MAX, Moment::Before)]);
    }

    /// Nothing fails from now on. Counting goes on.
    pub fn clear(&self) {
        let mut state = self.state();
        state.plan.clear();
        state.deadly.clear();
        state.dead = false;
    }

    /// How many calls of this kind there were, failed ones included.
    #[must_use]
    pub fn count(&self, call: Call) -> u64 {
        self.state().counts.get(&call).copied().unwrap_or_default()
    }

    /// How many calls there were of any kind, failed ones included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.state().total
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and says how it fails, if it does.
    fn next(&self, call: Call, subject: &str) -> Option<(Moment, Failure)> {
        let mut state = self.state();
        state.total += 1;
        let total = state.total;
        let count = state.counts.entry(call).or_default();
        *count += 1;
        let count = *count;
        let State { plan, deadly, dead, .. } = &mut *state;
        *dead |= deadly.iter().any(|(kind, name)| *kind == call && subject.contains(name));
        if *dead {
            return Some((Moment::Before, Failure::Unreachable));
        }
        let hits = |fault: &&Fault| match (fault.call, &fault.subject) {
            (Some(kind), Some(name)) => kind == call && subject.contains(name),
            (Some(kind), None) => kind == call && fault.calls.contains(&count),
            (None, _) => fault.calls.contains(&total),
        };
        plan.iter().find(hits).map(|fault| (fault.moment, fault.failure))
    }

    /// Does `work` on `subject`, unless it is to fail. For wrappers of ports.
    pub async fn run<T, E>(
        &self,
        call: Call,
        subject: &str,
        work: impl Future<Output = Result<T, E>> + Send,
        error: impl FnOnce(Failure) -> E + Send,
    ) -> Result<T, E> {
        match self.next(call, subject) {
            None => work.await,
            Some((Moment::Before, failure)) => Err(error(failure)),
            Some((Moment::After, failure)) => work.await.and_then(|_| Err(error(failure))),
        }
    }
}

/// A store whose calls fail as planned.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<Faults>,
}

impl FaultyStore {
    /// `inner`, failing as `faults` says.
    #[must_use]
    pub fn new(inner: Arc<dyn ObjectStore>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        let error = store_error(icefall_store::Operation::Put, location);
        self.faults.run(Call::Put, location.key(), self.inner.put(location, body), error).await
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        let error = store_error(icefall_store::Operation::Get, location);
        self.faults.run(Call::Get, location.key(), self.inner.get(location), error).await
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        let error = store_error(icefall_store::Operation::Get, location);
        self.faults.run(Call::Get, location.key(), self.inner.get_range(location, range), error).await
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        let error = store_error(icefall_store::Operation::Head, location);
        self.faults.run(Call::Head, location.key(), self.inner.head(location), error).await
    }
}

/// What calls to the queue are about.
const QUEUE: &str = "queue";

/// A queue whose calls fail as planned.
#[derive(Clone, Debug)]
pub struct FaultyQueue {
    inner: Arc<dyn CommitQueue>,
    faults: Arc<Faults>,
}

impl FaultyQueue {
    /// `inner`, failing as `faults` says.
    #[must_use]
    pub fn new(inner: Arc<dyn CommitQueue>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

#[async_trait]
impl CommitQueue for FaultyQueue {
    async fn send(&self, bodies: &[String]) -> Result<(), QueueError> {
        let error = queue_error(icefall_queue::Operation::Send);
        self.faults.run(Call::Send, QUEUE, self.inner.send(bodies), error).await
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        let error = queue_error(icefall_queue::Operation::Receive);
        self.faults.run(Call::Receive, QUEUE, self.inner.receive(max, wait), error).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let error = queue_error(icefall_queue::Operation::Delete);
        self.faults.run(Call::Delete, QUEUE, self.inner.delete(receipts), error).await
    }

    async fn hide(&self, receipts: &[Receipt], visibility: Duration) -> Result<(), QueueError> {
        let error = queue_error(icefall_queue::Operation::Hide);
        self.faults.run(Call::Hide, QUEUE, self.inner.hide(receipts, visibility), error).await
    }

    /// Not counted: nothing is done or lost by it.
    async fn retention(&self) -> Result<Duration, QueueError> {
        self.inner.retention().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FakeClock, FakeQueue, FakeStore};

    const BODY: Bytes = Bytes::from_static(b"x");

    fn store() -> (Arc<Faults>, Arc<FakeStore>, FaultyStore) {
        let (faults, fake) = (Faults::new(), Arc::new(FakeStore::new()));
        let inner: Arc<dyn ObjectStore> = Arc::<FakeStore>::clone(&fake);
        (Arc::clone(&faults), fake, FaultyStore::new(inner, faults))
    }

    fn place(n: u64) -> Location {
        Location::s3("b", n.to_string())
    }

    #[tokio::test]
    async fn a_lost_answer_is_not_a_lost_object() {
        let (faults, fake, store) = store();
        faults.lose(Call::Put, 1, Moment::Before);
        faults.lose(Call::Put, 2, Moment::After);
        for n in 1..=3 {
            assert_eq!(store.put(&place(n), BODY).await.is_ok(), n == 3);
            assert_eq!(fake.peek(&place(n)).is_some(), n >= 2);
        }
        assert_eq!((faults.count(Call::Put), faults.count(Call::Get)), (3, 0));
    }

    #[tokio::test]
    async fn an_outage_lasts_until_it_is_cleared() {
        let (faults, _, store) = store();
        faults.outage(Call::Put, Failure::Denied);
        for _ in 0..3 {
            assert!(matches!(store.put(&place(1), BODY).await, Err(StoreError::Denied { .. })));
        }
        faults.clear();
        store.put(&place(1), BODY).await.expect("it works again");
    }

    #[tokio::test]
    async fn after_a_crash_nothing_is_done_anywhere() {
        let (faults, fake, store) = store();
        let inner = Arc::new(FakeQueue::new(Arc::new(FakeClock::default()), Duration::from_secs(30)));
        let queue = FaultyQueue::new(Arc::<FakeQueue>::clone(&inner), Arc::clone(&faults));
        faults.crash(2, Moment::After);
        store.put(&place(1), BODY).await.expect("before the crash");
        queue.send(&["a".to_owned()]).await.expect_err("its answer is lost");
        store.put(&place(2), BODY).await.expect_err("dead");
        queue.send(&["b".to_owned()]).await.expect_err("dead");
        assert_eq!((inner.bodies(), fake.keys("b", "")), (vec!["a".to_owned()], vec!["1".to_owned()]));
        assert_eq!(faults.total(), 4);
    }
}
