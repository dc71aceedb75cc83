//! Schemas and values out of a tape of bytes: a shorter or lower tape means a simpler case, which is
//! what failures shrink to.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iceberg::spec::{
    ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Type,
};

/// Random bytes, zeros after their end.
pub(super) struct Tape {
    bytes: std::vec::IntoIter<u8>,
    /// The last field id given.
    id: i32,
}

impl Tape {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into_iter(), id: 0 }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or_default()
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    /// True once in `times`; never at the end of the tape.
    fn once_in(&mut self, times: u8) -> bool {
        self.byte() % times == times - 1
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::from(self.byte()) % choices.len()]
    }

    fn id(&mut self) -> i32 {
        self.id += 1;
        self.id
    }
}

const NAMES: [&str; 6] = ["a", "key", "naïve", "q\"\\", "\u{1}", ""];

pub(super) fn schema(tape: &mut Tape) -> Schema {
    let fields = fields(tape, 3).into_iter();
    Schema::builder().with_fields(fields).build().expect("a schema")
}

fn fields(tape: &mut Tape, depth: u8) -> Vec<NestedFieldRef> {
    let count = 1 + usize::from(tape.below(4));
    let fields = NAMES.iter().take(count).map(|name| {
        let (id, required) = (tape.id(), tape.once_in(3));
        Arc::new(NestedField::new(id, *name, r#type(tape, depth), required))
    });
    fields.collect()
}

fn r#type(tape: &mut Tape, depth: u8) -> Type {
    match tape.below(20) {
        17 if depth > 0 => Type::Struct(StructType::new(fields(tape, depth - 1))),
        18 if depth > 0 => {
            let (id, required) = (tape.id(), tape.once_in(2));
            Type::List(ListType::new(NestedField::list_element(id, r#type(tape, depth - 1), required).into()))
        }
        19 if depth > 0 => {
            let (key, value, required) = (tape.id(), tape.id(), tape.once_in(2));
            let text = tape.once_in(2);
            let key_type = if text { PrimitiveType::String } else { primitive(tape) };
            let key = NestedField::map_key_element(key, Type::Primitive(key_type));
            let value = NestedField::map_value_element(value, r#type(tape, depth - 1), required);
            Type::Map(MapType::new(key.into(), value.into()))
        }
        _ => Type::Primitive(primitive(tape)),
    }
}

fn primitive(tape: &mut Tape) -> PrimitiveType {
    match tape.below(17) {
        0 => PrimitiveType::Int,
        1 => PrimitiveType::Long,
        2 => PrimitiveType::Float,
        3 => PrimitiveType::Double,
        4 => {
            let precision = 1 + u32::from(tape.below(38));
            PrimitiveType::Decimal { precision, scale: u32::from(tape.byte()) % (precision + 1) }
        }
        5 => PrimitiveType::Date,
        6 => PrimitiveType::Time,
        7 => PrimitiveType::Timestamp,
        8 => PrimitiveType::Timestamptz,
        9 => PrimitiveType::TimestampNs,
        10 => PrimitiveType::TimestamptzNs,
        11 => PrimitiveType::Uuid,
        12 => PrimitiveType::Fixed(1 + u64::from(tape.below(4))),
        13 => PrimitiveType::Binary,
        14 => PrimitiveType::Boolean,
        _ => PrimitiveType::String,
    }
}

/// A value for the schema, whole or, now and then, with a byte changed or its end cut off.
pub(super) fn row(tape: &mut Tape, schema: &Schema) -> Vec<u8> {
    let mut text = String::new();
    object(tape, schema.as_struct(), &mut text);
    let mut bytes = text.into_bytes();
    match tape.below(24) {
        22 => bytes.truncate(usize::from(tape.byte())),
        23 => {
            let at = usize::from(tape.byte()) % bytes.len();
            bytes[at] = tape.byte();
        }
        _ => {}
    }
    bytes
}

fn space(tape: &mut Tape, out: &mut String) {
    out.push_str(tape.pick(&["", "", "", " ", "\n\t\r "]));
}

fn object(tape: &mut Tape, fields: &StructType, out: &mut String) {
    let mut members = Vec::new();
    for field in fields.fields() {
        let times = if field.required { 60 } else { 5 };
        if !tape.once_in(times) {
            members.push(member(tape, &field.name, |tape, out| value(tape, &field.field_type, out)));
        }
    }
    if tape.once_in(6) {
        let name = tape.pick(&["new", "a", "other"]);
        members.push(member(tape, name, wild));
    }
    if !members.is_empty() {
        let first = usize::from(tape.byte()) % members.len();
        members.rotate_left(first);
    }
    let _ = write!(out, "{{{}}}", members.join(","));
    space(tape, out);
}

fn member(tape: &mut Tape, name: &str, value: impl FnOnce(&mut Tape, &mut String)) -> String {
    let mut out = String::new();
    space(tape, &mut out);
    quoted(tape, name, &mut out);
    space(tape, &mut out);
    out.push(':');
    value(tape, &mut out);
    out
}

/// The text as JSON; now and then with escapes that it does not need.
fn quoted(tape: &mut Tape, text: &str, out: &mut String) {
    if !tape.once_in(4) {
        out.push_str(&serde_json::to_string(text).expect("a string"));
        return;
    }
    out.push('"');
    text.encode_utf16().for_each(|unit| {
        let _ = write!(out, "\\u{unit:04x}");
    });
    out.push('"');
}

fn value(tape: &mut Tape, of: &Type, out: &mut String) {
    space(tape, out);
    match (tape.below(40), of) {
        (38, _) => out.push_str("null"),
        (39, _) => wild(tape, out),
        (_, Type::Primitive(primitive)) => scalar(tape, primitive, out),
        (_, Type::Struct(fields)) => object(tape, fields, out),
        (_, Type::List(list)) => {
            elements(tape, out, ('[', ']'), |tape, out| value(tape, &list.element_field.field_type, out));
        }
        (_, Type::Map(map)) => entries(tape, map, out),
    }
    space(tape, out);
}

fn entries(tape: &mut Tape, map: &MapType, out: &mut String) {
    if map.key_field.field_type.to_string() == "string" {
        elements(tape, out, ('{', '}'), |tape, out| {
            text(tape, out);
            out.push(':');
            value(tape, &map.value_field.field_type, out);
        });
        return;
    }
    let fields = StructType::new(vec![Arc::clone(&map.key_field), Arc::clone(&map.value_field)]);
    elements(tape, out, ('[', ']'), |tape, out| object(tape, &fields, out));
}

fn elements(
    tape: &mut Tape,
    out: &mut String,
    (open, close): (char, char),
    mut element: impl FnMut(&mut Tape, &mut String),
) {
    out.push(open);
    for index in 0..tape.below(4) {
        if index > 0 {
            out.push(',');
        }
        element(tape, out);
    }
    out.push(close);
}

/// Any JSON, most of it wrong where it stands.
fn wild(tape: &mut Tape, out: &mut String) {
    let any =
        ["0", "\"\"", "true", "[]", "{}", "{\"a\":[1,{\"b\":null}]}", "1e999", "\"\\ud800\"", "-", "[1,]"];
    out.push_str(tape.pick(&any));
}

fn scalar(tape: &mut Tape, primitive: &PrimitiveType, out: &mut String) {
    match primitive {
        PrimitiveType::Boolean => out.push_str(tape.pick(&["true", "false"])),
        PrimitiveType::String => text(tape, out),
        PrimitiveType::Int | PrimitiveType::Long | PrimitiveType::Float | PrimitiveType::Double => {
            out.push_str(&number(tape));
        }
        PrimitiveType::Decimal { .. } => {
            let quote = if tape.once_in(2) { "\"" } else { "" };
            let _ = write!(out, "{quote}{}{quote}", number(tape));
        }
        PrimitiveType::Uuid => {
            let bytes = [0; 4].map(|_| u32::from_le_bytes([0; 4].map(|_: u8| tape.byte())));
            let hex = bytes.map(|word| format!("{word:08x}")).concat();
            let dash = tape.pick(&["-", "-", "-", "-", ""]);
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            let _ = write!(out, "\"{}\"", parts.join(dash));
        }
        PrimitiveType::Fixed(width) => base64(tape, u8::try_from(*width).expect("small"), out),
        PrimitiveType::Binary => {
            let length = tape.below(6);
            base64(tape, length, out);
        }
        time => {
            let _ = write!(out, "\"{}\"", moment(tape, time));
        }
    }
}

fn number(tape: &mut Tape) -> String {
    const EDGES: [&str; 20] = [
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-0",
        "1.5",
        "1e400",
        "1e-400",
        "3.4028236e38",
        "0.1",
        "1E+2",
        "0e99",
        "1.005",
        "99999999999999999999999999999999999999",
        "1e-45",
        "100000000000000000000000000000000000000",
        "7e-46",
    ];
    if tape.once_in(4) {
        return tape.pick(&EDGES).to_owned();
    }
    let sign = tape.pick(&["", "", "-"]);
    let mut text = format!("{sign}{}", tape.below(120));
    if tape.once_in(3) {
        let _ = write!(text, ".{}", tape.pick(&["0", "50", "25", "000"]));
    }
    if tape.once_in(4) {
        let _ = write!(text, "e{}", tape.pick(&["0", "1", "+3", "-1", "12", "00"]));
    }
    text
}

fn text(tape: &mut Tape, out: &mut String) {
    let mut text = String::new();
    for _ in 0..tape.below(4) {
        text.push_str(tape.pick(&[
            "x",
            "yz",
            "\"",
            "\\",
            "\n",
            "é",
            "😀",
            "\u{0}",
            "a longer piece of text",
            "/",
        ]));
    }
    quoted(tape, &text, out);
}

fn base64(tape: &mut Tape, length: u8, out: &mut String) {
    let bytes: Vec<u8> = (0..length).map(|_| tape.byte()).collect();
    let encoded = STANDARD.encode(bytes);
    let encoded = if tape.once_in(12) { encoded.replace('=', "") } else { encoded };
    let _ = write!(out, "\"{encoded}\"");
}

fn moment(tape: &mut Tape, of: &PrimitiveType) -> String {
    let date = date(tape);
    let clock = clock(tape);
    let separator = tape.pick(&["T", "T", "T", " ", "T", "T", "t"]);
    let zones = ["Z", "+05:30", "-0800", "+00:00", "-18:00", "+18:01", "", "+5"];
    let zone = zones[usize::from(tape.below(6) + tape.below(3))];
    match of {
        PrimitiveType::Date => date,
        PrimitiveType::Time => clock,
        _ if tape.once_in(8) => date,
        PrimitiveType::Timestamp | PrimitiveType::TimestampNs => format!("{date}{separator}{clock}"),
        _ => format!("{date}{separator}{clock}{zone}"),
    }
}

fn date(tape: &mut Tape) -> String {
    let years = ["1970", "2024", "1969", "1900", "2000", "2023", "1677", "2262", "9999", "0001"];
    let (month, day) = (1 + tape.below(12), 1 + tape.below(29));
    if tape.once_in(20) {
        return tape.pick(&["0000-01-01", "2023-02-29", "2024-2-1", "10000-01-01", "2024-13-01"]).to_owned();
    }
    format!("{}-{month:02}-{day:02}", tape.pick(&years))
}

fn clock(tape: &mut Tape) -> String {
    let (hour, minute, second) = (tape.below(24), tape.below(60), tape.below(60));
    if tape.once_in(24) {
        return tape.pick(&["24:00", "23:59:60", "1:00", "12:00:00.", "12", "12:60", "12:00.5"]).to_owned();
    }
    if tape.once_in(4) {
        return format!("{hour:02}:{minute:02}");
    }
    let fractions = ["", "", ".5", ".123456", ".123456000", ".123456789", ".1234567891", ".0000000000"];
    format!("{hour:02}:{minute:02}:{second:02}{}", tape.pick(&fractions))
}
