//! A branch's history, as the loaded metadata shows it, compared with its ledgers.
//!
//! It takes all snapshots of a table, which a load of the referenced ones does not show. So it is asked for only
//! where the branch's newest snapshot is not the ledger's own, and what was found is remembered as long as neither
//! changes.

use std::collections::BTreeSet;

use iceberg::spec::{Snapshot, SnapshotRef, TableMetadata};
use icefall_ledger::{
    Ancestor, Chain, ChainEnd, Continued, LedgerId, Lineage, LineageFault, SequenceNumber, SnapshotId,
    SnapshotMark, lineage, read_source,
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

/// The sources that snapshots of `branch`, as far as `metadata` shows them, say they settled records of; those of which
/// only marks stand there are not told.
pub(crate) fn settled_sources(metadata: &TableMetadata, branch: &Branch) -> BTreeSet<Source> {
    let snapshots = ancestry(metadata, metadata.snapshot_for_ref(branch.as_str()).cloned());
    let texts = snapshots.filter_map(|snapshot| {
        let properties = &snapshot.summary().additional_properties;
        properties.get(SOURCES_KEY).cloned()
    });
    let texts: BTreeSet<String> = texts.collect();
    let named = texts.iter().flat_map(|text| text.split(' ')).map(read_source);
    named.flatten().collect()
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
