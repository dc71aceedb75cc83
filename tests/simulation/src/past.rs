//! A long quiet past: so many rounds of one source that its ledger's index is about to seal a node, and what lets a
//! schedule look through that.
//!
//! A node takes 128 commits of one source, and a schedule has a few. So now and then one begins when nearly all of them
//! are done, by the functions as they are shipped, in calm weather.

use std::ops::Range;

use crate::schedule::FEW;
use crate::tally::Fault;
use crate::world::{DEAD_LETTERS, World};

const MINUTE: u64 = 60_000;
/// One schedule of so many has one, by its seed: no run of a thousand is without. It takes twenty times as long as others.
const ONE_OF: u64 = 400;
/// Its commits. A node is sealed with the commit after the 128th.
const COMMITS: Range<u64> = 125..129;
/// After so many of them snapshots are expired.
const STRIDE: u64 = 12;
/// A node that was not sealed after so many tries is left to what else happens.
const TRIES: usize = 8;

impl World {
    /// Lives through a long past, in few schedules; gives the topic that had it.
    pub(crate) fn live_through_a_past(&mut self) -> Option<usize> {
        if !self.sim.seed.is_multiple_of(ONE_OF) {
            return None;
        }
        self.sim.event("a long quiet past");
        // Records of this topic are never skipped, so that each batch is a commit.
        let topic = self.sim.rng.index(2);
        self.set_calm(true);
        let table = self.tables.first().map_or("", |table| table.name);
        for round in 0..self.sim.rng.within(COMMITS) {
            self.settle_little(topic);
            if round % STRIDE == 0 {
                self.expire(table);
                self.expire(DEAD_LETTERS);
            }
        }
        self.set_calm(false);
        Some(topic)
    }

    /// A record or two, in a batch and a commit of their own.
    fn settle_little(&mut self, topic: usize) {
        let (count, now) = (self.sim.rng.within(1..3), self.sim.now_ms());
        self.kafka.produce(&self.sim.rng, topic, 0, count, now);
        self.invoke_writer(topic, false, FEW);
        self.run_to_idle(MINUTE);
        self.invoke_committer();
        self.run_to_idle(MINUTE);
    }

    /// The source goes on until a node is sealed. Then what was settled long before comes again, to committers that
    /// remember nothing of it.
    pub(crate) fn outgrow_the_past(&mut self, topic: usize) {
        for _ in 0..TRIES {
            if self.sim.state().tally.count(Fault::NodeSealed) > 0 {
                break;
            }
            self.settle_topics(&[topic]);
        }
        for _ in 0..3 {
            self.repeat_old();
            self.forget_warm();
            self.invoke_committer();
            self.run_to_idle(5 * MINUTE);
        }
    }

    /// Everything works, or no longer.
    pub(crate) fn set_calm(&self, calm: bool) {
        self.sim.state().weather.set_calm(calm);
        self.parts.post.set_calm(calm);
    }
}
