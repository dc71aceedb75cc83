//! A data file's rows in another schema of its table, or in that of another table.
//!
//! Iceberg tells columns by their ids, whatever their names and their order are by now. So a file that
//! was written with a schema which the table has dropped can still be read into the present one: each
//! column is found by its id and widened where the table's column was. What the present schema no
//! longer has is left out, as every reader of the table leaves it out.
//!
//! Ids mean nothing from one table to the next, and a table that was made again is another one. There columns are found
//! by name, as the records' own fields find theirs.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{
    Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, ListArray, MapArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, new_null_array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Fields, Float32Type, Float64Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use bytes::Bytes;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::Schema;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use thiserror::Error;

/// Why a file's rows are none of the schema.
#[derive(Debug, Error)]
pub enum EvolveError {
    /// A required column that the file lacks.
    #[error("the file has no column for field {id} ({name}), which the table requires")]
    Missing {
        /// The column's field id.
        id: String,
        /// Its name in the table.
        name: String,
    },
    /// The table's default would have to be written, which this version does not do.
    #[error("the file has no column for field {0}, whose default in the table this version can't write")]
    Default(i32),
    /// A change of type that Iceberg does not allow.
    #[error("column {name} has the type {from} in the file, which can't become {to}")]
    Type {
        /// The column's name in the table.
        name: String,
        /// Its type in the file.
        from: DataType,
        /// Its type in the table.
        to: DataType,
    },
    /// The schema has no counterpart in Arrow.
    #[error("the schema has no counterpart in Arrow")]
    Schema(#[source] Box<iceberg::Error>),
    /// It is no Parquet file, or a damaged one.
    #[error("the file can't be read")]
    Parquet(#[from] ParquetError),
    /// Its values don't fit.
    #[error("the file's values don't fit the table's columns")]
    Arrow(#[from] ArrowError),
}

/// By what the columns of a file are told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Columns {
    /// By field id: the file was written for the same table, with whichever of its schemas.
    ById,
    /// By name: it was written for another table.
    ByName,
}

impl Columns {
    fn key(self, field: &Field) -> Option<&str> {
        match self {
            Self::ById => id(field),
            Self::ByName => Some(field.name()),
        }
    }
}

/// The rows of `file` as rows of `schema`; which of its columns become which is told by `told`.
pub fn read_as(file: Bytes, schema: &Schema, told: Columns) -> Result<RecordBatch, EvolveError> {
    let target = schema_to_arrow_schema(schema).map_err(|error| EvolveError::Schema(Box::new(error)))?;
    let target = Arc::new(target);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
    let mut batches = Vec::new();
    for batch in reader {
        let batch = batch?;
        let from = batch.schema();
        let evolve = Evolve { schema, told, rows: batch.num_rows() };
        let columns = evolve.columns(from.fields(), batch.columns(), target.fields())?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        batches.push(RecordBatch::try_new_with_options(Arc::clone(&target), columns, &options)?);
    }
    Ok(concat_batches(&target, &batches)?)
}

struct Evolve<'a> {
    schema: &'a Schema,
    told: Columns,
    rows: usize,
}

impl Evolve<'_> {
    /// The columns of `target`, from those of one file or struct.
    fn columns(
        &self,
        from: &Fields,
        columns: &[ArrayRef],
        target: &Fields,
    ) -> Result<Vec<ArrayRef>, EvolveError> {
        let known: HashMap<&str, (&FieldRef, &ArrayRef)> = from
            .iter()
            .zip(columns)
            .filter_map(|(field, column)| Some((self.told.key(field)?, (field, column))))
            .collect();
        let rows = columns.first().map_or(self.rows, Array::len);
        let found = target.iter().map(|to| match self.told.key(to).and_then(|key| known.get(key)) {
            Some((from, column)) => self.column(from, column, to),
            None => self.absent(to, rows),
        });
        found.collect()
    }

    fn absent(&self, to: &Field, rows: usize) -> Result<ArrayRef, EvolveError> {
        let number = id(to).and_then(|id| id.parse::<i32>().ok());
        if let Some(field) = number.and_then(|id| self.schema.field_by_id(id))
            && field.initial_default.is_some()
        {
            return Err(EvolveError::Default(field.id));
        }
        if !to.is_nullable() {
            let id = id(to).unwrap_or_default().to_owned();
            return Err(EvolveError::Missing { id, name: to.name().clone() });
        }
        Ok(new_null_array(to.data_type(), rows))
    }

    fn column(&self, from: &Field, column: &ArrayRef, to: &Field) -> Result<ArrayRef, EvolveError> {
        match (from.data_type(), to.data_type()) {
            (DataType::Struct(inner), DataType::Struct(wanted)) => {
                self.structs(inner, column.as_struct(), wanted)
            }
            (DataType::List(inner), DataType::List(wanted)) => {
                let list = column.as_list::<i32>();
                let values = self.column(inner, list.values(), wanted)?;
                let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
                Ok(Arc::new(ListArray::try_new(Arc::clone(wanted), offsets, values, nulls)?))
            }
            (DataType::Map(inner, _), DataType::Map(wanted, sorted)) => {
                let map = column.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                let entries = self.column(inner, &entries, wanted)?.as_struct().clone();
                let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
                Ok(Arc::new(MapArray::try_new(Arc::clone(wanted), offsets, entries, nulls, *sorted)?))
            }
            (from, wanted) if from == wanted => Ok(Arc::clone(column)),
            (from, wanted) => widened(column, wanted).ok_or_else(|| EvolveError::Type {
                name: to.name().clone(),
                from: from.clone(),
                to: wanted.clone(),
            }),
        }
    }

    fn structs(&self, from: &Fields, column: &StructArray, target: &Fields) -> Result<ArrayRef, EvolveError> {
        let columns = self.columns(from, column.columns(), target)?;
        let nulls = column.nulls().cloned();
        Ok(Arc::new(StructArray::try_new_with_length(target.clone(), columns, nulls, column.len())?))
    }
}

fn id(field: &Field) -> Option<&str> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY).map(String::as_str)
}

/// The column in a type that all of its values are values of, by Iceberg's rules for promotion or since both are
/// forms of one type of Iceberg's in Arrow; `None`: `to` is no such type. Written out, since the library's cast
/// brings along all that it can do, which weighs a megabyte.
fn widened(column: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    Some(match (column.data_type(), to) {
        (DataType::Int32, DataType::Int64) => {
            Arc::new(column.as_primitive::<Int32Type>().unary::<_, Int64Type>(i64::from))
        }
        (DataType::Float32, DataType::Float64) => {
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from))
        }
        (DataType::Decimal128(precision, scale), DataType::Decimal128(wider, same))
            if scale == same && precision <= wider =>
        {
            Arc::new(column.as_primitive::<Decimal128Type>().clone().with_data_type(to.clone()))
        }
        (
            DataType::Timestamp(TimeUnit::Microsecond, zone),
            DataType::Timestamp(TimeUnit::Microsecond, other),
        ) if zone.is_some() == other.is_some() => {
            Arc::new(column.as_primitive::<TimestampMicrosecondType>().clone().with_data_type(to.clone()))
        }
        (
            DataType::Timestamp(TimeUnit::Nanosecond, zone),
            DataType::Timestamp(TimeUnit::Nanosecond, other),
        ) if zone.is_some() == other.is_some() => {
            Arc::new(column.as_primitive::<TimestampNanosecondType>().clone().with_data_type(to.clone()))
        }
        (DataType::Binary, DataType::LargeBinary) => {
            Arc::new(column.as_binary::<i32>().iter().collect::<LargeBinaryArray>())
        }
        (DataType::LargeBinary, DataType::Binary) => {
            Arc::new(column.as_binary::<i64>().iter().collect::<BinaryArray>())
        }
        (DataType::Utf8, DataType::LargeUtf8) => {
            Arc::new(column.as_string::<i32>().iter().collect::<LargeStringArray>())
        }
        (DataType::LargeUtf8, DataType::Utf8) => {
            Arc::new(column.as_string::<i64>().iter().collect::<StringArray>())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{
        ListType, NestedField, NestedFieldRef, PartitionSpec, PrimitiveType, StructType, Type,
    };
    use icefall_convert::Converter;

    use super::*;
    use crate::FileFormat;

    fn long(id: i32, name: &str) -> NestedField {
        NestedField::optional(id, name, Type::Primitive(PrimitiveType::Long))
    }

    fn schema(fields: Vec<NestedField>) -> Schema {
        let fields: Vec<NestedFieldRef> = fields.into_iter().map(Into::into).collect();
        Schema::builder().with_fields(fields).build().expect("a schema")
    }

    /// A list of structs of these fields.
    fn list(fields: Vec<NestedField>) -> NestedField {
        let item = Type::Struct(StructType::new(fields.into_iter().map(Into::into).collect()));
        let list = ListType::new(NestedField::list_element(11, item, true).into());
        NestedField::optional(10, "items", Type::List(list))
    }

    fn file(schema: &Schema, rows: &[&str]) -> Bytes {
        let mut converter = Converter::new(schema).expect("a schema");
        for row in rows {
            converter.append(row.as_bytes()).expect("a row");
        }
        let rows = converter.finish().expect("a batch");
        let spec = PartitionSpec::unpartition_spec();
        let format = FileFormat::new(schema, &spec, &HashMap::new()).expect("a format");
        let files = format.write(&rows, "s3://lake/t", || "x".to_owned()).expect("a file");
        files.into_iter().next().expect("one").bytes
    }

    fn before() -> (Schema, Bytes) {
        let int = |id, name: &str| NestedField::optional(id, name, Type::Primitive(PrimitiveType::Int));
        let float = NestedField::optional(2, "f", Type::Primitive(PrimitiveType::Float));
        let schema =
            schema(vec![int(1, "a"), float, long(3, "gone"), list(vec![int(12, "x"), long(13, "y")])]);
        let rows = [
            r#"{"a":1,"f":0.5,"gone":7,"items":[{"x":1,"y":2},{"x":3}]}"#,
            r#"{"gone":8,"items":[]}"#,
            r#"{"a":3}"#,
        ];
        let file = file(&schema, &rows);
        (schema, file)
    }

    #[test]
    fn columns_are_found_by_id_widened_and_put_in_the_present_order() {
        let (_, file) = before();
        let double = NestedField::optional(2, "f", Type::Primitive(PrimitiveType::Double));
        let after = schema(vec![
            list(vec![long(14, "z"), long(12, "renamed")]),
            double,
            long(1, "b"),
            long(9, "new"),
        ]);
        let rows = read_as(file, &after, Columns::ById).expect("rows");
        assert_eq!(
            rows.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
            ["items", "f", "b", "new"]
        );
        let longs = |name: &str| {
            rows.column_by_name(name)
                .expect("a column")
                .as_primitive::<Int64Type>()
                .iter()
                .collect::<Vec<_>>()
        };
        assert_eq!((longs("b"), longs("new")), (vec![Some(1), None, Some(3)], vec![None; 3]));
        let doubles = rows.column_by_name("f").expect("a column").as_primitive::<Float64Type>();
        assert_eq!(doubles.iter().collect::<Vec<_>>(), [Some(0.5), None, None]);
        let items = rows.column_by_name("items").expect("a column").as_list::<i32>();
        assert_eq!((items.value_length(0), items.value_length(1), items.is_null(2)), (2, 0, true));
        let structs = items.values().as_struct();
        let inner = |name: &str| {
            structs
                .column_by_name(name)
                .expect("a field")
                .as_primitive::<Int64Type>()
                .iter()
                .collect::<Vec<_>>()
        };
        assert_eq!((inner("renamed"), inner("z")), (vec![Some(1), Some(3)], vec![None, None]));
    }

    #[test]
    fn columns_of_another_table_are_found_by_name_whatever_their_ids_are_there() {
        let (_, file) = before();
        let double = NestedField::optional(1, "f", Type::Primitive(PrimitiveType::Double));
        let after =
            schema(vec![list(vec![long(12, "y"), long(13, "x")]), double, long(3, "a"), long(2, "new")]);
        let rows = read_as(file, &after, Columns::ByName).expect("rows");
        let longs = |columns: &dyn Fn(&str) -> Option<ArrayRef>, name: &str| {
            let column = columns(name).expect("a column");
            column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        };
        let top = |name: &str| rows.column_by_name(name).cloned();
        assert_eq!((longs(&top, "a"), longs(&top, "new")), (vec![Some(1), None, Some(3)], vec![None; 3]));
        let items = top("items").expect("a column");
        let inner = |name: &str| items.as_list::<i32>().values().as_struct().column_by_name(name).cloned();
        assert_eq!((longs(&inner, "x"), longs(&inner, "y")), (vec![Some(1), Some(3)], vec![Some(2), None]));
        let doubles = top("f").expect("a column");
        assert_eq!(doubles.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(0.5), None, None]);
    }

    #[test]
    fn what_would_have_to_be_guessed_is_refused() {
        let (_, file) = before();
        let required = NestedField::required(9, "must", Type::Primitive(PrimitiveType::String));
        let missing =
            read_as(file.clone(), &schema(vec![required]), Columns::ById).expect_err("it is not there");
        assert!(matches!(missing, EvolveError::Missing { .. }), "{missing}");
        let other = NestedField::optional(1, "a", Type::Primitive(PrimitiveType::String));
        let other =
            read_as(file.clone(), &schema(vec![other]), Columns::ById).expect_err("an int is no string");
        assert!(other.to_string().contains("column a"), "{other}");
        let null = NestedField::required(1, "a", Type::Primitive(PrimitiveType::Long));
        read_as(file.clone(), &schema(vec![null]), Columns::ById).expect_err("the second row has none");
        let default = long(9, "new").with_initial_default(iceberg::spec::Literal::long(4));
        let default =
            read_as(file, &schema(vec![default]), Columns::ById).expect_err("it would have to be written");
        assert!(matches!(default, EvolveError::Default(9)), "{default}");
        read_as(Bytes::from_static(b"no parquet"), &schema(vec![long(1, "a")]), Columns::ById)
            .expect_err("no Parquet");
    }
}
