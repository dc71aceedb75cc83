//! The ledger's property: the small part, which stands in the table's own metadata.
//!
//! It is replaced by the very commit that adds the records it accounts for, and other writers'
//! commits carry it along. Whatever grows with the records lies in segments; what stands here grows
//! with the partitions alone (and with dead letters that the dead-letter table has not taken yet).

use std::collections::BTreeMap;

use icefall_manifest::{Branch, Offset, Partition, Source, TableUuid};
use icefall_mutations::{Mutation, is};
use serde::{Deserialize, Serialize};

use crate::{
    Decided, EntryNumber, Incarnation, LedgerError, LedgerId, ObjectHash, Outbox, OutboxEntry,
    SequenceNumber, SnapshotMark, Stop, property_name, read_property_name,
};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u64 = 1;
/// What errors call it.
const WHAT: &str = "ledger property";

/// What is settled of one source in one branch of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ledger {
    pub(crate) id: LedgerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) last_snapshot: Option<SnapshotMark>,
    pub(crate) newest_segment: Option<ObjectHash>,
    pub(crate) highest: BTreeMap<Partition, Offset>,
    pub(crate) outbox: Outbox,
    pub(crate) last_rewind: Option<SequenceNumber>,
    pub(crate) discards_through: Option<SequenceNumber>,
    pub(crate) decided: Option<Decided>,
    pub(crate) stop: Option<Stop>,
}

impl Ledger {
    /// The ledger of a source that the table holds nothing of. A table that has a snapshot of ours
    /// or stands in the register, but has no property, has lost it: that is not this.
    #[must_use]
    pub fn new(id: LedgerId) -> Self {
        Self {
            id,
            incarnation: Incarnation::FIRST,
            last_snapshot: None,
            newest_segment: None,
            highest: BTreeMap::new(),
            outbox: Outbox::default(),
            last_rewind: None,
            discards_through: None,
            decided: None,
            stop: None,
        }
    }

    /// Reads the property called `name` of the table `table_uuid`.
    pub fn read(name: &str, value: &str, table_uuid: TableUuid) -> Result<Self, LedgerError> {
        let (branch, source) =
            read_property_name(name)?.ok_or_else(|| malformed(&format!("{name:?} is no ledger's name")))?;
        let FormatOnly { format } = serde_json::from_str(value).map_err(|why| malformed(&why))?;
        if format > FORMAT && !is(Mutation::NewerFormatTaken) {
            return Err(LedgerError::Newer { what: WHAT, version: format });
        }
        let wire: Wire = serde_json::from_str(value).map_err(|why| malformed(&why))?;
        let wire = if is(Mutation::CopiedLedgerTaken) { Wire { table_uuid, ..wire } } else { wire };
        if wire.table_uuid != table_uuid {
            return Err(LedgerError::CopiedTable { named: wire.table_uuid, actual: table_uuid });
        }
        wire.into_ledger(branch, source).map_err(|why| malformed(&why))
    }

    /// The property that holds it: name and value. Only a ledger that a commit has written stands in
    /// one, so `snapshot` is that commit's.
    pub(crate) fn property(&self, snapshot: SnapshotMark) -> Result<(String, String), LedgerError> {
        let value = serde_json::to_string(&Wire::of(self, snapshot)).map_err(|why| malformed(&why))?;
        Ok((property_name(&self.id.branch, &self.id.source), value))
    }

    /// Whose it is.
    #[must_use]
    pub const fn id(&self) -> &LedgerId {
        &self.id
    }

    /// How often other records were accepted at offsets that were settled already.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The snapshot whose commit wrote it; `None` before the first.
    #[must_use]
    pub const fn last_snapshot(&self) -> Option<SnapshotMark> {
        self.last_snapshot
    }

    /// The newest segment; `None` while nothing is settled.
    #[must_use]
    pub const fn newest_segment(&self) -> Option<ObjectHash> {
        self.newest_segment
    }

    /// The highest settled offset of each partition. It never goes down.
    #[must_use]
    pub const fn highest(&self) -> &BTreeMap<Partition, Offset> {
        &self.highest
    }

    /// The dead letters on their way.
    #[must_use]
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The sequence number of the last rewind, if there was one.
    #[must_use]
    pub const fn last_rewind(&self) -> Option<SequenceNumber> {
        self.last_rewind
    }

    /// The newest snapshot whose records an operator said to have come again as copies: what differs from
    /// one that was settled by then, in the present incarnation, goes to quarantine and stops nothing.
    #[must_use]
    pub const fn discards_through(&self) -> Option<SequenceNumber> {
        self.discards_through
    }

    /// What was decided about the last stop, if there was one.
    #[must_use]
    pub const fn decided(&self) -> Option<&Decided> {
        self.decided.as_ref()
    }

    /// The stop that stands, if one does.
    #[must_use]
    pub const fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }
}

fn malformed(why: &impl ToString) -> LedgerError {
    LedgerError::malformed(WHAT, why)
}

/// Read first: a newer format may hold anything but still says that it is newer.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

/// The value as it is stored. What may be null must be there all the same: a stop that is missing is
/// not the same as none.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    format: u64,
    table_uuid: TableUuid,
    branch: Branch,
    incarnation: Incarnation,
    snapshot: SnapshotMark,
    #[serde(deserialize_with = "Option::deserialize")]
    segment: Option<ObjectHash>,
    highest: Vec<(Partition, Offset)>,
    next_entry: EntryNumber,
    outbox: Vec<OutboxEntry>,
    #[serde(deserialize_with = "Option::deserialize")]
    last_rewind: Option<SequenceNumber>,
    #[serde(deserialize_with = "Option::deserialize")]
    discards_through: Option<SequenceNumber>,
    #[serde(deserialize_with = "Option::deserialize")]
    decided: Option<Decided>,
    #[serde(deserialize_with = "Option::deserialize")]
    stop: Option<Stop>,
}

impl Wire {
    fn of(ledger: &Ledger, snapshot: SnapshotMark) -> Self {
        Self {
            format: FORMAT,
            table_uuid: ledger.id.table_uuid,
            branch: ledger.id.branch.clone(),
            incarnation: ledger.incarnation,
            snapshot,
            segment: ledger.newest_segment,
            highest: ledger.highest.iter().map(|(partition, offset)| (*partition, *offset)).collect(),
            next_entry: ledger.outbox.next_number(),
            outbox: ledger.outbox.entries().to_vec(),
            last_rewind: ledger.last_rewind,
            discards_through: ledger.discards_through,
            decided: ledger.decided.clone(),
            stop: ledger.stop,
        }
    }

    fn into_ledger(self, branch: Branch, source: Source) -> Result<Ledger, String> {
        if self.branch != branch {
            return Err(format!("it names branch {}, but stands under the name of {branch}", self.branch));
        }
        if self.incarnation < Incarnation::FIRST {
            return Err("it has no incarnation".to_owned());
        }
        if self.segment.is_none() != self.highest.is_empty() {
            return Err("it has settled offsets without a segment, or a segment without any".to_owned());
        }
        Ok(Ledger {
            id: LedgerId { table_uuid: self.table_uuid, branch, source },
            incarnation: self.incarnation,
            last_snapshot: Some(self.snapshot),
            newest_segment: self.segment,
            highest: ascending(self.highest)?,
            outbox: Outbox::from_parts(self.next_entry, self.outbox)?,
            last_rewind: self.last_rewind,
            discards_through: self.discards_through,
            decided: self.decided,
            stop: self.stop,
        })
    }
}

/// The map of `pairs`, if no partition stands twice.
fn ascending(pairs: Vec<(Partition, Offset)>) -> Result<BTreeMap<Partition, Offset>, String> {
    let (count, map) = (pairs.len(), BTreeMap::from_iter(pairs));
    if map.len() == count { Ok(map) } else { Err("a partition stands in it twice".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, batch, ledger_id, record, table};

    fn name() -> String {
        let LedgerId { branch, source, .. } = ledger_id();
        property_name(&branch, &source)
    }

    /// The property after a round that settled a record in each of 64 partitions, one a dead letter.
    fn value() -> String {
        let rows: Vec<_> = (1..64).map(|partition| record(partition, 987_654_321_000, 5)).collect();
        let mut world = World::new();
        world.settle(&[batch(&[&rows], &[record(0, 12, 1)])]).property_value
    }

    fn read(value: &str) -> Result<Ledger, LedgerError> {
        Ledger::read(&name(), value, table())
    }

    #[test]
    fn the_stored_form_is_this_one() {
        let value = World::new().settle(&[batch(&[], &[record(3, 12, 1)])]).property_value;
        let expected = concat!(
            r#"{"format":1,"table_uuid":"00000000-0000-0000-0000-000000000007","branch":"main","#,
            r#""incarnation":1,"snapshot":{"id":31,"sequence_number":1},"#,
            r#""segment":"SEGMENT","highest":[[3,12]],"next_entry":2,"#,
            r#""outbox":[{"number":1,"key":"dead-letters/x.jsonl.zst","#,
            r#""spans":[{"partition":3,"lowest":12,"highest":12,"count":1}]}],"#,
            r#""last_rewind":null,"discards_through":null,"decided":null,"stop":null}"#,
        );
        let segment = read(&value).expect("we wrote it").newest_segment().expect("something is settled");
        assert_eq!(value, expected.replace("SEGMENT", &segment.to_string()));
    }

    #[test]
    fn it_stays_small_with_many_partitions() {
        assert!(value().len() < 2048, "{} bytes", value().len());
    }

    #[test]
    fn a_newer_format_is_told_from_a_broken_one() {
        assert_eq!(read(r#"{"format":2,"news":[]}"#), Err(LedgerError::Newer { what: WHAT, version: 2 }));
        let value = value();
        let broken = [
            value.replace(r#""stop":null"#, r#""stop":null,"more":1"#),
            value.replace(r#","stop":null"#, ""),
            value.replace(r#""branch":"main""#, r#""branch":"audit""#),
            value.replace(r#""incarnation":1"#, r#""incarnation":0"#),
            value.replace(r#""next_entry":2"#, r#""next_entry":1"#),
            value.replace("[[0,12]", "[[0,12],[0,13]"),
            value.replace("[[0,12]", "[[0,-12]"),
            value.replace(r#""format":1"#, r#""format":-1"#),
            value.split_at(value.len() / 2).0.to_owned(),
            String::new(),
        ];
        for text in broken {
            assert!(matches!(read(&text), Err(LedgerError::Malformed { .. })), "{text} was read");
        }
    }

    #[test]
    fn a_property_without_its_segment_is_broken() {
        let value = value();
        let start = value.find(r#""segment":""#).expect("it names one") + r#""segment":"#.len();
        let (before, after) = value.split_at(start);
        let text = format!("{before}null{}", &after[66..]);
        assert!(matches!(read(&text), Err(LedgerError::Malformed { .. })), "{text} was read");
    }

    #[test]
    fn a_copied_tables_property_is_told() {
        let other = TableUuid(uuid::Uuid::from_u128(8));
        let copied = Ledger::read(&name(), &value(), other);
        assert_eq!(copied, Err(LedgerError::CopiedTable { named: table(), actual: other }));
        assert!(Ledger::read("write.format.default", &value(), table()).is_err());
    }
}
