//! Partition transforms over columns of rows.
//!
//! A partition's value has to be the one that every other writer and reader computes: a reader that asks
//! for a day is shown the files of that day's partition alone. The rules are the specification's ("Partition
//! Transforms", appendix B), and the tests hold them to values that `PyIceberg` computed. Buckets are `iceberg`'s;
//! its other functions are not used, since `iceberg` 0.10.1 puts moments shortly before a midnight before 1970
//! into the next day, rounds nanoseconds before 1970 up, and lacks hours of nanoseconds and the truncation of
//! binaries.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, Decimal128Array, Int32Array, LargeBinaryArray, LargeStringArray,
    PrimitiveArray, StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use chrono::{Datelike, NaiveDate};
use iceberg::spec::{PrimitiveType, Transform, Type};
use iceberg::transform::create_transform_function;

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const HOURS_PER_DAY: i64 = 24;
const MONTHS_PER_YEAR: i64 = 12;
const EPOCH_YEAR: i64 = 1970;
/// The epoch's day, counted from the first day of the year 1.
const EPOCH_DAY: i64 = 719_163;

/// Why values of a type can't be transformed so, beyond what the specification says of types.
pub(crate) fn refusal(transform: Transform, source: &PrimitiveType) -> Option<&'static str> {
    match (transform, source) {
        (Transform::Unknown, _) => Some("it is none of Iceberg's transforms"),
        (Transform::Bucket(number) | Transform::Truncate(number), _) if number == 0 || !fits_int(number) => {
            Some("its number must be from 1 to 2147483647")
        }
        (Transform::Truncate(width), PrimitiveType::Decimal { precision, .. })
            if !holds_truncated(*precision, width) =>
        {
            Some("truncated values would not fit into the decimal's bytes; choose a smaller width")
        }
        _ => None,
    }
}

/// The partition value of every row of `column`; `None` if one has none, or the column is of another type.
pub(crate) fn apply(transform: Transform, column: &ArrayRef) -> Option<ArrayRef> {
    match transform {
        Transform::Identity => Some(Arc::clone(column)),
        Transform::Void => Some(new_null_array(column.data_type(), column.len())),
        Transform::Bucket(_) => buckets(transform, column),
        Transform::Truncate(width) => truncated(column, width),
        Transform::Year | Transform::Month | Transform::Day | Transform::Hour => periods(transform, column),
        Transform::Unknown => None,
    }
}

fn fits_int(number: u32) -> bool {
    i32::try_from(number).is_ok()
}

/// Truncation goes down, so a value may come out with one digit more than the precision. Manifests give
/// decimals as many bytes as the precision needs (specification, appendix A).
fn holds_truncated(precision: u32, width: u32) -> bool {
    let Ok(bytes) = Type::decimal_required_bytes(precision) else { return false };
    let highest = 10_i128.checked_pow(precision).map(|limit| limit - 1 + i128::from(width));
    highest.is_some_and(|highest| bytes >= 16 || highest <= 1 << (bytes * 8 - 1))
}

fn buckets(transform: Transform, column: &ArrayRef) -> Option<ArrayRef> {
    let function = create_transform_function(&transform).ok()?;
    let column = match column.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let nanos = column.as_primitive::<TimestampNanosecondType>();
            let micros: TimestampMicrosecondArray = nanos.unary(|nanos| nanos.div_euclid(1000));
            Arc::new(micros)
        }
        _ => Arc::clone(column),
    };
    function.transform(column).ok()
}

fn truncated(column: &ArrayRef, width: u32) -> Option<ArrayRef> {
    let length = usize::try_from(width).ok()?;
    Some(match column.data_type() {
        DataType::Int32 => {
            let width = i32::try_from(width).ok()?;
            floor::<Int32Type>(column, |value| {
                value.checked_rem_euclid(width).map(|rest| value.wrapping_sub(rest))
            })?
        }
        DataType::Int64 => {
            let width = i64::from(width);
            floor::<Int64Type>(column, |value| {
                value.checked_rem_euclid(width).map(|rest| value.wrapping_sub(rest))
            })?
        }
        DataType::Decimal128(precision, scale) => {
            let width = i128::from(width);
            let values = column.as_primitive::<Decimal128Type>();
            let floor = |value: i128| value.checked_sub(value.checked_rem_euclid(width)?);
            let floors: Decimal128Array = values.try_unary(|value| floor(value).ok_or(())).ok()?;
            Arc::new(floors.with_precision_and_scale(*precision, *scale).ok()?)
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>().iter();
            Arc::new(values.map(|text| text.map(|text| head(text, length))).collect::<StringArray>())
        }
        DataType::LargeUtf8 => {
            let values = column.as_string::<i64>().iter();
            Arc::new(values.map(|text| text.map(|text| head(text, length))).collect::<LargeStringArray>())
        }
        DataType::LargeBinary => {
            let values = column.as_binary::<i64>().iter();
            let heads = values.map(|bytes| bytes.map(|bytes| bytes.get(..length).unwrap_or(bytes)));
            Arc::new(heads.collect::<LargeBinaryArray>())
        }
        _ => return None,
    })
}

fn floor<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    floor: impl Fn(T::Native) -> Option<T::Native>,
) -> Option<ArrayRef> {
    let floors: PrimitiveArray<T> =
        column.as_primitive::<T>().try_unary(|value| floor(value).ok_or(())).ok()?;
    Some(Arc::new(floors))
}

/// At most `length` code points of `text`.
fn head(text: &str, length: usize) -> &str {
    text.char_indices().nth(length).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

fn periods(transform: Transform, column: &ArrayRef) -> Option<ArrayRef> {
    let values = match column.data_type() {
        DataType::Date32 => {
            let days = column.as_primitive::<Date32Type>();
            days.try_unary(|day| period(transform, i64::from(day), 1).ok_or(())).ok()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>();
            micros.try_unary(|micros| period(transform, micros, MICROS_PER_DAY).ok_or(())).ok()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let nanos = column.as_primitive::<TimestampNanosecondType>();
            nanos.try_unary(|nanos| period(transform, nanos, NANOS_PER_DAY).ok_or(())).ok()
        }
        _ => None,
    };
    let values: Int32Array = values?;
    Some(match transform {
        Transform::Day => Arc::new(values.reinterpret_cast::<Date32Type>()) as ArrayRef,
        _ => Arc::new(values),
    })
}

/// Periods since the epoch, rounded down also before it.
fn period(transform: Transform, moment: i64, per_day: i64) -> Option<i32> {
    let day = moment.div_euclid(per_day);
    let period = match transform {
        Transform::Hour => moment.checked_div_euclid(per_day / HOURS_PER_DAY)?,
        Transform::Day => day,
        Transform::Month => month(day)?,
        _ => month(day)?.div_euclid(MONTHS_PER_YEAR),
    };
    i32::try_from(period).ok()
}

/// Months between the epoch's and that of `day`.
fn month(day: i64) -> Option<i64> {
    let date = NaiveDate::from_num_days_from_ce_opt(i32::try_from(day.checked_add(EPOCH_DAY)?).ok()?)?;
    Some((i64::from(date.year()) - EPOCH_YEAR) * MONTHS_PER_YEAR + i64::from(date.month0()))
}
