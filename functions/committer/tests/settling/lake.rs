//! What a reader of the tables sees.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::cast::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use iceberg::spec::{DataFile, MAIN_BRANCH, ManifestList};
use icefall_datafile::read;
use icefall_store::{Location, ObjectStore, file_io};

use crate::bench::{Bench, DEAD_LETTERS, Key, TABLE};

impl Bench {
    /// Rows that a reader of the table sees, sorted; doubled ones stand twice.
    pub(crate) async fn rows(&self) -> Vec<Key> {
        self.rows_of(TABLE).await
    }

    /// The same of another table.
    pub(crate) async fn rows_of(&self, table: &str) -> Vec<Key> {
        self.read(table, MAIN_BRANCH, "p", "o").await
    }

    /// The same of a branch of the table.
    pub(crate) async fn rows_in(&self, branch: &str) -> Vec<Key> {
        self.read(TABLE, branch, "p", "o").await
    }

    /// Dead letters that a reader of their table sees.
    pub(crate) async fn dead_letters(&self) -> Vec<Key> {
        self.read(DEAD_LETTERS, MAIN_BRANCH, "partition", "offset").await
    }

    async fn read(&self, table: &str, branch: &str, partition: &str, offset: &str) -> Vec<Key> {
        let mut keys = Vec::new();
        for rows in self.data_files(table, branch).await {
            let partitions = rows.column_by_name(partition).expect("a column").as_primitive::<Int32Type>();
            let offsets = rows.column_by_name(offset).expect("a column").as_primitive::<Int64Type>();
            keys.extend(partitions.values().iter().copied().zip(offsets.values().iter().copied()));
        }
        keys.sort_unstable();
        keys
    }

    async fn data_files(&self, table: &str, branch: &str) -> Vec<RecordBatch> {
        let mut files = Vec::new();
        for file in self.entries_in(table, branch).await {
            let location = Location::parse(file.file_path()).expect("a location");
            let bytes = self.store.get(&location).await.expect("it is there");
            files.push(read(bytes, self.metadata(table).current_schema()).expect("a file"));
        }
        files
    }

    /// The data files that the table's newest snapshot names.
    pub(crate) async fn entries(&self, table: &str) -> Vec<DataFile> {
        self.entries_in(table, MAIN_BRANCH).await
    }

    async fn entries_in(&self, table: &str, branch: &str) -> Vec<DataFile> {
        let metadata = self.metadata(table);
        let Some(snapshot) = metadata.snapshot_for_ref(branch) else { return Vec::new() };
        let file_io = file_io(Arc::clone(&self.store) as Arc<dyn ObjectStore>);
        let list =
            file_io.new_input(snapshot.manifest_list()).expect("a list").read().await.expect("it reads");
        let list = ManifestList::parse_with_version(&list, metadata.format_version());
        let mut files = Vec::new();
        for manifest in list.expect("a manifest list").entries() {
            let manifest = manifest.load_manifest(&file_io).await.expect("a manifest");
            files.extend(manifest.entries().iter().map(|entry| entry.data_file().clone()));
        }
        files
    }
}
