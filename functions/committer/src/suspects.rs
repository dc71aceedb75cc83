//! Which messages may have ended the committer, and how they are taken.
//!
//! A message can be such that the process dies of it: too large for the memory, or met by a fault that
//! nobody foresaw. Then no code of that process counts anything, so the counting rests on heartbeats:
//! whatever a round held that nobody ended is suspect. Suspects are taken after all others, in ever
//! smaller groups and in the end alone, so that a round of thousands that was killed from outside costs
//! tens of rounds and not thousands. One that was alone in three rounds which nobody ended is parked
//! as it came. A round that ends, whatever became of its messages, adds nothing to anybody's record.
//!
//! All of it follows from what the heartbeats say: a death that is read twice counts once.

use std::collections::BTreeMap;
use std::time::Duration;

use icefall_clock::Timestamp;
use icefall_mutations::{Mutation, is};
use icefall_queue::{MessageId, Received};
use icefall_store::{Heartbeat, Suspect};

/// Rounds alone that nobody ended, after which a message is parked.
const ROUNDS_ALONE: usize = 3;
/// A group of suspects is this much smaller than the round that made them suspects.
const SHRINK: usize = 32;
/// The longest that a queue keeps a message: a suspect of that age is gone.
const FORGOTTEN: Duration = Duration::from_hours(14 * 24);

/// All suspects, by message id.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Suspects(BTreeMap<String, Suspect>);

/// Messages in the order in which they are to be taken.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// Those that nothing is known against: taken together, and first.
    pub(crate) others: Vec<Received>,
    /// Suspects, group by group.
    pub(crate) groups: Vec<Vec<Received>>,
    /// Those that are to be parked.
    pub(crate) parked: Vec<Received>,
}

/// Whether the round of `heartbeat` will never be ended.
pub(crate) fn is_dead(heartbeat: &Heartbeat, now: Timestamp) -> bool {
    !heartbeat.ended && now.unix_ms() >= heartbeat.ends_by_ms
}

impl Suspects {
    /// What `heartbeats` say.
    pub(crate) fn of<'a>(heartbeats: impl IntoIterator<Item = &'a Heartbeat>, now: Timestamp) -> Self {
        let mut suspects = Self::default();
        for heartbeat in heartbeats {
            for (id, suspect) in &heartbeat.suspects {
                suspects.add(id, suspect.clone());
            }
            if is_dead(heartbeat, now) {
                suspects.accuse(heartbeat);
            }
        }
        let known_since =
            now.unix_ms().saturating_sub(u64::try_from(FORGOTTEN.as_millis()).unwrap_or(u64::MAX));
        suspects.0.retain(|_, suspect| suspect.since_ms >= known_since);
        suspects
    }

    /// For the next heartbeat to carry.
    pub(crate) fn carried(&self) -> BTreeMap<String, Suspect> {
        self.0.clone()
    }

    /// Drops a message that was let go.
    pub(crate) fn forget(&mut self, id: &MessageId) {
        self.0.remove(&id.0);
    }

    /// The rounds that `id` was alone in and that nobody ended.
    pub(crate) fn rounds_alone(&self, id: &MessageId) -> Vec<String> {
        let rounds = self.0.get(&id.0).map(|suspect| suspect.alone.iter().map(ToString::to_string).collect());
        rounds.unwrap_or_default()
    }

    /// The order in which `messages` are taken.
    pub(crate) fn sort(&self, messages: Vec<Received>) -> Sorted {
        let mut sorted = Sorted::default();
        let mut suspects: BTreeMap<usize, Vec<Received>> = BTreeMap::new();
        for message in messages {
            match self.0.get(&message.id.0).filter(|_| !is(Mutation::SuspectsForgotten)) {
                None => sorted.others.push(message),
                Some(suspect) if suspect.alone.len() >= ROUNDS_ALONE => sorted.parked.push(message),
                Some(suspect) => suspects.entry(suspect.crowd).or_default().push(message),
            }
        }
        for (crowd, messages) in suspects.into_iter().rev() {
            let size = (crowd / SHRINK).max(1);
            sorted.groups.extend(messages.chunks(size).map(<[Received]>::to_vec));
        }
        sorted
    }

    fn accuse(&mut self, dead: &Heartbeat) {
        let crowd = dead.holds.len();
        for id in &dead.holds {
            let alone = (crowd == 1).then_some(dead.round).into_iter().collect();
            self.add(id, Suspect { crowd, alone, since_ms: dead.started_ms });
        }
    }

    fn add(&mut self, id: &str, found: Suspect) {
        let known = self.0.entry(id.to_owned()).or_insert_with(|| found.clone());
        known.crowd = known.crowd.min(found.crowd);
        known.alone.extend(found.alone);
        known.since_ms = known.since_ms.min(found.since_ms);
    }
}

#[cfg(test)]
mod tests {
    use icefall_queue::Receipt;
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_704_067_200_000);

    fn message(id: usize) -> Received {
        Received {
            id: MessageId(format!("m{id}")),
            receipt: Receipt(format!("r{id}")),
            body: String::new(),
            sent_ms: None,
            receive_count: 1,
        }
    }

    fn dead(round: u128, holds: std::ops::Range<usize>) -> Heartbeat {
        Heartbeat {
            round: Uuid::from_u128(round),
            started_ms: NOW.unix_ms() - 10,
            ends_by_ms: NOW.unix_ms() - 1,
            holds: holds.map(|id| format!("m{id}")).collect(),
            ..Heartbeat::default()
        }
    }

    fn sizes(groups: &[Vec<Received>]) -> Vec<usize> {
        groups.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_round_that_ended_or_may_still_end_accuses_nobody() {
        let ended = Heartbeat { ended: true, ..dead(1, 0..3) };
        let alive = Heartbeat { ends_by_ms: NOW.unix_ms() + 1, ..dead(2, 0..3) };
        assert_eq!(Suspects::of([&ended, &alive], NOW), Suspects::default());
        assert!(is_dead(&alive, NOW.plus(Duration::from_millis(1))));
    }

    #[test]
    fn suspects_come_last_in_smaller_groups_and_in_the_end_alone() {
        let suspects = Suspects::of([&dead(1, 0..100), &dead(2, 0..3)], NOW);
        let sorted = suspects.sort((0..110).map(message).collect());
        assert_eq!(sorted.others.len(), 10);
        assert_eq!(sizes(&sorted.groups)[..32], [3; 32]);
        assert_eq!(sizes(&sorted.groups)[32..], [1, 1, 1, 1], "97 in threes, then the last three alone");
        assert!(sorted.parked.is_empty());
    }

    #[test]
    fn the_third_end_alone_parks_and_reading_it_again_counts_nothing() {
        let alone = [dead(1, 0..1), dead(2, 0..1), dead(3, 0..1)];
        let twice = Suspects::of(alone[..2].iter().chain(&alone[..2]), NOW);
        assert!(twice.sort(vec![message(0)]).parked.is_empty());
        let carrier = Heartbeat { ended: true, suspects: twice.carried(), ..Heartbeat::default() };
        let thrice = Suspects::of([&carrier, &alone[2]], NOW);
        assert_eq!(thrice.sort(vec![message(0), message(1)]).parked, [message(0)]);
        assert_eq!(thrice.rounds_alone(&message(0).id).len(), 3);
    }

    #[test]
    fn whoever_is_let_go_or_older_than_any_queue_is_forgotten() {
        let mut suspects = Suspects::of([&dead(1, 0..2)], NOW);
        suspects.forget(&message(0).id);
        assert_eq!(suspects.carried().keys().collect::<Vec<_>>(), ["m1"]);
        let old = Heartbeat { started_ms: 1, ..dead(1, 0..2) };
        assert_eq!(Suspects::of([&old], NOW), Suspects::default());
    }
}
