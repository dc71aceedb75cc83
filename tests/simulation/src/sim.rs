//! Simulated time: what is waited for, what is on its way, and whose turn it is.
//!
//! Nothing happens but at a moment: a timer of a process, or a request that arrives. Moments are taken in order, so
//! the delays that the seed deals out are what interleaves the processes. A request on its way belongs to nobody:
//! it arrives even when its sender has given it up or died.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use icefall_clock::{Clock, Timestamp};
use icefall_testkit::FakeClock;

use crate::lie::Lie;
use crate::reported::Reported;
use crate::rng::Rng;
use crate::tally::{Fault, Tally};
use crate::trace::Trace;
use crate::watch::{Rewound, Watched};
use crate::weather::Weather;

/// An environment of a function: what Lambda would keep warm.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ProcessId(pub(crate) u32);

type Moment = (u64, u64);
type Effect = Box<dyn FnOnce() + Send>;

/// One schedule's time and chance, shared by all that takes part in it.
pub(crate) struct Sim {
    pub(crate) seed: u64,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) rng: Rng,
    /// What a part says and does not do, if any.
    pub(crate) lie: Option<Lie>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").field("now", &self.clock.now()).finish_non_exhaustive()
    }
}

/// What changes.
pub(crate) struct State {
    timers: BTreeMap<Moment, (ProcessId, Waker)>,
    flights: BTreeMap<Moment, Effect>,
    order: u64,
    /// Processes that died in their last call, and are to be dropped.
    pub(crate) crashed: BTreeSet<ProcessId>,
    pub(crate) weather: Weather,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    /// A table that a commit is on its way to, and that others shall commit to before.
    pub(crate) interference: Option<String>,
    /// Messages that whoever opens them dies of, by id.
    pub(crate) poison: BTreeSet<String>,
    /// When a committer last gave a sign of life.
    pub(crate) heartbeat_ms: Option<u64>,
    /// When each table that is there was made.
    pub(crate) made_ms: BTreeMap<String, u64>,
    /// Tables whose column `q` is a long, and since when.
    pub(crate) wide_since: BTreeMap<String, u64>,
    /// What commits are looked at by.
    pub(crate) watched: Watched,
    /// Rewinds that were committed since somebody looked.
    pub(crate) rewound: Vec<Rewound>,
    /// What processes have said by their metrics.
    pub(crate) reported: Reported,
    /// The first thing that went wrong on the way.
    pub(crate) violation: Option<String>,
}

/// What comes next.
pub(crate) enum Next {
    /// A process was woken.
    Woken(ProcessId),
    /// A request arrived.
    Arrived,
    /// Nothing up to the moment that was asked for.
    Nothing,
}

impl Sim {
    pub(crate) fn new(seed: u64, lie: Option<Lie>) -> Arc<Self> {
        let clock = Arc::new(FakeClock::default());
        let rng = Rng::new(seed);
        let state = State {
            timers: BTreeMap::new(),
            flights: BTreeMap::new(),
            order: 0,
            crashed: BTreeSet::new(),
            weather: Weather::of(&rng),
            tally: Tally::default(),
            trace: Trace::new(clock.now().unix_ms()),
            interference: None,
            poison: BTreeSet::new(),
            heartbeat_ms: None,
            made_ms: BTreeMap::new(),
            wide_since: BTreeMap::new(),
            watched: Watched::default(),
            rewound: Vec::new(),
            reported: Reported::default(),
            violation: None,
        };
        Arc::new(Self { seed, clock, rng, lie, state: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now().unix_ms()
    }

    pub(crate) fn strike(&self, fault: Fault) {
        self.state().tally.strike(fault);
    }

    /// Counts what counts only while there are faults.
    pub(crate) fn strike_unless_calm(&self, fault: Fault) {
        let mut state = self.state();
        if !state.weather.is_calm() {
            state.tally.strike(fault);
        }
    }

    /// Notes what must never be.
    pub(crate) fn violate(&self, violation: String) {
        self.detail(&violation);
        self.state().violation.get_or_insert(violation);
    }

    pub(crate) fn event(&self, text: &str) {
        let now = self.now_ms();
        self.state().trace.event(now, text);
    }

    pub(crate) fn detail(&self, text: &str) {
        let now = self.now_ms();
        self.state().trace.detail(now, text);
    }

    /// Sends a request off: `effect` is done in `delay_ms`, whatever becomes of the sender.
    pub(crate) fn send_off(&self, delay_ms: u64, effect: Effect) {
        let at = self.now_ms() + delay_ms;
        let mut state = self.state();
        state.order += 1;
        let moment = (at, state.order);
        state.flights.insert(moment, effect);
    }

    /// Waits in the name of `process`.
    pub(crate) fn sleep(self: &Arc<Self>, process: ProcessId, ms: u64) -> Sleep {
        Sleep { sim: Arc::clone(self), process, until_ms: self.now_ms() + ms, registered: None }
    }

    /// Goes on to the next moment, `until_ms` at the latest, and does what is due then.
    pub(crate) fn step(&self, until_ms: u64) -> Next {
        let mut state = self.state();
        let timer = state.timers.first_key_value().map(|(moment, _)| *moment);
        let flight = state.flights.first_key_value().map(|(moment, _)| *moment);
        // An answer never overtakes its request: at one moment requests come first.
        let arrives = flight.filter(|flight| timer.is_none_or(|timer| flight.0 <= timer.0));
        let Some(moment) = arrives.or(timer).filter(|moment| moment.0 <= until_ms) else {
            self.advance_to(until_ms);
            return Next::Nothing;
        };
        self.advance_to(moment.0);
        if arrives.is_some() {
            let effect = state.flights.remove(&moment);
            drop(state);
            if let Some(effect) = effect {
                effect();
            }
            return Next::Arrived;
        }
        match state.timers.remove(&moment) {
            Some((process, waker)) => {
                drop(state);
                waker.wake();
                Next::Woken(process)
            }
            None => Next::Arrived,
        }
    }

    fn advance_to(&self, at_ms: u64) {
        self.clock.advance(Duration::from_millis(at_ms.saturating_sub(self.now_ms())));
    }
}

/// A wait; dropping it forgets it.
#[derive(Debug)]
pub(crate) struct Sleep {
    sim: Arc<Sim>,
    process: ProcessId,
    until_ms: u64,
    registered: Option<Moment>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sim = Arc::clone(&self.sim);
        let mut state = sim.state();
        if let Some(moment) = self.registered.take() {
            state.timers.remove(&moment);
        }
        if sim.now_ms() >= self.until_ms {
            return Poll::Ready(());
        }
        state.order += 1;
        let moment = (self.until_ms, state.order);
        state.timers.insert(moment, (self.process, context.waker().clone()));
        self.registered = Some(moment);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(moment) = self.registered {
            self.sim.state().timers.remove(&moment);
        }
    }
}

/// The clock that a process reads: the simulation's, off by a constant.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    pub(crate) sim: Arc<Sim>,
    pub(crate) process: ProcessId,
    pub(crate) behind_ms: u64,
}

#[async_trait]
impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.sim.now_ms().saturating_sub(self.behind_ms))
    }

    async fn sleep(&self, duration: Duration) {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4);
        self.sim.sleep(self.process, ms).await;
    }
}
