//! What fuzzing asks of everything that comes from outside: any bytes are taken or refused, by rule, and never
//! panic.
//!
//! Each function is one target. `tests/fuzz` hands them to libFuzzer, which runs as long as one likes;
//! `tests/tests/fuzz.rs` hands them damaged [`seeds`], so that no target rots between such runs.

mod seeds;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use iceberg::spec::{
    ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Type,
};
use icefall_convert::Converter;
use icefall_datafile::NewDataFile;
use icefall_manifest::Message;
use icefall_records::{DecodeBuffer, KafkaEvent};

pub use seeds::seeds;

/// A target: its name and what it does with some bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 5] = [
    ("kafka_event", kafka_event),
    ("json_value", json_value),
    ("data_file", data_file),
    ("ledger_object", ledger_object),
    ("queue_message", queue_message),
];

/// A column of every type that JSON is read into.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let primitives = [
        PrimitiveType::Boolean,
        PrimitiveType::Int,
        PrimitiveType::Long,
        PrimitiveType::Float,
        PrimitiveType::Double,
        PrimitiveType::Decimal { precision: 20, scale: 4 },
        PrimitiveType::Date,
        PrimitiveType::Time,
        PrimitiveType::Timestamp,
        PrimitiveType::Timestamptz,
        PrimitiveType::TimestampNs,
        PrimitiveType::TimestamptzNs,
        PrimitiveType::String,
        PrimitiveType::Uuid,
        PrimitiveType::Fixed(3),
        PrimitiveType::Binary,
    ];
    let mut fields: Vec<NestedFieldRef> = (1..)
        .zip(primitives)
        .map(|(id, primitive)| optional(id, &format!("c{id}"), Type::Primitive(primitive)))
        .collect();
    let text = || Type::Primitive(PrimitiveType::String);
    let inner = StructType::new(vec![
        optional(31, "a", Type::Primitive(PrimitiveType::Int)),
        optional(32, "b", text()),
    ]);
    fields.push(optional(30, "s", Type::Struct(inner)));
    fields.push(optional(33, "l", Type::List(ListType { element_field: optional(34, "element", text()) })));
    fields.push(optional(35, "m", map(36, text())));
    fields.push(optional(38, "n", map(39, Type::Primitive(PrimitiveType::Int))));
    Schema::builder().with_fields(fields).build().expect("a good schema")
});

fn optional(id: i32, name: &str, r#type: Type) -> NestedFieldRef {
    Arc::new(NestedField::optional(id, name, r#type))
}

fn map(id: i32, key: Type) -> Type {
    Type::Map(MapType {
        key_field: Arc::new(NestedField::required(id, "key", key)),
        value_field: optional(id + 1, "value", Type::Primitive(PrimitiveType::Double)),
    })
}

/// What the event source mapping delivers.
///
/// # Panics
///
/// When an event is read that names a record and yet holds none.
pub fn kafka_event(bytes: &[u8]) {
    let mut buffer = DecodeBuffer::default();
    if let Ok(event) = KafkaEvent::parse(bytes, &mut buffer) {
        assert!(event.partitions.iter().all(|partition| !partition.records.is_empty()));
    }
}

/// What producers write.
///
/// # Panics
///
/// When a value is taken that is no JSON, or taken in part.
pub fn json_value(bytes: &[u8]) {
    let mut converter = Converter::new(&SCHEMA).expect("every type is supported");
    let before = converter.append(b"{}").map(|()| converter.rows());
    assert_eq!(before.expect("all columns are optional"), 1);
    let taken = converter.append(bytes);
    if let Err(bad) = &taken {
        assert!(!bad.to_string().is_empty());
    } else {
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes).expect("what becomes a row is JSON");
    }
    let rows = converter.finish().expect("rows fit together");
    assert_eq!(rows.num_rows(), if taken.is_ok() { 2 } else { 1 });
}

/// A data file as the committer reads it back.
///
/// # Panics
///
/// When other bytes than those that were written are taken for them.
pub fn data_file(bytes: &[u8]) {
    static WRITTEN: LazyLock<NewDataFile> = LazyLock::new(seeds::data_file);
    let written = &*WRITTEN;
    let read = icefall_datafile::read_back(Bytes::copy_from_slice(bytes), &written.entry, &SCHEMA);
    assert_eq!(read.is_ok(), written.bytes == bytes, "{read:?}");
}

/// A ledger's segment or index node as it lies in the ops bucket.
pub fn ledger_object(bytes: &[u8]) {
    icefall_ledger::fuzz_object(bytes);
}

/// A message of the commit queue, which anyone with the right to send can have written.
///
/// # Panics
///
/// When a message is read that encodes to another one.
pub fn queue_message(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(message) = Message::decode(text) {
        let encoded = message.clone().encode().expect("what was read can be written");
        assert_eq!(Message::decode(&encoded).expect("and read again"), message);
    }
}
