//! The parts as a process reaches them while nothing goes wrong: for the suites that real parts have to pass as well.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use icefall_catalog::Catalog;
use icefall_queue::CommitQueue;
use icefall_store::ObjectStore;

use crate::gate::{Gate, Role};
use crate::ports::{SimCatalog, SimQueue, SimStore};
use crate::sim::{Next, ProcessId, Sim};
use crate::weather::Part;
use crate::world::{Parts, World};

/// Longer than anybody waits in a suite.
const PATIENCE_MS: u64 = 24 * 3_600_000;

/// One process's way to the parts, in calm weather.
#[derive(Debug)]
pub struct Calm {
    sim: Arc<Sim>,
    parts: Parts,
    gate: Arc<Gate>,
}

impl Calm {
    /// Parts that hold nothing, and never fail.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let World { sim, parts, .. } = World::new(seed, None);
        sim.state().weather.set_calm(true);
        parts.post.set_calm(true);
        let gate = Gate::new(Arc::clone(&sim), ProcessId(1), Role::Committer);
        Self { sim, parts, gate }
    }

    /// The catalog.
    #[must_use]
    pub fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::new(SimCatalog { gate: Arc::clone(&self.gate), inner: Arc::clone(&self.parts.catalog) })
    }

    /// The tables' store.
    #[must_use]
    pub fn lake(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.store(Part::Lake))
    }

    /// The ops bucket's.
    #[must_use]
    pub fn ops(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.store(Part::Ops))
    }

    /// The commit queue.
    #[must_use]
    pub fn queue(&self) -> Arc<dyn CommitQueue> {
        let (inner, post) = (Arc::clone(&self.parts.queue), Arc::clone(&self.parts.post));
        Arc::new(SimQueue { gate: Arc::clone(&self.gate), inner, post })
    }

    /// Does `work`, whose calls take simulated time.
    ///
    /// # Panics
    ///
    /// When it waits for something that never comes.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return done;
            }
            let next = self.sim.step(self.sim.now_ms() + PATIENCE_MS);
            assert!(!matches!(next, Next::Nothing), "nothing is on its way");
        }
    }

    fn store(&self, part: Part) -> SimStore {
        let inner = if part == Part::Lake { &self.parts.lake } else { &self.parts.ops };
        SimStore {
            gate: Arc::clone(&self.gate),
            inner: Arc::clone(inner),
            part,
            born: Arc::clone(&self.parts.born),
            catalog: Arc::clone(&self.parts.catalog),
        }
    }
}
