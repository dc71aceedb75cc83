//! The finished columns as Arrow arrays. Each column is left empty and keeps what it has learned.

use std::mem::take;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, GenericBinaryArray, LargeBinaryArray, ListArray,
    MapArray, NullBufferBuilder, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, FieldRef, Fields, Float32Type, Float64Type,
    Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;

use crate::column::{Booleans, Column, Fixed, Texts, Unit, Values};
use crate::nested::{Ends, ListColumn, MapColumn, StructColumn};

type Finished = Result<ArrayRef, ArrowError>;

impl Column {
    /// The values as an array of `data_type`, which was made from the same schema.
    fn finish(&mut self, data_type: &DataType) -> Finished {
        match self {
            Self::Boolean(column) => Ok(finish_booleans(column)),
            Self::Int(column) => finish_values::<Int32Type>(column, data_type),
            Self::Date(column) => finish_values::<Date32Type>(column, data_type),
            Self::Long(column) => finish_values::<Int64Type>(column, data_type),
            Self::Time(column) => finish_values::<Time64MicrosecondType>(column, data_type),
            Self::Timestamp(column, Unit::Micros, _) => {
                finish_values::<TimestampMicrosecondType>(column, data_type)
            }
            Self::Timestamp(column, Unit::Nanos, _) => {
                finish_values::<TimestampNanosecondType>(column, data_type)
            }
            Self::Float(column) => finish_values::<Float32Type>(column, data_type),
            Self::Double(column) => finish_values::<Float64Type>(column, data_type),
            Self::Decimal(column, _) => finish_values::<Decimal128Type>(column, data_type),
            Self::String(column) => finish_strings(column),
            Self::Binary(column) => finish_binary(column),
            Self::Uuid(column) | Self::Fixed(column) => finish_fixed(column),
            Self::Struct(column) => finish_struct(column, data_type),
            Self::List(column) => finish_list(column, data_type),
            Self::Map(column) => finish_map(column, data_type),
        }
    }
}

fn finish_values<T: ArrowPrimitiveType>(column: &mut Values<T::Native>, data_type: &DataType) -> Finished {
    let values = ScalarBuffer::from(take(&mut column.values));
    let array = PrimitiveArray::<T>::try_new(values, column.nulls.finish())?;
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn finish_booleans(column: &mut Booleans) -> ArrayRef {
    Arc::new(BooleanArray::new(column.values.finish(), column.nulls.finish()))
}

fn finish_strings(column: &mut Texts<i32>) -> Finished {
    let (offsets, bytes) = (offsets(&mut column.offsets), take(&mut column.bytes));
    Ok(Arc::new(StringArray::try_new(offsets, bytes.into(), column.nulls.finish())?))
}

fn finish_binary(column: &mut Texts<i64>) -> Finished {
    let (offsets, bytes) = (offsets(&mut column.offsets), take(&mut column.bytes));
    let array: LargeBinaryArray = GenericBinaryArray::try_new(offsets, bytes.into(), column.nulls.finish())?;
    Ok(Arc::new(array))
}

fn finish_fixed(column: &mut Fixed) -> Finished {
    column.rows = 0;
    let width =
        i32::try_from(column.width).map_err(|error| ArrowError::InvalidArgumentError(error.to_string()))?;
    let bytes = take(&mut column.bytes);
    Ok(Arc::new(FixedSizeBinaryArray::try_new(width, bytes.into(), column.nulls.finish())?))
}

/// The offsets so far, of which a leading zero is left.
fn offsets<O: arrow::array::OffsetSizeTrait>(offsets: &mut Vec<O>) -> OffsetBuffer<O> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![O::zero()])))
}

/// The columns within, in the order of `fields`.
pub(crate) fn finish_fields(column: &mut StructColumn, fields: &Fields) -> Result<Vec<ArrayRef>, ArrowError> {
    column.rows = 0;
    let columns = column.fields.iter_mut().zip(fields);
    columns.map(|(field, arrow)| field.column.finish(arrow.data_type())).collect()
}

fn finish_struct(column: &mut StructColumn, data_type: &DataType) -> Finished {
    let DataType::Struct(fields) = data_type else { return Err(other_type(data_type)) };
    let (rows, nulls) = (column.rows, column.nulls.finish());
    let arrays = finish_fields(column, fields)?;
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), arrays, nulls, rows)?))
}

fn finish_ends(ends: &mut Ends) -> (OffsetBuffer<i32>, &mut NullBufferBuilder) {
    (offsets(&mut ends.offsets), &mut ends.nulls)
}

fn finish_list(column: &mut ListColumn, data_type: &DataType) -> Finished {
    let DataType::List(element) = data_type else { return Err(other_type(data_type)) };
    let values = column.element.column.finish(element.data_type())?;
    let (offsets, nulls) = finish_ends(&mut column.ends);
    Ok(Arc::new(ListArray::try_new(FieldRef::clone(element), offsets, values, nulls.finish())?))
}

fn finish_map(column: &mut MapColumn, data_type: &DataType) -> Finished {
    let DataType::Map(field, sorted) = data_type else { return Err(other_type(data_type)) };
    let entries = finish_struct(&mut column.entries, field.data_type())?;
    let entries =
        entries.as_any().downcast_ref::<StructArray>().cloned().ok_or_else(|| other_type(data_type))?;
    let (offsets, nulls) = finish_ends(&mut column.ends);
    Ok(Arc::new(MapArray::try_new(FieldRef::clone(field), offsets, entries, nulls.finish(), *sorted)?))
}

fn other_type(data_type: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("the column is not one of {data_type}"))
}
