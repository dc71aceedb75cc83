//! The queue's own faults: messages that are days late, that come twice, or once more when nobody expects them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icefall_queue::{CommitQueue, QueueError};
use icefall_testkit::FakeQueue;

use crate::lie::Lie;
use crate::ports::now;
use crate::sim::Sim;
use crate::tally::Fault;

const HOUR: u64 = 3_600_000;

/// What stands between senders and the queue.
#[derive(Debug)]
pub(crate) struct Post {
    sim: Arc<Sim>,
    queue: Arc<FakeQueue>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Accepted and durable, but not to be seen before that time.
    late: BTreeMap<(u64, usize), String>,
    /// All bodies that were ever accepted.
    accepted: Vec<String>,
    held: usize,
    calm: bool,
}

impl Post {
    pub(crate) fn new(sim: Arc<Sim>, queue: Arc<FakeQueue>) -> Arc<Self> {
        Arc::new(Self { sim, queue, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on messages come once and at once, or no longer.
    pub(crate) fn set_calm(&self, calm: bool) {
        self.state().calm = calm;
    }

    /// Takes messages in: all of them, or none if the queue refuses one.
    pub(crate) fn accept(&self, bodies: &[String]) -> Result<(), QueueError> {
        let calm = self.state().calm;
        let (mut prompt, mut late, mut accepted) = (Vec::new(), Vec::new(), Vec::new());
        for body in bodies {
            if self.sim.lie == Some(Lie::LostMessages) && self.sim.rng.chance(100) {
                continue;
            }
            if !calm && self.sim.rng.chance(60) {
                self.sim.strike(Fault::DelayedMessage);
                late.push((body, self.sim.rng.within(HOUR..96 * HOUR)));
            } else {
                prompt.push(body.clone());
            }
            if !calm && self.sim.rng.chance(60) {
                self.sim.strike(Fault::Duplicated);
                late.push((body, self.sim.rng.within(1..HOUR)));
            }
            accepted.push(body.clone());
        }
        now(self.queue.send(&prompt))?;
        for (body, delay_ms) in late {
            self.hold(body, delay_ms);
        }
        self.state().accepted.extend(accepted);
        Ok(())
    }

    /// Lets those messages be seen whose time has come.
    pub(crate) fn deliver_due(&self) {
        let now = self.sim.now_ms();
        let mut state = self.state();
        while let Some(entry) = state.late.first_entry()
            && entry.key().0 <= now
        {
            self.queue.inject(&entry.remove());
        }
    }

    /// A message of the past comes again, if there is one; says whether it was let go before.
    pub(crate) fn repeat_old(&self) -> Option<bool> {
        let body = self.sim.rng.pick(&self.state().accepted)?.clone();
        let was_let_go = !self.waiting().contains(&body);
        self.queue.inject(&body);
        Some(was_let_go)
    }

    /// All bodies that were ever accepted.
    pub(crate) fn accepted(&self) -> Vec<String> {
        self.state().accepted.clone()
    }

    /// When the last of the late messages can be seen.
    pub(crate) fn last_due_ms(&self) -> Option<u64> {
        self.state().late.last_key_value().map(|((due, _), _)| *due)
    }

    /// Bodies that wait, in the queue or for their time.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let late: Vec<_> = self.state().late.values().cloned().collect();
        self.queue.bodies().into_iter().chain(late).collect()
    }

    fn hold(&self, body: &str, delay_ms: u64) {
        let due = self.sim.now_ms() + delay_ms;
        let mut state = self.state();
        state.held += 1;
        let order = state.held;
        state.late.insert((due, order), body.to_owned());
    }
}
