//! Others at the tables: compaction, expiry, clean-up, operators, and writers that know nothing of Icefall.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use arrow::compute::concat_batches;
use iceberg::TableUpdate;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestFile,
    ManifestListWriter, ManifestWriterBuilder, Operation, PrimitiveType, Snapshot, SnapshotRef,
    SnapshotReference, SnapshotRetention, Struct, Summary, TableMetadata, Type,
};
use icefall_catalog::{Catalog, Commit, NewTable};
use icefall_clock::Entropy;
use icefall_datafile::{FileFormat, read};
use icefall_manifest::DataFileEntry;
use icefall_store::{Location, ObjectStore, file_io};

use crate::account;
use crate::ports::now;
use crate::tally::Fault;
use crate::watch::LEDGERS;
use crate::world::{Broken, DEAD_LETTERS, World, ident};

/// A branch that is kept as it is.
pub(crate) const KEEP_ALL: SnapshotRetention = SnapshotRetention::Branch {
    min_snapshots_to_keep: None,
    max_snapshot_age_ms: None,
    max_ref_age_ms: None,
};

impl World {
    /// Rewrites the rows of files that have the present schema into new files, by the present spec.
    pub(crate) fn compact(&mut self, table: &str) -> bool {
        let Some(metadata) = self.metadata(table) else { return false };
        let Some(parent) = self.head(table, &metadata) else { return false };
        let Ok(list) = self.readers.list(&metadata, &parent) else { return false };
        let mut kept = Vec::new();
        let mut old = Vec::new();
        for entry in list.entries() {
            let Ok(manifest) = self.readers.manifest(&entry.manifest_path) else { return false };
            if manifest.schema_id == metadata.current_schema_id() {
                old.extend(manifest.files.iter().cloned());
            } else {
                kept.push(entry.clone());
            }
        }
        if old.is_empty() {
            return false;
        }
        let Some(entries) = self.rewritten(&metadata, &old) else { return false };
        let id = (self.parts.entropy.bits() >> 1).cast_signed();
        kept.push(self.written_manifest(&metadata, &entries, id));
        self.replace(table, &metadata, &parent, kept, id)
    }

    fn rewritten(&self, metadata: &TableMetadata, files: &[String]) -> Option<Vec<DataFileEntry>> {
        let schema = metadata.current_schema();
        let batches = files.iter().map(|file| read(self.readers.get(file).ok()?, schema).ok());
        let batches = batches.collect::<Option<Vec<_>>>()?;
        let rows = concat_batches(&batches.first()?.schema(), &batches).ok()?;
        let format =
            FileFormat::new(schema, metadata.default_partition_spec(), metadata.properties()).ok()?;
        let name = || format!("compacted-{}", self.parts.entropy.uuid());
        let written = format.write(&rows, metadata.location(), name).ok()?;
        let put = written.into_iter().map(|file| {
            now(self.parts.lake.put(&Location::parse(&file.entry.path).ok()?, file.bytes)).ok()?;
            Some(file.entry)
        });
        put.collect()
    }

    #[expect(clippy::expect_used, reason = "a compaction that can't be built is a fault of the simulation")]
    fn written_manifest(&self, metadata: &TableMetadata, entries: &[DataFileEntry], id: i64) -> ManifestFile {
        let spec = metadata.default_partition_spec();
        let path = format!("{}/metadata/{}-m0.avro", metadata.location(), self.parts.entropy.uuid());
        let io = file_io(Arc::clone(&self.parts.lake) as Arc<dyn ObjectStore>);
        let output = io.new_output(path).expect("an output");
        let schema = Arc::clone(metadata.current_schema());
        let builder = ManifestWriterBuilder::new(output, Some(id), schema, spec.as_ref().clone());
        let mut writer = match metadata.format_version() {
            FormatVersion::V3 => builder.build_v3_data(),
            FormatVersion::V1 | FormatVersion::V2 => builder.build_v2_data(),
        };
        let partition = spec.partition_type(metadata.current_schema()).expect("a partition type");
        let types: Vec<_> =
            partition.fields().iter().map(|field| field.field_type.as_ref().clone()).collect();
        for entry in entries {
            writer.add_file(data_file(entry, spec.spec_id(), &types), -1).expect("an entry");
        }
        now(writer.write_manifest_file()).expect("a manifest")
    }

    /// A snapshot with these manifests, whose list is there.
    #[expect(clippy::expect_used, reason = "a snapshot that can't be built is a fault of the simulation")]
    pub(crate) fn snapshot(
        &self,
        metadata: &TableMetadata,
        id: i64,
        parent: Option<i64>,
        manifests: Vec<ManifestFile>,
        summary: Summary,
    ) -> Snapshot {
        let (sequence, first_row) = (metadata.next_sequence_number(), metadata.next_row_id());
        let path = format!("{}/metadata/snap-{id}.avro", metadata.location());
        let io = file_io(Arc::clone(&self.parts.lake) as Arc<dyn ObjectStore>);
        let output = now(io.new_output(&path).expect("an output").writer()).expect("a writer");
        let has_row_ids = metadata.format_version() == FormatVersion::V3;
        let mut list = if has_row_ids {
            ManifestListWriter::v3(output, id, parent, sequence, Some(first_row))
        } else {
            ManifestListWriter::v2(output, id, parent, sequence)
        };
        list.add_manifests(manifests.into_iter()).expect("manifests");
        let rows = list.next_row_id().map_or(0, |next| next.saturating_sub(first_row));
        now(list.close()).expect("a list");
        let builder = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(parent)
            .with_sequence_number(sequence)
            .with_timestamp_ms(self.sim.now_ms().cast_signed().max(metadata.last_updated_ms()))
            .with_manifest_list(path)
            .with_summary(summary)
            .with_schema_id(metadata.current_schema_id());
        if has_row_ids { builder.with_row_range(first_row, rows).build() } else { builder.build() }
    }

    fn replace(
        &self,
        table: &str,
        metadata: &TableMetadata,
        parent: &Snapshot,
        manifests: Vec<ManifestFile>,
        id: i64,
    ) -> bool {
        let summary = Summary { operation: Operation::Replace, additional_properties: HashMap::new() };
        let snapshot = self.snapshot(metadata, id, Some(parent.snapshot_id()), manifests, summary);
        let reference = SnapshotReference::new(id, KEEP_ALL);
        let updates = vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: self.branch(table).to_owned(), reference },
        ];
        self.commit_on(table, Some(parent.snapshot_id()), updates)
    }

    /// Removes all snapshots but the newest few of the branch.
    pub(crate) fn expire(&self, table: &str) -> bool {
        // Where a branch was led astray from is needed still.
        if self
            .tables
            .iter()
            .zip(0..)
            .any(|(known, index)| known.name == table && self.broken.contains_key(&index))
        {
            return false;
        }
        let keep = usize::try_from(self.sim.rng.within(1..4)).unwrap_or(1);
        self.expire_but(table, keep)
    }

    /// Removes all snapshots but so many of the branch.
    fn expire_but(&self, table: &str, keep: usize) -> bool {
        let Some(metadata) = self.metadata(table) else { return false };
        let kept: BTreeSet<i64> = lineage(&metadata, self.branch(table)).into_iter().take(keep).collect();
        let ids = metadata.snapshots().map(|snapshot| snapshot.snapshot_id());
        let mut gone: Vec<_> = ids.filter(|id| !kept.contains(id)).collect();
        gone.sort_unstable();
        if gone.is_empty() {
            return false;
        }
        let updates = vec![TableUpdate::RemoveSnapshots { snapshot_ids: gone }];
        self.commit(table, &Commit::new(vec![], updates, self.parts.entropy.uuid()))
    }

    /// Removes files that no snapshot names, by their age alone.
    pub(crate) fn clean_up(&mut self) -> bool {
        let mut named = BTreeSet::new();
        for table in self.tables.iter().map(|table| table.name).chain([DEAD_LETTERS]) {
            let Some(metadata) = self.parts.catalog.peek(&ident(table)) else { continue };
            for snapshot in metadata.snapshots() {
                let Ok(files) = self.readers.named(snapshot) else { return false };
                named.extend(files);
            }
        }
        let mut removed = 0;
        for key in self.parts.lake.keys("lake", "") {
            let location = Location::s3("lake", key);
            let path = location.to_string();
            let in_use = named.contains(&path) || self.is_young(&path);
            if !in_use && let Some(body) = self.parts.lake.peek(&location) {
                self.removed.insert(path, body);
                removed += usize::from(self.parts.lake.remove(&location));
            }
        }
        self.sim.detail(&format!("{removed} files removed"));
        removed > 0
    }

    /// The least age that S3 Tables' clean-up can be set to.
    fn is_young(&self, path: &str) -> bool {
        let born = self.parts.born.lock().unwrap_or_else(PoisonError::into_inner);
        born.get(path).is_some_and(|born_ms| self.sim.now_ms() < born_ms + 24 * 3_600_000)
    }

    /// Commits a property of somebody else's.
    pub(crate) fn foreign_commit(&self, table: &str) -> bool {
        let value = self.sim.rng.within(0..1000).to_string();
        let updates = vec![TableUpdate::SetProperties { updates: [("owner".to_owned(), value)].into() }];
        self.commit(table, &Commit::new(vec![], updates, self.parts.entropy.uuid()))
    }

    /// Sets the branch back to an ancestor that is still there; its later rows are gone by the operator's will.
    pub(crate) fn roll_back(&mut self, index: usize) -> bool {
        let Some(table) = self.tables.get(index).map(|table| table.name) else { return false };
        let Some(metadata) = self.metadata(table).filter(|_| !self.broken.contains_key(&index)) else {
            return false;
        };
        // Further back, beyond a rewind, is no rollback but astray.
        let rewinds = account::ledgers(&metadata).into_iter().filter_map(|ledger| ledger.last_rewind());
        let rewind = rewinds.max().map_or(0, |rewind| rewind.0);
        let is_after =
            |id: &i64| metadata.snapshot_by_id(*id).is_some_and(|held| held.sequence_number() >= rewind);
        let ancestors: Vec<_> =
            lineage(&metadata, self.branch(table)).into_iter().skip(1).filter(is_after).collect();
        let Some(target) = self.sim.rng.pick(&ancestors).copied() else { return false };
        let Some(before) = self.row_numbers(self.head(table, &metadata)) else { return false };
        let after = self.row_numbers(metadata.snapshot_by_id(target).cloned());
        let Some(after) = after else { return false };
        let reference = SnapshotReference::new(target, KEEP_ALL);
        let ref_name = self.branch(table).to_owned();
        let updates = vec![TableUpdate::SetSnapshotRef { ref_name, reference }];
        if !self.commit(table, &Commit::new(vec![], updates, self.parts.entropy.uuid())) {
            return false;
        }
        let gone: BTreeSet<_> = before.difference(&after).copied().collect();
        self.sim.detail(&format!("rows of {gone:?} are gone"));
        if let Some(table) = self.tables.get_mut(index) {
            table.rolled_back.extend(gone);
        }
        true
    }

    /// Drops a table; the committer makes it again.
    pub(crate) fn drop_table(&mut self, index: usize) -> bool {
        if self.broken.contains_key(&index) {
            return false;
        }
        let Some(name) = self.tables.get(index).map(|table| table.name) else { return false };
        let Some(metadata) = self.metadata(name) else { return false };
        let Some(rows) = self.row_numbers(self.head(name, &metadata)) else { return false };
        let posted = account::outbox_numbers(self, &metadata);
        if !self.parts.catalog.drop_table(&ident(name)) {
            return false;
        }
        self.sim.state().wide_since.remove(name);
        if let Some(table) = self.tables.get_mut(index) {
            let rolled_back = std::mem::take(&mut table.rolled_back);
            let gone = rows.into_iter().chain(posted).chain(rolled_back);
            let now_ms = self.sim.now_ms();
            table.excused.extend(gone.map(|no| (no, now_ms)));
            table.drops += 1;
            (table.grown_ms, table.widened_ms) = (None, None);
        }
        true
    }

    /// Drops a table and makes it again as it was, with the properties of the one before, its ledgers among them, or
    /// without.
    pub(crate) fn make_again(&mut self, index: usize, copied: bool) -> bool {
        let Some(name) = self.tables.get(index).map(|table| table.name) else { return false };
        let Some(metadata) = self.metadata(name) else { return false };
        let is_ledger = |key: &str| key.starts_with(LEDGERS);
        if copied && !metadata.properties().keys().any(|key| is_ledger(key)) {
            return false;
        }
        if !self.drop_table(index) {
            return false;
        }
        let mut new = NewTable::new(metadata.current_schema().as_ref().clone());
        new.partition_spec = metadata.default_partition_spec().as_ref().clone().into_unbound();
        let properties = metadata.properties().iter().filter(|(key, _)| copied || !is_ledger(key));
        new.properties = properties.map(|(key, value)| (key.clone(), value.clone())).collect();
        let version = (metadata.format_version() as u8).to_string();
        new.properties.insert("format-version".to_owned(), version);
        let made = now(self.parts.catalog.create_table(&ident(name), &new)).is_ok();
        let now_ms = self.sim.now_ms();
        self.sim.state().made_ms.insert(name.to_owned(), now_ms);
        let schema = metadata.current_schema();
        let is_wide = schema
            .field_by_name("q")
            .is_some_and(|field| *field.field_type == Type::Primitive(PrimitiveType::Long));
        if let Some(table) = self.tables.get_mut(index) {
            table.grown_ms = schema.field_by_name("extra").map(|_| now_ms);
            table.widened_ms = is_wide.then_some(now_ms);
        }
        if is_wide {
            self.sim.state().wide_since.insert(name.to_owned(), now_ms);
        }
        if copied {
            self.broken.insert(index, Broken::Copied);
        }
        made
    }

    /// Unsets the property of one of a table's ledgers; now and then when no snapshot tells of it any more.
    pub(crate) fn unset_ledger(&mut self, index: usize) -> bool {
        let Some(table) = self.tables.get(index).map(|table| table.name) else { return false };
        // Where the register does not know of it yet, nothing at all would tell.
        let is_known = |metadata: &TableMetadata| account::unregistered(self, metadata).is_empty();
        let is_whole = !self.broken.contains_key(&index);
        let is_whole = is_whole && self.metadata(table).is_some_and(|metadata| is_known(&metadata));
        if is_whole && self.sim.rng.chance(300) && self.append_nothing(table) && self.expire_but(table, 1) {
            self.sim.event(&format!("{}: {table}", Fault::Expired.text()));
            self.sim.strike(Fault::Expired);
        }
        let Some(metadata) = self.metadata(table) else { return false };
        let ledgers: BTreeSet<_> =
            metadata.properties().iter().filter(|(name, _)| name.starts_with(LEDGERS)).collect();
        let ledgers: Vec<_> = ledgers.into_iter().collect();
        let Some((name, value)) = self.sim.rng.pick(&ledgers).copied() else { return false };
        let (name, value) = (name.clone(), value.clone());
        self.unset(index, table, name, value)
    }

    fn unset(&mut self, index: usize, table: &'static str, name: String, value: String) -> bool {
        let updates = vec![TableUpdate::RemoveProperties { removals: vec![name.clone()] }];
        let is_whole = !self.broken.contains_key(&index);
        let done = is_whole && self.commit(table, &Commit::new(vec![], updates, self.parts.entropy.uuid()));
        if done {
            self.broken.insert(index, Broken::Unset { name, value });
        }
        done
    }

    /// A committer has died. Now and then it had made a ledger of which the register knows nothing yet, and then somebody
    /// may unset just that: its snapshots alone tell that there was one.
    pub(crate) fn unset_unregistered(&mut self) {
        for index in 0..self.tables.len() {
            let Some(table) = self.tables.get(index).map(|table| table.name) else { continue };
            let Some(metadata) = self.metadata(table) else { continue };
            let unregistered = account::unregistered(self, &metadata);
            let Some((name, value)) = unregistered.into_iter().next() else { continue };
            let tempted = !self.is_calm() && self.sim.rng.chance(500);
            if tempted && self.unset(index, table, name, value) {
                self.sim.event(&format!("{}: {table}", Fault::UnregisteredUnset.text()));
                self.sim.strike(Fault::UnregisteredUnset);
            }
        }
    }

    /// An operator mends a table's ledgers: one that is absent is put back, copied ones are taken away.
    pub(crate) fn mend(&mut self, index: usize) -> bool {
        let Some(broken) = self.broken.remove(&index) else { return false };
        if let Broken::Astray { head } = broken {
            return self.lead_back(index, head);
        }
        let Some(table) = self.tables.get(index).map(|table| table.name) else { return false };
        self.sim.state().watched.still.retain(|(still, _)| still != table);
        let Some(metadata) = self.metadata(table) else { return false };
        let held = metadata.properties();
        let update = match broken {
            Broken::Unset { name, .. } if held.contains_key(&name) => return false,
            Broken::OldValue { name, old, .. } if held.get(&name) != Some(&old) => return false,
            Broken::Astray { .. } => return false,
            Broken::OldValue { name, newest, .. } => {
                TableUpdate::SetProperties { updates: [(name, newest)].into() }
            }
            Broken::Unset { name, value } => TableUpdate::SetProperties { updates: [(name, value)].into() },
            Broken::Copied => {
                let own = metadata.uuid().to_string();
                let is_copy =
                    |(name, value): &(&String, &String)| name.starts_with(LEDGERS) && !value.contains(&own);
                let removals = held.iter().filter(is_copy).map(|(name, _)| name.clone()).collect();
                TableUpdate::RemoveProperties { removals }
            }
        };
        self.commit(table, &Commit::new(vec![], vec![update], self.parts.entropy.uuid()))
    }

    /// Others commit to a table while a commit is on its way there.
    pub(crate) fn interfere(&mut self, table: &str) {
        let index = self.tables.iter().position(|known| known.name == table);
        let is_empty = self.metadata(table).is_some_and(|metadata| self.head(table, &metadata).is_none());
        let done = match (index, self.sim.rng.within(0..4)) {
            (Some(index), _) if is_empty => self.make_again(index, false),
            (Some(index), 0 | 1) => self.roll_back(index),
            (Some(_), 2) => self.compact(table),
            _ => self.foreign_commit(table),
        };
        if done {
            self.sim.event(&format!("{}: {table}", Fault::Interfered.text()));
            self.sim.strike(Fault::Interfered);
        }
    }

    fn row_numbers(&mut self, snapshot: Option<SnapshotRef>) -> Option<BTreeSet<usize>> {
        let Some(snapshot) = snapshot else { return Some(BTreeSet::new()) };
        let files = self.readers.rows(&snapshot).ok()?;
        Some(files.iter().flat_map(|rows| rows.iter().map(|row| row.no)).collect())
    }
}

/// A branch's snapshots that are still there, newest first.
pub(crate) fn lineage(metadata: &TableMetadata, branch: &str) -> Vec<i64> {
    let parent = |snapshot: &Arc<Snapshot>| {
        snapshot.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id)).cloned()
    };
    let newest = metadata.snapshot_for_ref(branch).cloned();
    std::iter::successors(newest, parent).map(|snapshot| snapshot.snapshot_id()).collect()
}

#[expect(clippy::expect_used, reason = "a compaction that can't be built is a fault of the simulation")]
fn data_file(entry: &DataFileEntry, spec_id: i32, types: &[Type]) -> DataFile {
    let values = entry.partition.iter().zip(types).map(|(value, kind)| {
        let primitive = kind.as_primitive_type().cloned().unwrap_or(PrimitiveType::Int);
        let datum = value.as_ref().map(|value| Datum::try_from_bytes(&value.0, primitive).expect("a value"));
        datum.map(|datum| Literal::Primitive(datum.literal().clone()))
    });
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(entry.path.clone())
        .file_format(DataFileFormat::Parquet)
        .partition(values.collect::<Struct>())
        .partition_spec_id(spec_id)
        .record_count(entry.record_count)
        .file_size_in_bytes(entry.file_size_in_bytes)
        .column_sizes(HashMap::new())
        .split_offsets(Some(entry.split_offsets.clone()))
        .build()
        .expect("a data file")
}
