//! Which metrics a table wants of its columns, and measuring them.
//!
//! Counts and sizes come from the Parquet file's own footer. Bounds and NaNs are measured on the rows
//! themselves, for columns at the top and inside structs; values inside lists and maps have no bounds,
//! as in Iceberg's other writers.

use std::collections::{BTreeMap, HashMap};

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::nullif;
use iceberg::spec::{NestedFieldRef, PrimitiveType, Schema, StructType, Type};
use icefall_manifest::{DataFileEntry, SingleValue};

use crate::bounds;
use crate::format::UnsupportedTable;

const DEFAULT_KEY: &str = "write.metadata.metrics.default";
const COLUMN_KEY: &str = "write.metadata.metrics.column.";

/// Columns that get metrics when the table does not say which: as in Iceberg's other writers.
const DEFAULT_COLUMNS: usize = 100;

/// How much a manifest says about a column (Iceberg's `write.metadata.metrics.*`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricsMode {
    /// Nothing.
    None,
    /// Counts alone.
    Counts,
    /// Counts and bounds, text and bytes cut to so many characters or bytes.
    Truncate(usize),
    /// Counts and whole bounds.
    Full,
}

impl MetricsMode {
    const DEFAULT: Self = Self::Truncate(16);

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Some(Self::None),
            "counts" => Some(Self::Counts),
            "full" => Some(Self::Full),
            other => {
                let length = other.strip_prefix("truncate(")?.strip_suffix(')')?.trim().parse().ok()?;
                (length > 0).then_some(Self::Truncate(length))
            }
        }
    }
}

/// What was measured on the rows.
#[derive(Debug, Default)]
pub(crate) struct ColumnMetrics {
    /// Of the columns of which the Parquet file's footer doesn't tell.
    pub(crate) null_value_counts: BTreeMap<i32, u64>,
    pub(crate) nan_value_counts: BTreeMap<i32, u64>,
    pub(crate) lower_bounds: BTreeMap<i32, SingleValue>,
    pub(crate) upper_bounds: BTreeMap<i32, SingleValue>,
}

/// The columns of a table and their modes.
#[derive(Debug)]
pub(crate) struct MetricsPlan {
    fields: StructType,
    modes: HashMap<i32, MetricsMode>,
}

impl MetricsPlan {
    /// Reads the modes from the table's properties.
    pub(crate) fn new(
        schema: &Schema,
        properties: &HashMap<String, String>,
    ) -> Result<Self, UnsupportedTable> {
        let mode_of = |key: &str| properties.get(key).map(|value| parsed(key, value)).transpose();
        let default = mode_of(DEFAULT_KEY)?;
        let mut modes = HashMap::new();
        for (index, id) in leaves(schema.as_struct()).into_iter().enumerate() {
            let name = schema.name_by_field_id(id).unwrap_or_default();
            let inferred = if index < DEFAULT_COLUMNS { MetricsMode::DEFAULT } else { MetricsMode::None };
            let mode = mode_of(&format!("{COLUMN_KEY}{name}"))?.or(default).unwrap_or(inferred);
            modes.insert(id, mode);
        }
        Ok(Self { fields: schema.as_struct().clone(), modes })
    }

    /// Measures `rows`, whose columns are in the schema's order.
    pub(crate) fn measure(&self, rows: &RecordBatch) -> ColumnMetrics {
        let mut metrics = ColumnMetrics::default();
        for (field, column) in self.fields.fields().iter().zip(rows.columns()) {
            self.measure_field(field, column, &mut metrics);
        }
        metrics
    }

    /// Drops the counts and sizes of columns that get none.
    pub(crate) fn keep_counts(&self, entry: &mut DataFileEntry) {
        let wanted = |id: &i32| self.mode(*id) != MetricsMode::None;
        entry.column_sizes.retain(|id, _| wanted(id));
        entry.value_counts.retain(|id, _| wanted(id));
        entry.null_value_counts.retain(|id, _| wanted(id));
    }

    fn mode(&self, id: i32) -> MetricsMode {
        self.modes.get(&id).copied().unwrap_or(MetricsMode::None)
    }

    fn measure_field(&self, field: &NestedFieldRef, column: &ArrayRef, metrics: &mut ColumnMetrics) {
        match field.field_type.as_ref() {
            Type::Primitive(kind) => self.measure_leaf(field.id, kind, column, metrics),
            Type::Struct(inner) => {
                let Some(structs) = column.as_struct_opt() else { return };
                for (field, child) in inner.fields().iter().zip(structs.columns()) {
                    let visible = beneath(structs, child);
                    self.measure_field(field, &visible, metrics);
                }
            }
            Type::List(_) | Type::Map(_) => {}
        }
    }

    fn measure_leaf(&self, id: i32, kind: &PrimitiveType, column: &ArrayRef, metrics: &mut ColumnMetrics) {
        let length = match self.mode(id) {
            MetricsMode::None => return,
            MetricsMode::Counts => None,
            MetricsMode::Truncate(length) => Some(length),
            MetricsMode::Full => Some(usize::MAX),
        };
        if *kind == PrimitiveType::Uuid {
            metrics.null_value_counts.insert(id, column.null_count() as u64);
        }
        metrics.nan_value_counts.extend(bounds::nans(column).map(|count| (id, count)));
        if let Some(length) = length {
            let found = match kind {
                PrimitiveType::Uuid => bounds::of_uuids(column),
                _ => bounds::of(column, Some(length)),
            };
            metrics.lower_bounds.extend(found.lower.map(|value| (id, value)));
            metrics.upper_bounds.extend(found.upper.map(|value| (id, value)));
        }
    }
}

/// A struct's child as a reader sees it: null wherever the struct is.
fn beneath(parent: &dyn Array, child: &ArrayRef) -> ArrayRef {
    if parent.null_count() == 0 {
        return ArrayRef::clone(child);
    }
    let hidden: BooleanArray = (0..parent.len()).map(|row| Some(parent.is_null(row))).collect();
    nullif(child, &hidden).unwrap_or_else(|_| ArrayRef::clone(child))
}

fn parsed(key: &str, value: &str) -> Result<MetricsMode, UnsupportedTable> {
    MetricsMode::parse(value).ok_or_else(|| UnsupportedTable::Property {
        key: key.to_owned(),
        value: value.to_owned(),
        rule: "it must be none, counts, truncate(length) or full",
    })
}

/// The ids of all primitive fields, in the schema's order.
fn leaves(fields: &StructType) -> Vec<i32> {
    fn visit(field: &NestedFieldRef, ids: &mut Vec<i32>) {
        match field.field_type.as_ref() {
            Type::Primitive(_) => ids.push(field.id),
            Type::Struct(inner) => inner.fields().iter().for_each(|field| visit(field, ids)),
            Type::List(list) => visit(&list.element_field, ids),
            Type::Map(map) => {
                visit(&map.key_field, ids);
                visit(&map.value_field, ids);
            }
        }
    }
    let mut ids = Vec::new();
    fields.fields().iter().for_each(|field| visit(field, &mut ids));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_iceberg_writes_them() {
        assert_eq!(MetricsMode::parse("truncate(16)"), Some(MetricsMode::Truncate(16)));
        assert_eq!(MetricsMode::parse("Full"), Some(MetricsMode::Full));
        for bad in ["", "truncate", "truncate(0)", "truncate(-1)", "all"] {
            assert_eq!(MetricsMode::parse(bad), None, "{bad:?}");
        }
    }
}
