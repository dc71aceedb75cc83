//! The dead-letter table's side of the outboxes: how far it has taken in each of them.
//!
//! One property of the dead-letter table per pipeline, set by the very commit that adds the dead
//! letters. Like a ledger it names its table and its last snapshot, so that a copy, or an old value
//! put back, is noticed.

use std::collections::BTreeMap;

use icefall_manifest::{Branch, PipelineId, TableUuid};
use serde::{Deserialize, Serialize};

use crate::{EntryNumber, Ledger, LedgerError, LedgerId, OutboxEntry, SnapshotMark};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u64 = 1;
/// What errors call it.
const WHAT: &str = "dead-letter table's property";

/// The name of the property of `pipeline`.
#[must_use]
pub fn applied_property_name(pipeline: &PipelineId) -> String {
    format!("icefall.applied.{pipeline}")
}

/// How far a dead-letter table has taken in the outboxes of a pipeline.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Applied {
    pipeline: PipelineId,
    table_uuid: TableUuid,
    branch: Branch,
    last_snapshot: Option<SnapshotMark>,
    numbers: BTreeMap<LedgerId, EntryNumber>,
}

/// An outbox's entries that the dead-letter table lacks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pending<'a> {
    /// They, in the order in which they are to be applied.
    pub entries: &'a [OutboxEntry],
    /// The table cleared entries that this dead-letter table does not hold, up to this number: the
    /// dead-letter table is not the one that took them in. Worth a warning; what is pending goes on.
    pub missing_through: Option<EntryNumber>,
}

impl Applied {
    /// The state of a dead-letter table that has taken in nothing.
    #[must_use]
    pub const fn new(pipeline: PipelineId, table_uuid: TableUuid, branch: Branch) -> Self {
        Self { pipeline, table_uuid, branch, last_snapshot: None, numbers: BTreeMap::new() }
    }

    /// Reads the property's value as it stands in the dead-letter table `table_uuid`.
    pub fn read(pipeline: PipelineId, value: &str, table_uuid: TableUuid) -> Result<Self, LedgerError> {
        let FormatOnly { format } = serde_json::from_str(value).map_err(|why| malformed(&why))?;
        if format > FORMAT {
            return Err(LedgerError::Newer { what: WHAT, version: format });
        }
        let wire: Wire = serde_json::from_str(value).map_err(|why| malformed(&why))?;
        if wire.table_uuid != table_uuid {
            return Err(LedgerError::CopiedTable { named: wire.table_uuid, actual: table_uuid });
        }
        let parse = |(id, number): (String, EntryNumber)| Ok((ledger_id(&id)?, number));
        let numbers = wire
            .applied
            .into_iter()
            .map(parse)
            .collect::<Result<_, String>>()
            .map_err(|why| malformed(&why))?;
        Ok(Self { pipeline, table_uuid, branch: wire.branch, last_snapshot: Some(wire.snapshot), numbers })
    }

    /// The property that the commit adding `snapshot` sets: name and value.
    pub fn property(&self, snapshot: SnapshotMark) -> Result<(String, String), LedgerError> {
        let wire = Wire {
            format: FORMAT,
            table_uuid: self.table_uuid,
            branch: self.branch.clone(),
            snapshot,
            applied: self.numbers.iter().map(|(id, number)| (id.to_string(), *number)).collect(),
        };
        Ok((
            applied_property_name(&self.pipeline),
            serde_json::to_string(&wire).map_err(|why| malformed(&why))?,
        ))
    }

    /// The snapshot whose commit wrote it; `None` before the first.
    #[must_use]
    pub const fn last_snapshot(&self) -> Option<SnapshotMark> {
        self.last_snapshot
    }

    /// The branch of the dead-letter table that it speaks of.
    #[must_use]
    pub const fn branch(&self) -> &Branch {
        &self.branch
    }

    /// The number of the last entry taken in of a ledger's outbox; 0 if none was.
    #[must_use]
    pub fn number(&self, ledger: &LedgerId) -> EntryNumber {
        self.numbers.get(ledger).copied().unwrap_or_default()
    }

    /// The entries of a ledger's outbox that are not taken in yet.
    pub fn pending<'a>(&self, ledger: &'a Ledger) -> Result<Pending<'a>, LedgerError> {
        let (applied, outbox) = (self.number(ledger.id()), ledger.outbox());
        let entries = outbox.above(applied)?;
        let first = entries.first().map_or_else(|| outbox.next_number(), |entry| entry.number);
        let missing = EntryNumber(first.0.saturating_sub(1));
        Ok(Pending { entries, missing_through: (missing > applied).then_some(missing) })
    }

    /// Notes that a ledger's entries up to `number` are taken in by the commit to come.
    pub fn advance(&mut self, ledger: &LedgerId, number: EntryNumber) -> Result<(), LedgerError> {
        let applied = self.number(ledger);
        if number < applied {
            let ledger = Box::new(ledger.clone());
            return Err(LedgerError::AppliedGoesBack { ledger, wanted: number.0, applied: applied.0 });
        }
        self.numbers.insert(ledger.clone(), number);
        Ok(())
    }
}

/// The ledger called `text`, which must be written as we write it: then no two keys name the same.
fn ledger_id(text: &str) -> Result<LedgerId, String> {
    let id: LedgerId = text.parse()?;
    if id.to_string() == text { Ok(id) } else { Err(format!("{text:?} is not written as {id}")) }
}

fn malformed(why: &impl ToString) -> LedgerError {
    LedgerError::malformed(WHAT, why)
}

/// Read first: a newer format may hold anything but still says that it is newer.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

/// The value as it is stored.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    format: u64,
    table_uuid: TableUuid,
    branch: Branch,
    snapshot: SnapshotMark,
    applied: BTreeMap<String, EntryNumber>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, batch, ledger_id, record, table};
    use crate::{SequenceNumber, SnapshotId};

    const MARK: SnapshotMark = SnapshotMark { id: SnapshotId(4), sequence_number: SequenceNumber(9) };

    fn pipeline() -> PipelineId {
        "demo".try_into().expect("a pipeline id")
    }

    fn fresh() -> Applied {
        Applied::new(pipeline(), table(), Branch::main())
    }

    /// A ledger after `dead` rounds with a dead letter each.
    fn ledger(dead: i64) -> World {
        let mut world = World::new();
        for offset in 0..dead {
            world.settle(&[batch(&[], &[record(0, offset, 1)])]);
        }
        world
    }

    fn numbers(pending: &Pending<'_>) -> Vec<u64> {
        pending.entries.iter().map(|entry| entry.number.0).collect()
    }

    #[test]
    fn entries_above_the_number_are_pending_until_it_reaches_them() {
        let world = ledger(3);
        let mut applied = fresh();
        assert_eq!(numbers(&applied.pending(&world.ledger).expect("it is in step")), [1, 2, 3]);
        applied.advance(&ledger_id(), EntryNumber(2)).expect("it goes on");
        let pending = applied.pending(&world.ledger).expect("it is in step");
        assert_eq!((numbers(&pending), pending.missing_through), (vec![3], None));
        let back = applied.advance(&ledger_id(), EntryNumber(1));
        assert!(matches!(back, Err(LedgerError::AppliedGoesBack { .. })));
    }

    #[test]
    fn a_round_clears_what_is_applied_and_numbers_go_on() {
        let mut world = ledger(3);
        let next = batch(&[], &[record(0, 3, 1)]);
        let held = world.look_up(std::slice::from_ref(&next));
        let mut round = world.round(held);
        round.accept(&next).expect("it is free");
        round.clear_outbox(EntryNumber(2)).expect("it is in step");
        world.commit(round);
        let mut applied = fresh();
        applied.advance(&ledger_id(), EntryNumber(2)).expect("it goes on");
        let pending = applied.pending(&world.ledger).expect("it is in step");
        assert_eq!((numbers(&pending), pending.missing_through), (vec![3, 4], None));
        let anew = fresh().pending(&world.ledger).map(|pending| pending.missing_through);
        assert_eq!(anew, Ok(Some(EntryNumber(2))), "another dead-letter table took those in");
    }

    #[test]
    fn a_ledger_that_is_older_than_the_dead_letter_table_is_told() {
        let mut applied = fresh();
        applied.advance(&ledger_id(), EntryNumber(7)).expect("it goes on");
        let behind = LedgerError::OutboxBehind { applied: 7, next: 4 };
        assert_eq!(applied.pending(&ledger(3).ledger), Err(behind));
    }

    #[test]
    fn the_property_reads_back_equal_and_strictly() {
        let mut applied = fresh();
        applied.advance(&ledger_id(), EntryNumber(7)).expect("it goes on");
        let (name, value) = applied.property(MARK).expect("it serializes");
        assert_eq!(name, "icefall.applied.demo");
        let read = |value: &str| Applied::read(pipeline(), value, table());
        assert_eq!(read(&value), Ok(Applied { last_snapshot: Some(MARK), ..applied }));
        let newer = value.replace(r#""format":1"#, r#""format":3"#);
        assert_eq!(read(&newer), Err(LedgerError::Newer { what: WHAT, version: 3 }));
        for broken in
            [value.replace("/main/demo", "/demo"), value.replace(r#""format":1"#, r#""format":1,"x":1"#)]
        {
            assert!(matches!(read(&broken), Err(LedgerError::Malformed { .. })), "{broken} was read");
        }
        let other = TableUuid(uuid::Uuid::from_u128(8));
        assert!(matches!(Applied::read(pipeline(), &value, other), Err(LedgerError::CopiedTable { .. })));
    }
}
