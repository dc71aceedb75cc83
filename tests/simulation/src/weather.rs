//! How the parts behave at present: how often a call fails, which part is down, and how one call fares.

use icefall_testkit::Failure;

use crate::rng::Rng;
use crate::tally::Fault;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

/// A part that processes call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    Catalog,
    Lake,
    Ops,
    Queue,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Catalog, Self::Lake, Self::Ops, Self::Queue];

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Lake => "table store",
            Self::Ops => "ops bucket",
            Self::Queue => "queue",
        }
    }
}

/// The present conditions.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Of a thousand calls so many go wrong; none once faults have ended.
    per_thousand: u64,
    slow_per_thousand: u64,
    outages: Vec<(Part, Failure, u64)>,
    calm: bool,
}

/// How one call fares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// When it takes effect, if ever.
    pub(crate) effect_after_ms: Option<u64>,
    /// When its caller has an answer.
    pub(crate) answer_after_ms: u64,
    /// What the caller is told instead of the truth.
    pub(crate) told: Option<Failure>,
    /// The caller dies at once.
    pub(crate) crash: bool,
    /// What happens to it.
    pub(crate) fault: Option<Fault>,
    /// Only the first part of its messages is meant.
    pub(crate) in_part: bool,
}

impl Weather {
    /// Calm or stormy, by chance.
    pub(crate) fn of(rng: &Rng) -> Self {
        Self {
            per_thousand: rng.weighted(&[(1, 8), (2, 25), (2, 60)]).unwrap_or(25),
            slow_per_thousand: rng.weighted(&[(2, 2), (1, 12)]).unwrap_or(2),
            outages: Vec::new(),
            calm: false,
        }
    }

    /// From now on everything works, or no longer.
    pub(crate) const fn set_calm(&mut self, calm: bool) {
        self.calm = calm;
    }

    pub(crate) const fn is_calm(&self) -> bool {
        self.calm
    }

    pub(crate) fn outage(&mut self, part: Part, failure: Failure, until_ms: u64) {
        self.outages.push((part, failure, until_ms));
    }

    /// How the next call of `part` fares. It goes wrong `rarity` times as often as others.
    pub(crate) fn course(&self, rng: &Rng, part: Part, call: &str, rarity: u64, now_ms: u64) -> Course {
        let quick = Course {
            effect_after_ms: Some(rng.within(1..15)),
            answer_after_ms: rng.within(16..30),
            told: None,
            crash: false,
            fault: None,
            in_part: false,
        };
        if self.calm {
            return quick;
        }
        if let Some((_, failure, _)) =
            self.outages.iter().find(|(down, _, until_ms)| *down == part && now_ms < *until_ms)
        {
            let (effect_after_ms, told, fault) = (None, Some(*failure), Some(of_outage(*failure)));
            return Course { effect_after_ms, told, fault, ..quick };
        }
        let slow_rate = if call == "commit" { self.slow_per_thousand * 6 } else { self.slow_per_thousand };
        if rng.chance(slow_rate) {
            return slow(rng, quick);
        }
        // There are many more receives than other calls, and few of those that matter most.
        let rate = match call {
            "receive" => self.per_thousand / 4,
            "commit" => self.per_thousand * 4,
            "send" | "delete" => self.per_thousand * 3,
            _ => self.per_thousand,
        };
        let rate = if rarity > 1 { (rate * rarity).min(400) } else { rate };
        if rng.chance(rate) { faulty(rng, call, quick) } else { quick }
    }
}

fn slow(rng: &Rng, quick: Course) -> Course {
    let (before, after) = (rng.within(0..4 * MINUTE), rng.within(SECOND..4 * MINUTE));
    Course {
        effect_after_ms: Some(before),
        answer_after_ms: before + after,
        fault: Some(Fault::Slow),
        ..quick
    }
}

fn faulty(rng: &Rng, call: &str, quick: Course) -> Course {
    let mut choices = vec![
        (2, Fault::RequestLost),
        (4, Fault::AnswerLost),
        (2, Fault::ServerErrorBefore),
        (2, Fault::ServerErrorAfter),
        (4, Fault::RequestLate),
        (2, Fault::Throttled),
        (2, Fault::Denied),
        (2, Fault::NoConnection),
        (5, Fault::CrashBefore),
        (6, Fault::CrashAfter),
    ];
    match call {
        "commit" => choices.extend([(6, Fault::Conflict), (6, Fault::ConflictAfterDone)]),
        "send" => choices.push((8, Fault::SentInPart)),
        "delete" => choices.push((8, Fault::DeletedInPart)),
        _ => {}
    }
    let fault = rng.weighted(&choices).unwrap_or(Fault::RequestLost);
    let course = Course { fault: Some(fault), ..quick };
    let refused = |failure| Course { effect_after_ms: None, told: Some(failure), ..course };
    match fault {
        Fault::AnswerLost | Fault::ServerErrorAfter => Course { told: Some(Failure::Unreachable), ..course },
        Fault::RequestLate => {
            let gave_up = rng.within(SECOND..10 * SECOND);
            let effect_after_ms = Some(gave_up + rng.within(1..30 * SECOND));
            Course { effect_after_ms, answer_after_ms: gave_up, told: Some(Failure::Unreachable), ..course }
        }
        Fault::Throttled => refused(Failure::Throttled),
        Fault::Denied => refused(Failure::Denied),
        Fault::NoConnection => refused(Failure::NoConnection),
        Fault::Conflict => refused(Failure::Conflict),
        Fault::ConflictAfterDone => Course { told: Some(Failure::Conflict), ..course },
        Fault::CrashBefore => Course { effect_after_ms: None, crash: true, ..course },
        // The request is on its way when its sender dies; it may arrive much later.
        Fault::CrashAfter => {
            Course { effect_after_ms: Some(rng.within(1..20 * SECOND)), crash: true, ..course }
        }
        Fault::SentInPart | Fault::DeletedInPart => {
            Course { told: Some(Failure::Unreachable), in_part: true, ..course }
        }
        // Nobody says that it did not arrive: its caller waits for its time-out.
        Fault::RequestLost => {
            let answer_after_ms = rng.within(SECOND..10 * SECOND);
            Course { answer_after_ms, ..refused(Failure::Unreachable) }
        }
        _ => refused(Failure::Unreachable),
    }
}

/// What a call meets while its part fails in this way.
const fn of_outage(failure: Failure) -> Fault {
    match failure {
        Failure::Denied => Fault::OutageExpired,
        Failure::Throttled => Fault::OutageThrottled,
        Failure::NoConnection => Fault::OutageUnreachable,
        _ => Fault::OutageBroken,
    }
}
