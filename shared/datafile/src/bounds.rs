//! Lower and upper bounds of columns.
//!
//! A bound that is wrong makes readers skip rows, so each is computed from the very values that are
//! written, by Iceberg's order for the type: NaN is left out, -0.0 comes before +0.0, text is compared
//! by its UTF-8 bytes. A long text is cut, the upper bound then rounded up; one that can't be rounded
//! up has no upper bound at all.

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::compute::{max, max_boolean, min, min_boolean};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use icefall_manifest::SingleValue;

use crate::single_value::decimal;

/// What is known of a column's values.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) lower: Option<SingleValue>,
    pub(crate) upper: Option<SingleValue>,
}

impl Bounds {
    fn of<T>(lowest: Option<T>, highest: Option<T>, bytes: impl Fn(T) -> Vec<u8>) -> Self {
        Self {
            lower: lowest.map(|value| SingleValue(bytes(value))),
            upper: highest.map(|value| SingleValue(bytes(value))),
        }
    }
}

/// The bounds of `array`, text and bytes cut to `length` characters or bytes if one is given.
pub(crate) fn of(array: &ArrayRef, length: Option<usize>) -> Bounds {
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            Bounds::of(min_boolean(values), max_boolean(values), |value| vec![u8::from(value)])
        }
        DataType::Int32 => ordered(array.as_primitive::<Int32Type>(), |value| value.to_le_bytes().to_vec()),
        DataType::Int64 => ordered(array.as_primitive::<Int64Type>(), |value| value.to_le_bytes().to_vec()),
        DataType::Date32 => ordered(array.as_primitive::<Date32Type>(), |value| value.to_le_bytes().to_vec()),
        DataType::Time64(_) => {
            ordered(array.as_primitive::<Time64MicrosecondType>(), |value| value.to_le_bytes().to_vec())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            ordered(array.as_primitive::<TimestampMicrosecondType>(), |value| value.to_le_bytes().to_vec())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            ordered(array.as_primitive::<TimestampNanosecondType>(), |value| value.to_le_bytes().to_vec())
        }
        DataType::Decimal128(..) => ordered(array.as_primitive::<Decimal128Type>(), decimal),
        DataType::Float32 => floats32(array.as_primitive::<Float32Type>()),
        DataType::Float64 => floats64(array.as_primitive::<Float64Type>()),
        DataType::Utf8 => texts(array.as_string::<i32>().iter().flatten(), length),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().iter().flatten(), length),
        DataType::Binary => binaries(array.as_binary::<i32>().iter().flatten(), length),
        DataType::LargeBinary => binaries(array.as_binary::<i64>().iter().flatten(), length),
        DataType::FixedSizeBinary(_) => binaries(array.as_fixed_size_binary().iter().flatten(), None),
        _ => Bounds::default(),
    }
}

/// The bounds of uuids, as far as all readers agree on them.
///
/// The specification orders uuids by their bytes. Iceberg's Java code compares their halves as signed numbers: with
/// values on both sides of 0x80… its lowest is another one, and it would skip files that hold what is looked for. So a
/// bound is given only where it is one in both orders, as it is for uuids that begin with a time (version 7).
pub(crate) fn of_uuids(array: &ArrayRef) -> Bounds {
    let Some(array) = array.as_fixed_size_binary_opt() else { return Bounds::default() };
    let values = || array.iter().flatten();
    let agreed = |by_bytes: Option<&[u8]>, signed: Option<&[u8]>| {
        by_bytes.filter(|_| by_bytes == signed).map(|value| SingleValue(value.to_vec()))
    };
    Bounds {
        lower: agreed(values().min(), values().min_by_key(|value| signed_halves(value))),
        upper: agreed(values().max(), values().max_by_key(|value| signed_halves(value))),
    }
}

/// A number that is ordered as a uuid's two halves are when both are signed.
fn signed_halves(uuid: &[u8]) -> u128 {
    const SIGNS: u128 = (1 << 127) | (1 << 63);
    uuid.try_into().map_or(0, u128::from_be_bytes) ^ SIGNS
}

/// How many NaNs a floating-point column holds; `None` for other types.
pub(crate) fn nans(array: &ArrayRef) -> Option<u64> {
    let count = match array.data_type() {
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().iter().flatten().filter(|value| value.is_nan()).count()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().flatten().filter(|value| value.is_nan()).count()
        }
        _ => return None,
    };
    Some(count as u64)
}

fn ordered<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, bytes: impl Fn(T::Native) -> Vec<u8>) -> Bounds
where
    T::Native: Copy,
{
    Bounds::of(min(array), max(array), bytes)
}

fn floats32(array: &PrimitiveArray<Float32Type>) -> Bounds {
    let numbers = || array.iter().flatten().filter(|value| !value.is_nan());
    Bounds::of(numbers().min_by(f32::total_cmp), numbers().max_by(f32::total_cmp), |value| {
        value.to_le_bytes().to_vec()
    })
}

fn floats64(array: &PrimitiveArray<Float64Type>) -> Bounds {
    let numbers = || array.iter().flatten().filter(|value| !value.is_nan());
    Bounds::of(numbers().min_by(f64::total_cmp), numbers().max_by(f64::total_cmp), |value| {
        value.to_le_bytes().to_vec()
    })
}

fn texts<'a>(values: impl Iterator<Item = &'a str>, length: Option<usize>) -> Bounds {
    let Some((lowest, highest)) = extremes(values) else { return Bounds::default() };
    Bounds {
        lower: Some(SingleValue(cut(lowest, length).as_bytes().to_vec())),
        upper: text_above(highest, length).map(|text| SingleValue(text.into_bytes())),
    }
}

fn binaries<'a>(values: impl Iterator<Item = &'a [u8]>, length: Option<usize>) -> Bounds {
    let Some((lowest, highest)) = extremes(values) else { return Bounds::default() };
    let limit = length.unwrap_or(usize::MAX);
    Bounds {
        lower: Some(SingleValue(lowest.iter().take(limit).copied().collect())),
        upper: bytes_above(highest, limit).map(SingleValue),
    }
}

fn extremes<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<(T, T)> {
    values.fold(None, |found, value| match found {
        None => Some((value, value)),
        Some((lowest, highest)) => Some((lowest.min(value), highest.max(value))),
    })
}

fn cut(text: &str, length: Option<usize>) -> &str {
    let end = length.and_then(|length| text.char_indices().nth(length));
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// A text of at most `length` characters that nothing beginning like `text` is above.
fn text_above(text: &str, length: Option<usize>) -> Option<String> {
    let head = cut(text, length);
    if head.len() == text.len() {
        return Some(text.to_owned());
    }
    let mut chars: Vec<char> = head.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = char_after(last) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// The next code point that is a character: surrogates are none.
fn char_after(c: char) -> Option<char> {
    match c {
        '\u{d7ff}' => Some('\u{e000}'),
        c => char::from_u32(u32::from(c) + 1),
    }
}

fn bytes_above(bytes: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut head: Vec<u8> = bytes.iter().take(limit).copied().collect();
    if head.len() == bytes.len() {
        return Some(head);
    }
    while let Some(last) = head.pop() {
        if last < u8::MAX {
            head.push(last + 1);
            return Some(head);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::FixedSizeBinaryArray;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_lies_outside_its_bounds(values in proptest::collection::vec(".{0,24}", 1..20)) {
            let bounds = texts(values.iter().map(String::as_str), Some(16));
            let lower = bounds.lower.expect("there are values").0;
            prop_assert!(values.iter().all(|value| lower.as_slice() <= value.as_bytes()));
            prop_assert!(std::str::from_utf8(&lower).is_ok_and(|text| text.chars().count() <= 16));
            if let Some(SingleValue(upper)) = bounds.upper {
                prop_assert!(values.iter().all(|value| upper.as_slice() >= value.as_bytes()));
                prop_assert!(std::str::from_utf8(&upper).is_ok_and(|text| text.chars().count() <= 16));
            }
        }

        #[test]
        fn no_bytes_lie_outside_their_bounds(
            values in proptest::collection::vec(proptest::collection::vec(250_u8.., 0..24), 1..20),
        ) {
            let bounds = binaries(values.iter().map(Vec::as_slice), Some(16));
            let lower = bounds.lower.expect("there are values").0;
            prop_assert!(values.iter().all(|value| lower.as_slice() <= value.as_slice()));
            if let Some(SingleValue(upper)) = bounds.upper {
                prop_assert!(values.iter().all(|value| upper.as_slice() >= value.as_slice()));
            }
        }
    }

    #[test]
    fn a_uuids_bound_is_one_in_both_orders_or_not_given() {
        let bounds = |values: &[u128]| {
            let values: Vec<[u8; 16]> = values.iter().map(|value| value.to_be_bytes()).collect();
            let array = FixedSizeBinaryArray::try_from_iter(values.iter()).expect("an array");
            let found = of_uuids(&(Arc::new(array) as ArrayRef));
            [found.lower, found.upper]
                .map(|bound| bound.map(|value| u128::from_be_bytes(value.0.try_into().unwrap())))
        };
        let (low, mid, high) = (1 << 64, 5 << 100, 0x80 << 120);
        assert_eq!(bounds(&[mid, low]), [Some(low), Some(mid)]);
        assert_eq!(bounds(&[high, high + (1 << 90)]), [Some(high), Some(high + (1 << 90))]);
        assert_eq!(bounds(&[low, mid, high]), [None, None], "signed, the highest is the lowest");
        assert_eq!(bounds(&[low, low + (1 << 63)]), [None, None], "the second half has a sign too");
    }

    #[test]
    fn an_upper_bound_that_can_not_be_rounded_up_is_left_out() {
        assert_eq!(text_above(&"\u{10ffff}".repeat(17), Some(16)), None);
        assert_eq!(text_above("ab\u{10ffff}x", Some(3)).as_deref(), Some("ac"));
        assert_eq!(text_above("a\u{d7ff}x", Some(2)).as_deref(), Some("a\u{e000}"));
        assert_eq!(bytes_above(&[255; 17], 16), None);
        assert_eq!(bytes_above(&[255; 16], 16), Some(vec![255; 16]));
    }
}
