//! How an audit is cut into pieces that fit into memory.
//!
//! A ledger's segments each hold what one snapshot settled, of all partitions. So all partitions are gone through at the same
//! time, each by the same share of its own length: as far as they grew at a steady rate, every segment is then read once.

use std::ops::Range;

use icefall_manifest::{Offset, Partition};

/// Offsets that are looked at together. The ledger's part of one takes 32 bytes.
pub(crate) const OFFSETS_AT_ONCE: u64 = 2_000_000;

/// A partition's stretch, from its first position to the one after its last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) partition: Partition,
    pub(crate) positions: Range<i64>,
}

impl Stretch {
    /// Its offsets, the last one included; `None` if it has none.
    pub(crate) fn offsets(&self) -> Option<(Partition, std::ops::RangeInclusive<Offset>)> {
        let first = Offset::new(self.positions.start)?;
        let last = Offset::new(self.positions.end.checked_sub(1)?)?;
        (first <= last).then_some((self.partition, first..=last))
    }
}

/// The windows that `whole` is cut into, in order: in each all partitions, together about `at_once` offsets.
pub(crate) fn windows(whole: &[Stretch], at_once: u64) -> impl Iterator<Item = Vec<Stretch>> {
    let length =
        |stretch: &Stretch| u64::try_from(stretch.positions.end - stretch.positions.start).unwrap_or(0);
    let total = whole.iter().map(length).fold(0_u64, u64::saturating_add);
    let count = total.div_ceil(at_once.max(1));
    let whole = whole.to_vec();
    (0..count).map(move |index| whole.iter().map(|stretch| share(stretch, index, count)).collect())
}

fn share(stretch: &Stretch, index: u64, count: u64) -> Stretch {
    let Range { start, end } = stretch.positions;
    let at = |index: u64| {
        let length = i128::from(end.saturating_sub(start).max(0));
        let part = length * i128::from(index) / i128::from(count);
        // No more than the length, which is one of two offsets' difference.
        start.saturating_add(i64::try_from(part).unwrap_or(i64::MAX))
    };
    Stretch { partition: stretch.partition, positions: at(index)..at(index + 1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_follow_each_other_and_leave_nothing_out(
            ends in prop::collection::vec((0_i64..50, 0_i64..200), 0..5), at_once in 1_u64..60,
        ) {
            let whole: Vec<Stretch> = ends.iter().enumerate().filter_map(|(partition, (start, length))| {
                let partition = Partition::new(i64::try_from(partition).ok()?)?;
                Some(Stretch { partition, positions: *start..start + length })
            }).collect();
            let windows: Vec<_> = windows(&whole, at_once).collect();
            for (index, stretch) in whole.iter().enumerate() {
                let cuts: Vec<_> = windows.iter().filter_map(|window| window.get(index)).collect();
                let positions: Vec<i64> = cuts.iter().flat_map(|cut| cut.positions.clone()).collect();
                prop_assert_eq!(positions, stretch.positions.clone().collect::<Vec<_>>());
            }
            for window in &windows {
                let size: i64 = window.iter().map(|cut| cut.positions.end - cut.positions.start).sum();
                prop_assert!(size <= i64::try_from(at_once).unwrap_or(i64::MAX) + i64::try_from(whole.len()).unwrap_or(0));
            }
        }
    }
}
