//! Splitting rows by partition.

use std::collections::HashMap;
use std::hash::Hash;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, Int32Array, PrimitiveArray, RecordBatch};
use arrow::datatypes::{
    DataType, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::temporal_conversions::{
    timestamp_ns_to_datetime, timestamp_s_to_datetime, timestamp_us_to_datetime,
};
use chrono::NaiveDateTime;
use iceberg::spec::{Datum, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Transform, Type};
use icefall_manifest::SingleValue;

use crate::format::{DataFileError, UnsupportedTable};
use crate::{path, single_value};

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const NANOS_PER_HOUR: i64 = 3_600_000_000_000;

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
    /// Position of the source column in the schema.
    column: usize,
    transform: Transform,
    result_type: Type,
}

impl Partitioning {
    /// Makes ready to split rows of `schema` by `spec`.
    pub(crate) fn new(schema: &Schema, spec: &PartitionSpec) -> Result<Self, UnsupportedTable> {
        let types =
            spec.partition_type(schema).map_err(|error| UnsupportedTable::Metadata(Box::new(error)))?;
        let fields = spec.fields().iter().zip(types.fields()).map(|(field, typed)| {
            let columns = schema.as_struct().fields();
            let column = columns.iter().position(|column| column.id == field.source_id);
            let column = column.ok_or_else(|| UnsupportedTable::NestedSource(field.name.clone()))?;
            if !matches!(field.transform, Transform::Identity | Transform::Hour) {
                let transform = field.transform.to_string();
                return Err(UnsupportedTable::Transform { field: field.name.clone(), transform });
            }
            Ok(Field {
                name: field.name.clone(),
                source_id: field.source_id,
                column,
                transform: field.transform,
                result_type: typed.field_type.as_ref().clone(),
            })
        });
        fields.collect::<Result<_, _>>().map(Self)
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
        let path = segments.collect::<Vec<_>>().join("/");
        Group { values, path: (!path.is_empty()).then_some(path), rows }
    }
}

impl Field {
    /// The partition value of every row.
    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef, DataFileError> {
        let missing = || DataFileError::MissingColumn(self.source_id);
        let column = batch.columns().get(self.column).ok_or_else(missing)?;
        match self.transform {
            Transform::Identity => Ok(ArrayRef::clone(column)),
            _ => hours(column).ok_or_else(|| DataFileError::ColumnType(self.name.clone())),
        }
    }

    fn segment(&self, value: Option<&SingleValue>) -> String {
        let datum = value
            .zip(self.result_type.as_primitive_type())
            .and_then(|(value, primitive)| Datum::try_from_bytes(&value.0, primitive.clone()).ok());
        path::segment(&self.name, &datum.map_or_else(|| "null".to_owned(), |datum| self.shown(&datum)))
    }

    /// A partition's value as people read it: hours as Iceberg's other writers show them. Moments are not
    /// left to the library, which panics at fractions of a second before 1970.
    fn shown(&self, value: &Datum) -> String {
        use PrimitiveType::{Timestamp, TimestampNs, Timestamptz, TimestamptzNs};
        match (self.transform, value.literal(), value.data_type()) {
            (Transform::Hour, PrimitiveLiteral::Int(hours), _) => hour(*hours),
            (_, PrimitiveLiteral::Long(micros), Timestamp | Timestamptz) => {
                moment(timestamp_us_to_datetime(*micros), *micros)
            }
            (_, PrimitiveLiteral::Long(nanos), TimestampNs | TimestamptzNs) => {
                moment(timestamp_ns_to_datetime(*nanos), *nanos)
            }
            _ => value.to_human_string(),
        }
    }
}

/// A moment as `2024-05-01T10-20-30` with its fraction, if any; one that no calendar reaches as its number.
fn moment(time: Option<NaiveDateTime>, number: i64) -> String {
    time.map_or_else(|| number.to_string(), |time| time.format("%Y-%m-%dT%H-%M-%S%.f").to_string())
}

/// An hour since the epoch as `2024-05-01-10`; one that no calendar reaches as its number.
fn hour(hours: i32) -> String {
    let start = timestamp_s_to_datetime(i64::from(hours) * 3600);
    start.map_or_else(|| hours.to_string(), |start| start.format("%Y-%m-%d-%H").to_string())
}

/// Hours since the epoch, rounded down also before it (spec, "Partition Transforms").
fn hours(column: &ArrayRef) -> Option<ArrayRef> {
    fn of<T: ArrowPrimitiveType<Native = i64>>(array: &PrimitiveArray<T>, per_hour: i64) -> Option<ArrayRef> {
        let hours = array.try_unary(|time| i32::try_from(time.div_euclid(per_hour)).map_err(|_| ()));
        hours.ok().map(|hours: Int32Array| std::sync::Arc::new(hours) as ArrayRef)
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            of(column.as_primitive::<TimestampMicrosecondType>(), MICROS_PER_HOUR)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            of(column.as_primitive::<TimestampNanosecondType>(), NANOS_PER_HOUR)
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_shown_as_dates_also_before_the_epoch() {
        assert_eq!(hour(476_266), "2024-05-01-10");
        assert_eq!(hour(0), "1970-01-01-00");
        assert_eq!(hour(-1), "1969-12-31-23");
        assert!(hour(i32::MIN).starts_with('-'), "far outside every timestamp, but a text all the same");
    }
}
