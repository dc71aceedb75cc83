//! Manifest lists: the parent's as it was read, and the new snapshot's.

use iceberg::spec::{FormatVersion, ManifestFile, ManifestList, ManifestListWriter, Snapshot};
use uuid::Uuid;

use super::{AppendBuilder, AppendError, SnapshotKey};

/// A manifest list that was written.
pub(super) struct WrittenList {
    /// Where it is.
    pub(super) location: String,
    /// First row id and number of rows that it assigns, for format v3 (spec, "Row Lineage").
    pub(super) row_range: Option<(u64, u64)>,
}

/// The manifests of `parent`, newest first as engines write them.
pub(super) async fn manifests_of(
    parent: Option<&Snapshot>,
    table: &AppendBuilder<'_>,
) -> Result<Vec<ManifestFile>, AppendError> {
    let Some(parent) = parent else { return Ok(Vec::new()) };
    let bytes = table.file_io.new_input(parent.manifest_list())?.read().await?;
    let list = ManifestList::parse_with_version(&bytes, table.metadata.format_version())?;
    Ok(list.consume_entries().into_iter().collect())
}

/// Writes the list of `manifests`.
pub(super) async fn write(
    manifests: impl Iterator<Item = ManifestFile> + Send,
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
    writer.add_manifests(manifests)?;
    let assigned = writer.next_row_id().map(|next| (first_row_id, next.saturating_sub(first_row_id)));
    writer.close().await?;
    Ok(WrittenList { location, row_range: assigned.filter(|_| is_v3) })
}
