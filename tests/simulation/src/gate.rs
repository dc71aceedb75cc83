//! The gate that every call of a process goes through, to be delayed, lost, refused, or to be the process's last.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use icefall_testkit::Failure;

use crate::objects;
use crate::sim::{ProcessId, Sim};
use crate::tally::{CallKind, CrashPoint, Fault};
use crate::weather::{Course, Part};

/// What a process is: one of the two functions, or an operator's command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Writer,
    Committer,
    Operator,
}

impl Role {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Committer => "committer",
            Self::Operator => "operator",
        }
    }
}

/// The way from one process to all parts.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) sim: Arc<Sim>,
    pub(crate) process: ProcessId,
    pub(crate) role: Role,
    /// Calls of each kind in the present invocation.
    counts: Mutex<BTreeMap<CallKind, u32>>,
    /// When the present invocation began.
    begun_ms: AtomicU64,
    /// Its process has opened a message that it dies of.
    doomed: AtomicBool,
}

/// A call: of which part, what, of what, and which kind of thing that is.
pub(crate) struct Call<'a> {
    pub(crate) part: Part,
    pub(crate) name: &'static str,
    pub(crate) subject: &'a str,
    pub(crate) object: &'static str,
}

impl Call<'_> {
    /// How much more often than others calls of its kind go wrong: where there are few of them, or they hardly would.
    fn rarity(&self, role: Role) -> u64 {
        match (role, self.name, self.object) {
            (_, "put", objects::NODE) => 40,
            // What an operator's commands do other than to load and commit tables.
            (Role::Operator, "put" | "list", _) | (_, "put", objects::COPY | objects::LETTERS) => 8,
            (Role::Operator, ..)
            | (_, "commit", objects::DEAD_LETTER_TABLE)
            | (_, "get", objects::MANIFEST) => 3,
            _ => 1,
        }
    }
}

impl Gate {
    pub(crate) fn new(sim: Arc<Sim>, process: ProcessId, role: Role) -> Arc<Self> {
        let (counts, begun_ms, doomed) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { sim, process, role, counts, begun_ms, doomed })
    }

    /// Another invocation begins.
    pub(crate) fn begin(&self) {
        self.begun_ms.store(self.sim.now_ms(), Ordering::SeqCst);
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// When the present invocation began.
    pub(crate) fn begun_ms(&self) -> u64 {
        self.begun_ms.load(Ordering::SeqCst)
    }

    /// The process makes no further call.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::SeqCst);
    }

    /// Makes a call: `effect` is what it does, told whether only its first part is to be done.
    pub(crate) async fn call<T: Send + 'static, E: Send + 'static>(
        &self,
        call: Call<'_>,
        effect: impl FnOnce(bool) -> Result<T, E> + Send + 'static,
        error: impl FnOnce(Failure) -> E + Send,
    ) -> Result<T, E> {
        if self.doomed.load(Ordering::SeqCst) {
            let first = self.sim.state().crashed.insert(self.process);
            first.then(|| self.sim.strike(Fault::Poisoned));
            return pending().await;
        }
        let course = self.course(&call);
        let answer = Arc::new(Mutex::new(None));
        if let Some(delay_ms) = course.effect_after_ms {
            let (answer, in_part) = (Arc::clone(&answer), course.in_part);
            let arrive = move || {
                let result = effect(in_part);
                *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            };
            self.sim.send_off(delay_ms, Box::new(arrive));
        }
        if course.crash {
            self.sim.state().crashed.insert(self.process);
            return pending().await;
        }
        self.sim.sleep(self.process, course.answer_after_ms).await;
        if let Some(failure) = course.told {
            return Err(error(failure));
        }
        let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or_else(|| Err(error(Failure::Unreachable)))
    }

    fn count(&self, kind: CallKind) -> u32 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(kind).or_default();
        *count += 1;
        *count
    }

    fn course(&self, call: &Call<'_>) -> Course {
        let now = self.sim.now_ms();
        let mut state = self.sim.state();
        let (part, object) = (call.part.text(), call.object);
        let kind = CallKind { role: self.role.text(), part, call: call.name, object };
        let nth = self.count(kind);
        let rarity = call.rarity(self.role);
        let course = state.weather.course(&self.sim.rng, call.part, call.name, rarity, now);
        state.tally.calls += 1;
        *state.tally.kinds.entry(kind).or_default() += u64::from(!state.weather.is_calm());
        if let Some(fault) = course.fault {
            state.tally.strike(fault);
            state.tally.crashes.extend(crash_point(kind, nth, fault));
        }
        let Call { name, subject, .. } = call;
        let who = format!("{}-{}", self.role.text(), self.process.0);
        match course.fault {
            Some(fault) => {
                state.trace.detail(now, &format!("{who} {name} {subject}: ** {} **", fault.text()));
            }
            None if *name != "receive" => state.trace.detail(now, &format!("{who} {name} {subject}")),
            None => {}
        }
        course
    }
}

/// Where a process dies of `fault`, if it does.
fn crash_point(kind: CallKind, nth: u32, fault: Fault) -> Option<CrashPoint> {
    match fault {
        Fault::CrashBefore => Some((kind, nth, "before")),
        Fault::CrashAfter => Some((kind, nth, "after")),
        _ => None,
    }
}
