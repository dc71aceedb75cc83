//! Records and what is to become of them: said by whoever made them, and never read off Icefall's own decoder.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::rng::Rng;
use crate::world::SettingsText;

/// A record's number: its row's `id`, part of its key, and its place among all records.
pub(crate) type RecordNo = usize;

/// Timestamps begin here and are a record's number apart, so that each is some record's alone.
pub(crate) const FIRST_TIMESTAMP: i64 = 1_600_000_000_000;

/// What a row must hold besides its record's number and place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Values {
    pub(crate) n: Option<i64>,
    pub(crate) s: Option<String>,
    pub(crate) q: Option<i64>,
    pub(crate) extra: Option<String>,
}

/// What a record must become.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// A row.
    Row,
    /// A dead letter of this class.
    Letter(&'static str),
    /// A row once column `q` is a long; before that a dead letter.
    RowOnceWide,
    /// A tombstone: what its route says.
    Tombstone,
}

/// A record as it stands in Kafka.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) no: RecordNo,
    pub(crate) topic: usize,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) produced_ms: u64,
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    /// `None` is a tombstone; what can't be read as base64 is here as the text that is delivered.
    pub(crate) value: Option<Vec<u8>>,
    readable: bool,
    pub(crate) header: Option<Vec<u8>>,
    pub(crate) fate: Fate,
    pub(crate) values: Values,
    /// The settings under which a writer was last given it, if any ever was.
    pub(crate) attempted: Option<SettingsText>,
    /// A writer has answered for it.
    pub(crate) acknowledged: bool,
}

/// Where a record is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) topic: usize,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) now_ms: u64,
}

impl Record {
    /// A record of some kind.
    pub(crate) fn generate(rng: &Rng, no: RecordNo, place: Place) -> Self {
        let mut record = Self {
            no,
            topic: place.topic,
            partition: place.partition,
            offset: place.offset,
            produced_ms: place.now_ms,
            timestamp: Some(FIRST_TIMESTAMP + i64::try_from(no).unwrap_or_default()),
            key: rng.chance(700).then(|| format!("k{no}").into_bytes()),
            value: None,
            readable: true,
            header: rng.chance(300).then(|| vec![0, 200, u8::try_from(rng.within(0..128)).unwrap_or(1)]),
            fate: Fate::Row,
            values: Values::default(),
            attempted: None,
            acknowledged: false,
        };
        match rng.within(0..100) {
            0..74 => record.make_good(rng),
            74..80 => record.make_big(rng),
            80..86 => record.fate = Fate::Tombstone,
            _ => record.make_bad(rng),
        }
        record
    }

    fn make_good(&mut self, rng: &Rng) {
        let texts =
            ["", "a", "ärger", "😀 and\nmore", "\\\"quoted\\\"", "0123456789012345678901234567890123456789"];
        self.values = Values {
            n: rng.chance(800).then(|| rng.bits().cast_signed()),
            s: rng.chance(800).then(|| rng.pick(&texts).map_or_else(String::new, |text| (*text).to_owned())),
            q: rng.chance(500).then(|| rng.within(0..1 << 31).cast_signed()),
            extra: rng.chance(300).then(|| format!("x{}", rng.within(0..9))),
        };
        self.value = Some(self.json().into_bytes());
    }

    fn make_big(&mut self, rng: &Rng) {
        self.values.q = Some((1 << 31) + rng.within(0..1 << 40).cast_signed());
        self.value = Some(self.json().into_bytes());
        self.fate = Fate::RowOnceWide;
    }

    fn make_bad(&mut self, rng: &Rng) {
        let Self { no, partition, offset, .. } = *self;
        let placed = format!(r#""id":{no},"p":{partition},"o":{offset}"#);
        let text = |text: String| (text.into_bytes(), true);
        let (class, (value, readable)) = match rng.within(0..9) {
            0 => ("malformed-json", text(format!("{{{placed}"))),
            1 => ("not-an-object", text(format!("[{no}]"))),
            2 => ("missing-required", text(format!(r#"{{"id":{no},"p":{partition}}}"#))),
            3 => ("missing-required", text(format!(r#"{{"id":{no},"p":{partition},"o":null}}"#))),
            4 => ("wrong-type", text(format!(r#"{{{placed},"n":"{no}"}}"#))),
            5 => ("out-of-range", text(format!(r#"{{{placed},"n":9223372036854775808}}"#))),
            6 => ("duplicate-field", text(format!(r#"{{{placed},"o":{offset}}}"#))),
            7 => ("invalid-utf8", ([format!(r#"{{{placed},"s":""#).as_bytes(), b"\xff\"}"].concat(), true)),
            _ => ("unreadable-value", (format!("@{no}").into_bytes(), false)),
        };
        (self.value, self.readable, self.fate) = (Some(value), readable, Fate::Letter(class));
    }

    fn json(&self) -> String {
        let Self { no, partition, offset, values, .. } = self;
        let mut text = format!(r#"{{"id":{no},"p":{partition},"o":{offset}"#);
        // Writing to a string can't fail.
        let _ = match values.n {
            Some(n) => write!(text, r#","n":{n}"#),
            None => write!(text, r#","n":null"#),
        };
        for (name, value) in [("s", &values.s), ("extra", &values.extra)] {
            if let Some(value) = value {
                let _ = write!(text, r#","{name}":{}"#, serde_json::Value::from(value.as_str()));
            }
        }
        if let Some(q) = values.q {
            let _ = write!(text, r#","q":{q}"#);
        }
        text.push('}');
        text
    }

    /// The record as the event source mapping delivers it, by way of a schema registry or not.
    pub(crate) fn event_json(&self, topic: &str, registry: bool) -> String {
        let quoted = |bytes: &Option<Vec<u8>>| {
            bytes
                .as_ref()
                .map_or_else(|| "null".to_owned(), |bytes| format!("\"{}\"", STANDARD.encode(bytes)))
        };
        let value = match &self.value {
            Some(text) if !self.readable => format!("\"{}\"", String::from_utf8_lossy(text)),
            value => quoted(value),
        };
        let header = self.header.as_ref().map_or_else(String::new, |bytes| {
            let signed: Vec<_> = bytes.iter().map(|byte| byte.cast_signed().to_string()).collect();
            format!(r#"{{"h":[{}]}}"#, signed.join(","))
        });
        let schema = if registry && self.value.is_some() {
            r#","valueSchemaMetadata":{"dataFormat":"JSON","schemaId":"1"}"#
        } else {
            ""
        };
        let Self { partition, offset, .. } = self;
        let timestamp = self.timestamp.unwrap_or(-1);
        format!(
            r#"{{"topic":"{topic}","partition":{partition},"offset":{offset},"timestamp":{timestamp},"timestampType":"CREATE_TIME","key":{},"value":{value},"headers":[{header}]{schema}}}"#,
            quoted(&self.key)
        )
    }

    /// The record that has this timestamp.
    pub(crate) fn no_of_timestamp(timestamp_ms: i64) -> Option<RecordNo> {
        usize::try_from(timestamp_ms - FIRST_TIMESTAMP).ok()
    }
}
