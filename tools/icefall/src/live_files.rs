//! The files that a snapshot names, by its manifests: what a scan of the table would read.

use std::sync::Arc;

use iceberg::spec::{
    ManifestContentType, ManifestEntryRef, ManifestFile, ManifestList, Snapshot, TableMetadata,
};
use icefall_store::file_io;

use crate::{CliError, Desk};

/// The live entries of those manifests of `snapshot` that are `wanted`, in their order, each with its manifest's content.
pub(crate) async fn live_files(
    desk: &Desk,
    metadata: &TableMetadata,
    snapshot: &Snapshot,
    wanted: fn(&ManifestFile) -> bool,
) -> Result<Vec<(ManifestContentType, ManifestEntryRef)>, CliError> {
    let file_io = file_io(Arc::clone(&desk.tables));
    let list = file_io.new_input(snapshot.manifest_list())?.read().await?;
    let list = ManifestList::parse_with_version(&list, metadata.format_version())?;
    let mut found = Vec::new();
    for file in list.entries().iter().filter(|file| wanted(file)) {
        let manifest = file.load_manifest(&file_io).await?;
        let live = manifest.entries().iter().filter(|entry| entry.is_alive());
        found.extend(live.map(|entry| (file.content, Arc::clone(entry))));
    }
    Ok(found)
}
