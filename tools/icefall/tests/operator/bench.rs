//! A pipeline over fakes: writer, committer, and the operator's desk.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::cast::AsArray;
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, MAIN_BRANCH, ManifestFile, ManifestList,
    ManifestListWriter, ManifestWriterBuilder, Operation, Snapshot, SnapshotReference, SnapshotRetention,
    Summary, TableMetadata,
};
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use icefall_catalog::{Catalog, Commit, Snapshots};
use icefall_cli::{Arguments, CliError, Desk, Topics, run};
use icefall_clock::{Clock, Entropy};
use icefall_committer::{Committer, Report};
use icefall_datafile::read;
use icefall_queue::{CommitQueue, QueueError, Receipt, Received};
use icefall_settings::{Environment, Settings};
use icefall_store::{Location, ObjectLister, ObjectStore, OpsBucket, file_io};
use icefall_tables::LedgerStore;
use icefall_telemetry::Metrics;
use icefall_testkit::{
    FakeCatalog, FakeClock, FakeQueue, FakeStore, Faults, FaultyCatalog, FaultyStore, Moment, SeededEntropy,
};
use icefall_writer::Writer;
use serde_json::Value;
use tokio::sync::Notify;

use crate::audit::FakeTopic;

const SETTINGS: &str = r#"
pipeline = "demo"
catalog = { uri = "http://127.0.0.1:1", warehouse = "lake" }
store = { region = "us-east-1" }
ops = { bucket = "ops", region = "us-east-1" }
queue = { url = "http://127.0.0.1:1/0/q", region = "us-east-1" }
kafka = { cluster = "local" }
table = [{ name = "shop.clicks", columns = [ { name = "n", type = "long", required = true }, { name = "p", type = "int" }, { name = "o", type = "long" } ] }]
route = [{ topic = "clicks", table = "shop.clicks" }]
"#;

/// The table, and the source of its records, as an operator names them.
pub(crate) const TABLE: &str = "shop.clicks";
pub(crate) const SOURCE: &str = "demo/local/clicks";

pub(crate) struct Bench {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) queue: Arc<FakeQueue>,
    pub(crate) catalog: Arc<FakeCatalog>,
    pub(crate) catalog_faults: Arc<Faults>,
    pub(crate) ops_faults: Arc<Faults>,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) ops: Arc<FakeStore>,
    /// The topic, as an audit finds it.
    pub(crate) topic: Arc<FakeTopic>,
    /// What the last command printed, whatever came of it.
    pub(crate) said: Mutex<String>,
    entropy: Arc<SeededEntropy>,
    settings: String,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(FakeClock::default());
        let bench = Self {
            queue: Arc::new(FakeQueue::new(Arc::clone(&clock), Duration::from_mins(5))),
            catalog: Arc::new(FakeCatalog::new(Arc::clone(&clock) as Arc<dyn Clock>)),
            catalog_faults: Faults::new(),
            ops_faults: Faults::new(),
            store: Arc::new(FakeStore::new()),
            ops: Arc::new(FakeStore::new()),
            topic: Arc::default(),
            said: Mutex::default(),
            entropy: Arc::new(SeededEntropy::new(7)),
            settings: SETTINGS.to_owned(),
            clock,
        };
        bench.drain().await;
        bench
    }

    /// The same with another name for the cluster.
    pub(crate) fn of_cluster(self, name: &str) -> Self {
        Self { settings: SETTINGS.replace("\"local\"", &format!("\"{name}\"")), ..self }
    }

    /// The same with the table's columns declared in another order.
    pub(crate) fn with_columns_turned_round(self) -> Self {
        let (n, o) =
            (r#"{ name = "n", type = "long", required = true }"#, r#"{ name = "o", type = "long" }"#);
        let settings = SETTINGS.replace(n, "first").replace(o, n).replace("first", o);
        Self { settings, ..self }
    }

    /// An operator has edited the settings: these topics go to these tables, which are made like the first one.
    pub(crate) fn routed(self, routes: &[(&str, &str)]) -> Self {
        let columns = r#"[{ name = "n", type = "long", required = true }]"#;
        let tables: BTreeSet<_> = routes.iter().map(|(_, table)| *table).collect();
        let tables: Vec<_> =
            tables.iter().map(|table| format!("{{ name = \"{table}\", columns = {columns} }}")).collect();
        let routes: Vec<_> = routes
            .iter()
            .map(|(topic, table)| format!("{{ topic = \"{topic}\", table = \"{table}\" }}"))
            .collect();
        let rest = SETTINGS.split_once("table = ").expect("tables").0;
        let settings = format!("{rest}table = [{}]\nroute = [{}]\n", tables.join(", "), routes.join(", "));
        Self { settings, ..self }
    }

    /// What stands in the record that [`Bench::write_others`] writes at an offset.
    pub(crate) const fn other(offset: i64) -> i64 {
        offset + 1_000_000
    }

    /// Records of one partition, through a writer.
    pub(crate) async fn write(&self, offsets: Range<i64>) {
        self.write_values(offsets, |offset| format!(r#"{{"n":{offset}}}"#)).await;
    }

    /// Other records at these offsets.
    pub(crate) async fn write_others(&self, offsets: Range<i64>) {
        self.write_values(offsets, |offset| format!(r#"{{"n":{}}}"#, Self::other(offset))).await;
    }

    /// Others again.
    pub(crate) async fn write_thirds(&self, offsets: Range<i64>) {
        self.write_values(offsets, |offset| format!(r#"{{"n":{}}}"#, offset + 2_000_000)).await;
    }

    /// Records that become dead letters.
    pub(crate) async fn write_bad(&self, offsets: Range<i64>) {
        self.write_values(offsets, |offset| format!(r#"{{"n":"{offset}"}}"#)).await;
    }

    /// Records that lack what the table requires.
    pub(crate) async fn write_empty(&self, offsets: Range<i64>) {
        self.write_values(offsets, |_| "{}".to_owned()).await;
    }

    /// Records that are no JSON.
    pub(crate) async fn write_broken(&self, offsets: Range<i64>) {
        self.write_values(offsets, |_| "{".to_owned()).await;
    }

    /// Records that say where they stand.
    pub(crate) async fn write_places(&self, offsets: Range<i64>) {
        self.write_values(offsets, |offset| format!(r#"{{"n":{offset},"p":0,"o":{offset}}}"#)).await;
    }

    /// One that says that it stands elsewhere.
    pub(crate) async fn write_place(&self, offset: i64, said: i64) {
        self.write_values(offset..offset + 1, |_| format!(r#"{{"n":{offset},"p":0,"o":{said}}}"#)).await;
    }

    async fn write_values(&self, offsets: Range<i64>, value: impl Fn(i64) -> String) {
        offsets.clone().for_each(|offset| self.topic.produce(offset, &value(offset)));
        let event = event("clicks", offsets, value);
        self.writer(self.queue()).write(event.as_bytes(), "request").await.expect("it is taken in");
    }

    /// The topic's records at these offsets, through writers that get `size` of them at a time, as a trigger delivers
    /// that begins there.
    pub(crate) async fn deliver(&self, topic: &str, offsets: Range<i64>, size: usize) {
        for first in offsets.clone().step_by(size) {
            let last = first.saturating_add_unsigned(size as u64).min(offsets.end);
            let event = event(topic, first..last, |offset| format!(r#"{{"n":{offset}}}"#));
            self.writer(self.queue()).write(event.as_bytes(), "request").await.expect("it is taken in");
        }
    }

    /// Records of one partition, through a writer that dies before or after its message is sent.
    pub(crate) async fn write_and_die(&self, offsets: Range<i64>, moment: Moment) {
        let dying = Arc::new(Dying { inner: self.queue(), moment, dies: Notify::new() });
        let writer = self.writer(Arc::clone(&dying) as Arc<dyn CommitQueue>);
        let event = event("clicks", offsets, |offset| format!(r#"{{"n":{offset}}}"#));
        tokio::select! {
            ended = writer.write(event.as_bytes(), "killed") => panic!("it should die: {ended:?}"),
            () = dying.dies.notified() => {}
        }
    }

    fn queue(&self) -> Arc<dyn CommitQueue> {
        Arc::clone(&self.queue) as Arc<dyn CommitQueue>
    }

    /// A cold writer.
    fn writer(&self, queue: Arc<dyn CommitQueue>) -> Writer {
        let ports = icefall_writer::Ports {
            catalog: Arc::clone(&self.catalog) as Arc<dyn Catalog>,
            tables: Arc::clone(&self.store) as Arc<dyn ObjectStore>,
            ops: self.ops_bucket(),
            queue,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::clone(&self.entropy) as Arc<dyn Entropy>,
            metrics: Arc::new(Metrics::new("writer")),
        };
        Writer::new(self.settings(), ports)
    }

    /// One invocation of a cold committer, which may fail.
    pub(crate) async fn drain(&self) -> Option<Report> {
        let ports = icefall_committer::Ports {
            catalog: self.faulty_catalog(),
            tables: Arc::clone(&self.store) as Arc<dyn ObjectStore>,
            ops: self.ops_bucket(),
            queue: Arc::clone(&self.queue) as Arc<dyn CommitQueue>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::clone(&self.entropy) as Arc<dyn Entropy>,
            metrics: Arc::new(Metrics::new("committer")),
        };
        let committer = Committer::new(self.settings(), ports).expect("a committer");
        committer.drain(self.clock.now().plus(Duration::from_mins(5))).await.ok()
    }

    /// `icefall quarantine <arguments>`; what it printed.
    pub(crate) async fn icefall(&self, arguments: &[&str]) -> Result<String, CliError> {
        self.command(&[&["quarantine"], arguments].concat()).await
    }

    /// `icefall <arguments>`; what it printed.
    pub(crate) async fn command(&self, arguments: &[&str]) -> Result<String, CliError> {
        let desk = Desk {
            catalog: self.faulty_catalog(),
            ledgers: Arc::new(LedgerStore::new(self.ops_bucket())),
            settings: Arc::new(self.settings()),
            tables: Arc::clone(&self.store) as Arc<dyn ObjectStore>,
            ops: OpsBucket::new(
                Arc::new(FaultyStore::new(
                    Arc::clone(&self.ops) as Arc<dyn ObjectStore>,
                    Arc::clone(&self.ops_faults),
                )),
                "ops",
                "",
            ),
            lister: Arc::clone(&self.ops) as Arc<dyn ObjectLister>,
            queue: Arc::clone(&self.queue) as Arc<dyn CommitQueue>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::clone(&self.entropy) as Arc<dyn Entropy>,
            topics: Some(Arc::clone(&self.topic) as Arc<dyn Topics>),
        };
        let line = ["icefall"].iter().chain(arguments);
        let arguments = Arguments::try_parse_from(line).expect("a command line");
        let mut out = Vec::new();
        let done = run(&desk, arguments, &mut out).await;
        let said = String::from_utf8(out).expect("text");
        self.said.lock().expect("nobody panicked").clone_from(&said);
        done.map(|()| said)
    }

    /// What `list --json` says.
    pub(crate) async fn listed(&self, more: &[&str]) -> Vec<Value> {
        let arguments: Vec<&str> = ["list", "--json"].iter().chain(more).copied().collect();
        serde_json::from_str(&self.icefall(&arguments).await.expect("a list")).expect("JSON")
    }

    /// The id of the only entry that waits.
    pub(crate) async fn only_id(&self) -> String {
        let listed = self.listed(&[]).await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed[0]["id"].as_str().expect("an id").to_owned()
    }

    /// The values of the rows that a reader sees, sorted.
    pub(crate) async fn rows(&self) -> Vec<i64> {
        self.longs_of(TABLE, "n").await
    }

    /// What stands in a column of those rows, sorted.
    pub(crate) async fn longs(&self, column: &str) -> Vec<i64> {
        self.longs_of(TABLE, column).await
    }

    /// The same of another table.
    pub(crate) async fn rows_of(&self, table: &str) -> Vec<i64> {
        self.longs_of(table, "n").await
    }

    async fn longs_of(&self, table: &str, column: &str) -> Vec<i64> {
        let metadata = self.metadata_of(table);
        let mut rows = Vec::new();
        for path in self.files_of(table).await {
            let location = Location::parse(&path).expect("a location");
            let bytes = self.store.get(&location).await.expect("the file is there");
            let file = read(bytes, metadata.current_schema()).expect("a data file");
            let column = file.column_by_name(column).expect("a column");
            rows.extend(column.as_primitive::<Int64Type>().values().iter().copied());
        }
        rows.sort_unstable();
        rows
    }

    /// The data files that a reader of the table sees.
    pub(crate) async fn files_of(&self, table: &str) -> Vec<String> {
        let metadata = self.metadata_of(table);
        let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
        let file_io = file_io(Arc::clone(&self.store) as Arc<dyn ObjectStore>);
        let list =
            file_io.new_input(snapshot.manifest_list()).expect("a list").read().await.expect("it reads");
        let list = ManifestList::parse_with_version(&list, metadata.format_version()).expect("a list");
        let mut paths = Vec::new();
        for manifest in list.entries() {
            let manifest = manifest.load_manifest(&file_io).await.expect("a manifest");
            paths.extend(manifest.entries().iter().map(|entry| entry.file_path().to_owned()));
        }
        paths
    }

    /// The table is dropped and made again; its files go with it.
    pub(crate) async fn remake_table(&self) {
        assert!(self.catalog.drop_table(&table()));
        self.drain().await.expect("it is made again");
    }

    pub(crate) fn metadata(&self) -> Arc<TableMetadata> {
        self.metadata_of(TABLE)
    }

    pub(crate) fn metadata_of(&self, table: &str) -> Arc<TableMetadata> {
        let (namespace, name) = table.split_once('.').expect("a full name");
        let table = TableIdent::new(NamespaceIdent::new(namespace.to_owned()), name.to_owned());
        self.catalog.peek(&table).expect("the table is there")
    }

    /// Another engine appends a copy of the newest data file's rows.
    pub(crate) async fn append_copy(&self) {
        self.others(Operation::Append, false, true).await;
    }

    /// Another engine's snapshot, of this operation: it takes the newest data file out, puts a copy of that in, or both.
    pub(crate) async fn others(&self, operation: Operation, takes: bool, puts: bool) {
        let metadata = self.metadata();
        let mut manifests = self.manifests().await;
        let first = manifests[0].load_manifest(&self.file_io()).await.expect("a manifest");
        let id = self.next_snapshot_id();
        let spec = metadata.default_partition_spec().as_ref().clone();
        let output = self.file_io().new_output(self.others_path(id, "m0")).expect("a path");
        let schema = Arc::clone(metadata.current_schema());
        let mut writer = ManifestWriterBuilder::new(output, Some(id), schema, spec).build_v2_data();
        for entry in first.entries().iter().filter(|entry| entry.is_alive()) {
            let (file, number) = (entry.data_file().clone(), entry.sequence_number().expect("a number"));
            if puts {
                writer.add_file(file.clone(), -1).expect("an entry");
            }
            if takes {
                writer.add_delete_file(file, number, entry.file_sequence_number).expect("an entry");
            }
        }
        if takes {
            manifests.remove(0);
        }
        manifests.insert(0, writer.write_manifest_file().await.expect("a manifest"));
        self.commit_others(id, operation, manifests).await;
    }

    /// Another engine hides rows by a file of deletes.
    pub(crate) async fn delete_some(&self) {
        let metadata = self.metadata();
        let id = self.next_snapshot_id();
        let spec = metadata.default_partition_spec().as_ref().clone();
        let output = self.file_io().new_output(self.others_path(id, "m0")).expect("a path");
        let schema = Arc::clone(metadata.current_schema());
        let mut writer = ManifestWriterBuilder::new(output, Some(id), schema, spec).build_v2_deletes();
        let file = DataFileBuilder::default()
            .content(DataContentType::PositionDeletes)
            .file_path(format!("{}/data/deletes-{id}.parquet", metadata.location()))
            .file_format(DataFileFormat::Parquet)
            .partition_spec_id(0)
            .record_count(1)
            .file_size_in_bytes(100)
            .column_sizes(HashMap::new())
            .value_counts(HashMap::new())
            .null_value_counts(HashMap::new())
            .nan_value_counts(HashMap::new())
            .lower_bounds(HashMap::new())
            .upper_bounds(HashMap::new())
            .build();
        writer.add_file(file.expect("a file"), -1).expect("an entry");
        let mut manifests = self.manifests().await;
        manifests.push(writer.write_manifest_file().await.expect("a manifest"));
        self.commit_others(id, Operation::Delete, manifests).await;
    }

    async fn commit_others(&self, id: i64, operation: Operation, manifests: Vec<ManifestFile>) {
        let metadata = self.metadata();
        let parent = metadata.current_snapshot_id();
        let (number, location) = (metadata.next_sequence_number(), self.others_path(id, "list"));
        let output = self.file_io().new_output(&location).expect("a path").writer().await.expect("a writer");
        let mut writer = ManifestListWriter::v2(output, id, parent, number);
        writer.add_manifests(manifests.into_iter()).expect("manifests");
        writer.close().await.expect("it closes");
        let snapshot = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(parent)
            .with_sequence_number(number)
            .with_timestamp_ms(metadata.last_updated_ms())
            .with_manifest_list(location)
            .with_summary(Summary { operation, additional_properties: HashMap::new() })
            .with_schema_id(metadata.current_schema_id())
            .build();
        self.update(TableUpdate::AddSnapshot { snapshot }).await;
        self.set_main(id).await;
    }

    /// The manifests of the table's newest snapshot, the newest first.
    async fn manifests(&self) -> Vec<ManifestFile> {
        let metadata = self.metadata();
        let head = metadata.current_snapshot().expect("a snapshot");
        let list = self.file_io().new_input(head.manifest_list()).expect("a list");
        let list = list.read().await.expect("it reads");
        let list = ManifestList::parse_with_version(&list, metadata.format_version()).expect("a list");
        list.consume_entries().into_iter().collect()
    }

    /// Where the newest data file lies.
    pub(crate) async fn newest_file(&self) -> Location {
        let manifest = self.manifests().await[0].load_manifest(&self.file_io()).await.expect("a manifest");
        Location::parse(manifest.entries()[0].file_path()).expect("a location")
    }

    /// Somebody expires a snapshot.
    pub(crate) async fn expire(&self, snapshot_id: i64) {
        self.update(TableUpdate::RemoveSnapshots { snapshot_ids: vec![snapshot_id] }).await;
    }

    fn file_io(&self) -> FileIO {
        file_io(Arc::clone(&self.store) as Arc<dyn ObjectStore>)
    }

    fn next_snapshot_id(&self) -> i64 {
        self.metadata().current_snapshot_id().expect("a snapshot").wrapping_add(1)
    }

    fn others_path(&self, id: i64, name: &str) -> String {
        format!("{}/metadata/other-{id}-{name}.avro", self.metadata().location())
    }

    /// Sets the main branch to a snapshot, as an operator does.
    pub(crate) async fn set_main(&self, snapshot_id: i64) {
        let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
        self.update(TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference }).await;
    }

    /// Somebody unsets the ledger's property.
    pub(crate) async fn unset_ledger(&self) {
        self.update(TableUpdate::RemoveProperties {
            removals: vec![format!("icefall.ledger.main.{SOURCE}")],
        })
        .await;
    }

    async fn update(&self, update: TableUpdate) {
        let commit = Commit::new(Vec::new(), vec![update], self.entropy.uuid_at(self.clock.now()));
        self.catalog.commit(&table(), &commit).await.into_result().expect("it commits");
    }

    /// Where the table's present metadata lies, as the catalog says.
    pub(crate) async fn metadata_file(&self) -> String {
        let loaded = self.catalog.load_table(&table(), Snapshots::All).await.expect("it is there");
        loaded.metadata_location.expect("the fake says it")
    }

    /// Puts the table's present metadata there, as a catalog does at each commit.
    pub(crate) async fn keep_metadata(&self) {
        let body = serde_json::to_vec(self.metadata().as_ref()).expect("JSON");
        let place = Location::parse(&self.metadata_file().await).expect("a location");
        self.store.put(&place, body.into()).await.expect("it puts");
    }

    /// Somebody makes the required column optional.
    pub(crate) fn make_n_optional(&self) {
        let mut json = serde_json::to_value(self.metadata().as_ref()).expect("JSON");
        let mut schema = json["schemas"][0].clone();
        schema["schema-id"] = 1.into();
        schema["fields"][0]["required"] = false.into();
        json["schemas"].as_array_mut().expect("schemas").push(schema);
        json["current-schema-id"] = 1.into();
        self.catalog.replace(&table(), serde_json::from_value(json).expect("metadata"));
    }

    /// The rows that the table's newest snapshot counts.
    pub(crate) fn row_count(&self) -> u64 {
        total_records(&self.metadata())
    }

    /// The same of the dead-letter table.
    pub(crate) fn dead_letter_count(&self) -> u64 {
        let table = TableIdent::new(NamespaceIdent::new("icefall".to_owned()), "dead_letters".to_owned());
        total_records(&self.catalog.peek(&table).expect("it is there"))
    }

    fn faulty_catalog(&self) -> Arc<dyn Catalog> {
        let catalog = Arc::clone(&self.catalog) as Arc<dyn Catalog>;
        Arc::new(FaultyCatalog::new(catalog, Arc::clone(&self.catalog_faults)))
    }

    fn settings(&self) -> Settings {
        Settings::parse(&self.settings, &Environment::default()).expect("good settings")
    }

    fn ops_bucket(&self) -> OpsBucket {
        OpsBucket::new(Arc::clone(&self.ops) as Arc<dyn ObjectStore>, "ops", "")
    }
}

/// An event of partition 0 of `topic`, each of its records with the value that `value` gives its offset.
fn event(topic: &str, offsets: Range<i64>, value: impl Fn(i64) -> String) -> String {
    let record = |offset: i64| {
        let value = STANDARD.encode(value(offset));
        let place = format!(r#""topic":"{topic}","partition":0,"offset":{offset}"#);
        format!(r#"{{{place},"timestamp":1700000000000,"timestampType":"CREATE_TIME","value":"{value}"}}"#)
    };
    let records = offsets.map(record).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"eventSource":"SelfManagedKafka","bootstrapServers":"b:9092","records":{{"{topic}-0":[{records}]}}}}"#
    )
}

/// A queue whose sender dies before or after it takes a message: its process is not there for the answer.
#[derive(Debug)]
struct Dying {
    inner: Arc<dyn CommitQueue>,
    moment: Moment,
    dies: Notify,
}

#[async_trait]
impl CommitQueue for Dying {
    async fn send(&self, bodies: &[String]) -> Result<(), QueueError> {
        if self.moment == Moment::After {
            self.inner.send(bodies).await?;
        }
        self.dies.notify_one();
        pending().await
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        self.inner.receive(max, wait).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.inner.delete(receipts).await
    }

    async fn hide(&self, receipts: &[Receipt], visibility: Duration) -> Result<(), QueueError> {
        self.inner.hide(receipts, visibility).await
    }

    async fn retention(&self) -> Result<Duration, QueueError> {
        self.inner.retention().await
    }
}

pub(crate) fn table() -> TableIdent {
    TableIdent::new(NamespaceIdent::new("shop".to_owned()), "clicks".to_owned())
}

fn total_records(metadata: &TableMetadata) -> u64 {
    let head = metadata.current_snapshot().expect("a snapshot");
    head.summary().additional_properties["total-records"].parse().expect("a number")
}
