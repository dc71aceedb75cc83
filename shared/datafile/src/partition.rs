//! Splitting rows by partition.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Date32Type, Int32Type, Int64Type};
use iceberg::spec::{NestedFieldRef, PartitionField, PartitionSpec, PrimitiveType, Schema, Transform, Type};
use icefall_manifest::SingleValue;

use crate::format::{DataFileError, UnsupportedTable};
use crate::{path, single_value, transform};

/// Rows of one partition.
#[derive(Debug)]
pub(crate) struct Group {
    /// The partition's values in the order of the spec's fields.
    pub(crate) values: Vec<Option<SingleValue>>,
    /// Its folder below the data folder; `None` in an unpartitioned table.
    pub(crate) path: Option<String>,
    /// The rows, ascending.
    pub(crate) rows: Vec<u32>,
}

/// A partition spec made ready.
#[derive(Debug)]
pub(crate) struct Partitioning(Vec<Field>);

#[derive(Debug)]
struct Field {
    name: String,
    source_id: i32,
    /// Position of the source column in the schema, and of each field on the way down to it.
    column: Vec<usize>,
    transform: Transform,
    result_type: PrimitiveType,
}

impl Partitioning {
    /// Makes ready to split rows of `schema` by `spec`.
    pub(crate) fn new(schema: &Schema, spec: &PartitionSpec) -> Result<Self, UnsupportedTable> {
        let types =
            spec.partition_type(schema).map_err(|error| UnsupportedTable::Metadata(Box::new(error)))?;
        let fields = spec.fields().iter().zip(types.fields());
        let fields = fields.map(|(field, typed)| Field::new(schema, field, &typed.field_type));
        let mut made: Vec<Field> = Vec::new();
        for field in fields {
            let field = field?;
            if let Some(rule) = field.not_for_manifests(&made) {
                return Err(refused(&field.name, field.transform, rule));
            }
            made.push(field);
        }
        Ok(Self(made))
    }

    /// The groups of `batch`, in the order of their first rows.
    pub(crate) fn split(&self, batch: &RecordBatch) -> Result<Vec<Group>, DataFileError> {
        let rows = batch.num_rows();
        let count = u32::try_from(rows).map_err(|_| DataFileError::TooManyRows(rows))?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let values: Vec<ArrayRef> =
            self.0.iter().map(|field| field.values(batch)).collect::<Result<_, _>>()?;
        let mut codes = Codes::new(rows);
        for values in &values {
            codes.refine(values);
        }
        let groups = codes.groups(count).into_iter().map(|rows| self.group(&values, rows));
        Ok(groups.collect())
    }

    fn group(&self, values: &[ArrayRef], rows: Vec<u32>) -> Group {
        let first = rows.first().map_or(0, |row| *row as usize);
        let values: Vec<_> = values.iter().map(|values| single_value::at(values, first)).collect();
        let segments = self.0.iter().zip(&values).map(|(field, value)| field.segment(value.as_ref()));
        let path = path::joined(&segments.collect::<Vec<_>>());
        Group { values, path: (!path.is_empty()).then_some(path), rows }
    }
}

impl Field {
    fn new(schema: &Schema, field: &PartitionField, result: &Type) -> Result<Self, UnsupportedTable> {
        let refuse = |rule| refused(&field.name, field.transform, rule);
        let column = descend(schema.as_struct().fields(), field.source_id);
        let column = column.ok_or_else(|| UnsupportedTable::NestedSource(field.name.clone()))?;
        let source =
            schema.field_by_id(field.source_id).and_then(|field| field.field_type.as_primitive_type());
        let (source, result_type) = source
            .zip(result.as_primitive_type())
            .ok_or_else(|| refuse("its column is not of a primitive type"))?;
        match transform::refusal(field.transform, source) {
            Some(rule) => Err(refuse(rule)),
            None => Ok(Self {
                name: field.name.clone(),
                source_id: field.source_id,
                column,
                transform: field.transform,
                result_type: result_type.clone(),
            }),
        }
    }

    /// What keeps its values from manifests: `iceberg` 0.10.1 gives them no form for a uuid, and names the Avro
    /// types of fixed lengths by their lengths alone, so that a second of the same makes the file unreadable.
    fn not_for_manifests(&self, others: &[Self]) -> Option<&'static str> {
        let is_same = |other: &&Self| other.result_type == self.result_type;
        match self.result_type {
            PrimitiveType::Uuid => Some("manifests can't hold uuids yet; use bucket"),
            PrimitiveType::Decimal { .. } | PrimitiveType::Fixed(_) => others
                .iter()
                .find(is_same)
                .map(|_| "manifests can't hold two partition fields of this type yet"),
            _ => None,
        }
    }

    /// The partition value of every row.
    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFileError> {
        let column = self.source(batch)?;
        let values = transform::apply(self.transform, &column);
        values.ok_or_else(|| DataFileError::NoPartition {
            field: self.name.clone(),
            transform: self.transform.to_string(),
        })
    }

    /// The source column. A field of a struct that is null is null, whatever lies below it.
    fn source(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFileError> {
        let missing = || DataFileError::MissingColumn(self.source_id);
        let (first, below) = self.column.split_first().ok_or_else(missing)?;
        let mut column = Arc::clone(batch.columns().get(*first).ok_or_else(missing)?);
        for index in below {
            let parent = column.as_struct_opt().ok_or_else(missing)?;
            let child = parent.columns().get(*index).ok_or_else(missing)?;
            column = match parent.null_count() {
                0 => Arc::clone(child),
                _ => nullif(child, &is_null(&column)?)?,
            };
        }
        Ok(column)
    }

    fn segment(&self, value: Option<&SingleValue>) -> String {
        path::segment(&self.name, &path::shown(self.transform, &self.result_type, value))
    }
}

fn refused(field: &str, transform: Transform, rule: &str) -> UnsupportedTable {
    let (field, transform) = (field.to_owned(), transform.to_string());
    UnsupportedTable::Transform { field, transform, rule: rule.to_owned() }
}

/// The way down to the field `id`, through structs alone: lists and maps have many values or none per row.
fn descend(fields: &[NestedFieldRef], id: i32) -> Option<Vec<usize>> {
    fields.iter().enumerate().find_map(|(index, field)| match field.field_type.as_ref() {
        _ if field.id == id => Some(vec![index]),
        Type::Struct(inner) => {
            let below = descend(inner.fields(), id)?;
            Some(std::iter::once(index).chain(below).collect())
        }
        _ => None,
    })
}

/// A number per row, the same for rows of the same partition.
struct Codes {
    codes: Vec<u32>,
    distinct: u32,
}

impl Codes {
    fn new(rows: usize) -> Self {
        Self { codes: vec![0; rows], distinct: 1 }
    }

    /// Tells rows apart that differ in `values`.
    fn refine(&mut self, values: &ArrayRef) {
        match values.data_type() {
            DataType::Int32 => {
                let values = values.as_primitive::<Int32Type>();
                self.refine_by(values.iter());
            }
            DataType::Date32 => {
                let values = values.as_primitive::<Date32Type>();
                self.refine_by(values.iter());
            }
            DataType::Int64 => {
                let values = values.as_primitive::<Int64Type>();
                self.refine_by(values.iter());
            }
            _ => self.refine_by((0..values.len()).map(|row| single_value::at(values, row))),
        }
    }

    fn refine_by<K: Eq + Hash>(&mut self, keys: impl Iterator<Item = Option<K>>) {
        let mut known: HashMap<(u32, Option<K>), u32> = HashMap::new();
        for (code, key) in self.codes.iter_mut().zip(keys) {
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            *code = *known.entry((*code, key)).or_insert(next);
        }
        self.distinct = u32::try_from(known.len()).unwrap_or(u32::MAX);
    }

    /// Rows by code. Codes are given in the order of first rows, so the groups are too.
    fn groups(&self, count: u32) -> Vec<Vec<u32>> {
        if self.distinct == 1 {
            return vec![(0..count).collect()];
        }
        let mut groups = vec![Vec::new(); self.distinct as usize];
        for (row, code) in (0..count).zip(&self.codes) {
            if let Some(group) = groups.get_mut(*code as usize) {
                group.push(row);
            }
        }
        groups
    }
}
