//! A batch manifest's data-file entries as `iceberg`'s own, typed by the table's metadata.

use std::collections::{BTreeMap, HashMap};

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, PrimitiveType, Schema,
    Struct, StructType, TableMetadata, Type,
};
use icefall_manifest::{DataFileEntry, SchemaId, SingleValue, SpecId};

use super::AppendError;

/// The files of `entries` for a manifest.
pub(super) fn convert<'e>(
    metadata: &TableMetadata,
    schema_id: SchemaId,
    spec_id: SpecId,
    entries: impl Iterator<Item = &'e DataFileEntry>,
) -> Result<Vec<DataFile>, AppendError> {
    let schema = metadata.schema_by_id(schema_id.0).ok_or(AppendError::NoSchema(schema_id))?;
    let spec = metadata.partition_spec_by_id(spec_id.0).ok_or(AppendError::NoSpec(spec_id))?;
    let partition_type = spec.partition_type(schema)?;
    let convert = Conversion { schema, partition_type: &partition_type, spec_id: spec_id.0 };
    entries.map(|entry| convert.file(entry)).collect()
}

struct Conversion<'a> {
    schema: &'a Schema,
    partition_type: &'a StructType,
    spec_id: i32,
}

impl Conversion<'_> {
    fn file(&self, entry: &DataFileEntry) -> Result<DataFile, AppendError> {
        let mut builder = DataFileBuilder::default();
        builder
            .content(DataContentType::Data)
            .file_path(entry.path.clone())
            .file_format(DataFileFormat::Parquet)
            .partition(self.partition(entry)?)
            .partition_spec_id(self.spec_id)
            .record_count(entry.record_count)
            .file_size_in_bytes(entry.file_size_in_bytes)
            .column_sizes(counts(&entry.column_sizes))
            .value_counts(counts(&entry.value_counts))
            .null_value_counts(counts(&entry.null_value_counts))
            .nan_value_counts(counts(&entry.nan_value_counts))
            .lower_bounds(self.bounds(entry, &entry.lower_bounds, "lower bound")?)
            .upper_bounds(self.bounds(entry, &entry.upper_bounds, "upper bound")?)
            .split_offsets(Some(entry.split_offsets.clone()));
        builder
            .build()
            .map_err(|error| iceberg::Error::new(iceberg::ErrorKind::DataInvalid, error.to_string()).into())
    }

    fn partition(&self, entry: &DataFileEntry) -> Result<Struct, AppendError> {
        let fields = self.partition_type.fields();
        if fields.len() != entry.partition.len() {
            let expected = format!("{} values", fields.len());
            return Err(bad(entry, 0, "partition", expected));
        }
        let values = fields.iter().zip(&entry.partition).map(|(field, value)| {
            let Some(value) = value else { return Ok(None) };
            let datum = datum(value, &field.field_type);
            let literal = datum.map(|datum| Literal::Primitive(datum.literal().clone()));
            literal
                .map(Some)
                .ok_or_else(|| bad(entry, field.id, "partition value", field.field_type.to_string()))
        });
        values.collect()
    }

    fn bounds(
        &self,
        entry: &DataFileEntry,
        bounds: &BTreeMap<i32, SingleValue>,
        what: &'static str,
    ) -> Result<HashMap<i32, Datum>, AppendError> {
        let typed = bounds.iter().map(|(id, value)| {
            let field_type = self.schema.field_by_id(*id).map(|field| field.field_type.as_ref());
            let datum = field_type.and_then(|field_type| datum(value, field_type));
            datum.map(|datum| (*id, datum)).ok_or_else(|| {
                let expected = field_type.map_or_else(|| "column".to_owned(), ToString::to_string);
                bad(entry, *id, what, expected)
            })
        });
        typed.collect()
    }
}

fn counts(counts: &BTreeMap<i32, u64>) -> HashMap<i32, u64> {
    counts.iter().map(|(id, count)| (*id, *count)).collect()
}

/// The value, if it is one of `field_type`. Lengths are checked first, since fixed-width values of any
/// other length are no values (spec, appendix D).
fn datum(value: &SingleValue, field_type: &Type) -> Option<Datum> {
    let primitive = field_type.as_primitive_type()?;
    let length = value.0.len();
    let fits = match primitive {
        PrimitiveType::Boolean => length == 1,
        PrimitiveType::Int | PrimitiveType::Date | PrimitiveType::Float => length == 4,
        PrimitiveType::Long
        | PrimitiveType::Double
        | PrimitiveType::Time
        | PrimitiveType::Timestamp
        | PrimitiveType::Timestamptz
        | PrimitiveType::TimestampNs
        | PrimitiveType::TimestamptzNs => length == 8,
        PrimitiveType::Uuid => length == 16,
        PrimitiveType::Decimal { .. } => (1..=16).contains(&length),
        PrimitiveType::Fixed(size) => length as u64 == *size,
        PrimitiveType::String | PrimitiveType::Binary => true,
    };
    if !fits {
        return None;
    }
    Datum::try_from_bytes(&value.0, primitive.clone()).ok()
}

fn bad(entry: &DataFileEntry, field: i32, what: &'static str, expected: String) -> AppendError {
    AppendError::BadValue { path: entry.path.clone(), field, what, expected }
}
