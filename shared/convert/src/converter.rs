//! A table's schema made ready to take values.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use iceberg::spec::{ListType, MapType, NestedFieldRef, PrimitiveType, Schema, StructType, Type};
use thiserror::Error;

use crate::civil::Zone;
use crate::column::{Booleans, Column, DecimalType, Field, Fixed, Texts, Unit, Values};
use crate::cursor::Cursor;
use crate::error::{BadRecord, BadRecordClass, Read};
use crate::finish::finish_fields;
use crate::nested::{ListColumn, MapColumn, StructColumn};
use crate::unknown::{StructId, UnknownCounts, UnknownField};

/// Why a table can't be written, whatever the records.
#[derive(Debug, Error)]
pub enum UnsupportedSchema {
    /// A map whose keys are structs, lists or maps.
    #[error("column {0}: a map with nested keys can't be read from JSON; choose a scalar type for its keys")]
    NestedKey(String),
    /// A default for rows that lack the field.
    #[error("column {0} has a write default, which this version can't fill in; remove the default")]
    WriteDefault(String),
    /// A fixed type wider than any array.
    #[error("column {0}: fixed type too wide")]
    TooWide(String),
    /// Arrow has no type for it.
    #[error("the schema has no counterpart in Arrow")]
    NoArrow(#[from] Box<iceberg::Error>),
}

/// The columns could not be made into a batch. It takes a fault in this crate, or a batch beyond 2 GiB.
#[derive(Debug, Error)]
#[error("the rows could not be made into a record batch")]
pub struct FinishError(#[from] ArrowError);

/// Takes JSON values and gives record batches of the table's schema.
///
/// It keeps nothing between batches but the order in which producers write fields, so that the next
/// batch is read faster.
#[derive(Debug)]
pub struct Converter {
    schema: SchemaRef,
    row: StructColumn,
    /// The path of each struct, by its id.
    struct_paths: Vec<String>,
    unknown: UnknownCounts,
}

impl Converter {
    /// Makes ready for values of `schema`.
    pub fn new(schema: &Schema) -> Result<Self, UnsupportedSchema> {
        let arrow = iceberg::arrow::schema_to_arrow_schema(schema).map_err(Box::new)?;
        let mut plan = Plan { struct_paths: Vec::new() };
        let row = plan.row(schema.as_struct(), "")?;
        Ok(Self {
            schema: Arc::new(arrow),
            row,
            struct_paths: plan.struct_paths,
            unknown: UnknownCounts::default(),
        })
    }

    /// The schema of the batches, with `PARQUET:field_id` in each field's metadata.
    #[must_use]
    pub const fn arrow_schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows taken since the last [`finish`](Self::finish).
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.row.rows
    }

    /// Adds `value` as a row, or nothing at all.
    pub fn append(&mut self, value: &[u8]) -> Result<(), BadRecord> {
        // The standard library, which is slower, says where it is wrong.
        let text = simdutf8::basic::from_utf8(value).or_else(|_| std::str::from_utf8(value));
        let text = text.map_err(|error| not_text(value, &error))?;
        let rows = self.row.rows;
        let mut cursor = Cursor::new(text);
        match self.read(&mut cursor) {
            Ok(()) => {
                self.unknown.add(cursor.unknown);
                Ok(())
            }
            Err(fault) => {
                self.row.truncate(rows);
                Err(fault.into_bad_record())
            }
        }
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        const OBJECT: &str = "object";
        cursor.space();
        if cursor.peek() != Some(b'{') {
            let fault = cursor.wrong_type(OBJECT, "a record's value is a JSON object");
            return Err(fault.reclassed(BadRecordClass::WrongType, BadRecordClass::NotAnObject));
        }
        self.row.read(cursor, OBJECT)?;
        cursor.end()
    }

    /// The rows since the last call, in the order in which they were added.
    pub fn finish(&mut self) -> Result<RecordBatch, FinishError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.row.rows));
        let columns = finish_fields(&mut self.row, self.schema.fields())?;
        // The row itself is never null.
        let _ = self.row.nulls.finish();
        Ok(RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)?)
    }

    /// The fields that rows taken so far had and the schema lacks. At most a few hundred names are
    /// kept; [`unknown_fields_beyond`](Self::unknown_fields_beyond) counts the others.
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<UnknownField> {
        self.unknown.list(&self.struct_paths)
    }

    /// How many unknown fields were met under names that are not kept.
    #[must_use]
    pub const fn unknown_fields_beyond(&self) -> u64 {
        self.unknown.beyond()
    }
}

#[cold]
fn not_text(value: &[u8], error: &std::str::Utf8Error) -> BadRecord {
    let at = error.valid_up_to();
    let byte = value.get(at).copied().unwrap_or_default();
    BadRecord {
        class: BadRecordClass::InvalidUtf8,
        path: "value".to_owned(),
        expected: "UTF-8 text".to_owned(),
        found: format!("byte 0x{byte:02x} at {at}"),
        rule: "JSON is UTF-8".into(),
    }
}

/// Builds the tree of columns and numbers its structs.
struct Plan {
    struct_paths: Vec<String>,
}

impl Plan {
    fn row(&mut self, fields: &StructType, path: &str) -> Result<StructColumn, UnsupportedSchema> {
        let id = self.next_id(path);
        let fields = fields.fields().iter().map(|field| self.field(field, path)).collect::<Result<_, _>>()?;
        Ok(StructColumn::new(id, fields))
    }

    fn next_id(&mut self, path: &str) -> StructId {
        self.struct_paths.push(path.to_owned());
        StructId(self.struct_paths.len() - 1)
    }

    fn field(&mut self, field: &NestedFieldRef, within: &str) -> Result<Field, UnsupportedSchema> {
        let dot = if within.is_empty() { "" } else { "." };
        let path = format!("{within}{dot}{}", field.name);
        if field.write_default.is_some() {
            return Err(UnsupportedSchema::WriteDefault(path));
        }
        Ok(Field {
            name: field.name.clone(),
            token: token(&field.name),
            required: field.required,
            type_name: type_name(&field.field_type).into(),
            column: self.column(&field.field_type, &path)?,
        })
    }

    fn column(&mut self, r#type: &Type, path: &str) -> Result<Column, UnsupportedSchema> {
        match r#type {
            Type::Primitive(primitive) => scalar(primitive, path),
            Type::Struct(fields) => self.row(fields, path).map(Column::Struct),
            Type::List(ListType { element_field }) => {
                let element = self.field(element_field, path)?;
                Ok(Column::List(Box::new(ListColumn::new(element))))
            }
            Type::Map(map) => self.map(map, path),
        }
    }

    fn map(&mut self, map: &MapType, path: &str) -> Result<Column, UnsupportedSchema> {
        if !map.key_field.field_type.is_primitive() {
            return Err(UnsupportedSchema::NestedKey(path.to_owned()));
        }
        let id = self.next_id(path);
        let entry = [&map.key_field, &map.value_field];
        let fields = entry.into_iter().map(|field| self.field(field, path)).collect::<Result<_, _>>()?;
        Ok(Column::Map(Box::new(MapColumn::new(StructColumn::new(id, fields)))))
    }
}

fn scalar(primitive: &PrimitiveType, path: &str) -> Result<Column, UnsupportedSchema> {
    Ok(match primitive {
        PrimitiveType::Boolean => Column::Boolean(Booleans::new()),
        PrimitiveType::Int => Column::Int(Values::new()),
        PrimitiveType::Long => Column::Long(Values::new()),
        PrimitiveType::Float => Column::Float(Values::new()),
        PrimitiveType::Double => Column::Double(Values::new()),
        PrimitiveType::Decimal { precision, scale } => {
            Column::Decimal(Values::new(), DecimalType { precision: *precision, scale: *scale })
        }
        PrimitiveType::Date => Column::Date(Values::new()),
        PrimitiveType::Time => Column::Time(Values::new()),
        PrimitiveType::Timestamp => Column::Timestamp(Values::new(), Unit::Micros, Zone::Without),
        PrimitiveType::Timestamptz => Column::Timestamp(Values::new(), Unit::Micros, Zone::With),
        PrimitiveType::TimestampNs => Column::Timestamp(Values::new(), Unit::Nanos, Zone::Without),
        PrimitiveType::TimestamptzNs => Column::Timestamp(Values::new(), Unit::Nanos, Zone::With),
        PrimitiveType::String => Column::String(Texts::new()),
        PrimitiveType::Uuid => Column::Uuid(Fixed::new(16)),
        PrimitiveType::Fixed(width) => Column::Fixed(Fixed::new(fixed_width(*width, path)?)),
        PrimitiveType::Binary => Column::Binary(Texts::new()),
    })
}

fn fixed_width(width: u64, path: &str) -> Result<usize, UnsupportedSchema> {
    let width = i32::try_from(width).ok().and_then(|width| usize::try_from(width).ok());
    width.ok_or_else(|| UnsupportedSchema::TooWide(path.to_owned()))
}

/// The name as JSON writes it where it needs no escape.
fn token(name: &str) -> Box<[u8]> {
    if name.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        return Box::default();
    }
    format!("\"{name}\"").into_bytes().into()
}

fn type_name(r#type: &Type) -> String {
    match r#type {
        Type::Primitive(primitive) => primitive.to_string(),
        Type::Struct(_) => "struct".to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Map(_) => "map".to_owned(),
    }
}

#[cfg(test)]
mod tests;
