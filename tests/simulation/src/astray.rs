//! What others do to a table that its ledgers can't be continued on: an old value put back, a table replaced, a branch set
//! to another history or to before a rewind. Each stops the sources that it concerns until a person has put it right, and
//! nothing may be settled meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use iceberg::spec::{Operation, Snapshot, SnapshotReference, Summary, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use icefall_catalog::Commit;
use icefall_clock::Entropy;
use icefall_ledger::Ledger;
use serde_json::Value;

use crate::account::{ledgers, property_of};
use crate::others::{KEEP_ALL, lineage};
use crate::tally::Fault;
use crate::world::{Broken, World};

impl World {
    /// Somebody puts an old value of a ledger's property back, of which newer snapshots can be seen.
    pub(crate) fn put_old_value(&mut self, index: usize) -> bool {
        let Some((table, metadata)) = self.whole(index) else { return false };
        let mut found = Vec::new();
        for ledger in ledgers(&metadata) {
            let name = property_of(&ledger);
            for file in metadata.metadata_log() {
                let Some(value) = self.logged(&file.metadata_file, &metadata, &name) else { continue };
                let last = |value: &Value| value.pointer("/snapshot/sequence_number").and_then(Value::as_i64);
                let sequence = serde_json::from_str(&value).ok().and_then(|value| last(&value));
                if sequence.is_some_and(|last| is_ours_after(&metadata, &ledger, last)) {
                    found.push((name.clone(), value));
                }
            }
        }
        let Some((name, old)) = self.sim.rng.pick(&found).cloned() else { return false };
        let Some(newest) = metadata.properties().get(&name).cloned() else { return false };
        let updates = vec![TableUpdate::SetProperties { updates: [(name.clone(), old.clone())].into() }];
        let done = self.commit(table, &Commit::new(vec![], updates, self.parts.entropy.uuid()));
        if done {
            self.broken.insert(index, Broken::OldValue { name, old, newest });
        }
        done
    }

    /// A newer version has committed, and was taken back: it left a ledger of a format that is unknown.
    pub(crate) fn put_newer_format(&mut self, index: usize) -> bool {
        let Some((table, metadata)) = self.whole(index) else { return false };
        let Some(head) = self.head(table, &metadata).map(|head| head.snapshot_id()) else { return false };
        let Some(ledger) = self.sim.rng.pick(&ledgers(&metadata)).cloned() else { return false };
        let name = property_of(&ledger);
        let Some(newest) = metadata.properties().get(&name).cloned() else { return false };
        let newer = newest.replacen(r#""format":1"#, r#""format":2"#, 1);
        let mut updates = self.empty_snapshot(table, &metadata, Some(head), None);
        updates.push(TableUpdate::SetProperties { updates: [(name.clone(), newer.clone())].into() });
        let done = newer != newest && self.commit_on(table, Some(head), updates);
        if done {
            self.sim.state().watched.still.insert((table.to_owned(), name.clone()));
            self.broken.insert(index, Broken::OldValue { name, old: newer, newest });
        }
        done
    }

    /// Somebody sets the branch to where the ledgers don't stand.
    pub(crate) fn lead_astray(&mut self, index: usize) -> Option<Fault> {
        let (table, metadata) = self.whole(index)?;
        let head = self.head(table, &metadata)?.snapshot_id();
        let branch = self.branch(table);
        let held = ledgers(&metadata);
        if !self.holds_all_topics(index, &held) {
            return None;
        }
        let mut ways = vec![(Fault::Replaced, None)];
        ways.extend(others(&metadata, &held).into_iter().map(|id| (Fault::OtherHistory, Some(id))));
        ways.extend(
            before_rewind(&metadata, branch, &held).into_iter().map(|id| (Fault::BeforeRewind, Some(id))),
        );
        if held.iter().all(|ledger| ledger.last_rewind().is_some()) {
            ways.push((Fault::CherryPicked, None));
        }
        // Each way as often as the others, however many snapshots there are; the one that is always there when there is
        // no other.
        let mut kinds: BTreeSet<Fault> = ways.iter().map(|(fault, _)| *fault).collect();
        if kinds.len() > 1 && self.sim.rng.chance(900) {
            kinds.remove(&Fault::Replaced);
        }
        let kinds: Vec<_> = kinds.into_iter().collect();
        let fault = *self.sim.rng.pick(&kinds)?;
        ways.retain(|(kind, _)| *kind == fault);
        let (_, target) = *self.sim.rng.pick(&ways)?;
        let updates = match (fault, target) {
            (_, Some(target)) => vec![set_branch(branch, target)],
            (Fault::Replaced, None) => self.empty_snapshot(table, &metadata, None, None),
            (_, None) => {
                // From before the rewind, or from one that can't be seen any more.
                let picked = before_rewind(&metadata, branch, &held).last().copied().unwrap_or(1);
                self.empty_snapshot(table, &metadata, Some(head), Some(picked))
            }
        };
        if !self.commit_on(table, Some(head), updates) {
            return None;
        }
        self.broken.insert(index, Broken::Astray { head });
        let still = held.iter().map(|ledger| (table.to_owned(), property_of(ledger)));
        self.sim.state().watched.still.extend(still);
        Some(fault)
    }

    /// The branch is set back to where it was led astray from.
    pub(crate) fn lead_back(&mut self, index: usize, head: i64) -> bool {
        let Some(table) = self.tables.get(index).map(|table| table.name) else { return false };
        self.sim.state().watched.still.retain(|(still, _)| still != table);
        self.commit(
            table,
            &Commit::new(vec![], vec![set_branch(self.branch(table), head)], self.parts.entropy.uuid()),
        )
    }

    /// Another engine commits, and adds nothing.
    pub(crate) fn append_nothing(&self, table: &str) -> bool {
        let Some(metadata) = self.metadata(table) else { return false };
        let head = self.head(table, &metadata).map(|head| head.snapshot_id());
        let updates = self.empty_snapshot(table, &metadata, head, None);
        self.commit_on(table, head, updates)
    }

    /// Commits if the branch still stands on `head`.
    pub(crate) fn commit_on(&self, table: &str, head: Option<i64>, updates: Vec<TableUpdate>) -> bool {
        let branch = self.branch(table).to_owned();
        let on = TableRequirement::RefSnapshotIdMatch { r#ref: branch, snapshot_id: head };
        self.commit(table, &Commit::new(vec![on], updates, self.parts.entropy.uuid()))
    }

    /// A table that nothing is wrong with.
    fn whole(&self, index: usize) -> Option<(&'static str, Arc<TableMetadata>)> {
        let table = self.tables.get(index).filter(|_| !self.broken.contains_key(&index))?;
        Some((table.name, self.metadata(table.name)?))
    }

    /// Whether no source could begin a ledger there: what it settled would be gone when the branch is led back.
    fn holds_all_topics(&self, index: usize, held: &[Ledger]) -> bool {
        let mut topics = self.kafka.topics.iter().filter(|topic| topic.table == index);
        topics.all(|topic| held.iter().any(|ledger| ledger.id().source.topic.as_str() == topic.name))
    }

    /// What a former metadata file of the very table says of a property.
    fn logged(&self, file: &str, metadata: &TableMetadata, name: &str) -> Option<String> {
        let file: Value = serde_json::from_slice(&self.parts.catalog.metadata_file(file)?).ok()?;
        let is_its = file.get("table-uuid")?.as_str()? == metadata.uuid().to_string();
        file.get("properties")?.get(name)?.as_str().filter(|_| is_its).map(str::to_owned)
    }

    /// What adds a snapshot without files to the branch: after `parent`, and as if picked from another one.
    #[expect(clippy::expect_used, reason = "a snapshot that can't be built is a fault of the simulation")]
    fn empty_snapshot(
        &self,
        table: &str,
        metadata: &TableMetadata,
        parent: Option<i64>,
        picked: Option<i64>,
    ) -> Vec<TableUpdate> {
        let id = (self.parts.entropy.bits() >> 1).cast_signed();
        let held = parent.and_then(|id| metadata.snapshot_by_id(id));
        let held = held.map(|parent| self.readers.list(metadata, parent).expect("a list"));
        let manifests = held.map(|held| held.entries().to_vec()).unwrap_or_default();
        let picked = picked.map(|id| ("source-snapshot-id".to_owned(), id.to_string()));
        let additional_properties: HashMap<_, _> = picked.into_iter().collect();
        let summary = Summary { operation: Operation::Append, additional_properties };
        let snapshot = self.snapshot(metadata, id, parent, manifests, summary);
        vec![TableUpdate::AddSnapshot { snapshot }, set_branch(self.branch(table), id)]
    }
}

fn set_branch(branch: &str, id: i64) -> TableUpdate {
    let reference = SnapshotReference::new(id, KEEP_ALL);
    TableUpdate::SetSnapshotRef { ref_name: branch.to_owned(), reference }
}

/// Whether the branch shows a snapshot of the ledger's source after `last`.
fn is_ours_after(metadata: &TableMetadata, ledger: &Ledger, last: i64) -> bool {
    let source = ledger.id().source.to_string();
    let is_ours = |id: &i64| {
        let snapshot = metadata.snapshot_by_id(*id)?;
        let sources = snapshot.summary().additional_properties.get("icefall.sources")?;
        let named = sources.split(' ').any(|held| held == source);
        (named && snapshot.sequence_number() > last).then_some(())
    };
    lineage(metadata, ledger.id().branch.as_str()).iter().any(|id| is_ours(id).is_some())
}

/// Snapshots beside the history of every ledger, which can be seen far enough to tell.
fn others(metadata: &TableMetadata, held: &[Ledger]) -> Vec<i64> {
    let is_beside = |snapshot: &Snapshot| {
        held.iter().all(|ledger| {
            let Some(last) = ledger.last_snapshot() else { return false };
            let own = chain(metadata, last.id.0);
            let is_past = |id: &i64| {
                metadata
                    .snapshot_by_id(*id)
                    .is_some_and(|past| past.sequence_number() < snapshot.sequence_number())
            };
            snapshot.sequence_number() <= last.sequence_number.0
                && !own.contains(&snapshot.snapshot_id())
                && own.iter().any(is_past)
        })
    };
    let mut found: Vec<_> = metadata
        .snapshots()
        .filter(|snapshot| is_beside(snapshot))
        .map(|snapshot| snapshot.snapshot_id())
        .collect();
    found.sort_unstable();
    found
}

/// Ancestors of the branch from before the last rewind of every ledger.
fn before_rewind(metadata: &TableMetadata, branch: &str, held: &[Ledger]) -> Vec<i64> {
    let is_before = |id: &i64| {
        let Some(snapshot) = metadata.snapshot_by_id(*id) else { return false };
        let rewind =
            |ledger: &Ledger| ledger.last_rewind().is_some_and(|at| snapshot.sequence_number() < at.0);
        held.iter().all(rewind)
    };
    lineage(metadata, branch).into_iter().filter(is_before).collect()
}

/// A snapshot and its ancestors that can be seen, newest first.
fn chain(metadata: &TableMetadata, newest: i64) -> Vec<i64> {
    let seen = |id: i64| metadata.snapshot_by_id(id).map(|_| id);
    let parent = |id: &i64| metadata.snapshot_by_id(*id)?.parent_snapshot_id().and_then(seen);
    std::iter::successors(seen(newest), parent).collect()
}
