//! The event's JSON down to the fields of each record, which stay text.
//!
//! Fields stay text so that a surprise in one of them is that record's own, and so that nothing is
//! decoded twice. This is the complete reader, by `serde_json`; [`scan`](crate::scan) is a faster
//! one for the shape that the mapping usually sends, and hands over to this one for all others.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::EventError;

/// A record's fields as JSON text; `None` when absent or null.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RawRecord<'a> {
    pub(crate) text: &'a str,
    pub(crate) topic: Option<&'a str>,
    pub(crate) partition: Option<&'a str>,
    pub(crate) offset: Option<&'a str>,
    pub(crate) timestamp: Option<&'a str>,
    pub(crate) timestamp_type: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) value: Option<&'a str>,
    pub(crate) headers: Option<&'a str>,
    pub(crate) key_schema: Option<&'a str>,
    pub(crate) value_schema: Option<&'a str>,
}

/// An event's own fields as JSON text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RawEvent<'a> {
    pub(crate) source: Option<&'a str>,
    pub(crate) source_arn: Option<&'a str>,
    pub(crate) bootstrap_servers: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventFields<'a> {
    #[serde(borrow, default)]
    event_source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    event_source_arn: Option<&'a RawValue>,
    #[serde(borrow, default)]
    bootstrap_servers: Option<&'a RawValue>,
    #[serde(borrow)]
    records: RecordTexts<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordFields<'a> {
    #[serde(borrow, default)]
    topic: Option<&'a RawValue>,
    #[serde(borrow, default)]
    partition: Option<&'a RawValue>,
    #[serde(borrow, default)]
    offset: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timestamp_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    key_schema_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    value_schema_metadata: Option<&'a RawValue>,
}

/// All records of the map, whose keys are not needed: each record names its topic and partition.
struct RecordTexts<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RecordTexts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextsVisitor).map(Self)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of record lists by topic and partition")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some((_, list)) = map.next_entry::<Cow<'de, str>, Option<Vec<&'de RawValue>>>()? {
            texts.extend(list.into_iter().flatten());
        }
        Ok(texts)
    }
}

/// Reads any event that can be read: its own fields, and its records in the order in which they stand.
pub(crate) fn read(text: &str) -> Result<(RawEvent<'_>, Vec<RawRecord<'_>>), EventError> {
    let event: EventFields<'_> = serde_json::from_str(text).map_err(EventError::NotAnEvent)?;
    let records = event.records.0.into_iter().map(read_record).collect::<Result<_, _>>()?;
    let event = RawEvent {
        source: event.event_source.map(RawValue::get),
        source_arn: event.event_source_arn.map(RawValue::get),
        bootstrap_servers: event.bootstrap_servers.map(RawValue::get),
    };
    Ok((event, records))
}

fn read_record(raw: &RawValue) -> Result<RawRecord<'_>, EventError> {
    let fields: RecordFields<'_> = serde_json::from_str(raw.get()).map_err(EventError::NotAnEvent)?;
    Ok(RawRecord {
        text: raw.get(),
        topic: fields.topic.map(RawValue::get),
        partition: fields.partition.map(RawValue::get),
        offset: fields.offset.map(RawValue::get),
        timestamp: fields.timestamp.map(RawValue::get),
        timestamp_type: fields.timestamp_type.map(RawValue::get),
        key: fields.key.map(RawValue::get),
        value: fields.value.map(RawValue::get),
        headers: fields.headers.map(RawValue::get),
        key_schema: fields.key_schema_metadata.map(RawValue::get),
        value_schema: fields.value_schema_metadata.map(RawValue::get),
    })
}
