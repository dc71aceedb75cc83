//! Partitionings: columns of few values, so that a partition holds several rows and a null one is among them, and
//! specs that put every transform on every type that it takes.
//!
//! A reader that is asked for a value computes that value's partition by itself and reads only there: if ours had
//! another value, it would find nothing.

use serde_json::{Value, json};

use super::columns::{Cell, Column, column};

/// The column that no partitioning is of, by which rows are told apart.
pub(crate) const ROW: Column = column("row", "int", |n| Cell::same(json!(n)));

const ALL: [Column; 14] = [
    ROW,
    column("flag", "boolean", |n| one_of(n, &[json!(true), json!(false)])),
    column("number", "int", |n| one_of(n, &[json!(-11), json!(0), json!(34)])),
    column("big", "long", |n| one_of(n, &[json!(-3_000_000_001_i64), json!(34)])),
    column("money", "decimal(9,2)", |n| one_of(n, &[json!("-14.20"), json!("10.65")])),
    column("day", "date", |n| one_of(n, &[json!("1969-12-31"), json!("2017-11-16")])),
    column("clock", "time", |n| one_of(n, &[json!("22:31:08.000000"), json!("00:00:00.000001")])),
    column("local", "timestamp", |n| {
        one_of(n, &[json!("1969-12-31T23:59:59.999999"), json!("2017-11-16T22:31:08.000000")])
    }),
    column("at", "timestamptz", |n| {
        one_of(n, &[json!("1968-02-29T01:00:00.000001+00:00"), json!("2017-11-16T22:31:08.000000+00:00")])
    }),
    column("later", "timestamptz", |n| {
        one_of(n, &[json!("2017-11-16T22:31:08.000000+00:00"), json!("2026-03-01T00:00:00.000001+00:00")])
    }),
    column("name", "string", |n| one_of(n, &[json!("iceberg"), json!("Oslo"), json!("x")])),
    column("id", "uuid", |n| {
        let ids = ["f79c3e09-677c-4bbd-a479-3f349cb785e7", "00000000-0000-4000-8000-0123456789ab"];
        one_of(n, &ids.map(Value::from))
    }),
    column("code", "fixed(4)", |n| bytes(n, &[&[0, 1, 2, 3], &[0xff; 4]])),
    column("blob", "binary", |n| bytes(n, &[&[0, 1, 2, 3], &[0xfe]])),
];

/// A text whose folder must be encoded.
const CITY: Column = column("city", "string", |n| one_of(n, &[json!("New York/ü=%"), json!("Rome")]));

/// DuckDB 1.5.5 truncates decimals as unsigned numbers, and ends in an internal error where one is below zero; asked
/// for a uuid that is in buckets, or for a time before 1970, it finds nothing. The other readers find what they ask for.
pub(crate) const NOT_FOR_DUCKDB: [&str; 5] = [
    r#""truncate(50, money)""#,
    r#""bucket(8, id)""#,
    r#""year(day)", "month(local)", "day(at)""#,
    r#""month(day)", "day(local)", "hour(at)""#,
    r#""day(day)", "hour(local)", "year(at)", "void(name)""#,
];

/// What both catalogs' stores take.
pub(crate) const PARTITIONINGS: [&str; 5] = [
    r#""flag", "number", "money", "day", "name""#,
    r#""truncate(10, number)", "truncate(100, big)", "truncate(2, name)""#,
    r#""bucket(4, number)", "bucket(5, big)", "bucket(6, money)", "bucket(7, day)", "bucket(16, code)""#,
    r#""bucket(4, clock)", "bucket(5, local)", "bucket(6, at)", "bucket(7, name)", "bucket(9, blob)""#,
    r#""hour(later)", "void(name)""#,
];

/// Folders with percent signs, which SeaweedFS refuses in a table bucket and takes in an ordinary one.
pub(crate) const ENCODED: [&str; 2] =
    [r#""city", "clock""#, r#""truncate(5, city)", "big", "month(later)", "local""#];

/// The columns of those tables.
pub(crate) fn columns() -> Vec<Column> {
    ALL.into_iter().chain([CITY]).collect()
}

/// Every fifth is null.
fn one_of(n: i64, values: &[Value]) -> Cell {
    let n = usize::try_from(n).unwrap_or_default();
    let value = values.get(n % values.len()).filter(|_| n % 5 != 0);
    Cell::same(value.cloned().unwrap_or_default())
}

fn bytes(n: i64, values: &[&[u8]]) -> Cell {
    let n = usize::try_from(n).unwrap_or_default();
    match values.get(n % values.len()).filter(|_| n % 5 != 0) {
        Some(bytes) => Cell::bytes(bytes),
        None => Cell::same(Value::Null),
    }
}
