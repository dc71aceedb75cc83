//! A table's schema as Parquet's.
//!
//! Arrow's own conversion gives all of it but the annotation of uuids: in Arrow a uuid is sixteen
//! bytes like any others, in Iceberg it is a type of its own (spec, appendix A: `UUID` on
//! `fixed_len_byte_array[16]`), and readers that find bytes where the table has a uuid refuse the file.

use std::sync::Arc;

use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{PrimitiveType, Schema, Type as IcebergType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::LogicalType;
use parquet::errors::ParquetError;
use parquet::schema::types::{BasicTypeInfo, SchemaDescriptor, Type, TypePtr};

use crate::format::UnsupportedTable;

/// The Parquet schema of files of `schema`.
pub(crate) fn of(schema: &Schema) -> Result<SchemaDescriptor, UnsupportedTable> {
    let arrow =
        schema_to_arrow_schema(schema).map_err(|error| UnsupportedTable::Metadata(Box::new(error)))?;
    let parquet = ArrowSchemaConverter::new().convert(&arrow).map_err(UnsupportedTable::Parquet)?;
    let root = annotated(&parquet.root_schema_ptr(), schema).map_err(UnsupportedTable::Parquet)?;
    Ok(SchemaDescriptor::new(root))
}

fn annotated(node: &TypePtr, schema: &Schema) -> Result<TypePtr, ParquetError> {
    match node.as_ref() {
        Type::GroupType { basic_info, fields } => group(basic_info, fields, schema),
        Type::PrimitiveType { basic_info, .. } if is_uuid(basic_info, schema) => uuid(node),
        Type::PrimitiveType { .. } => Ok(TypePtr::clone(node)),
    }
}

fn group(info: &BasicTypeInfo, fields: &[TypePtr], schema: &Schema) -> Result<TypePtr, ParquetError> {
    let fields = fields.iter().map(|field| annotated(field, schema)).collect::<Result<_, _>>()?;
    let mut builder = Type::group_type_builder(info.name())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(fields);
    if info.has_repetition() {
        builder = builder.with_repetition(info.repetition());
    }
    builder.build().map(Arc::new)
}

fn is_uuid(info: &BasicTypeInfo, schema: &Schema) -> bool {
    let field = info.has_id().then(|| schema.field_by_id(info.id())).flatten();
    field.is_some_and(|field| *field.field_type == IcebergType::Primitive(PrimitiveType::Uuid))
}

fn uuid(node: &Type) -> Result<TypePtr, ParquetError> {
    let info = node.get_basic_info();
    Type::primitive_type_builder(info.name(), node.get_physical_type())
        .with_repetition(info.repetition())
        .with_length(16)
        .with_logical_type(Some(LogicalType::Uuid))
        .with_id(info.has_id().then(|| info.id()))
        .build()
        .map(Arc::new)
}
