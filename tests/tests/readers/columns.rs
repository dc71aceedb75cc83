//! A column of each type, with a value for each row number: as a JSON record gives it, and as readers must find it.
//!
//! Values grow with the row's number, so row groups have ranges of their own, and pass through zero in the middle of
//! the file, where signs and byte orders show. Rows -1 and 300 are beyond the file's ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) data_type: &'static str,
    pub(crate) value: fn(i64) -> Cell,
}

/// One value, in both forms.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// As it stands in a record.
    pub(crate) written: Value,
    /// As it is asked for and found.
    pub(crate) read: Value,
}

impl Cell {
    pub(crate) fn same(value: Value) -> Self {
        Self { read: value.clone(), written: value }
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        Self { written: STANDARD.encode(bytes).into(), read: hex.into() }
    }
}

/// A column of that name and type.
pub(crate) const fn column(name: &'static str, data_type: &'static str, value: fn(i64) -> Cell) -> Column {
    Column { name, data_type, value }
}

/// Makes of small numbers some that 64 bits don't hold.
const WIDE: i128 = 1_000_000_000_000_000_000;

/// Every type that has bounds and that all readers know.
pub(crate) const COLUMNS: [Column; 14] = [
    column("a_int", "int", |n| Cell::same(json!((n - 150) * 10_000_000))),
    column("a_long", "long", |n| Cell::same(json!((n - 150) * 10_000_000_000_000))),
    column("a_float", "float", |n| Cell::same(json!(number(n) / 4.0))),
    column("a_double", "double", |n| Cell::same(json!(number(n) * 1e10 + 0.125))),
    column("a_decimal", "decimal(9,2)", |n| Cell::same(json!(decimal(i128::from(n) * 100 - 14_999, 2)))),
    column("a_wide_decimal", "decimal(38,3)", |n| {
        Cell::same(json!(decimal((i128::from(n) * 1_000 - 149_999) * WIDE, 3)))
    }),
    column("a_date", "date", |n| Cell::same(json!(date(n - 150)))),
    column("a_time", "time", |n| Cell::same(json!(format!("{}.{:06}", clock(n * 60 + 60), n + 1)))),
    column("a_timestamp", "timestamp", |n| Cell::same(json!(moment(n - 150, &micros(n))))),
    column("a_timestamptz", "timestamptz", |n| {
        Cell::same(json!(format!("{}+00:00", moment(n - 150, &micros(n)))))
    }),
    // The first 16 characters, which are what a bound keeps, are the same in all rows.
    column("a_string", "string", |n| Cell::same(json!(format!("{}{:04}", "ünïcödé-".repeat(3), n + 1)))),
    column("a_uuid", "uuid", |n| Cell::same(json!(uuid(n)))),
    column("a_fixed", "fixed(8)", |n| Cell::bytes(&((n + 1) << 55).to_be_bytes())),
    // As of the string; what follows the cut is rounded up through all the 0xff.
    column("a_binary", "binary", |n| {
        let last = i16::try_from(n + 1).unwrap_or_default().to_be_bytes();
        Cell::bytes(&[&[0xfe][..], &[0xff; 16], &last].concat())
    }),
];

/// Types that hold others, and the one that has but two values.
pub(crate) const NESTED: [Column; 4] = [
    column("a_boolean", "boolean", |n| Cell::same(json!(n % 2 == 0))),
    column("a_list", "list<long?>", |n| Cell::same(json!([n, null, -n]))),
    column("a_struct", "struct<x: int, y?: struct<z: string>>", |n| {
        Cell::same(json!({ "x": n, "y": { "z": format!("z{n}") } }))
    }),
    column("a_map", "map<string, double?>", |n| Cell {
        written: json!({ "n": number(n), "one": 1.5, "two": null }),
        read: json!([["n", number(n)], ["one", 1.5], ["two", null]]),
    }),
];

/// The row's number as a float, zero in the middle of the file.
fn number(n: i64) -> f64 {
    f64::from(i32::try_from(n - 150).unwrap_or_default())
}

fn decimal(unscaled: i128, scale: u32) -> String {
    let unit = 10_i128.pow(scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    let (whole, rest) = (unscaled.abs() / unit, unscaled.abs() % unit);
    format!("{sign}{whole}.{rest:0width$}", width = scale as usize)
}

/// A date by its days since 1970-01-01, within the year before and after.
fn date(days: i64) -> String {
    let (year, mut day) = if days < 0 { (1969, days + 365) } else { (1970, days) };
    let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Noon and some of a day near 1970.
fn moment(days: i64, fraction: &str) -> String {
    format!("{}T12:34:56.{fraction}", date(days))
}

fn micros(n: i64) -> String {
    format!("{:06}", 999_000 + n + 1)
}

/// Its first byte goes through 0x7f and 0x80, where a signed comparison would turn.
fn uuid(n: i64) -> String {
    format!("{:08x}-0000-4000-8000-0123456789ab", (n + 1) * 0x00d0_0000)
}
