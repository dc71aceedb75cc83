//! A committer on fakes, with real Parquet files, and what its tables hold.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::cast::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use iceberg::spec::TableMetadata;
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use icefall_catalog::{Catalog, Commit};
use icefall_clock::{Clock, Timestamp};
use icefall_committer::{Committer, DrainError, Ports, Report};
use icefall_convert::Converter;
use icefall_datafile::{FileFormat, NewDataFile, read};
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Blob, Branch, DeadLetter, DeadLetterFile, Encoding, Fingerprint,
    Message, Offset, Partition, RecordId, RecordList, SchemaId, Source, SpecId, TableUuid,
};
use icefall_queue::CommitQueue;
use icefall_settings::{Environment, Settings};
use icefall_store::{Location, ObjectStore, OpsBucket, file_io};
use icefall_telemetry::Metrics;
use icefall_testkit::{
    FakeCatalog, FakeClock, FakeQueue, FakeStore, Faults, FaultyCatalog, FaultyQueue, FaultyStore,
    SeededEntropy,
};

pub(crate) const TABLE: &str = "analytics.clicks";
const DEAD_LETTERS: &str = "icefall.dead_letters";

const SETTINGS: &str = r#"
pipeline = "demo"
catalog = { uri = "http://127.0.0.1:1", warehouse = "lake" }
store = { region = "us-east-1" }
ops = { bucket = "ops", region = "us-east-1" }
queue = { url = "http://127.0.0.1:1/0/q", region = "us-east-1" }
kafka = { cluster = "local" }
table = [{ name = "analytics.clicks",DECLARED columns = [
    { name = "p", type = "int", required = true }, { name = "o", type = "long", required = true } ] }]
route = [{ topic = "clicks", table = "analytics.clicks" }]
"#;

/// A record's place: partition and offset. Every row holds its own.
pub(crate) type Key = (i32, i64);

#[derive(Debug)]
pub(crate) struct Letters(Vec<RecordId>);

impl Letters {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn of(partition: i64, offsets: Range<i64>) -> Self {
        Self(records(partition, offsets))
    }
}

pub(crate) fn records(partition: i64, offsets: Range<i64>) -> Vec<RecordId> {
    let record = |offset: i64| RecordId {
        partition: Partition::new(partition).expect("a partition"),
        offset: Offset::new(offset).expect("an offset"),
        encoding: Encoding::Raw,
        fingerprint: Fingerprint(u32::try_from(offset).expect("a small offset")),
    };
    offsets.map(record).collect()
}

/// Another record at the same place.
pub(crate) fn other(record: RecordId) -> RecordId {
    RecordId { fingerprint: Fingerprint(!record.fingerprint.0), ..record }
}

pub(crate) fn keys(partition: i32, offsets: Range<i64>) -> Vec<Key> {
    offsets.map(|offset| (partition, offset)).collect()
}

/// Metric lines as they were written.
#[derive(Debug)]
pub(crate) struct Measured(Vec<serde_json::Value>);

impl Measured {
    /// The metric's value in the line of `table`, or in the function's own, if it was measured.
    pub(crate) fn value(&self, table: Option<&str>, metric: &str) -> Option<u64> {
        let of = |line: &&serde_json::Value| line["Table"].as_str() == table;
        self.0.iter().find(of).and_then(|line| line[metric].as_u64())
    }
}

pub(crate) struct Bench {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) queue: Arc<FakeQueue>,
    pub(crate) catalog_faults: Arc<Faults>,
    pub(crate) queue_faults: Arc<Faults>,
    pub(crate) ops_faults: Arc<Faults>,
    pub(crate) catalog: Arc<FakeCatalog>,
    pub(crate) store: Arc<FakeStore>,
    ops: Arc<FakeStore>,
    entropy: Arc<SeededEntropy>,
    metrics: Arc<Metrics>,
    settings: String,
    committer: Committer,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::declared("").await
    }

    /// The same with more in the table's declaration.
    pub(crate) async fn declared(more: &str) -> Self {
        Self::start([Faults::new(), Faults::new(), Faults::new()], more).await
    }

    /// All parts count their calls together, so that a crash strikes all of them.
    pub(crate) async fn with_shared_faults() -> Self {
        let faults = Faults::new();
        Self::start([Arc::clone(&faults), Arc::clone(&faults), faults], "").await
    }

    async fn start([catalog_faults, queue_faults, ops_faults]: [Arc<Faults>; 3], more: &str) -> Self {
        let clock = Arc::new(FakeClock::default());
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock), Duration::from_mins(5)));
        let catalog = Arc::new(FakeCatalog::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let (store, ops) = (Arc::new(FakeStore::new()), Arc::new(FakeStore::new()));
        let entropy = Arc::new(SeededEntropy::new(7));
        let settings = SETTINGS.replace("DECLARED", more);
        let (committer, metrics) = committer(
            &settings,
            &clock,
            &queue,
            &catalog,
            &store,
            &ops,
            &entropy,
            [&catalog_faults, &queue_faults, &ops_faults],
        );
        let bench = Self {
            clock,
            queue,
            catalog_faults,
            queue_faults,
            ops_faults,
            catalog,
            store,
            ops,
            entropy,
            metrics,
            settings,
            committer,
        };
        bench.drain().await.expect("the tables are made");
        bench
    }

    /// The same world with a process that remembers nothing.
    pub(crate) fn restarted(self) -> Self {
        let faults = [&self.catalog_faults, &self.queue_faults, &self.ops_faults];
        let Self { clock, queue, catalog, store, ops, entropy, settings, .. } = &self;
        let (committer, metrics) = committer(settings, clock, queue, catalog, store, ops, entropy, faults);
        Self { committer, metrics, ..self }
    }

    pub(crate) async fn drain(&self) -> Result<Report, DrainError> {
        self.committer.drain(self.clock.now().plus(Duration::from_mins(5))).await
    }

    /// The same on a platform that says that it ends the invocation at `deadline`.
    pub(crate) async fn drain_until(&self, deadline: Timestamp) -> Result<Report, DrainError> {
        self.committer.drain(deadline).await
    }

    /// What was measured since it was last asked for.
    pub(crate) fn measured(&self) -> Measured {
        let mut lines = Vec::new();
        self.metrics.flush(self.clock.now(), &mut lines).expect("a vector takes all");
        let lines = String::from_utf8(lines).expect("text");
        Measured(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    /// What a writer would have made of `rows` and `letters`: files put, batch manifest built.
    pub(crate) async fn batch(&self, rows: Vec<RecordId>, letters: Letters) -> BatchManifest {
        let metadata = self.metadata(TABLE);
        let table_uuid = TableUuid(metadata.uuid());
        let files = self.files(&metadata, &rows).await;
        let letters = letters.0;
        let dead_letters = if letters.is_empty() {
            None
        } else {
            let lines: Vec<_> = letters.iter().map(letter).collect();
            let text = DeadLetter::encode_lines(&lines).expect("it encodes");
            let body = zstd::encode_all(text.as_slice(), 1).expect("it compresses");
            let ops = OpsBucket::new(Arc::clone(&self.ops) as Arc<dyn ObjectStore>, "ops", "");
            let key = ops.put_dead_letters(table_uuid, self.uuid(), body.into()).await.expect("it puts");
            Some(DeadLetterFile { key, records: letters.into_iter().collect() })
        };
        BatchManifest {
            id: BatchId(self.uuid()),
            made_at_ms: self.clock.now().unix_ms(),
            source: source(),
            table: TABLE.try_into().expect("a table name"),
            branch: Branch::main(),
            table_uuid,
            schema_id: SchemaId(metadata.current_schema_id()),
            spec_id: SpecId(metadata.default_partition_spec_id()),
            files,
            dead_letters,
            newest_record_ms: Some(1),
        }
    }

    pub(crate) async fn send(&self, batch: &BatchManifest) {
        let body = Message::Batch(Box::new(batch.clone())).encode().expect("it encodes");
        self.queue.send(&[body]).await.expect("it sends");
    }

    /// Rows that a reader of the table sees, sorted; doubled ones stand twice.
    pub(crate) async fn rows(&self) -> Vec<Key> {
        self.read(TABLE, "p", "o").await
    }

    /// Dead letters that a reader of their table sees.
    pub(crate) async fn dead_letters(&self) -> Vec<Key> {
        self.read(DEAD_LETTERS, "partition", "offset").await
    }

    pub(crate) fn snapshots(&self, table: &str) -> usize {
        self.metadata(table).snapshots().len()
    }

    pub(crate) fn quarantine(&self) -> Vec<String> {
        self.ops.keys("ops", "quarantine/")
    }

    /// When the committer last said that it is there, in milliseconds since the epoch.
    pub(crate) async fn heartbeat_ms(&self) -> Option<u64> {
        let ops = OpsBucket::new(Arc::clone(&self.ops) as Arc<dyn ObjectStore>, "ops", "");
        let heartbeat = ops.heartbeat(&"demo".try_into().expect("a pipeline id")).await.expect("it reads");
        heartbeat.map(|heartbeat| heartbeat.started_ms)
    }

    pub(crate) fn ledger_property(&self) -> String {
        let name = icefall_ledger::property_name(&Branch::main(), &source());
        self.metadata(TABLE).properties().get(&name).cloned().unwrap_or_default()
    }

    pub(crate) async fn unset_ledger(&self) {
        let removals = vec![icefall_ledger::property_name(&Branch::main(), &source())];
        self.update(vec![TableUpdate::RemoveProperties { removals }]).await;
    }

    /// A change of the table that somebody else makes.
    pub(crate) async fn update(&self, updates: Vec<TableUpdate>) {
        let commit = Commit::new(Vec::new(), updates, self.uuid());
        self.catalog.commit(&ident(TABLE), &commit).await.into_result().expect("it commits");
    }

    pub(crate) async fn remake_table(&self) {
        assert!(self.catalog.drop_table(&ident(TABLE)));
        self.drain().await.expect("the table is made again");
    }

    async fn files(&self, metadata: &TableMetadata, rows: &[RecordId]) -> Vec<BatchFile> {
        if rows.is_empty() {
            return Vec::new();
        }
        let schema = metadata.current_schema();
        let mut converter = Converter::new(schema).expect("a schema");
        for record in rows {
            let row = format!(r#"{{"p":{},"o":{}}}"#, record.partition, record.offset);
            converter.append(row.as_bytes()).expect("a row");
        }
        let format = FileFormat::new(schema, metadata.default_partition_spec(), metadata.properties());
        let batch = converter.finish().expect("a batch");
        let written =
            format.expect("a format").write(&batch, metadata.location(), || self.uuid().to_string());
        let mut files = Vec::new();
        for NewDataFile { entry, bytes, rows: order } in written.expect("files") {
            self.store.put(&Location::parse(&entry.path).expect("a location"), bytes).await.expect("it puts");
            let records: RecordList = order.iter().map(|row| rows[*row as usize]).collect();
            files.push(BatchFile { data_file: entry, records });
        }
        files
    }

    async fn read(&self, table: &str, partition: &str, offset: &str) -> Vec<Key> {
        let metadata = self.metadata(table);
        let Some(snapshot) = metadata.current_snapshot() else { return Vec::new() };
        let file_io = file_io(Arc::clone(&self.store) as Arc<dyn ObjectStore>);
        let list =
            file_io.new_input(snapshot.manifest_list()).expect("a list").read().await.expect("it reads");
        let list = iceberg::spec::ManifestList::parse_with_version(&list, metadata.format_version());
        let mut keys = Vec::new();
        for manifest in list.expect("a manifest list").entries() {
            let manifest = manifest.load_manifest(&file_io).await.expect("a manifest");
            for entry in manifest.entries() {
                let location = Location::parse(entry.file_path()).expect("a location");
                let bytes = self.store.get(&location).await.expect("it is there");
                let rows = read(bytes, metadata.current_schema()).expect("a file");
                let partitions =
                    rows.column_by_name(partition).expect("a column").as_primitive::<Int32Type>();
                let offsets = rows.column_by_name(offset).expect("a column").as_primitive::<Int64Type>();
                keys.extend(partitions.values().iter().copied().zip(offsets.values().iter().copied()));
            }
        }
        keys.sort_unstable();
        keys
    }

    pub(crate) fn metadata(&self, table: &str) -> Arc<TableMetadata> {
        self.catalog.peek(&ident(table)).expect("the table is there")
    }

    pub(crate) fn uuid(&self) -> uuid::Uuid {
        icefall_clock::Entropy::uuid_at(self.entropy.as_ref(), self.clock.now())
    }
}

fn committer(
    settings: &str,
    clock: &Arc<FakeClock>,
    queue: &Arc<FakeQueue>,
    catalog: &Arc<FakeCatalog>,
    store: &Arc<FakeStore>,
    ops: &Arc<FakeStore>,
    entropy: &Arc<SeededEntropy>,
    [catalog_faults, queue_faults, ops_faults]: [&Arc<Faults>; 3],
) -> (Committer, Arc<Metrics>) {
    let catalog = FaultyCatalog::new(Arc::clone(catalog) as Arc<dyn Catalog>, Arc::clone(catalog_faults));
    let queue = FaultyQueue::new(Arc::clone(queue) as Arc<dyn CommitQueue>, Arc::clone(queue_faults));
    let ops = FaultyStore::new(Arc::clone(ops) as Arc<dyn ObjectStore>, Arc::clone(ops_faults));
    let metrics = Arc::new(Metrics::new("committer"));
    let ports = Ports {
        catalog: Arc::new(catalog),
        tables: Arc::clone(store) as Arc<dyn ObjectStore>,
        ops: OpsBucket::new(Arc::new(ops), "ops", ""),
        queue: Arc::new(queue),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        entropy: Arc::clone(entropy) as Arc<dyn icefall_clock::Entropy>,
        metrics: Arc::clone(&metrics),
    };
    let settings = Settings::parse(settings, &Environment::default()).expect("settings");
    (Committer::new(settings, ports).expect("a committer"), metrics)
}

fn letter(record: &RecordId) -> DeadLetter {
    DeadLetter {
        source: source(),
        partition: record.partition,
        offset: record.offset,
        timestamp_ms: Some(1_700_000_000_000),
        key: None,
        value: Some(Blob(b"{".to_vec())),
        headers: Vec::new(),
        target_table: TABLE.try_into().expect("a table name"),
        error_class: "malformed-json".to_owned(),
        error_text: "no JSON".to_owned(),
        time_ms: 1_700_000_000_000,
    }
}

fn source() -> Source {
    Source {
        pipeline: "demo".try_into().expect("a pipeline id"),
        cluster: "local".try_into().expect("a cluster name"),
        topic: "clicks".try_into().expect("a topic"),
    }
}

fn ident(table: &str) -> TableIdent {
    let (namespace, name) = table.split_once('.').expect("a full name");
    TableIdent::new(NamespaceIdent::new(namespace.to_owned()), name.to_owned())
}
