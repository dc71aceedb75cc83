//! A writer over fakes, events to give it, and what can be seen afterwards.

#![expect(clippy::expect_used, clippy::panic, reason = "what does not hold here is a failed test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, Int64Array};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use iceberg::spec::{NestedField, PrimitiveType, Schema, Transform, Type, UnboundPartitionSpec};
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{Catalog, NewTable};
use icefall_clock::{Clock, Timestamp};
use icefall_manifest::{BatchManifest, DeadLetter, Message};
use icefall_queue::CommitQueue;
use icefall_settings::{Environment, Settings};
use icefall_store::{Heartbeat, Location, ObjectStore, OpsBucket};
use icefall_telemetry::Metrics;
use icefall_testkit::{
    FakeCatalog, FakeClock, FakeQueue, FakeStore, Faults, FaultyCatalog, FaultyQueue, FaultyStore,
    SeededEntropy,
};
use icefall_writer::{Ports, Report, Writer, WriterError};

pub(crate) const SETTINGS: &str = r#"
pipeline = "demo"
catalog = { uri = "http://127.0.0.1:1", warehouse = "lake" }
store = { region = "us-east-1" }
ops = { bucket = "ops", region = "us-east-1" }
queue = { url = "http://127.0.0.1:1/0/q", region = "us-east-1" }
kafka = { cluster = "local" }
route = [
    { topic = "clicks", table = "shop.clicks" },
    { topic = "orders", table = "shop.orders", tombstones = "skip" },
    { topic = "lost", table = "shop.lost" },
]
"#;

pub(crate) struct Bench {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) queue: Arc<FakeQueue>,
    pub(crate) lake: Arc<FakeStore>,
    pub(crate) ops: Arc<FakeStore>,
    pub(crate) catalog: Arc<FakeCatalog>,
    /// Of catalog, lake, ops bucket and queue together.
    pub(crate) faults: Arc<Faults>,
    pub(crate) writer: Writer,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(SETTINGS).await
    }

    pub(crate) async fn with(settings: &str) -> Self {
        let clock = Arc::new(FakeClock::default());
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock), Duration::from_mins(5)));
        let catalog = Arc::new(FakeCatalog::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let (lake, ops) = (Arc::new(FakeStore::new()), Arc::new(FakeStore::new()));
        let faults = Faults::new();
        let ports = Ports {
            catalog: Arc::new(FaultyCatalog::new(
                Arc::clone(&catalog) as Arc<dyn Catalog>,
                Arc::clone(&faults),
            )),
            tables: faulty(&lake, &faults),
            ops: OpsBucket::new(faulty(&ops, &faults), "ops", ""),
            queue: Arc::new(FaultyQueue::new(
                Arc::clone(&queue) as Arc<dyn CommitQueue>,
                Arc::clone(&faults),
            )),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::new(SeededEntropy::new(7)),
            metrics: Arc::new(Metrics::new("writer")),
        };
        let settings = Settings::parse(settings, &Environment::default()).expect("good settings");
        let bench = Self { clock, queue, lake, ops, catalog, faults, writer: Writer::new(settings, ports) };
        bench.catalog.create_namespace(&NamespaceIdent::new("shop".to_owned())).await.expect("a namespace");
        bench.create("clicks", "2").await;
        bench.create("orders", "2").await;
        bench
    }

    pub(crate) async fn create(&self, name: &str, version: &str) {
        let mut new = NewTable::new(schema(&["n"]));
        new.properties = BTreeMap::from([("format-version".to_owned(), version.to_owned())]);
        self.catalog.create_table(&ident(name), &new).await.expect("a table");
    }

    /// A table with a partition for each value.
    pub(crate) async fn create_spread(&self, name: &str) {
        let mut new = NewTable::new(schema(&["n"]));
        let spec = UnboundPartitionSpec::builder().add_partition_field(1, "n", Transform::Identity);
        new.partition_spec = spec.expect("a field").build();
        self.catalog.create_table(&ident(name), &new).await.expect("a table");
    }

    /// The table gets another column.
    pub(crate) fn grow(&self, name: &str, columns: &[&str]) {
        let metadata = self.catalog.peek(&ident(name)).expect("a table").as_ref().clone();
        let builder = metadata.into_builder(None).add_current_schema(schema(columns)).expect("a schema");
        self.catalog.replace(&ident(name), builder.build().expect("metadata").metadata);
    }

    pub(crate) async fn write(&self, event: &str) -> Result<Report, WriterError> {
        self.writer.write(event.as_bytes(), "request-1").await
    }

    /// The queued batch manifests, spilled ones read from the ops bucket.
    pub(crate) fn manifests(&self) -> Vec<BatchManifest> {
        let open = |body: String| match Message::decode(&body).expect("a good message") {
            Message::Batch(batch) | Message::Released(batch, _) => *batch,
            Message::Spilled(spilled) => {
                let body = self.ops.peek(&Location::s3("ops", spilled.key)).expect("the spilled object");
                let text = std::str::from_utf8(&body).expect("text");
                let Ok(Message::Batch(batch)) = Message::decode(text) else { panic!("no batch manifest") };
                *batch
            }
        };
        self.queue.bodies().into_iter().map(open).collect()
    }

    /// Offset and the value of column `n` of each row that `manifest` names, in order.
    pub(crate) fn rows(&self, manifest: &BatchManifest) -> Vec<(i64, Option<i64>)> {
        let mut rows = Vec::new();
        for file in &manifest.files {
            let place = Location::parse(&file.data_file.path).expect("a location");
            let body = self.lake.peek(&place).expect("the data file is stored");
            let values = numbers(body);
            assert_eq!(values.len(), file.records.len());
            rows.extend(file.records.iter().map(|record| record.offset.position()).zip(values));
        }
        rows
    }

    pub(crate) fn dead_letters(&self, manifest: &BatchManifest) -> Vec<DeadLetter> {
        let Some(file) = &manifest.dead_letters else { return Vec::new() };
        let body = self.ops.peek(&Location::s3("ops", &*file.key)).expect("the dead letters are stored");
        let text = zstd::decode_all(body.as_ref()).expect("zstd");
        let letters = DeadLetter::decode_lines(&text).expect("dead letters");
        let named: Vec<_> = file.records.iter().map(|record| record.offset).collect();
        assert_eq!(letters.iter().map(|letter| letter.offset).collect::<Vec<_>>(), named);
        letters
    }

    pub(crate) async fn heartbeat(&self, began: Timestamp) {
        let ops = OpsBucket::new(Arc::clone(&self.ops) as Arc<dyn ObjectStore>, "ops", "");
        let heartbeat = Heartbeat { started_ms: began.unix_ms(), ended: true, ..Heartbeat::default() };
        ops.put_heartbeat(&"demo".try_into().expect("a pipeline"), 0, &heartbeat)
            .await
            .expect("it is stored");
    }
}

fn faulty(store: &Arc<FakeStore>, faults: &Arc<Faults>) -> Arc<dyn ObjectStore> {
    Arc::new(FaultyStore::new(Arc::clone(store) as Arc<dyn ObjectStore>, Arc::clone(faults)))
}

pub(crate) fn ident(name: &str) -> TableIdent {
    TableIdent::new(NamespaceIdent::new("shop".to_owned()), name.to_owned())
}

/// Columns of optional longs; the first is required.
fn schema(columns: &[&str]) -> Schema {
    let field = |(index, name): (usize, &&str)| {
        let (id, kind) =
            (i32::try_from(index).expect("few columns") + 1, Type::Primitive(PrimitiveType::Long));
        Arc::new(NestedField::new(id, *name, kind, index == 0))
    };
    Schema::builder().with_fields(columns.iter().enumerate().map(field)).build().expect("a schema")
}

fn numbers(body: bytes::Bytes) -> Vec<Option<i64>> {
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(body);
    let batches = reader.expect("Parquet").build().expect("a reader");
    let mut numbers = Vec::new();
    for batch in batches {
        let batch = batch.expect("a batch");
        let column = batch
            .column_by_name("n")
            .expect("column n")
            .as_any()
            .downcast_ref::<Int64Array>()
            .expect("longs");
        numbers.extend(column.iter());
    }
    numbers
}

/// A record's JSON with any value; `None` is a tombstone.
pub(crate) fn record(topic: &str, partition: i32, offset: i64, value: Option<&str>) -> String {
    let value = value.map_or_else(|| "null".to_owned(), |value| format!("\"{}\"", STANDARD.encode(value)));
    raw(topic, partition, offset, &value)
}

/// A record's JSON with `value` as it stands.
pub(crate) fn raw(topic: &str, partition: i32, offset: i64, value: &str) -> String {
    format!(
        r#"{{"topic":"{topic}","partition":{partition},"offset":{offset},"timestamp":{},"timestampType":"CREATE_TIME","key":"aw==","value":{value},"headers":[{{"h":[-1]}}]}}"#,
        1_700_000_000_000 + offset
    )
}

pub(crate) fn event(records: &[String]) -> String {
    let mut map = String::new();
    for (index, record) in records.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(map, "{comma}\"k-{index}\":[{record}]").expect("strings take all");
    }
    format!(r#"{{"eventSource":"SelfManagedKafka","bootstrapServers":"b:9092","records":{{{map}}}}}"#)
}
