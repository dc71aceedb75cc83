//! A committer on fakes, with real Parquet files, and what its tables hold.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use iceberg::spec::TableMetadata;
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use icefall_catalog::{Catalog, Commit};
use icefall_clock::{Clock, Timestamp};
use icefall_committer::{Answer, Committer, DrainError, Ports, Report, handle};
use icefall_convert::Converter;
use icefall_datafile::{FileFormat, NewDataFile};
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Blob, Branch, DeadLetter, DeadLetterFile, Encoding, Fingerprint,
    Message, Offset, Partition, RecordId, RecordList, SchemaId, Source, SpecId, SpilledBatch, TableUuid,
};
use icefall_queue::CommitQueue;
use icefall_settings::{Environment, Settings};
use icefall_store::{Location, ObjectStore, OpsBucket};
use icefall_telemetry::Metrics;
use icefall_testkit::{
    FakeCatalog, FakeClock, FakeQueue, FakeStore, Faults, FaultyCatalog, FaultyQueue, FaultyStore,
    SeededEntropy,
};
use lambda_runtime::{Context, LambdaEvent};

use crate::other_engine::{manifests, replace_manifests};
use crate::slow::{Hooks, Meetings, SlowCatalog, SlowStore};

pub(crate) const TABLE: &str = "analytics.clicks";
pub(crate) const DEAD_LETTERS: &str = "icefall.dead_letters";
/// How long the queue hides what it delivers.
pub(crate) const VISIBILITY: Duration = Duration::from_mins(5);
/// The most messages that a process receives before it looks whether it has enough.
pub(crate) const POLLED: usize = 40;
pub(crate) const DAY: Duration = Duration::from_hours(24);

const SETTINGS: &str = r#"
pipeline = "demo"
catalog = { uri = "http://127.0.0.1:1", warehouse = "lake" }
store = { region = "us-east-1" }
ops = { bucket = "ops", region = "us-east-1" }
queue = { url = "http://127.0.0.1:1/0/q", region = "us-east-1" }
kafka = { cluster = "local" }
"#;

/// The settings with these tables declared, and with `more` in each declaration.
fn settings(tables: &[&str], more: &str) -> String {
    let columns =
        r#"[{ name = "p", type = "int", required = true }, { name = "o", type = "long", required = true }]"#;
    let declared: Vec<_> =
        tables.iter().map(|table| format!("{{ name = \"{table}\",{more} columns = {columns} }}")).collect();
    let (table, route) = (declared.join(", "), tables[0]);
    format!("{SETTINGS}table = [{table}]\nroute = [{{ topic = \"clicks\", table = \"{route}\" }}]\n")
}

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
    world: World,
    committer: Committer,
}

impl Deref for Bench {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// All that outlives a process of the committer.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) queue: Arc<FakeQueue>,
    pub(crate) catalog_faults: Arc<Faults>,
    pub(crate) queue_faults: Arc<Faults>,
    pub(crate) ops_faults: Arc<Faults>,
    pub(crate) store_faults: Arc<Faults>,
    pub(crate) catalog: Arc<FakeCatalog>,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) ops: Arc<FakeStore>,
    pub(crate) metrics: Arc<Metrics>,
    entropy: Arc<SeededEntropy>,
    settings: String,
    taking: Taking,
    hooks: Hooks,
    meetings: Meetings,
}

/// How long parts take for what they do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taking {
    pub(crate) load: Duration,
    pub(crate) commit: Duration,
    /// Of a data file.
    pub(crate) read: Duration,
    /// Of a file of dead letters.
    pub(crate) letters: Duration,
}

impl World {
    fn committer(&self) -> Committer {
        Committer::new(parsed(&self.settings), self.ports()).expect("a committer")
    }

    fn ports(&self) -> Ports {
        let Self { clock, queue, catalog, store, ops, entropy, metrics, .. } = self;
        let catalog = SlowCatalog {
            inner: Arc::clone(catalog) as Arc<dyn Catalog>,
            clock: Arc::clone(clock),
            load_time: self.taking.load,
            commit_time: self.taking.commit,
            hooks: self.hooks.clone(),
            meetings: self.meetings.clone(),
        };
        let faulty = |store: Arc<dyn ObjectStore>, faults: &Arc<Faults>| {
            Arc::new(FaultyStore::new(store, Arc::clone(faults)))
        };
        let slow = |store: &Arc<FakeStore>, subject, read_time| {
            let (inner, clock) = (Arc::clone(store) as Arc<dyn ObjectStore>, Arc::clone(clock));
            Arc::new(SlowStore { inner, clock, subject, read_time }) as Arc<dyn ObjectStore>
        };
        let queue =
            FaultyQueue::new(Arc::clone(queue) as Arc<dyn CommitQueue>, Arc::clone(&self.queue_faults));
        Ports {
            catalog: Arc::new(FaultyCatalog::new(Arc::new(catalog), Arc::clone(&self.catalog_faults))),
            tables: faulty(slow(store, "/data/", self.taking.read), &self.store_faults),
            ops: OpsBucket::new(
                faulty(slow(ops, "dead-letters/", self.taking.letters), &self.ops_faults),
                "ops",
                "",
            ),
            queue: Arc::new(queue),
            clock: Arc::clone(clock) as Arc<dyn Clock>,
            entropy: Arc::clone(entropy) as Arc<dyn icefall_clock::Entropy>,
            metrics: Arc::clone(metrics),
        }
    }
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::declared("").await
    }

    /// With more in the table's declaration.
    pub(crate) async fn declared(more: &str) -> Self {
        let faults = std::array::from_fn(|_| Faults::new());
        Self::start(settings(&[TABLE], more), Taking::default(), faults).await
    }

    /// With these tables.
    pub(crate) async fn of_tables(tables: &[&str]) -> Self {
        Self::start(settings(tables, ""), Taking::default(), std::array::from_fn(|_| Faults::new())).await
    }

    /// With a catalog that takes that long to commit.
    pub(crate) async fn of_slow_catalog(commit_time: Duration) -> Self {
        let taking = Taking { commit: commit_time, ..Taking::default() };
        Self::start(settings(&[TABLE], ""), taking, std::array::from_fn(|_| Faults::new())).await
    }

    /// With these settings of the committer.
    pub(crate) async fn set_to(committer: &str) -> Self {
        let text = format!("{}committer = {{ {committer} }}\n", settings(&[TABLE], ""));
        Self::start(text, Taking::default(), std::array::from_fn(|_| Faults::new())).await
    }

    /// From now on these clusters are known besides the one that is read.
    pub(crate) fn knowing(mut self, clusters: &[&str]) -> Self {
        let known = format!("cluster = \"local\", known_clusters = {clusters:?}");
        self.world.settings = self.world.settings.replace("cluster = \"local\"", &known);
        assert!(self.world.settings.contains("known_clusters"), "{}", self.world.settings);
        self.restarted()
    }

    /// Three of its kind share a queue: see [`Bench::drained_by_three`].
    pub(crate) async fn of_many(commit_time: Duration) -> Self {
        let taking = Taking { commit: commit_time, ..Taking::default() };
        Self::set_to("max_messages = 1").await.taking(taking)
    }

    /// An operator has edited the settings: these tables, `more` in the declaration of each, topics routed to the first
    /// of them, and other bounds of a round. The next process reads them.
    pub(crate) fn edited(mut self, tables: &[&str], more: &str) -> Self {
        let bounds = "committer = { commit_interval = '2s', max_messages = 500 }";
        self.world.settings = format!("{}{bounds}\n", settings(tables, more));
        self.restarted()
    }

    /// From now on parts take that long.
    pub(crate) fn taking(mut self, taking: Taking) -> Self {
        self.world.taking = taking;
        self.restarted()
    }

    /// All parts count their calls together, so that a crash strikes all of them.
    pub(crate) async fn with_shared_faults() -> Self {
        let faults = Faults::new();
        Self::start(settings(&[TABLE], ""), Taking::default(), std::array::from_fn(|_| Arc::clone(&faults)))
            .await
    }

    async fn start(settings: String, taking: Taking, faults: [Arc<Faults>; 4]) -> Self {
        let clock = Arc::new(FakeClock::default());
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock), VISIBILITY));
        let catalog = Arc::new(FakeCatalog::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let (store, ops) = (Arc::new(FakeStore::new()), Arc::new(FakeStore::new()));
        let entropy = Arc::new(SeededEntropy::new(7));
        let [catalog_faults, queue_faults, ops_faults, store_faults] = faults;
        let metrics = Arc::new(Metrics::new("committer"));
        let world = World {
            clock,
            queue,
            catalog_faults,
            queue_faults,
            ops_faults,
            store_faults,
            catalog,
            store,
            ops,
            metrics,
            entropy,
            settings,
            taking,
            hooks: Hooks::default(),
            meetings: Meetings::default(),
        };
        let bench = Self { committer: world.committer(), world };
        bench.drain().await.expect("the tables are made");
        bench
    }

    /// The same world with a process that remembers nothing.
    pub(crate) fn restarted(self) -> Self {
        Self { committer: self.world.committer(), world: self.world }
    }

    /// Another process beside this one.
    pub(crate) fn another_committer(&self) -> Self {
        Self { committer: self.world.committer(), world: self.world.clone() }
    }

    /// What others do right before the next commit, or the one after those that were spoken for already.
    pub(crate) fn before_commit<F, Work>(&self, work: F)
    where
        F: FnOnce() -> Work + Send + 'static,
        Work: Future<Output = ()> + 'static,
    {
        self.hooks.add(Box::new(move || {
            let others = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                runtime.block_on(work());
            });
            others.join().expect("they end");
        }));
    }

    /// Drains with this process and two others at once, each of which takes messages of its own: it takes what four
    /// polls bring, if no more than one message is asked for. Their first commits are built before any of them is
    /// made, so one is taken and the others are refused; gives what was measured.
    pub(crate) async fn drained_by_three(&self, others: &[Self; 2]) -> Measured {
        assert!(self.queue.len() > 2 * POLLED, "there is something for each of them");
        self.measured();
        self.meetings.add(3);
        let (one, two, three) = tokio::join!(self.drain(), others[0].drain(), others[1].drain());
        let reports = [one, two, three].map(|drained| drained.expect("it drains"));
        assert!(reports.iter().all(|report| report.settled > 0), "each of them worked: {reports:?}");
        let measured = self.measured();
        let conflicts = measured.value(Some(TABLE), "CommitConflicts");
        assert!(conflicts >= Some(2), "two of the three found the table changed: {conflicts:?}");
        measured
    }

    /// An optimiser is faster than each of the next `count` commits.
    pub(crate) fn rivals(&self, count: usize) {
        for _ in 0..count {
            let other = self.another_committer();
            self.before_commit(move || async move {
                let list = manifests(&other).await;
                replace_manifests(&other, list).await;
            });
        }
    }

    /// What Lambda does with an event.
    pub(crate) async fn invoke(&self, event: serde_json::Value) -> Result<Answer, DrainError> {
        let mut context = Context::default();
        context.deadline = self.clock.now().plus(VISIBILITY).unix_ms();
        handle(&self.committer, LambdaEvent::new(event, context)).await
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
        let lines = self.counted();
        Measured(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    /// What a writer would have made of `rows` and `letters`: files put, batch manifest built.
    pub(crate) async fn batch(&self, rows: Vec<RecordId>, letters: Letters) -> BatchManifest {
        self.batch_for(TABLE, rows, letters).await
    }

    pub(crate) async fn batch_for(
        &self,
        table: &str,
        rows: Vec<RecordId>,
        letters: Letters,
    ) -> BatchManifest {
        let metadata = self.metadata(table);
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
            table: table.try_into().expect("a table name"),
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

    /// The same by way of the ops bucket; gives the key that the message points to.
    pub(crate) async fn send_spilled(&self, batch: &BatchManifest) -> String {
        let body = Message::Batch(Box::new(batch.clone())).encode().expect("it encodes");
        let ops = OpsBucket::new(Arc::clone(&self.ops) as Arc<dyn ObjectStore>, "ops", "");
        let key = ops.put_spill(batch.id.0, body.into()).await.expect("it puts");
        let spilled = SpilledBatch {
            key: key.clone(),
            source: batch.source.clone(),
            table: batch.table.clone(),
            table_uuid: batch.table_uuid,
            offsets: Vec::new(),
        };
        let body = Message::Spilled(spilled).encode().expect("it encodes");
        self.queue.send(&[body]).await.expect("it sends");
        key
    }

    /// The bodies of `count` messages of one record each, whose files nobody reads: for tests of numbers.
    pub(crate) async fn light_bodies(&self, count: i64) -> Vec<String> {
        let model = self.batch(records(0, 0..1), Letters::none()).await;
        let body = |offset: i64| {
            let mut batch = model.clone();
            batch.id = BatchId(self.uuid());
            batch.files[0].records = records(0, offset..offset + 1).into_iter().collect();
            batch.files[0].data_file.path = format!("{}-{offset}", model.files[0].data_file.path);
            Message::Batch(Box::new(batch)).encode().expect("it encodes")
        };
        (0..count).map(body).collect()
    }

    /// The rows that the table's newest snapshot counts.
    pub(crate) fn total_records(&self) -> i64 {
        let metadata = self.metadata(TABLE);
        let head = metadata.current_snapshot().expect("a snapshot");
        head.summary().additional_properties["total-records"].parse().expect("a number")
    }

    /// What was counted since the last look.
    pub(crate) fn counted(&self) -> String {
        let mut lines = Vec::new();
        self.metrics.flush(self.clock.now(), &mut lines).expect("memory takes all");
        String::from_utf8(lines).expect("text")
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

    pub(crate) async fn set_ledger(&self, value: &str) {
        let name = icefall_ledger::property_name(&Branch::main(), &source());
        self.update(vec![TableUpdate::SetProperties { updates: [(name, value.to_owned())].into() }]).await;
    }

    /// A change of the table that somebody else makes.
    pub(crate) async fn update(&self, updates: Vec<TableUpdate>) {
        self.update_table(TABLE, updates).await;
    }

    /// The same of any table.
    pub(crate) async fn update_table(&self, table: &str, updates: Vec<TableUpdate>) {
        let commit = Commit::new(Vec::new(), updates, self.uuid());
        self.catalog.commit(&ident(table), &commit).await.into_result().expect("it commits");
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

    pub(crate) fn metadata(&self, table: &str) -> Arc<TableMetadata> {
        self.catalog.peek(&ident(table)).expect("the table is there")
    }

    pub(crate) fn uuid(&self) -> uuid::Uuid {
        icefall_clock::Entropy::uuid_at(self.entropy.as_ref(), self.clock.now())
    }
}

fn parsed(settings: &str) -> Settings {
    Settings::parse(settings, &Environment::default()).expect("settings")
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

pub(crate) fn ident(table: &str) -> TableIdent {
    let (namespace, name) = table.split_once('.').expect("a full name");
    TableIdent::new(NamespaceIdent::new(namespace.to_owned()), name.to_owned())
}
