//! Building a snapshot that appends data files, with everything that is committed together with it.
//!
//! A commit is built by us and not by `iceberg`'s `Transaction`: it has to stand on the very metadata
//! whose ledger was consulted, carry the ledger in the same commit, and accept files of any partition
//! spec that the table still knows. An append reads no manifest: it takes over the parent's manifest
//! list and adds one manifest per schema and spec of the new files. Only now and then it puts one
//! manifest in the place of many small ones ([`merge`]). Every attempt writes its own
//! metadata files under new names; what a failed attempt leaves is unreferenced and harmless.

mod data_file;
mod list;
mod merge;
mod names;
mod summary;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, FormatVersion, ManifestFile, ManifestWriter, ManifestWriterBuilder, Operation, PartitionSpec,
    SchemaRef, Snapshot, SnapshotReference, SnapshotRetention, Summary, TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};
use icefall_catalog::Commit;
use icefall_clock::{Clock, Entropy};
use icefall_manifest::{Branch, DataFileEntry, SchemaId, SpecId};
use icefall_mutations::{Mutation, is};
use thiserror::Error;
use uuid::Uuid;

use self::merge::Merged;
use self::summary::Added;

/// No sequence number of its own: an entry inherits the one of its snapshot (spec, "Sequence Number
/// Inheritance").
const INHERITED: i64 = -1;

/// Data files that were written with one schema and one partition spec of the table.
#[derive(Clone, Debug)]
pub struct FileGroup {
    schema_id: SchemaId,
    spec_id: SpecId,
    files: Vec<DataFile>,
}

impl FileGroup {
    /// The group of `entries`, if they are data files of this table.
    pub fn new<'e>(
        metadata: &TableMetadata,
        schema_id: SchemaId,
        spec_id: SpecId,
        entries: impl Iterator<Item = &'e DataFileEntry>,
    ) -> Result<Self, AppendError> {
        let mut entries = entries.peekable();
        // Without files nothing has to be known of schema and spec.
        if entries.peek().is_none() {
            return Ok(Self { schema_id, spec_id, files: Vec::new() });
        }
        let files = data_file::convert(metadata, schema_id, spec_id, entries)?;
        Ok(Self { schema_id, spec_id, files })
    }

    /// The files of `groups` by schema and spec.
    pub fn gather(groups: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut gathered: BTreeMap<_, Self> = BTreeMap::new();
        for group in groups.filter(|group| !group.files.is_empty()) {
            match gathered.entry((group.schema_id, group.spec_id)) {
                Entry::Vacant(vacant) => {
                    vacant.insert(group);
                }
                Entry::Occupied(known) => known.into_mut().files.extend(group.files),
            }
        }
        gathered.into_values().collect()
    }
}

/// What one commit shall hold.
#[derive(Clone, Debug)]
pub struct Append {
    /// The branch to add the snapshot to.
    pub branch: Branch,
    /// The data files; none for a snapshot that only moves a ledger.
    pub groups: Vec<FileGroup>,
    /// Table properties that change in the same commit.
    pub properties: HashMap<String, String>,
    /// What Icefall says about the snapshot in its summary.
    pub summary: BTreeMap<String, String>,
    /// Whether small manifests may be merged. Not when others commit at the same time: what is
    /// committed late is committed by another attempt, for which all of it has to be read again.
    pub may_merge: bool,
}

/// Identity of the snapshot to be: known before it is built, since the ledger in the same commit names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SnapshotKey {
    /// The snapshot's id.
    pub snapshot_id: i64,
    /// The sequence number that the catalog will accept for it.
    pub sequence_number: i64,
}

/// Why a snapshot can't be built.
#[derive(Debug, Error)]
pub enum AppendError {
    /// Format v1 has no sequence numbers, without which a rollback can't be told from an unchanged table.
    #[error("the table has format version 1: upgrade it to version 2, which the ledger needs")]
    FormatV1,
    /// The file was written with a schema that the table has dropped since.
    #[error("schema {} is no longer in the table's metadata", .0.0)]
    NoSchema(SchemaId),
    /// The file was written with a partition spec that the table has dropped since.
    #[error("partition spec {} is no longer in the table's metadata", .0.0)]
    NoSpec(SpecId),
    /// A bound or a partition value that is no value of its column's type.
    #[error("{path}: field {field} has a {what} that is no {expected}")]
    BadValue {
        /// The data file.
        path: String,
        /// The field's id.
        field: i32,
        /// Which of its values.
        what: &'static str,
        /// The type that the table's metadata gives it.
        expected: String,
    },
    /// The table's metadata files could not be read or written.
    #[error("the table's metadata files can't be read or written")]
    Metadata(#[from] iceberg::Error),
}

/// Builds commits on loaded metadata, writing manifests and manifest lists on the way.
#[derive(Debug)]
pub struct AppendBuilder<'a> {
    metadata: &'a TableMetadata,
    references: &'a BTreeMap<String, SnapshotReference>,
    file_io: &'a FileIO,
    clock: &'a dyn Clock,
    entropy: &'a dyn Entropy,
}

impl<'a> AppendBuilder<'a> {
    /// A builder on `metadata` and its branches, as they were loaded.
    pub fn new(
        metadata: &'a TableMetadata,
        references: &'a BTreeMap<String, SnapshotReference>,
        file_io: &'a FileIO,
        clock: &'a dyn Clock,
        entropy: &'a dyn Entropy,
    ) -> Result<Self, AppendError> {
        if metadata.format_version() == FormatVersion::V1 {
            return Err(AppendError::FormatV1);
        }
        Ok(Self { metadata, references, file_io, clock, entropy })
    }

    /// The key of the next snapshot. Drawn anew for every attempt.
    #[must_use]
    pub fn next_key(&self) -> SnapshotKey {
        let positive = || self.entropy.bits() >> 1;
        let ids = std::iter::repeat_with(|| i64::try_from(positive()).unwrap_or(i64::MAX));
        let free = |id: &i64| *id != 0 && self.metadata.snapshot_by_id(*id).is_none();
        SnapshotKey {
            snapshot_id: ids.into_iter().find(free).unwrap_or(i64::MAX),
            sequence_number: self.metadata.next_sequence_number(),
        }
    }

    /// Writes the metadata files of `append` and returns the commit that makes them the table's.
    pub async fn build(&self, append: &Append, key: SnapshotKey) -> Result<Commit, AppendError> {
        let attempt = self.entropy.uuid_at(self.clock.now());
        let parent = self.metadata.snapshot_for_ref(append.branch.as_str());
        let (added, new) = self.write_manifests(append, key, attempt).await?;
        let old = list::manifests_of(parent.map(AsRef::as_ref), self).await?;
        let merged = if append.may_merge { self.merge(old, key, attempt).await } else { Merged::none(old) };
        let mut properties = added.totals(parent.map(|parent| parent.summary()));
        properties.extend(merged.summary(new.len()));
        properties.extend(append.summary.clone());
        let manifests = new.into_iter().chain(merged.manifests);
        let written =
            list::write(manifests, self, key, parent.map(|parent| parent.snapshot_id()), attempt).await?;
        let builder = Snapshot::builder()
            .with_snapshot_id(key.snapshot_id)
            .with_parent_snapshot_id(parent.map(|parent| parent.snapshot_id()))
            .with_sequence_number(key.sequence_number)
            .with_timestamp_ms(self.timestamp_ms())
            .with_manifest_list(written.location)
            .with_summary(Summary { operation: Operation::Append, additional_properties: properties })
            .with_schema_id(self.metadata.current_schema_id());
        let snapshot = match written.row_range {
            Some((first_row_id, rows)) => builder.with_row_range(first_row_id, rows).build(),
            None => builder.build(),
        };
        Ok(self.commit(append, snapshot, attempt))
    }

    fn commit(&self, append: &Append, snapshot: Snapshot, attempt: Uuid) -> Commit {
        let branch = append.branch.as_str().to_owned();
        let parent = self.metadata.snapshot_for_ref(&branch).map(|parent| parent.snapshot_id());
        let mut requirements = vec![
            TableRequirement::UuidMatch { uuid: self.metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: branch.clone(), snapshot_id: parent },
        ];
        requirements.truncate(if is(Mutation::NoSnapshotRequirement) { 1 } else { 2 });
        requirements.drain(..usize::from(is(Mutation::NoUuidRequirement)));
        let reference = SnapshotReference::new(snapshot.snapshot_id(), self.retention(&branch));
        let mut updates = vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: branch, reference },
        ];
        if !append.properties.is_empty() && !is(Mutation::LedgerNotInCommit) {
            updates.insert(0, TableUpdate::SetProperties { updates: append.properties.clone() });
        }
        if append.groups.is_empty() && is(Mutation::PropertyOnlyChange) {
            updates.truncate(1);
        }
        Commit::new(requirements, updates, attempt)
    }

    /// The branch's own retention, which a commit must not reset.
    fn retention(&self, branch: &str) -> SnapshotRetention {
        let keep_all = SnapshotRetention::branch(None, None, None);
        self.references.get(branch).map_or(keep_all, |reference| reference.retention.clone())
    }

    /// Never before the metadata's last update: catalogs refuse snapshots that step back in time.
    fn timestamp_ms(&self) -> i64 {
        self.clock.now().unix_ms_signed().max(self.metadata.last_updated_ms())
    }

    async fn write_manifests(
        &self,
        append: &Append,
        key: SnapshotKey,
        attempt: Uuid,
    ) -> Result<(Added, Vec<ManifestFile>), AppendError> {
        let mut added = Added::default();
        let mut manifests = Vec::new();
        for (index, group) in append.groups.iter().filter(|group| !group.files.is_empty()).enumerate() {
            let schema = self.metadata.schema_by_id(group.schema_id.0).cloned();
            let schema = schema.ok_or(AppendError::NoSchema(group.schema_id))?;
            let spec = self.metadata.partition_spec_by_id(group.spec_id.0);
            let spec = names::in_avro(spec.ok_or(AppendError::NoSpec(group.spec_id))?)?;
            let mut writer = self.manifest_writer(schema, spec, &merge::name(attempt, index), key)?;
            for file in &group.files {
                added.count(file);
                writer.add_file(file.clone(), INHERITED)?;
            }
            manifests.push(writer.write_manifest_file().await?);
        }
        Ok((added, manifests))
    }

    /// A writer of a manifest of ours.
    fn manifest_writer(
        &self,
        schema: SchemaRef,
        spec: PartitionSpec,
        name: &str,
        key: SnapshotKey,
    ) -> iceberg::Result<ManifestWriter> {
        let output = self.file_io.new_output(self.metadata_path(name))?;
        let builder = ManifestWriterBuilder::new(output, Some(key.snapshot_id), schema, spec);
        Ok(match self.metadata.format_version() {
            FormatVersion::V3 => builder.build_v3_data(),
            FormatVersion::V1 | FormatVersion::V2 => builder.build_v2_data(),
        })
    }

    fn metadata_path(&self, name: &str) -> String {
        let properties = self.metadata.properties();
        let default = || format!("{}/metadata", self.metadata.location().trim_end_matches('/'));
        let folder = properties.get("write.metadata.path").cloned().unwrap_or_else(default);
        format!("{}/{name}", folder.trim_end_matches('/'))
    }
}
