//! The offsets that a round asks about.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use icefall_manifest::{BatchManifest, Offset, OffsetRun, Partition, RecordList};

/// A stretch of offsets, both ends included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) lowest: Offset,
    pub(crate) highest: Offset,
}

/// Offsets per partition, as stretches that ascend and don't touch.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    partitions: BTreeMap<Partition, Vec<Span>>,
}

impl Wanted {
    /// The offsets of all records of `batches`.
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a BatchManifest>) -> Self {
        let mut partitions: BTreeMap<Partition, Vec<Span>> = BTreeMap::new();
        let runs = batches.into_iter().flat_map(BatchManifest::record_lists).flat_map(RecordList::runs);
        for run in runs {
            partitions.entry(run.partition).or_default().extend(span(run));
        }
        for spans in partitions.values_mut() {
            *spans = joined(std::mem::take(spans));
        }
        Self { partitions }
    }

    /// All offsets of these stretches; empty ones count for nothing.
    pub fn within(stretches: impl IntoIterator<Item = (Partition, RangeInclusive<Offset>)>) -> Self {
        let mut partitions: BTreeMap<Partition, Vec<Span>> = BTreeMap::new();
        for (partition, stretch) in stretches.into_iter().filter(|(_, stretch)| !stretch.is_empty()) {
            let (lowest, highest) = stretch.into_inner();
            partitions.entry(partition).or_default().push(Span { lowest, highest });
        }
        for spans in partitions.values_mut() {
            *spans = joined(std::mem::take(spans));
        }
        Self { partitions }
    }

    /// Those at or below the highest settled offset of their partition: all others are free.
    pub(crate) fn up_to(&self, highest: &BTreeMap<Partition, Offset>) -> Self {
        let below = |(partition, spans): (&Partition, &Vec<Span>)| {
            let limit = highest.get(partition)?;
            let cut = spans.iter().filter(|span| span.lowest <= *limit);
            let cut: Vec<Span> =
                cut.map(|span| Span { lowest: span.lowest, highest: span.highest.min(*limit) }).collect();
            (!cut.is_empty()).then_some((*partition, cut))
        };
        Self { partitions: self.partitions.iter().filter_map(below).collect() }
    }

    /// Whether one of them lies within `span`.
    pub(crate) fn meets(&self, partition: Partition, span: Span) -> bool {
        let spans = self.partitions.get(&partition).map_or(&[][..], Vec::as_slice);
        let next = spans.partition_point(|wanted| wanted.highest < span.lowest);
        spans.get(next).is_some_and(|wanted| wanted.lowest <= span.highest)
    }

    /// Whether all of `span` is among them.
    pub(crate) fn covers(&self, partition: Partition, span: Span) -> bool {
        let spans = self.partitions.get(&partition).map_or(&[][..], Vec::as_slice);
        let next = spans.partition_point(|wanted| wanted.highest < span.lowest);
        spans.get(next).is_some_and(|wanted| wanted.lowest <= span.lowest && span.highest <= wanted.highest)
    }

    /// Whether `offset` is among them.
    pub(crate) fn contains(&self, partition: Partition, offset: Offset) -> bool {
        self.meets(partition, Span { lowest: offset, highest: offset })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

/// A run has at least one offset and none past the last there is, so that it always has a span.
fn span(run: &OffsetRun) -> Option<Span> {
    let last = run.first.plus(run.count.checked_sub(1)?)?;
    Some(Span { lowest: run.first, highest: last })
}

fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| span.lowest);
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if last.highest.plus(1).is_none_or(|next| span.lowest <= next) => {
                last.highest = last.highest.max(span.highest);
            }
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{batch, record};

    fn offset(position: i64) -> Offset {
        Offset::new(position).expect("an offset")
    }

    proptest! {
        #[test]
        fn it_answers_as_the_plain_set_of_offsets(
            offsets in prop::collection::btree_set((0_i64..3, 0_i64..50), 0..40),
            limit in 0_i64..50, from in 0_i64..50, length in 0_i64..10,
        ) {
            let records: Vec<_> = offsets.iter().map(|(partition, position)| record(*partition, *position, 1)).collect();
            let (one, two) = records.split_at(records.len() / 2);
            let all = Wanted::of(&[batch(&[two], &[]), batch(&[], one)]);
            let partition = record(1, 0, 1).partition;
            let single = |record: &icefall_manifest::RecordId| (record.partition, record.offset..=record.offset);
            prop_assert_eq!(&Wanted::within(records.iter().map(single)), &all);
            let wanted = all.up_to(&[(partition, offset(limit))].into());
            let left: BTreeSet<i64> =
                offsets.iter().filter(|(p, position)| *p == 1 && *position <= limit).map(|(_, o)| *o).collect();
            prop_assert_eq!(wanted.is_empty(), left.is_empty());
            for position in 0..50 {
                prop_assert_eq!(wanted.contains(partition, offset(position)), left.contains(&position));
            }
            let span = Span { lowest: offset(from), highest: offset(from + length) };
            prop_assert_eq!(wanted.meets(partition, span), left.range(from..=from + length).next().is_some());
            prop_assert_eq!(wanted.covers(partition, span), (from..=from + length).all(|offset| left.contains(&offset)));
        }
    }
}
