//! A branch's history, as the loaded metadata shows it, compared with its ledgers.
//!
//! It takes all snapshots of a table, which a load of the referenced ones does not show. So it is asked for only
//! where the branch's newest snapshot is not the ledger's own, and what was found is remembered as long as neither
//! changes.

use std::collections::{BTreeMap, BTreeSet};

use iceberg::spec::{Snapshot, SnapshotRef, SnapshotReference, TableMetadata};
use icefall_ledger::{
    Ancestor, Chain, ChainEnd, Continued, LedgerId, Lineage, LineageFault, SequenceNumber, SnapshotId,
    SnapshotMark, lineage, read_property_name, read_source,
};
use icefall_manifest::{Branch, Source};

use crate::summary::holds;
use crate::table::SOURCES_KEY;

/// By which name engines say that a snapshot was picked from another (as Iceberg's Java library writes it).
const PICKED_KEY: &str = "source-snapshot-id";

/// The history of `branch` as far as `metadata` shows it, for the ledger of `source`.
#[must_use]
pub fn history(metadata: &TableMetadata, branch: &Branch, source: &Source) -> Chain {
    chain(metadata, metadata.snapshot_for_ref(branch.as_str()).cloned(), source)
}

/// What that history says about the ledger `id`, or another record of ours that goes by such an id, if all snapshots were
/// loaded.
pub fn compare(metadata: &TableMetadata, id: &LedgerId, found: Continued) -> Result<Lineage, LineageFault> {
    let head = history(metadata, &id.branch, &id.source);
    let last = found.last.and_then(|last| metadata.snapshot_by_id(last.id.0)).cloned();
    let own = last.map(|last| chain(metadata, Some(last), &id.source));
    lineage(found, &head, own.as_ref())
}

/// Whether snapshots that tell of `branch`, as far as `metadata` shows them, say that they settled records of `source`.
#[must_use]
pub fn has_settled(
    metadata: &TableMetadata,
    references: &References,
    branch: &Branch,
    source: &Source,
) -> bool {
    let elsewhere = || sources_elsewhere(metadata, branch).contains(source);
    let telling = telling(metadata, references, branch);
    telling.history.iter().any(|snapshot| names(snapshot, source))
        || (telling.left_behind.iter().any(|snapshot| names(snapshot, source)) && !elsewhere())
}

/// The sources that such snapshots say they settled records of; those of which only marks stand there are not told.
pub(crate) fn settled_sources(
    metadata: &TableMetadata,
    references: &References,
    branch: &Branch,
) -> BTreeSet<Source> {
    let telling = telling(metadata, references, branch);
    let mut settled = sources_of(&telling.left_behind);
    for source in sources_elsewhere(metadata, branch) {
        settled.remove(&source);
    }
    settled.extend(sources_of(&telling.history));
    settled
}

fn sources_of(snapshots: &[SnapshotRef]) -> BTreeSet<Source> {
    let text = |snapshot: &SnapshotRef| snapshot.summary().additional_properties.get(SOURCES_KEY).cloned();
    let texts: BTreeSet<String> = snapshots.iter().filter_map(text).collect();
    let named = texts.iter().flat_map(|text| text.split(' ')).map(read_source);
    named.flatten().collect()
}

/// The sources that have a ledger on another branch: a snapshot that no branch leads to may be of that one.
fn sources_elsewhere(metadata: &TableMetadata, branch: &Branch) -> BTreeSet<Source> {
    let ledgers = metadata.properties().keys().filter_map(|name| read_property_name(name).ok().flatten());
    ledgers.filter(|(of, _)| of != branch).map(|(_, source)| source).collect()
}

/// What a table's branches and tags lead to, by their names.
pub type References = BTreeMap<String, SnapshotReference>;

/// Snapshots that tell which ledgers a branch has had.
struct Telling {
    /// Those of its history.
    history: Vec<SnapshotRef>,
    /// Those that no branch or tag leads to any more: a rollback leaves them so, until they expire.
    left_behind: Vec<SnapshotRef>,
}

fn telling(metadata: &TableMetadata, references: &References, branch: &Branch) -> Telling {
    let history = ancestry(metadata, metadata.snapshot_for_ref(branch.as_str()).cloned()).collect();
    let led_to = references
        .values()
        .flat_map(|reference| ancestry(metadata, metadata.snapshot_by_id(reference.snapshot_id).cloned()));
    let led_to: BTreeSet<i64> = led_to.map(|snapshot| snapshot.snapshot_id()).collect();
    let left_behind = metadata.snapshots().filter(|snapshot| !led_to.contains(&snapshot.snapshot_id()));
    Telling { history, left_behind: left_behind.cloned().collect() }
}

/// A snapshot and its ancestors that can be seen, newest first.
fn ancestry(
    metadata: &TableMetadata,
    newest: Option<SnapshotRef>,
) -> impl Iterator<Item = SnapshotRef> + use<'_> {
    let parent = |snapshot: &SnapshotRef| {
        snapshot.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id)).cloned()
    };
    std::iter::successors(newest, parent)
}

fn chain(metadata: &TableMetadata, newest: Option<SnapshotRef>, source: &Source) -> Chain {
    let snapshots: Vec<SnapshotRef> = ancestry(metadata, newest).collect();
    let end = match snapshots.last().and_then(|last| last.parent_snapshot_id()) {
        None => ChainEnd::Root,
        Some(_) => ChainEnd::Unseen,
    };
    let ancestor = |snapshot: &SnapshotRef| Ancestor {
        mark: mark_of(snapshot),
        is_ours: names(snapshot, source),
        picked: snapshot.summary().additional_properties.get(PICKED_KEY).map(|from| {
            let from = from.parse().ok().and_then(|id| metadata.snapshot_by_id(id));
            from.map(|from| SequenceNumber(from.sequence_number()))
        }),
    };
    Chain { snapshots: snapshots.iter().map(ancestor).collect(), end }
}

fn mark_of(snapshot: &Snapshot) -> SnapshotMark {
    SnapshotMark {
        id: SnapshotId(snapshot.snapshot_id()),
        sequence_number: SequenceNumber(snapshot.sequence_number()),
    }
}

/// Whether a snapshot says that it settled records of `source`.
pub(crate) fn names(snapshot: &Snapshot, source: &Source) -> bool {
    let sources = snapshot.summary().additional_properties.get(SOURCES_KEY);
    sources.is_some_and(|sources| holds(sources, source))
}
