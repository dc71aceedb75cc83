//! Names of partitions in files' paths, as Iceberg's own writers give them.
//!
//! Readers take partition values from manifests, never from paths; what is left is that people and tools
//! that list a table's folders find what they know: `name=value`, both URL-encoded, days as dates, hours as
//! dates with an hour, binaries as base64, numbers as Java writes them. Moments are not left to the `iceberg`
//! library, which panics at fractions of a second before 1970.

use std::fmt::Write;

use arrow::temporal_conversions::{timestamp_ns_to_datetime, timestamp_us_to_datetime};
use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType, Transform};
use icefall_manifest::SingleValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

/// The longest that a partition's folders may be. Object stores take keys of 1024 bytes, of which location
/// and file name need their share, and a value that can't be stored would stop its topic for ever.
const MAX_BYTES: usize = 500;

/// What `application/x-www-form-urlencoded` leaves as it is; blanks become `+`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'*').remove(b'_');

/// `name=value` as one path segment.
pub(crate) fn segment(name: &str, value: &str) -> String {
    format!("{}={}", encoded(name), encoded(value))
}

/// The folders of `segments`, the end replaced by a checksum where they are too long for a key.
pub(crate) fn joined(segments: &[String]) -> String {
    let path = segments.join("/");
    if path.len() <= MAX_BYTES {
        return path;
    }
    let mut end = MAX_BYTES - "-00000000".len();
    // Not within an escape.
    while path.as_bytes().iter().take(end).rev().take(2).any(|byte| *byte == b'%') {
        end -= 1;
    }
    let head: String = path.chars().take(end).collect();
    format!("{}-{:08x}", head.trim_end_matches('/'), checksum(&path))
}

/// The text of a partition's value that `transform` made.
pub(crate) fn shown(transform: Transform, kind: &PrimitiveType, value: Option<&SingleValue>) -> String {
    let datum = value.and_then(|value| Datum::try_from_bytes(&value.0, kind.clone()).ok());
    let Some(datum) = datum else { return "null".to_owned() };
    match (transform, datum.literal()) {
        (Transform::Void, _) => "null".to_owned(),
        (Transform::Year, PrimitiveLiteral::Int(years)) => format!("{:04}", i64::from(*years) + 1970),
        (Transform::Month, PrimitiveLiteral::Int(months)) => {
            let (years, month) = (i64::from(*months).div_euclid(12), i64::from(*months).rem_euclid(12));
            format!("{:04}-{:02}", years + 1970, month + 1)
        }
        (Transform::Hour, PrimitiveLiteral::Int(hours)) => {
            format!("{}-{:02}", day(hours.div_euclid(24)), hours.rem_euclid(24))
        }
        (_, literal) => plain(kind, literal),
    }
}

/// A value as it is, by its type.
fn plain(kind: &PrimitiveType, literal: &PrimitiveLiteral) -> String {
    match (literal, kind) {
        (PrimitiveLiteral::Int(days), PrimitiveType::Date) => day(*days),
        (PrimitiveLiteral::Long(micros), PrimitiveType::Time) => time_of_day(*micros),
        (PrimitiveLiteral::Long(micros), PrimitiveType::Timestamp) => {
            moment(timestamp_us_to_datetime(*micros), *micros, "")
        }
        (PrimitiveLiteral::Long(micros), PrimitiveType::Timestamptz) => {
            moment(timestamp_us_to_datetime(*micros), *micros, "Z")
        }
        (PrimitiveLiteral::Long(nanos), PrimitiveType::TimestampNs) => {
            moment(timestamp_ns_to_datetime(*nanos), *nanos, "")
        }
        (PrimitiveLiteral::Long(nanos), PrimitiveType::TimestamptzNs) => {
            moment(timestamp_ns_to_datetime(*nanos), *nanos, "Z")
        }
        (PrimitiveLiteral::Int128(unscaled), PrimitiveType::Decimal { scale, .. }) => {
            decimal(*unscaled, *scale)
        }
        (PrimitiveLiteral::UInt128(uuid), _) => Uuid::from_u128(*uuid).to_string(),
        (PrimitiveLiteral::Binary(bytes), _) => base64_simd::STANDARD.encode_to_string(bytes),
        (PrimitiveLiteral::Boolean(truth), _) => truth.to_string(),
        (PrimitiveLiteral::Int(number), _) => number.to_string(),
        (PrimitiveLiteral::Long(number), _) => number.to_string(),
        (PrimitiveLiteral::Float(number), _) => {
            java_float(number.0.into(), &format!("{:?}", number.0), &format!("{:E}", number.0))
        }
        (PrimitiveLiteral::Double(number), _) => {
            java_float(number.0, &format!("{:?}", number.0), &format!("{:E}", number.0))
        }
        (PrimitiveLiteral::String(text), _) => text.clone(),
        _ => "null".to_owned(),
    }
}

/// A date as `2024-05-01`; one that no calendar reaches as its number of days.
fn day(days: i32) -> String {
    let date = days.checked_add(719_163).and_then(NaiveDate::from_num_days_from_ce_opt);
    date.map_or_else(
        || days.to_string(),
        |date| format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day()),
    )
}

/// A moment as `2024-05-01T10:20:30.5`; one that no calendar reaches as its number.
fn moment(time: Option<NaiveDateTime>, number: i64, zone: &str) -> String {
    let Some(moment) = time else { return number.to_string() };
    let sign = if moment.year() > 9999 { "+" } else { "" };
    let year =
        if moment.year() < 0 { format!("-{:04}", -moment.year()) } else { format!("{:04}", moment.year()) };
    format!("{sign}{year}-{:02}-{:02}T{}{zone}", moment.month(), moment.day(), clock(moment.time()))
}

fn time_of_day(micros: i64) -> String {
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).ok();
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).ok();
    let time = seconds
        .zip(nanos)
        .and_then(|(seconds, nanos)| NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos));
    time.map_or_else(|| micros.to_string(), clock)
}

/// A time with no more parts than it has: seconds and thousands of them only where they are not zero.
fn clock(time: NaiveTime) -> String {
    let mut text = format!("{:02}:{:02}", time.hour(), time.minute());
    let (second, nanos) = (time.second(), time.nanosecond());
    if second > 0 || nanos > 0 {
        let _ = write!(text, ":{second:02}");
    }
    let _ = match nanos {
        0 => Ok(()),
        nanos if nanos % 1_000_000 == 0 => write!(text, ".{:03}", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => write!(text, ".{:06}", nanos / 1_000),
        nanos => write!(text, ".{nanos:09}"),
    };
    text
}

/// A decimal as Java's `BigDecimal` shows it: plain, unless more than six zeros follow the point.
fn decimal(unscaled: i128, scale: u32) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = unscaled.unsigned_abs().to_string();
    let scale = usize::try_from(scale).unwrap_or(0);
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let below_one = scale + 1 - digits.len().min(scale + 1);
    if below_one > 6 {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}E-{below_one}");
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// A floating-point number as Java shows it: `plain` from a thousandth to ten millions, else `scientific`.
fn java_float(number: f64, plain: &str, scientific: &str) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 || (1e-3..1e7).contains(&number.abs()) {
        return plain.to_owned();
    }
    match scientific.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => scientific.to_owned(),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string().replace("%20", "+")
}

/// FNV-1a, 32 bits.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(kind: &PrimitiveType, value: &[u8]) -> String {
        shown(Transform::Identity, kind, Some(&SingleValue(value.to_vec())))
    }

    fn period(transform: Transform, number: i32) -> String {
        let kind = if transform == Transform::Day { PrimitiveType::Date } else { PrimitiveType::Int };
        shown(transform, &kind, Some(&SingleValue(number.to_le_bytes().to_vec())))
    }

    #[test]
    fn periods_are_shown_as_dates_also_before_the_epoch() {
        for (transform, number, text) in [
            (Transform::Year, 0, "1970"),
            (Transform::Year, -1, "1969"),
            (Transform::Year, -1970, "0000"),
            (Transform::Month, 0, "1970-01"),
            (Transform::Month, -1, "1969-12"),
            (Transform::Month, 652, "2024-05"),
            (Transform::Day, 19_844, "2024-05-01"),
            (Transform::Day, -1, "1969-12-31"),
            (Transform::Hour, 476_266, "2024-05-01-10"),
            (Transform::Hour, 0, "1970-01-01-00"),
            (Transform::Hour, -1, "1969-12-31-23"),
        ] {
            assert_eq!(period(transform, number), text, "{transform} {number}");
        }
        for transform in [Transform::Year, Transform::Month, Transform::Day, Transform::Hour] {
            assert!(!period(transform, i32::MIN).is_empty() && !period(transform, i32::MAX).is_empty());
        }
    }

    #[test]
    fn values_are_shown_as_java_shows_them() {
        let micros = |micros: i64| micros.to_le_bytes();
        let stamp = PrimitiveType::Timestamptz;
        assert_eq!(identity(&stamp, &micros(-1)), "1969-12-31T23:59:59.999999Z");
        assert_eq!(identity(&stamp, &micros(1_714_558_800_000_000)), "2024-05-01T10:20Z");
        assert_eq!(identity(&stamp, &micros(1_714_558_830_500_000)), "2024-05-01T10:20:30.500Z");
        assert_eq!(identity(&PrimitiveType::Timestamp, &micros(0)), "1970-01-01T00:00");
        assert_eq!(identity(&PrimitiveType::TimestampNs, &micros(-1)), "1969-12-31T23:59:59.999999999");
        assert_eq!(identity(&PrimitiveType::Time, &micros(36_000_000_000)), "10:00");
        assert_eq!(identity(&PrimitiveType::Date, &(-1_i32).to_le_bytes()), "1969-12-31");
        assert_eq!(identity(&PrimitiveType::Binary, &[0xfb, 0xff, 0]), "+/8A");
        assert_eq!(identity(&PrimitiveType::Boolean, &[1]), "true");
        let uuid =
            [0xf7, 0x9c, 0x3e, 0x09, 0x67, 0x7c, 0x4b, 0xbd, 0xa4, 0x79, 0x3f, 0x34, 0x9c, 0xb7, 0x85, 0xe7];
        assert_eq!(identity(&PrimitiveType::Uuid, &uuid), "f79c3e09-677c-4bbd-a479-3f349cb785e7");
    }

    #[test]
    fn numbers_are_shown_as_java_shows_them() {
        let double = |number: f64| identity(&PrimitiveType::Double, &number.to_le_bytes());
        let float = |number: f32| identity(&PrimitiveType::Float, &number.to_le_bytes());
        assert_eq!(
            [double(1.0), double(-0.0), double(1e7), double(1.5e-7)],
            ["1.0", "-0.0", "1.0E7", "1.5E-7"]
        );
        assert_eq!([double(0.001), double(9_999_999.5)], ["0.001", "9999999.5"]);
        assert_eq!([double(f64::NAN), double(f64::NEG_INFINITY)], ["NaN", "-Infinity"]);
        assert_eq!([float(0.1), float(3.4e38), float(12.25)], ["0.1", "3.4E38", "12.25"]);
        assert_eq!(decimal(-1230, 2), "-12.30");
        assert_eq!(
            [decimal(5, 2), decimal(0, 0), decimal(-7, 0), decimal(0, 2)],
            ["0.05", "0", "-7", "0.00"]
        );
        assert_eq!([decimal(1, 6), decimal(1, 7), decimal(123, 10)], ["0.000001", "1E-7", "1.23E-8"]);
        assert_eq!([decimal(0, 10), decimal(0, 6)], ["0E-10", "0.000000"]);
    }

    #[test]
    fn segments_are_url_encoded() {
        assert_eq!(segment("event_time_hour", "2024-05-01-10"), "event_time_hour=2024-05-01-10");
        assert_eq!(segment("city", "São Paulo/x?=%"), "city=S%C3%A3o+Paulo%2Fx%3F%3D%25");
        assert_eq!(segment("at", "2024-05-01T10:20Z"), "at=2024-05-01T10%3A20Z");
        assert_eq!(segment("a b", ""), "a+b=");
        assert_eq!(segment("raw", "+/8A"), "raw=%2B%2F8A");
    }

    #[test]
    fn long_values_are_cut_and_stay_apart() {
        let path = |value: &str| joined(&[segment("a", value), segment("b", "1")]);
        assert_eq!(path("x"), "a=x/b=1");
        for pad in 0..4 {
            let long = format!("{}{}", "x".repeat(pad), "ü".repeat(300));
            let (one, other) = (path(&format!("{long}1")), path(&format!("{long}2")));
            assert_ne!(one, other);
            assert!(one.len() <= MAX_BYTES, "{one}");
            let (head, _) = one.rsplit_once('-').expect("a checksum");
            let decoded = percent_encoding::percent_decode_str(head);
            assert!(!decoded.decode_utf8_lossy().contains('%'), "no escape is cut: {head}");
        }
    }
}
