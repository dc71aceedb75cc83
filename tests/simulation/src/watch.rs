//! What each commit of the functions must keep to, looked at as it is made: a schedule may well end as it should though
//! one of them did not.

use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;
use icefall_catalog::Commit;
use serde_json::Value;

/// What the names of all ledgers' properties begin with.
pub(crate) const LEDGERS: &str = "icefall.ledger.";

/// What is wrong with `commit`, which made `after` of `before`.
pub(crate) fn fault(before: &TableMetadata, after: &TableMetadata, commit: &Commit) -> Option<String> {
    let adds_snapshot =
        commit.updates().iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. }));
    let ledgers = after.properties().iter().filter(|(name, _)| name.starts_with(LEDGERS));
    let mut changed = ledgers.filter(|(name, value)| before.properties().get(*name) != Some(value));
    changed.find_map(|(name, value)| {
        if !adds_snapshot {
            return Some(format!("UNSEEN {name} changed without a snapshot"));
        }
        let before: Value = serde_json::from_str(before.properties().get(name)?).ok()?;
        let after: Value = serde_json::from_str(value).ok()?;
        let stood_still = !before.get("stop")?.is_null();
        (stood_still && before.get("segment") != after.get("segment"))
            .then(|| format!("UNDECIDED {name} went on, though its source stands still in this table"))
    })
}
