//! Scalars by the rules of the crate's table, the plain way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{NaiveDate, NaiveTime};
use iceberg::spec::PrimitiveType;

use super::json::Json;
use super::rows::Val;
use super::{Refused, Taken};

pub(super) fn primitive(primitive: &PrimitiveType, json: &Json) -> Taken<Val> {
    let value = match (primitive, json) {
        (PrimitiveType::Boolean, Json::Bool(value)) => Some(Val::Bool(*value)),
        (PrimitiveType::Int, Json::Number(text)) => int(text, i128::from(i32::MIN), i128::from(i32::MAX)),
        (PrimitiveType::Long, Json::Number(text)) => int(text, i128::from(i64::MIN), i128::from(i64::MAX)),
        (PrimitiveType::Float, Json::Number(text)) => float(text),
        (PrimitiveType::Double, Json::Number(text)) => double(text),
        (PrimitiveType::Decimal { precision, scale }, Json::Number(text)) => {
            decimal(text, *precision, *scale)
        }
        (PrimitiveType::Decimal { precision, scale }, Json::Text(text)) => {
            let number = matches!(Json::parse(text), Some(Json::Number(number)) if number == *text);
            number.then(|| decimal(text, *precision, *scale)).flatten()
        }
        (PrimitiveType::String, Json::Text(text)) => Some(Val::Text(text.clone())),
        (PrimitiveType::Uuid, Json::Text(text)) => uuid(text).map(Val::Bytes),
        (PrimitiveType::Fixed(width), Json::Text(text)) => {
            STANDARD.decode(text).ok().filter(|bytes| bytes.len() as u64 == *width).map(Val::Bytes)
        }
        (PrimitiveType::Binary, Json::Text(text)) => STANDARD.decode(text).ok().map(Val::Bytes),
        (time, Json::Text(text)) => moment(time, text),
        _ => None,
    };
    value.ok_or(Refused)
}

fn int(text: &str, least: i128, most: i128) -> Option<Val> {
    exact(text, 0).filter(|value| (least..=most).contains(value)).map(Val::Int)
}

fn decimal(text: &str, precision: u32, scale: u32) -> Option<Val> {
    let value = exact(text, i64::from(scale))?;
    (value == 0 || value.unsigned_abs().to_string().len() <= precision as usize).then_some(Val::Int(value))
}

/// The number times ten to the `scale`, by moving its point; `None`: it has a fraction or no end.
fn exact(text: &str, scale: i64) -> Option<i128> {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let lower = text.to_lowercase();
    let (mantissa, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let fraction = i64::try_from(fraction.len()).ok()?;
    let zeros = zeros - fraction + exponent.parse::<i64>().ok()? + scale;
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros < 60)?;
    format!("{sign}{significant}{}", "0".repeat(zeros)).parse().ok()
}

fn float(text: &str) -> Option<Val> {
    let value: f32 = text.parse().ok()?;
    (value.is_finite() && (value != 0.0 || exact(text, 0) == Some(0))).then(|| Val::Float(value.to_bits()))
}

fn double(text: &str) -> Option<Val> {
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && (value != 0.0 || exact(text, 0) == Some(0))).then(|| Val::Double(value.to_bits()))
}

fn uuid(text: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = text.split('-').collect();
    if parts.iter().map(|part| part.len()).ne([8, 4, 4, 4, 12]) || text.contains('+') {
        return None;
    }
    let hex = parts.concat();
    (0..16).map(|index| u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()).collect()
}

fn moment(r#type: &PrimitiveType, text: &str) -> Option<Val> {
    let whole = |nanos: i128, unit: i128| (nanos % unit == 0).then_some(Val::Int(nanos / unit));
    match r#type {
        PrimitiveType::Date => Some(Val::Int(i128::from(days(text)?))),
        PrimitiveType::Time => whole(time(text)?, 1000),
        PrimitiveType::Timestamp => whole(timestamp(text, false)?, 1000),
        PrimitiveType::Timestamptz => whole(timestamp(text, true)?, 1000),
        PrimitiveType::TimestampNs => long(timestamp(text, false)?),
        PrimitiveType::TimestamptzNs => long(timestamp(text, true)?),
        _ => None,
    }
}

fn long(value: i128) -> Option<Val> {
    i64::try_from(value).ok().map(|value| Val::Int(value.into()))
}

/// The text with each digit as `9`.
fn shape(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect()
}

fn days(text: &str) -> Option<i64> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
    (shape(text) == "9999-99-99" && !text.starts_with("0000"))
        .then(|| date.signed_duration_since(epoch).num_days())
}

fn time(text: &str) -> Option<i128> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let seconds = match shape(clock).as_str() {
        "99:99" if clock == text => format!("{clock}:00"),
        "99:99:99" if !clock.ends_with("60") => clock.to_owned(),
        _ => return None,
    };
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let midnight = NaiveTime::from_hms_opt(0, 0, 0)?;
    let seconds =
        NaiveTime::parse_from_str(&seconds, "%H:%M:%S").ok()?.signed_duration_since(midnight).num_seconds();
    Some(i128::from(seconds) * 1_000_000_000 + exact(&format!("0.{fraction}"), 9)?)
}

/// Nanoseconds since the epoch.
fn timestamp(text: &str, zoned: bool) -> Option<i128> {
    const DAY: i128 = 86_400_000_000_000;
    let (date, rest) = text.split_at_checked(10)?;
    let midnight = i128::from(days(date)?) * DAY;
    if rest.is_empty() {
        return Some(midnight);
    }
    let rest = rest.strip_prefix('T').or_else(|| rest.strip_prefix(' '))?;
    let zone = rest.find(['Z', '+', '-']);
    let (clock, offset) = match (zoned, zone) {
        (true, Some(zone)) => (rest.get(..zone)?, offset(rest.get(zone..)?)?),
        (false, None) => (rest, 0),
        _ => return None,
    };
    Some(midnight + time(clock)? - offset)
}

fn offset(zone: &str) -> Option<i128> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits = match shape(zone.get(1..)?).as_str() {
        "99:99" | "9999" => zone.get(1..)?.replace(':', ""),
        _ => return None,
    };
    let (hours, minutes): (i128, i128) = (digits.get(..2)?.parse().ok()?, digits.get(2..)?.parse().ok()?);
    let seconds = hours * 3600 + minutes * 60;
    (minutes < 60 && seconds <= 18 * 3600).then_some(sign * seconds * 1_000_000_000)
}
