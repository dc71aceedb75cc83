//! Runs of offsets as they travel: a few bytes each.
//!
//! Where a table's partitions cut across the order of the records, a data file has about as many runs as
//! rows, so the size of a run decides the size of a batch manifest, of which the queue takes 1 MiB.
//!
//! A run is an integer whose lowest bit says whether partition or encoding differ from those of the run
//! before and whose other bits are the count; if they differ, the partition's difference and the
//! encoding's tag; and the difference of its first offset from the end of the run before. The run before
//! the first is empty, at offset 0 of partition 0, in encoding 0.

use crate::wire::{Fault, Reader, put_signed, put_unsigned};
use crate::{Encoding, Offset, OffsetRun, Partition};

/// What a run is written as the difference from.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    partition: i64,
    encoding: u8,
    end: i64,
}

impl Before {
    fn after(run: &OffsetRun) -> Self {
        Self {
            partition: i64::from(run.partition.number()),
            encoding: run.encoding.into(),
            end: run.first.position().saturating_add(i64::from(run.count)),
        }
    }
}

pub(crate) fn encode(runs: &[OffsetRun]) -> Vec<u8> {
    let (mut out, mut before) = (Vec::with_capacity(3 * runs.len()), Before::default());
    for run in runs {
        let next = Before::after(run);
        let differs = (next.partition, next.encoding) != (before.partition, before.encoding);
        put_unsigned(&mut out, (u64::from(run.count) << 1) | u64::from(differs));
        if differs {
            put_signed(&mut out, next.partition - before.partition);
            out.push(next.encoding);
        }
        put_signed(&mut out, run.first.position() - before.end);
        before = next;
    }
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<OffsetRun>, Fault> {
    let (mut reader, mut runs, mut before) = (Reader::new(bytes), Vec::new(), Before::default());
    while !reader.is_empty() {
        let run = run(&mut reader, before)?;
        before = Before::after(&run);
        runs.push(run);
    }
    Ok(runs)
}

fn run(reader: &mut Reader<'_>, before: Before) -> Result<OffsetRun, Fault> {
    let head = reader.unsigned()?;
    let count = u32::try_from(head >> 1).map_err(|_| Fault("a run is too long"))?;
    let Before { mut partition, mut encoding, end } = before;
    if head & 1 == 1 {
        let difference = reader.signed()?;
        partition = partition.checked_add(difference).ok_or(Fault("a partition is out of range"))?;
        encoding = reader.byte()?;
    }
    let first = end.checked_add(reader.signed()?);
    Ok(OffsetRun {
        partition: Partition::new(partition).ok_or(Fault("there is no such partition"))?,
        first: first.and_then(Offset::new).ok_or(Fault("there is no such offset"))?,
        count,
        encoding: Encoding::try_from(encoding).map_err(|_| Fault("there is no such encoding"))?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_run() -> impl Strategy<Value = OffsetRun> {
        let partition = prop_oneof![0_i64..4, 0..=i64::from(i32::MAX)];
        let first = prop_oneof![0_i64..50, 0..=i64::MAX];
        (partition, first, any::<u32>(), 1_u8..=4).prop_map(|(partition, first, count, encoding)| OffsetRun {
            partition: Partition::new(partition).expect("a partition"),
            first: Offset::new(first).expect("an offset"),
            count,
            encoding: Encoding::try_from(encoding).expect("a tag"),
        })
    }

    proptest! {
        #[test]
        fn runs_read_back_equal(runs in prop::collection::vec(any_run(), 0..20)) {
            prop_assert_eq!(decode(&encode(&runs)), Ok(runs));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_run_nearby_takes_two_bytes() {
        let run = |first| OffsetRun {
            partition: Partition::new(3).expect("a partition"),
            first: Offset::new(first).expect("an offset"),
            count: 1,
            encoding: Encoding::Raw,
        };
        let runs: Vec<_> = (0..100).map(|index| run(1_000_000 + index * 5)).collect();
        assert!(encode(&runs).len() < 210);
    }
}
