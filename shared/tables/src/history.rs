//! A branch's history, as the loaded metadata shows it, compared with its ledgers.
//!
//! It takes all snapshots of a table, which a load of the referenced ones does not show. So it is asked for only
//! where the branch's newest snapshot is not the ledger's own, and what was found is remembered as long as neither
//! changes.

use std::collections::BTreeSet;

use iceberg::spec::{Snapshot, SnapshotRef, TableMetadata};
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

/// Whether a snapshot, as far as `metadata` shows them, says that it settled records of `source` on `branch`.
///
/// A snapshot does not say on which branch, and one that was rolled back stands in no branch's history, or in that of a
/// copy. So one beside the branch's history counts as well, unless the source has a ledger on another branch.
#[must_use]
pub fn has_settled(metadata: &TableMetadata, branch: &Branch, source: &Source) -> bool {
    let own = history_of(metadata, branch).any(|snapshot| names(&snapshot, source));
    let is_there = || metadata.snapshots().any(|snapshot| names(snapshot, source));
    own || (is_there() && !sources_elsewhere(metadata, branch).contains(source))
}

/// Whether the table never had a snapshot of ours: each of them has a sequence number above 0.
#[must_use]
pub fn is_unwritten(metadata: &TableMetadata) -> bool {
    metadata.last_sequence_number() == 0
}

/// The sources that snapshots say so of; those of which only marks stand there are not told.
pub(crate) fn settled_sources(metadata: &TableMetadata, branch: &Branch) -> BTreeSet<Source> {
    let mut settled = sources_of(metadata.snapshots().cloned());
    for source in sources_elsewhere(metadata, branch) {
        settled.remove(&source);
    }
    settled.extend(sources_of(history_of(metadata, branch)));
    settled
}

fn sources_of(snapshots: impl Iterator<Item = SnapshotRef>) -> BTreeSet<Source> {
    let text = |snapshot: SnapshotRef| snapshot.summary().additional_properties.get(SOURCES_KEY).cloned();
    let texts: BTreeSet<String> = snapshots.filter_map(text).collect();
    let named = texts.iter().flat_map(|text| text.split(' ')).map(read_source);
    named.flatten().collect()
}

/// The sources that have a ledger on another branch.
fn sources_elsewhere(metadata: &TableMetadata, branch: &Branch) -> BTreeSet<Source> {
    let ledgers = metadata.properties().keys().filter_map(|name| read_property_name(name).ok().flatten());
    ledgers.filter(|(of, _)| of != branch).map(|(_, source)| source).collect()
}

/// The snapshots of a branch, newest first.
fn history_of<'a>(
    metadata: &'a TableMetadata,
    branch: &Branch,
) -> impl Iterator<Item = SnapshotRef> + use<'a> {
    ancestry(metadata, metadata.snapshot_for_ref(branch.as_str()).cloned())
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
