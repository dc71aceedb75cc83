//! Rows of a batch as plain values.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};

/// A value; numbers of floating point by their bits, so that both zeros differ.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Val {
    Null,
    Bool(bool),
    Int(i128),
    Float(u32),
    Double(u64),
    Text(String),
    Bytes(Vec<u8>),
    Struct(Vec<Self>),
    /// A list's elements or a map's entries.
    List(Vec<Self>),
}

impl Val {
    /// A map entry's key, where both zeros are one.
    pub(super) fn key(&self) -> Self {
        match self {
            Self::Struct(entry) => entry.first().map_or(Self::Null, Self::key),
            Self::Float(bits) => Self::Float((f32::from_bits(*bits) + 0.0).to_bits()),
            Self::Double(bits) => Self::Double((f64::from_bits(*bits) + 0.0).to_bits()),
            key => key.clone(),
        }
    }
}

pub(super) fn of(batch: &RecordBatch) -> Vec<Val> {
    (0..batch.num_rows()).map(|row| fields(batch.columns(), row)).collect()
}

fn fields(columns: &[ArrayRef], row: usize) -> Val {
    Val::Struct(columns.iter().map(|column| at(column, row)).collect())
}

fn all(array: &ArrayRef) -> Val {
    Val::List((0..array.len()).map(|row| at(array, row)).collect())
}

fn at(array: &ArrayRef, row: usize) -> Val {
    if array.is_null(row) {
        return Val::Null;
    }
    match array.data_type() {
        DataType::Boolean => Val::Bool(array.as_boolean().value(row)),
        DataType::Int32 => Val::Int(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Date32 => Val::Int(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Int64 => Val::Int(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::Time64(_) => Val::Int(array.as_primitive::<Time64MicrosecondType>().value(row).into()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Val::Int(array.as_primitive::<TimestampMicrosecondType>().value(row).into())
        }
        DataType::Timestamp(..) => {
            Val::Int(array.as_primitive::<TimestampNanosecondType>().value(row).into())
        }
        DataType::Decimal128(..) => Val::Int(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Float32 => Val::Float(array.as_primitive::<Float32Type>().value(row).to_bits()),
        DataType::Float64 => Val::Double(array.as_primitive::<Float64Type>().value(row).to_bits()),
        DataType::Utf8 => Val::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeBinary => Val::Bytes(array.as_binary::<i64>().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => Val::Bytes(array.as_fixed_size_binary().value(row).to_vec()),
        DataType::Struct(_) => fields(array.as_struct().columns(), row),
        DataType::List(_) => all(&array.as_list::<i32>().value(row)),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            Val::List((0..entries.len()).map(|row| fields(entries.columns(), row)).collect())
        }
        other => panic!("no column is of {other}"),
    }
}
