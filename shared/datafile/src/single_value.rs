//! Values of Arrow columns in Iceberg's binary single-value serialization (spec, appendix D).

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use icefall_manifest::SingleValue;

/// The value of `row`, if it is not null and of a type that has such a serialization.
pub(crate) fn at(array: &ArrayRef, row: usize) -> Option<SingleValue> {
    if array.is_null(row) {
        return None;
    }
    let bytes = match array.data_type() {
        DataType::Boolean => vec![u8::from(array.as_boolean().value(row))],
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_le_bytes().to_vec(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_le_bytes().to_vec(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).to_le_bytes().to_vec(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_le_bytes().to_vec(),
        DataType::Decimal128(..) => decimal(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_le_bytes().to_vec(),
        DataType::Time64(_) => {
            array.as_primitive::<Time64MicrosecondType>().value(row).to_le_bytes().to_vec()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).to_le_bytes().to_vec()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().value(row).to_le_bytes().to_vec()
        }
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes().to_vec(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes().to_vec(),
        DataType::Binary => array.as_binary::<i32>().value(row).to_vec(),
        DataType::LargeBinary => array.as_binary::<i64>().value(row).to_vec(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row).to_vec(),
        _ => return None,
    };
    Some(SingleValue(bytes))
}

/// A decimal's unscaled value: two's complement, big-endian, in as few bytes as hold it.
pub(crate) fn decimal(unscaled: i128) -> Vec<u8> {
    let bytes = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xff } else { 0 };
    let redundant =
        |pair: &[u8]| pair.first() == Some(&sign) && pair.get(1).is_some_and(|next| (next ^ sign) < 0x80);
    let skip = bytes.windows(2).take_while(|pair| redundant(pair)).count();
    bytes.iter().skip(skip).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_take_as_few_bytes_as_hold_them() {
        assert_eq!(decimal(0), [0]);
        assert_eq!(decimal(127), [0x7f]);
        assert_eq!(decimal(128), [0, 0x80]);
        assert_eq!(decimal(-1), [0xff]);
        assert_eq!(decimal(-128), [0x80]);
        assert_eq!(decimal(-129), [0xff, 0x7f]);
        assert_eq!(decimal(14_20), [0x05, 0x8c]);
        assert_eq!(decimal(i128::MAX).len(), 16);
        assert_eq!(decimal(i128::MIN).len(), 16);
    }
}
