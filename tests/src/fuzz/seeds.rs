//! Good input for each target, for a fuzzer and for damage to start from.

use icefall_convert::Converter;
use icefall_datafile::{FileFormat, NewDataFile};
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Branch, DataFileEntry, DeadLetterFile, Encoding, Fingerprint, Message,
    Offset, OffsetRun, Partition, RecordId, RecordList, SchemaId, SingleValue, Source, SpecId, SpilledBatch,
    TableUuid,
};
use uuid::Uuid;

use super::SCHEMA;
use crate::{click, event};

/// A record's value with a field for each column, and one without.
const EVERY_TYPE: &str = r#"{"c1":true,"c2":-7,"c3":3e2,"c4":0.5,"c5":-1.5e-3,"c6":"12.3400","c7":"2024-02-29",
    "c8":"01:02:03.5","c9":"2024-05-01T10:00:00","c10":"2024-05-01T10:00:00.123+05:30","c11":"2024-05-01",
    "c12":"1969-12-31T23:59:59.999999999Z","c13":"a\u00e9\n","c14":"123e4567-e89b-12d3-a456-426614174000",
    "c15":"AQID","c16":"","s":{"a":1,"b":null},"l":["x",null],"m":{"k":1.0},"n":[{"key":1,"value":null}],
    "unknown":[{"deep":{}}]}"#;

/// An event with the oddities that real producers cause.
const ODD_EVENT: &[u8] =
    br#"{"records":{"a-0":[{"topic":"a","partition":0,"offset":0,"timestamp":-1,"key":null,
    "headers":[{"h":[-1,255]},{"h":null}]},{"topic":"a","partition":0,"offset":1,"value":""}]}}"#;

/// Each target's name with an input. The ledger's objects have no public way to be made from nothing; the
/// ledger's own tests damage real ones.
///
/// # Panics
///
/// When the writer's own parts refuse one of them.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("kafka_event", event(3, 40, &[click(1), click(2)])),
        ("kafka_event", ODD_EVENT.to_vec()),
        ("json_value", EVERY_TYPE.as_bytes().to_vec()),
        ("json_value", click(7).into_bytes()),
        ("data_file", data_file().bytes.to_vec()),
        ("queue_message", text(Message::Batch(Box::new(batch())))),
        ("queue_message", text(Message::Spilled(spilled()))),
    ]
}

fn text(message: Message) -> Vec<u8> {
    message.encode().expect("it serializes").into_bytes()
}

/// A file of one row.
pub(super) fn data_file() -> NewDataFile {
    let mut converter = Converter::new(&SCHEMA).expect("every type is supported");
    converter.append(EVERY_TYPE.as_bytes()).expect("a row");
    let rows = converter.finish().expect("a batch");
    let spec = iceberg::spec::PartitionSpec::unpartition_spec();
    let plain = [("write.parquet.compression-codec".to_owned(), "none".to_owned())];
    let format = FileFormat::new(&SCHEMA, &spec, &plain.into()).expect("a format");
    let files = format.write(&rows, "s3://bucket/table", || "file".to_owned()).expect("a file");
    files.into_iter().next().expect("one partition")
}

fn source() -> Source {
    Source {
        pipeline: "demo".try_into().expect("a pipeline id"),
        cluster: "local".try_into().expect("a cluster name"),
        topic: "clicks".try_into().expect("a topic"),
    }
}

fn records(offsets: std::ops::Range<i64>) -> RecordList {
    let mut list = RecordList::default();
    for offset in offsets {
        list.push(RecordId {
            partition: Partition::new(2).expect("a partition"),
            offset: Offset::new(offset).expect("an offset"),
            encoding: Encoding::try_from(1).expect("a tag"),
            fingerprint: Fingerprint(7),
        });
    }
    list
}

fn batch() -> BatchManifest {
    let data_file = DataFileEntry {
        path: "s3://lake/t/data/a.parquet".to_owned(),
        record_count: 3,
        file_size_in_bytes: 4,
        checksum: icefall_manifest::Checksum(9),
        partition: vec![None, Some(SingleValue(vec![1, 0, 0, 0]))],
        column_sizes: [(1, 9)].into(),
        value_counts: [(1, 3)].into(),
        null_value_counts: [(1, 0)].into(),
        nan_value_counts: [].into(),
        lower_bounds: [(1, SingleValue(vec![0, 255]))].into(),
        upper_bounds: [].into(),
        split_offsets: vec![4],
    };
    BatchManifest {
        id: BatchId(Uuid::from_u128(1)),
        made_at_ms: 1,
        source: source(),
        table: "a.b".try_into().expect("a table name"),
        branch: Branch::main(),
        table_uuid: TableUuid(Uuid::from_u128(2)),
        schema_id: SchemaId(0),
        spec_id: SpecId(0),
        files: vec![BatchFile { data_file, records: records(0..3) }],
        dead_letters: Some(DeadLetterFile { key: "dead/1".to_owned(), records: records(9..11) }),
        newest_record_ms: Some(5),
    }
}

fn spilled() -> SpilledBatch {
    let offsets: Vec<OffsetRun> = records(0..3).runs().to_vec();
    SpilledBatch {
        key: "spilled/1".to_owned(),
        source: source(),
        table: "a.b".try_into().expect("a table name"),
        table_uuid: TableUuid(Uuid::from_u128(2)),
        offsets,
    }
}
