//! What each commit of the functions must keep to, looked at as it is made: a schedule may well end as it should though
//! one of them did not.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::{SnapshotRef, TableMetadata};
use iceberg::{TableIdent, TableUpdate};
use icefall_catalog::Commit;
use icefall_manifest::DeadLetter;
use serde_json::Value;
use uuid::Uuid;

use crate::verdict::CACHED_MS;

/// What the names of all ledgers' properties begin with.
pub(crate) const LEDGERS: &str = "icefall.ledger.";

/// What the name of the dead-letter table's own property begins with.
const APPLIED: &str = "icefall.applied.";
/// What an operator's snapshot says that it is.
const OPERATOR: &str = "icefall.operator";

/// A ledger was rewound.
#[derive(Clone, Debug)]
pub(crate) struct Rewound {
    pub(crate) table: String,
    /// The ledger's property.
    pub(crate) property: String,
    /// All of the branch's history could be seen, so that all that was rolled back is free.
    pub(crate) whole: bool,
}

/// The ledgers of `table` that were rewound from `before` to `after`.
pub(crate) fn rewound(table: &TableIdent, before: &TableMetadata, after: &TableMetadata) -> Vec<Rewound> {
    let rewind = |metadata: &TableMetadata, name: &String| {
        let value: Value = serde_json::from_str(metadata.properties().get(name)?).ok()?;
        value.get("last_rewind").filter(|rewind| !rewind.is_null()).cloned()
    };
    let parent = |id: &i64| before.snapshot_by_id(*id)?.parent_snapshot_id();
    let is_whole = |name: &str| {
        let newest = newest(before, name).map(|newest| newest.snapshot_id());
        let oldest = std::iter::successors(newest, parent).last();
        oldest.is_none_or(|oldest| before.snapshot_by_id(oldest).is_some())
    };
    let ledgers = after.properties().keys().filter(|name| name.starts_with(LEDGERS));
    let changed = ledgers.filter(|name| {
        operator(after, name) == Some("ledger rewind") && rewind(before, name) != rewind(after, name)
    });
    let rewound =
        |name: &String| Rewound { table: table.to_string(), property: name.clone(), whole: is_whole(name) };
    changed.map(rewound).collect()
}

/// The newest snapshot of the branch that the ledger of this property is about.
fn newest<'a>(metadata: &'a TableMetadata, property: &str) -> Option<&'a SnapshotRef> {
    metadata.snapshot_for_ref(property.strip_prefix(LEDGERS)?.split_once('.')?.0)
}

/// What that one says that an operator did.
fn operator<'a>(metadata: &'a TableMetadata, property: &str) -> Option<&'a str> {
    let summary = newest(metadata, property)?.summary();
    summary.additional_properties.get(OPERATOR).map(String::as_str)
}

/// What is known of the ledgers from the commits before.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// How far each ledger was, by its table's uuid and the property's name.
    reached: BTreeMap<(Uuid, String), Reached>,
    /// Ledgers that nothing may be settled by as their tables stand, by table and property.
    pub(crate) still: BTreeSet<(String, String)>,
}

/// How far a ledger is: neither ever goes back.
#[derive(Clone, Debug, Default)]
struct Reached {
    highest: BTreeMap<i64, i64>,
    next_entry: i64,
}

impl Reached {
    fn of(ledger: &Value) -> Self {
        let pairs = ledger.get("highest").and_then(Value::as_array).into_iter().flatten();
        let pair = |pair: &Value| Some((pair.get(0)?.as_i64()?, pair.get(1)?.as_i64()?));
        let next_entry = ledger.get("next_entry").and_then(Value::as_i64).unwrap_or_default();
        Self { highest: pairs.filter_map(pair).collect(), next_entry }
    }

    fn is_behind(&self, former: &Self) -> bool {
        let is_lower = |(partition, offset): (&i64, &i64)| self.highest.get(partition) < Some(offset);
        self.next_entry < former.next_entry || former.highest.iter().any(is_lower)
    }
}

impl Watched {
    /// What is wrong with `commit`, which made `after` of `before`.
    pub(crate) fn fault(
        &mut self,
        table: &TableIdent,
        before: &TableMetadata,
        after: &TableMetadata,
        commit: &Commit,
    ) -> Option<String> {
        let adds_snapshot =
            commit.updates().iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. }));
        let ledgers: BTreeMap<_, _> =
            after.properties().iter().filter(|(name, _)| name.starts_with(LEDGERS)).collect();
        let changed =
            ledgers.into_iter().filter(|(name, value)| before.properties().get(*name) != Some(value));
        for (name, value) in changed {
            if !adds_snapshot {
                return Some(format!("UNSEEN {name} changed without a snapshot"));
            }
            if self.still.contains(&(table.to_string(), name.clone())) {
                return Some(format!("UNDECIDED {name} went on, though {table} stands where it does not"));
            }
            let value: Value = serde_json::from_str(value).ok()?;
            let former = before.properties().get(name).and_then(|value| serde_json::from_str(value).ok());
            let wrong = former.and_then(|former| change(name, &former, &value, after));
            if let Some(fault) = wrong.or_else(|| self.goes_back(name, &value, after.uuid())) {
                return Some(fault);
            }
        }
        None
    }

    /// What leaves an outbox has to be in the dead-letter table, which says itself how far it is.
    pub(crate) fn left_early(
        table: &TableIdent,
        before: &TableMetadata,
        after: &TableMetadata,
        letters: &TableMetadata,
    ) -> Option<String> {
        let applied = letters.properties().iter().find(|(name, _)| name.starts_with(APPLIED));
        let applied: Value =
            applied.and_then(|(_, value)| serde_json::from_str(value).ok()).unwrap_or_default();
        let outbox = |metadata: &TableMetadata, name: &String| -> Option<BTreeSet<u64>> {
            let value: Value = serde_json::from_str(metadata.properties().get(name)?).ok()?;
            let entries = value.get("outbox")?.as_array()?.iter();
            Some(entries.filter_map(|entry| entry.get("number")?.as_u64()).collect())
        };
        let names: BTreeSet<_> = after.properties().keys().filter(|name| name.starts_with(LEDGERS)).collect();
        names.into_iter().find_map(|name| {
            if before.properties().get(name) == after.properties().get(name) {
                return None;
            }
            let (was, is) = (outbox(before, name)?, outbox(after, name)?);
            let id = format!("{}/{}", after.uuid(), name.strip_prefix(LEDGERS)?.replacen('.', "/", 1));
            let through = applied.get("applied").and_then(|held| held.get(&id)).and_then(Value::as_u64);
            let through = through.unwrap_or_default();
            let gone = was.difference(&is).find(|number| **number > through)?;
            Some(format!(
                "LOST entry {gone} left the outbox of {name} in {table}, but the dead-letter table is at {through}"
            ))
        })
    }

    /// A ledger that was begun anew, or went on from an old value, has lost what was settled since.
    fn goes_back(&mut self, name: &str, value: &Value, table: Uuid) -> Option<String> {
        let reached = Reached::of(value);
        let key = (table, name.to_owned());
        let former = self.reached.get(&key).filter(|former| reached.is_behind(former));
        let fault = former.map(|former| format!("FORGOTTEN {name} went back from {former:?} to {reached:?}"));
        self.reached.insert(key, reached);
        fault
    }
}

/// What is wrong with a file of dead letters that was put by a writer's invocation which began at `begun_ms`, given the
/// tables whose column `q` is a long, and since when: no table that the writer goes by may be older than a minute.
pub(crate) fn needless_letter(
    body: &[u8],
    begun_ms: u64,
    wide_since: &BTreeMap<String, u64>,
) -> Option<String> {
    let is_wide = |letter: &DeadLetter| {
        let since_ms = wide_since.get(&letter.target_table.to_string());
        since_ms.is_some_and(|since_ms| begun_ms > since_ms + CACHED_MS)
    };
    let holds_q = |letter: &DeadLetter| {
        let value: Option<Value> =
            letter.value.as_ref().and_then(|value| serde_json::from_slice(&value.0).ok());
        value.is_some_and(|value| value.get("q").is_some())
    };
    let letters = DeadLetter::decode_lines(&zstd::decode_all(body).ok()?).ok()?;
    let mut wide = letters.iter().filter(|letter| letter.error_class == "out-of-range" && is_wide(letter));
    wide.find(|letter| holds_q(letter)).map(|letter| {
        format!("NEEDLESS a record became a dead letter because the table could not be asked: {letter:?}")
    })
}

/// What is wrong with a change of one ledger.
fn change(name: &str, before: &Value, after: &Value, metadata: &TableMetadata) -> Option<String> {
    let stood_still = !before.get("stop")?.is_null();
    let is_rewound = operator(metadata, name) == Some("ledger rewind");
    if stood_still && !is_rewound && before.get("segment") != after.get("segment") {
        return Some(format!("UNDECIDED {name} went on, though its source stands still in this table"));
    }
    let ended = stood_still && after.get("stop").is_some_and(Value::is_null);
    if ended
        && operator(metadata, name) == Some("stops accept")
        && before.get("incarnation") == after.get("incarnation")
    {
        return Some(format!("UNDECIDED {name} took other records for those that it holds"));
    }
    let is_copy = before.get("table_uuid")?.as_str()? != metadata.uuid().to_string();
    is_copy.then(|| format!("UNDECIDED {name} went on, though it is another table's"))
}
