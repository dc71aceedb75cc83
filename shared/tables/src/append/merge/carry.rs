//! Writing the entries of many manifests into one, each with all that it had.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, FormatVersion, Manifest, ManifestContentType, ManifestEntry,
    ManifestEntryRef, ManifestFile, ManifestMetadata, SchemaId,
};
use uuid::Uuid;

use super::super::{AppendBuilder, SnapshotKey};
use super::{MergeError, name};

/// A manifest that was read, with its live entries.
struct Source<'a> {
    file: &'a ManifestFile,
    metadata: ManifestMetadata,
    entries: Vec<Carried>,
}

/// A live entry with what an existing one has to say.
struct Carried {
    file: DataFile,
    snapshot_id: i64,
    sequence_number: i64,
    file_sequence_number: i64,
}

/// Manifests that were written, the paths of those whose place they take, and how many entries were carried.
type Written = (Vec<ManifestFile>, Vec<String>, usize);

impl AppendBuilder<'_> {
    /// Writes the entries of `files` anew: manifests of one schema into one, so that its bounds are
    /// read as they were written.
    pub(super) async fn write_merged(
        &self,
        files: &[&ManifestFile],
        manifests: Vec<Manifest>,
        key: SnapshotKey,
        attempt: Uuid,
    ) -> Result<Written, MergeError> {
        let has_row_ids = self.metadata.format_version() == FormatVersion::V3;
        let mut by_schema: BTreeMap<SchemaId, Vec<Source<'_>>> = BTreeMap::new();
        for (file, manifest) in files.iter().zip(manifests) {
            let source = Source::read(file, manifest, has_row_ids)?;
            by_schema.entry(source.metadata.schema_id).or_default().push(source);
        }
        let (mut written, mut taken, mut entries) = (Vec::new(), Vec::new(), 0);
        for (index, sources) in by_schema.into_values().filter(|sources| sources.len() > 1).enumerate() {
            taken.extend(sources.iter().map(|source| source.file.manifest_path.clone()));
            entries += sources.iter().map(|source| source.entries.len()).sum::<usize>();
            written.extend(self.write_one(sources, &name(attempt, MERGED + index), key).await?);
        }
        Ok((written, taken, entries))
    }

    async fn write_one(
        &self,
        sources: Vec<Source<'_>>,
        name: &str,
        key: SnapshotKey,
    ) -> Result<Option<ManifestFile>, MergeError> {
        let Some(first) = sources.first() else { return Ok(None) };
        if let Some(other) = sources.iter().find(|source| !alike(&source.metadata, &first.metadata)) {
            return Err(refused(other.file, "has another schema under the same id"));
        }
        let (schema, spec) = (Arc::clone(&first.metadata.schema), first.metadata.partition_spec.clone());
        let mut writer = self.manifest_writer(schema, spec, name, key)?;
        let mut is_empty = true;
        for Carried { file, snapshot_id, sequence_number, file_sequence_number } in
            sources.into_iter().flat_map(|source| source.entries)
        {
            writer.add_existing_file(file, snapshot_id, sequence_number, Some(file_sequence_number))?;
            is_empty = false;
        }
        Ok(if is_empty { None } else { Some(writer.write_manifest_file().await?) })
    }
}

/// Names of merged manifests are counted from here, those of new files from 0.
const MERGED: usize = 1_000_000;

fn alike(one: &ManifestMetadata, other: &ManifestMetadata) -> bool {
    one.schema == other.schema && one.partition_spec == other.partition_spec
}

impl<'a> Source<'a> {
    /// The manifest of `file`, if it is what the manifest list says of it.
    fn read(file: &'a ManifestFile, manifest: Manifest, has_row_ids: bool) -> Result<Self, MergeError> {
        let (entries, metadata) = manifest.into_parts();
        if metadata.content != ManifestContentType::Data || metadata.format_version == FormatVersion::V1 {
            return Err(refused(file, "is no manifest of data files in format 2 or newer"));
        }
        if metadata.partition_spec.spec_id() != file.partition_spec_id {
            return Err(refused(file, "is of another partition spec than the manifest list says"));
        }
        let live: Vec<ManifestEntryRef> = entries.into_iter().filter(|entry| entry.is_alive()).collect();
        let rows: u64 = live.iter().map(|entry| entry.record_count()).sum();
        let counted = file.added_files_count.zip(file.existing_files_count);
        let counted_rows = file.added_rows_count.zip(file.existing_rows_count);
        if counted.is_none_or(|(added, existing)| (added + existing) as usize != live.len())
            || counted_rows.is_none_or(|(added, existing)| added + existing != rows)
        {
            return Err(refused(file, "holds other files than the manifest list says"));
        }
        let mut row_ids = RowIds { next: has_row_ids.then_some(file.first_row_id).flatten() };
        let entries = live.iter().map(|entry| carried(file, entry, &mut row_ids, has_row_ids));
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Self { file, metadata, entries })
    }
}

/// Row ids that a manifest's files without one inherit (specification, "First Row ID Inheritance").
struct RowIds {
    next: Option<u64>,
}

impl RowIds {
    fn take(&mut self, rows: u64) -> Option<i64> {
        let first = self.next?;
        self.next = Some(first.checked_add(rows)?);
        i64::try_from(first).ok()
    }
}

fn carried(
    manifest: &ManifestFile,
    entry: &ManifestEntry,
    row_ids: &mut RowIds,
    has_row_ids: bool,
) -> Result<Carried, MergeError> {
    let file = entry.data_file();
    if file.content_type() != DataContentType::Data {
        return Err(refused(manifest, "holds a file of deletes among data files"));
    }
    let (Some(snapshot_id), Some(sequence_number), Some(file_sequence_number)) =
        (entry.snapshot_id(), entry.sequence_number(), entry.file_sequence_number)
    else {
        return Err(refused(manifest, "has an entry without snapshot or sequence numbers"));
    };
    let file = match (has_row_ids, file.first_row_id(), row_ids.next) {
        (true, Some(_), None) => return Err(refused(manifest, "has row ids in a file and none of its own")),
        // From before the table had row ids; they are assigned with the new manifest's.
        (false, ..) | (true, Some(_), Some(_)) | (true, None, None) => file.clone(),
        (true, None, Some(_)) => {
            let first = row_ids.take(file.record_count());
            let first = first.ok_or_else(|| refused(manifest, "has row ids beyond all numbers"))?;
            with_row_id(file, manifest.partition_spec_id, first)?
        }
    };
    Ok(Carried { file, snapshot_id, sequence_number, file_sequence_number })
}

/// `file` with its row ids spelled out: in another manifest it would inherit others.
fn with_row_id(file: &DataFile, spec_id: i32, first: i64) -> Result<DataFile, MergeError> {
    let mut builder = DataFileBuilder::default();
    builder
        .content(file.content_type())
        .file_path(file.file_path().to_owned())
        .file_format(file.file_format())
        .partition(file.partition().clone())
        .partition_spec_id(spec_id)
        .record_count(file.record_count())
        .file_size_in_bytes(file.file_size_in_bytes())
        .column_sizes(file.column_sizes().clone())
        .value_counts(file.value_counts().clone())
        .null_value_counts(file.null_value_counts().clone())
        .nan_value_counts(file.nan_value_counts().clone())
        .lower_bounds(file.lower_bounds().clone())
        .upper_bounds(file.upper_bounds().clone())
        .key_metadata(file.key_metadata().map(<[u8]>::to_vec))
        .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
        .equality_ids(file.equality_ids())
        .first_row_id(Some(first))
        .referenced_data_file(file.referenced_data_file())
        .content_offset(file.content_offset())
        .content_size_in_bytes(file.content_size_in_bytes());
    if let Some(sort_order_id) = file.sort_order_id() {
        builder.sort_order_id(sort_order_id);
    }
    let built = builder.build();
    Ok(built.map_err(|error| iceberg::Error::new(iceberg::ErrorKind::DataInvalid, error.to_string()))?)
}

fn refused(manifest: &ManifestFile, problem: &'static str) -> MergeError {
    MergeError::Manifest { path: manifest.manifest_path.clone(), problem }
}
