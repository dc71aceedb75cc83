//! Choices that follow from the seed.

use std::ops::Range;

use icefall_clock::Entropy;
use icefall_testkit::SeededEntropy;

/// Everything that a schedule leaves to chance is drawn from here, in one order.
#[derive(Debug)]
pub(crate) struct Rng(SeededEntropy);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    pub(crate) fn bits(&self) -> u64 {
        self.0.bits()
    }

    /// A number of `range`, its start when it is empty. The slight bias of a remainder does not matter here.
    pub(crate) fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.bits() % (range.end.saturating_sub(range.start)).max(1)
    }

    /// An index below `length`.
    pub(crate) fn index(&self, length: usize) -> usize {
        usize::try_from(self.within(0..length as u64)).unwrap_or_default()
    }

    pub(crate) fn chance(&self, per_thousand: u64) -> bool {
        self.within(0..1000) < per_thousand
    }

    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// One of `items`, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&self, items: &[(u64, T)]) -> Option<T> {
        let mut left = self.within(0..items.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in items {
            if left < *weight {
                return Some(*item);
            }
            left -= weight;
        }
        None
    }
}
