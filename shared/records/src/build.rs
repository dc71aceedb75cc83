//! From a record's texts to a [`Record`]: payloads decoded, fingerprint computed, faults noted.
//!
//! Each record's fingerprint frame is laid out in the decode buffer, so that key and value are
//! decoded once, into the very bytes that are hashed. The buffer never runs out: a frame is shorter
//! than the record's JSON, which names at least topic, partition and offset.

use std::borrow::Cow;
use std::collections::HashMap;

use base64_simd::{AsOut, STANDARD};
use icefall_manifest::{Offset, Partition, Topic};

use crate::envelope::RawRecord;
use crate::event::{EventError, PartitionRecords, string};
use crate::fingerprint::{self, FRAME_OVERHEAD, form_byte};
use crate::headers::Headers;
use crate::record::{FaultPart, Form, Payload, Record, RecordFault, SchemaMetadata};

const NOT_BASE64: &str = "standard base64 with padding expected";
const NOT_MILLIS: &str = "a whole number of milliseconds expected";
const NOT_HEADERS: &str = "a list of objects expected, each a name and a list of bytes (-128 to 255) or null";

/// Collects records by partition.
pub(crate) struct Builder<'a> {
    free: &'a mut [u8],
    partitions: Vec<PartitionRecords<'a>>,
    positions: HashMap<(Topic, Partition), usize>,
    /// The texts of the last record's topic and partition, and the position they lead to.
    last: Option<(&'a str, &'a str, usize)>,
    /// Records so far.
    count: usize,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(free: &'a mut [u8]) -> Self {
        Self { free, partitions: Vec::new(), positions: HashMap::new(), last: None, count: 0 }
    }

    pub(crate) fn finish(self) -> Vec<PartitionRecords<'a>> {
        self.partitions
    }

    /// Adds the event's next record.
    pub(crate) fn add(&mut self, raw: &RawRecord<'a>) -> Result<(), EventError> {
        let index = self.count;
        self.count += 1;
        let position = self.position(index, raw)?;
        let offset = raw.offset.and_then(integer).and_then(Offset::new);
        let offset = offset.ok_or_else(|| unplaced(index, "offset", raw.offset))?;
        let record = self.record(offset, raw);
        if let Some(partition) = self.partitions.get_mut(position) {
            partition.records.push(record);
        }
        Ok(())
    }

    /// Where the records of this one's partition are collected.
    fn position(&mut self, index: usize, raw: &RawRecord<'a>) -> Result<usize, EventError> {
        let topic_text = raw.topic.ok_or_else(|| unplaced(index, "topic", None))?;
        let partition_text = raw.partition.ok_or_else(|| unplaced(index, "partition", None))?;
        if let Some((topic, partition, position)) = self.last
            && (topic, partition) == (topic_text, partition_text)
        {
            return Ok(position);
        }
        let topic = string(topic_text).and_then(|name| Topic::try_from(name.into_owned()).ok());
        let topic = topic.ok_or_else(|| unplaced(index, "topic", raw.topic))?;
        let partition = integer(partition_text).and_then(Partition::new);
        let partition = partition.ok_or_else(|| unplaced(index, "partition", raw.partition))?;
        let position = self.position_of(topic, partition);
        self.last = Some((topic_text, partition_text, position));
        Ok(position)
    }

    fn position_of(&mut self, topic: Topic, partition: Partition) -> usize {
        if let Some(position) = self.positions.get(&(topic.clone(), partition)) {
            return *position;
        }
        let position = self.partitions.len();
        self.partitions.push(PartitionRecords { topic: topic.clone(), partition, records: Vec::new() });
        self.positions.insert((topic, partition), position);
        position
    }

    fn record(&mut self, offset: Offset, raw: &RawRecord<'a>) -> Record<'a> {
        let time = raw.timestamp.map_or(fingerprint::Time::None, time);
        let room = frame_room(raw);
        let (frame, free) = std::mem::take(&mut self.free).split_at_mut(room);
        self.free = free;
        let frame = Frame::lay_out(frame, time, raw);
        let headers = raw.headers.map_or(Some(Headers::default()), Headers::of);
        let key_schema = raw.key_schema.map(schema).map(Box::new);
        let value_schema = raw.value_schema.map(schema).map(Box::new);
        let registry = key_schema.is_some() || value_schema.is_some();
        let unreadable_time = matches!(time, fingerprint::Time::Unreadable(_));
        Record {
            offset,
            timestamp_ms: if let fingerprint::Time::Millis(millis) = time { Some(millis) } else { None },
            timestamp_type: raw.timestamp_type.and_then(string),
            key: frame.key,
            value: frame.value,
            fingerprint: frame.fingerprint,
            encoding: fingerprint::encoding(registry, unreadable_time, frame.key, frame.value),
            fault: fault(unreadable_time, &frame, headers.is_none()),
            headers: headers.unwrap_or_default(),
            key_schema,
            value_schema,
            text: raw.text,
        }
    }
}

/// The first part that can't be read, in the order in which they are looked at.
fn fault(time: bool, frame: &Frame<'_>, headers: bool) -> Option<RecordFault> {
    let unreadable = |payload: Option<Payload<'_>>| payload.is_some_and(|p| p.form == Form::Unreadable);
    let (part, rule) = if time {
        (FaultPart::Timestamp, NOT_MILLIS)
    } else if unreadable(frame.key) {
        (FaultPart::Key, NOT_BASE64)
    } else if unreadable(frame.value) {
        (FaultPart::Value, NOT_BASE64)
    } else if headers {
        (FaultPart::Headers, NOT_HEADERS)
    } else {
        return None;
    };
    Some(RecordFault { part, rule })
}

/// Bytes that a record's frame may take: decoding base64 only shortens.
fn frame_room(raw: &RawRecord<'_>) -> usize {
    let length = |text: Option<&str>| text.map_or(0, str::len);
    FRAME_OVERHEAD.min(raw.text.len()) + length(raw.timestamp) + length(raw.key) + length(raw.value)
}

/// A record's frame in the buffer, and the payloads in it.
struct Frame<'a> {
    key: Option<Payload<'a>>,
    value: Option<Payload<'a>>,
    fingerprint: icefall_manifest::Fingerprint,
}

impl<'a> Frame<'a> {
    fn lay_out(bytes: &'a mut [u8], time: fingerprint::Time<'_>, raw: &RawRecord<'_>) -> Self {
        let mut out = Out { bytes, at: 0 };
        out.time(time);
        let key = raw.key.map(|text| out.payload(text));
        if key.is_none() {
            out.put(&[0]);
        }
        let value = raw.value.map(|text| out.payload(text));
        if value.is_none() {
            out.put(&[0]);
        }
        let bytes: &'a [u8] = out.bytes;
        let frame = bytes.get(..out.at).unwrap_or_default();
        let slice = |(form, from, to)| Payload { form, bytes: frame.get(from..to).unwrap_or_default() };
        Self { key: key.map(slice), value: value.map(slice), fingerprint: fingerprint::of_frame(frame) }
    }
}

/// Writes a frame's parts one after the other.
struct Out<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    fn put(&mut self, part: &[u8]) {
        let end = self.at + part.len();
        if let Some(room) = self.bytes.get_mut(self.at..end) {
            room.copy_from_slice(part);
            self.at = end;
        }
    }

    fn time(&mut self, time: fingerprint::Time<'_>) {
        match time {
            fingerprint::Time::None => self.put(&[0]),
            fingerprint::Time::Millis(millis) => {
                self.put(&[1]);
                self.put(&millis.to_le_bytes());
            }
            fingerprint::Time::Unreadable(text) => {
                self.put(&[2]);
                self.put(&(text.len() as u64).to_le_bytes());
                self.put(text.as_bytes());
            }
        }
    }

    /// Writes the payload that `text` is and says where its bytes stand.
    fn payload(&mut self, text: &str) -> (Form, usize, usize) {
        let head = self.at;
        self.put(&[0; 9]);
        let start = self.at;
        let form = self.payload_bytes(text);
        let end = self.at;
        self.at = head;
        self.put(&[form_byte(form)]);
        self.put(&((end - start) as u64).to_le_bytes());
        self.at = end;
        (form, start, end)
    }

    fn payload_bytes(&mut self, text: &str) -> Form {
        let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            self.put(text.as_bytes());
            return Form::Json;
        };
        if self.decode(inner.as_bytes())
            || unescaped(inner, text).is_some_and(|inner| self.decode(inner.as_bytes()))
        {
            return Form::Bytes;
        }
        self.put(inner.as_bytes());
        Form::Unreadable
    }

    /// Decodes strict base64 to where the frame ends; false: it is none.
    fn decode(&mut self, text: &[u8]) -> bool {
        let Some(room) = self.bytes.get_mut(self.at..) else { return false };
        match STANDARD.decode(text, room.as_out()) {
            Ok(decoded) => {
                self.at += decoded.len();
                true
            }
            Err(_) => false,
        }
    }
}

/// The string with its escapes resolved: some encoders write `/`, a base64 digit, as `\/`.
fn unescaped<'a>(inner: &str, text: &'a str) -> Option<Cow<'a, str>> {
    if inner.contains('\\') { string(text) } else { None }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A timestamp's text. Some encoders write whole numbers with a fraction of zero.
fn time(text: &str) -> fingerprint::Time<'_> {
    match integer(text).or_else(|| whole(text)) {
        Some(-1) => fingerprint::Time::None,
        Some(millis) => fingerprint::Time::Millis(millis),
        None => fingerprint::Time::Unreadable(text),
    }
}

/// The whole number that a JSON number with fraction or exponent is, where doubles hold it exactly.
fn whole(text: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number: f64 = text.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

/// The metadata with whatever of it can be read.
fn schema(text: &str) -> SchemaMetadata<'_> {
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| match fields.get(name) {
        Some(serde_json::Value::String(text)) => Some(Cow::Owned(text.clone())),
        Some(serde_json::Value::Number(number)) => Some(Cow::Owned(number.to_string())),
        _ => None,
    };
    SchemaMetadata { data_format: field("dataFormat"), schema_id: field("schemaId"), text }
}

fn unplaced(index: usize, field: &'static str, found: Option<&str>) -> EventError {
    let found = found.map_or_else(|| "nothing".to_owned(), |text| text.chars().take(80).collect());
    EventError::Unplaced { index, field, found }
}
