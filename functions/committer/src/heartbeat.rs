//! Heartbeats, as the committer reads and puts them.
//!
//! Before a round the committer looks at all slots: what they say of suspects is taken over, and a slot
//! that nobody writes to any more is taken for the round's own. Nothing here is a lock. Two committers
//! that take one slot at once lose at worst the notice of a death, which the next death makes good; and
//! a round goes on without any of this when the ops bucket does not answer: correctness never rests on it.

use icefall_clock::Timestamp;
use icefall_queue::Received;
use icefall_store::{Heartbeat, StoreError};
use tracing::warn;

use crate::deadline::Deadline;
use crate::drain::Committer;
use crate::suspects::{Suspects, is_dead};

/// What a look at the heartbeats showed.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) suspects: Suspects,
    /// The slot to write to; none when it is not known which are in use.
    slot: Option<usize>,
    /// Rounds that nobody will end.
    dead: usize,
    /// Slots of others that hold what this one carries from now on.
    taken_over: Vec<(usize, Heartbeat)>,
}

/// A round that was begun.
#[derive(Debug)]
pub(crate) struct Begun(Heartbeat);

impl Watch {
    /// Looks at all slots.
    pub(crate) async fn look(committer: &Committer) -> Self {
        let now = committer.ports.clock.now();
        let mut slots = Vec::new();
        for read in committer.ports.ops.heartbeats(&committer.settings.pipeline).await {
            match read {
                Ok(heartbeat) => slots.push(heartbeat),
                Err(StoreError::Malformed { .. }) => slots.push(None),
                Err(fault) => {
                    warn!(
                        error = &fault as &dyn std::error::Error,
                        "the heartbeats can't be read; suspects are not told from others"
                    );
                    return Self::default();
                }
            }
        }
        let watch = Self::of(slots, now);
        committer.ports.metrics.rounds_unended(watch.dead as u64);
        watch
    }

    fn of(slots: Vec<Option<Heartbeat>>, now: Timestamp) -> Self {
        let is_free = |slot: &Option<Heartbeat>| {
            slot.as_ref().is_none_or(|heartbeat| heartbeat.ended || is_dead(heartbeat, now))
        };
        let free = slots.iter().position(is_free);
        let suspects = Suspects::of(slots.iter().flatten(), now);
        let dead = slots.iter().flatten().filter(|heartbeat| is_dead(heartbeat, now)).count();
        let others =
            slots.into_iter().enumerate().filter(|(index, slot)| Some(*index) != free && is_free(slot));
        let others = others.filter_map(|(index, slot)| Some((index, slot?)));
        let taken_over = others.filter(|(_, slot)| !slot.ended || !slot.suspects.is_empty()).collect();
        Self { suspects, slot: Some(free.unwrap_or(0)), dead, taken_over }
    }

    /// Says that a round begins with `messages`.
    pub(crate) async fn begin(
        &mut self,
        committer: &Committer,
        messages: &[Received],
        deadline: Deadline,
    ) -> Begun {
        let now = committer.ports.clock.now();
        let heartbeat = Heartbeat {
            round: committer.ports.entropy.uuid_at(now),
            started_ms: now.unix_ms(),
            ends_by_ms: deadline.platform().unix_ms(),
            holds: messages.iter().map(|message| message.id.0.clone()).collect(),
            ended: false,
            suspects: self.suspects.carried(),
        };
        if self.put(committer, &heartbeat).await {
            for (slot, other) in std::mem::take(&mut self.taken_over) {
                let empty = Heartbeat {
                    round: other.round,
                    started_ms: other.started_ms,
                    ended: true,
                    ..Heartbeat::default()
                };
                put(committer, slot, &empty).await;
            }
        }
        Begun(heartbeat)
    }

    /// Says that it has ended.
    pub(crate) async fn end(&self, committer: &Committer, Begun(begun): Begun) {
        let ended = Heartbeat {
            started_ms: committer.ports.clock.now().unix_ms(),
            holds: Vec::new(),
            ended: true,
            suspects: self.suspects.carried(),
            ..begun
        };
        self.put(committer, &ended).await;
    }

    async fn put(&self, committer: &Committer, heartbeat: &Heartbeat) -> bool {
        match self.slot {
            Some(slot) => put(committer, slot, heartbeat).await,
            None => false,
        }
    }
}

async fn put(committer: &Committer, slot: usize, heartbeat: &Heartbeat) -> bool {
    let put = committer.ports.ops.put_heartbeat(&committer.settings.pipeline, slot, heartbeat).await;
    if let Err(fault) = &put {
        warn!(error = fault as &dyn std::error::Error, "the heartbeat can't be written");
    }
    put.is_ok()
}
