//! What the ledgers hold, window by window, and how many rows each snapshot settled.

use std::collections::BTreeMap;

use icefall_ledger::{Held, Kind, Ledger, Lookup, SequenceNumber, Tail, Wanted};
use icefall_manifest::{Offset, Partition};
use icefall_tables::{LedgerStoreError, TableError};

use super::window::{OFFSETS_AT_ONCE, Stretch, windows};
use crate::{CliError, Desk};

/// How many rows each snapshot settled, by its sequence number.
pub(crate) type RowsBySnapshot = BTreeMap<SequenceNumber, u64>;

/// A ledger that is gone through from its lowest offset to its highest.
#[derive(Debug)]
pub(crate) struct LedgerWalk<'a> {
    desk: &'a Desk,
    pub(crate) ledger: Ledger,
    tail: Option<Tail>,
}

impl<'a> LedgerWalk<'a> {
    pub(crate) async fn begin(desk: &'a Desk, ledger: Ledger) -> Result<Self, CliError> {
        let mut walk = Self { desk, ledger, tail: None };
        walk.held(&Wanted::default()).await?;
        Ok(walk)
    }

    /// What it holds of `wanted`.
    pub(crate) async fn held(&mut self, wanted: &Wanted) -> Result<Held, CliError> {
        let mut lookup = match self.tail.take() {
            Some(tail) => Lookup::with_tail(&self.ledger, wanted, tail),
            None => Lookup::new(&self.ledger, wanted),
        };
        self.desk.ledgers.supply(&mut lookup).await.map_err(TableError::from)?;
        let held = lookup.finish().map_err(LedgerStoreError::from).map_err(TableError::from)?;
        self.tail = held.tail().cloned();
        Ok(held)
    }

    /// The lowest settled offset of each partition.
    pub(crate) fn lowest(&self) -> BTreeMap<Partition, Offset> {
        self.tail.as_ref().map(Tail::lowest).unwrap_or_default()
    }

    /// Its whole length, in each partition.
    fn stretches(&self) -> Vec<Stretch> {
        let lowest = self.lowest();
        let stretch = |(partition, highest): (&Partition, &Offset)| {
            let start = lowest.get(partition).map_or(0, |lowest| lowest.position());
            Stretch { partition: *partition, positions: start..highest.position() + 1 }
        };
        self.ledger.highest().iter().map(stretch).collect()
    }

    /// How many rows each snapshot settled, where nothing else is asked of this ledger.
    pub(crate) async fn rows(mut self) -> Result<RowsBySnapshot, CliError> {
        let mut rows = RowsBySnapshot::new();
        for window in windows(&self.stretches(), OFFSETS_AT_ONCE) {
            let held = self.held(&Wanted::within(window.iter().filter_map(Stretch::offsets))).await?;
            for stretch in &window {
                count_rows(&held, stretch.partition, &mut rows);
            }
        }
        Ok(rows)
    }
}

/// Counts the rows that `held` has of a partition. Neighbours were mostly settled by the same snapshot.
pub(crate) fn count_rows(held: &Held, partition: Partition, rows: &mut RowsBySnapshot) {
    let standings = held.partition(partition);
    for group in standings.chunk_by(|one, other| one.sequence_number == other.sequence_number) {
        let count = group.iter().filter(|standing| standing.settled.kind == Kind::Row).count() as u64;
        if let Some(first) = group.first().filter(|_| count > 0) {
            *rows.entry(first.sequence_number).or_default() += count;
        }
    }
}
