//! The manifest list of a new snapshot: the parent's entries, and the new manifests.

use iceberg::spec::{
    FormatVersion, ManifestFile, ManifestList, ManifestListWriter, Snapshot, SnapshotRetention, TableMetadata,
};
use uuid::Uuid;

use super::{AppendBuilder, AppendError, SnapshotKey};

/// What the new list names, newest first as other engines write it.
pub(super) struct ListEntries(Vec<ManifestFile>);

/// A manifest list that was written.
pub(super) struct WrittenList {
    /// Where it is.
    pub(super) location: String,
    /// First row id and number of rows that it assigns, for format v3 (spec, "Row Lineage").
    pub(super) row_range: Option<(u64, u64)>,
}

impl ListEntries {
    /// The entries after `manifests` have been added to those of `parent`.
    pub(super) async fn after(
        parent: Option<&Snapshot>,
        mut manifests: Vec<ManifestFile>,
        table: &AppendBuilder<'_>,
    ) -> Result<Self, AppendError> {
        let Some(parent) = parent else { return Ok(Self(manifests)) };
        let text = table.file_io.new_input(parent.manifest_list())?.read().await?;
        let list = ManifestList::parse_with_version(&text, table.metadata.format_version())?;
        manifests.extend(list.consume_entries());
        Ok(Self(manifests))
    }

    /// Writes the list.
    pub(super) async fn write(
        self,
        table: &AppendBuilder<'_>,
        key: SnapshotKey,
        parent: Option<i64>,
        attempt: Uuid,
    ) -> Result<WrittenList, AppendError> {
        let SnapshotKey { snapshot_id, sequence_number } = key;
        let location = table.metadata_path(&format!("snap-{snapshot_id}-0-{attempt}.avro"));
        let output = table.file_io.new_output(&location)?.writer().await?;
        let first_row_id = table.metadata.next_row_id();
        let is_v3 = table.metadata.format_version() == FormatVersion::V3;
        let mut writer = if is_v3 {
            ManifestListWriter::v3(output, snapshot_id, parent, sequence_number, Some(first_row_id))
        } else {
            ManifestListWriter::v2(output, snapshot_id, parent, sequence_number)
        };
        writer.add_manifests(self.0.into_iter())?;
        let assigned = writer.next_row_id().map(|next| (first_row_id, next.saturating_sub(first_row_id)));
        writer.close().await?;
        Ok(WrittenList { location, row_range: assigned.filter(|_| is_v3) })
    }
}

/// The retention that the table's metadata gives `branch`. `iceberg` keeps references private but writes
/// them out, so they are read from there.
pub(super) fn branch_retention(metadata: &TableMetadata, branch: &str) -> Option<SnapshotRetention> {
    let value = serde_json::to_value(metadata).ok()?;
    serde_json::from_value(value.get("refs")?.get(branch)?.clone()).ok()
}
