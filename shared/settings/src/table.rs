//! A declared table: from its section to the schema and partition spec that it is made with.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::spec::{PrimitiveType, Schema, Type, UnboundPartitionSpec};
use icefall_manifest::{Branch, TableName};

use crate::fault::{Faults, Key};
use crate::partition::PartitionField;
use crate::raw::{RawColumn, RawTable};
use crate::settings::TableSettings;
use crate::types::{Column, ColumnType, FieldIds, check_name, repeated_name, to_iceberg_fields};

const FORMAT_VERSION: &str = "format-version";

/// What a table is made with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) schema: Schema,
    pub(crate) partition_spec: UnboundPartitionSpec,
}

/// The table `name` that stands at `key`.
pub(crate) fn table(
    name: Option<TableName>,
    raw: RawTable,
    key: &Key,
    faults: &mut Faults,
) -> Option<TableSettings> {
    let branch = branch(raw.branch, &key.child("branch"), faults);
    let partition_by = partition_fields(raw.partition_by, &key.child("partition_by"), faults);
    let properties = raw.properties.unwrap_or_default();
    check_properties(&properties, &key.child("properties"), faults);
    let declared = raw.columns.is_some();
    let columns = raw.columns.and_then(|columns| columns_at(columns, &key.child("columns"), faults));
    if !declared {
        refuse_unused(&partition_by, &properties, key, faults);
    }
    let definition = match &columns {
        Some(columns) => {
            check_format_version(columns, &properties, &key.child("columns"), faults);
            Some(define(columns, &partition_by, key, faults)?)
        }
        None => None,
    };
    let partition_by = partition_by.into_iter().map(|(_, field)| field).collect();
    Some(TableSettings { name: name?, branch: branch?, partition_by, properties, columns, definition })
}

fn branch(raw: Option<String>, key: &Key, faults: &mut Faults) -> Option<Branch> {
    match raw.map(Branch::try_from) {
        None => Some(Branch::main()),
        Some(Ok(branch)) => Some(branch),
        Some(Err(error)) => {
            faults.add(key, error);
            None
        }
    }
}

/// The fields that can be read, each with its key.
fn partition_fields(
    raw: Option<Vec<Option<String>>>,
    key: &Key,
    faults: &mut Faults,
) -> Vec<(Key, PartitionField)> {
    let texts = raw.unwrap_or_default().into_iter().enumerate();
    let fields = texts.filter_map(|(index, text)| {
        let key = key.at(index);
        match PartitionField::parse(&text?) {
            Ok(field) => Some((key, field)),
            Err(problem) => {
                faults.add(&key, problem);
                None
            }
        }
    });
    fields.collect()
}

/// Icefall's own properties are its ledger: a table must not be made with one.
fn check_properties(properties: &BTreeMap<String, String>, key: &Key, faults: &mut Faults) {
    for name in properties.keys().filter(|name| name.starts_with("icefall.")) {
        faults.add(&key.child(name), "is Icefall's own to set; leave it out");
    }
    if let Some(version) = properties.get(FORMAT_VERSION)
        && !matches!(version.as_str(), "2" | "3")
    {
        let problem =
            "must be \"2\" or \"3\": format 1 has no sequence numbers, by which rollbacks are noticed";
        faults.add(&key.child(FORMAT_VERSION), problem);
    }
}

/// Nanoseconds came with format version 3 (<https://iceberg.apache.org/spec/#primitive-types>).
fn check_format_version(
    columns: &[Column],
    properties: &BTreeMap<String, String>,
    key: &Key,
    faults: &mut Faults,
) {
    if properties.get(FORMAT_VERSION).is_some_and(|version| version == "3") {
        return;
    }
    for (index, column) in columns.iter().enumerate() {
        let needs_v3 =
            |kind: &&PrimitiveType| matches!(kind, PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs);
        if let Some(kind) = column.data_type.primitives().into_iter().find(|kind| needs_v3(kind)) {
            let problem = format!("{kind} needs format version 3; set properties.format-version = \"3\"");
            faults.add(&key.at(index).child("type"), problem);
        }
    }
}

/// What only a table that is made uses would be ignored otherwise, and never said.
fn refuse_unused(
    partition_by: &[(Key, PartitionField)],
    properties: &BTreeMap<String, String>,
    key: &Key,
    faults: &mut Faults,
) {
    let problem = "is used only when Icefall makes the table; declare its columns too, or leave this out";
    if !partition_by.is_empty() {
        faults.add(&key.child("partition_by"), problem);
    }
    if !properties.is_empty() {
        faults.add(&key.child("properties"), problem);
    }
}

fn columns_at(raw: Vec<Option<RawColumn>>, key: &Key, faults: &mut Faults) -> Option<Vec<Column>> {
    if raw.is_empty() {
        faults.add(key, "is empty; declare the columns, or leave it out if the table is there");
        return None;
    }
    let entries = raw.into_iter().enumerate();
    let read: Vec<_> = entries.map(|(index, raw)| column(raw?, &key.at(index), faults)).collect();
    let columns: Vec<Column> = read.into_iter().collect::<Option<_>>()?;
    if let Some(name) = repeated_name(&columns) {
        faults
            .add(key, format_args!("has {name:?} twice (upper and lower case count as one); name each once"));
        return None;
    }
    Some(columns)
}

fn column(raw: RawColumn, key: &Key, faults: &mut Faults) -> Option<Column> {
    let name = match raw.name {
        None => {
            faults.missing(&key.child("name"), "name the column");
            None
        }
        Some(name) => match check_name(&name) {
            Ok(()) => Some(name),
            Err(problem) => {
                faults.add(&key.child("name"), problem);
                None
            }
        },
    };
    let data_type = column_type(raw.data_type, &key.child("type"), faults);
    Some(Column { name: name?, data_type: data_type?, required: raw.required.unwrap_or(false) })
}

fn column_type(raw: Option<String>, key: &Key, faults: &mut Faults) -> Option<ColumnType> {
    let Some(text) = raw else {
        faults.missing(key, "say what the column holds, such as \"string\"");
        return None;
    };
    ColumnType::parse(&text).map_err(|problem| faults.add(key, problem)).ok()
}

fn define(
    columns: &[Column],
    partition_by: &[(Key, PartitionField)],
    key: &Key,
    faults: &mut Faults,
) -> Option<Definition> {
    let fields = to_iceberg_fields(columns, &mut FieldIds::default());
    let built = Schema::builder().with_fields(fields).build();
    let schema = built.map_err(|error| faults.add(&key.child("columns"), error.message())).ok()?;
    let sources = partition_by.iter().map(|(key, field)| {
        let id = source_id(&schema, columns, field).map_err(|problem| faults.add(key, problem)).ok()?;
        Some((key, id, field))
    });
    let sources: Vec<_> = sources.collect();
    let mut spec = UnboundPartitionSpec::builder();
    for source in sources {
        let (key, id, field) = source?;
        let added = spec.add_partition_field(id, field.name(), field.transform);
        spec = added.map_err(|error| faults.add(key, error.message())).ok()?;
    }
    let partition_spec = spec.build();
    refuse_same_lengths(&schema, &partition_spec, partition_by, faults)?;
    let bound = partition_spec.clone().bind(Arc::new(schema.clone()));
    bound.map_err(|error| faults.add(&key.child("partition_by"), error.message())).ok()?;
    Some(Definition { schema, partition_spec })
}

/// Manifests can't hold two partition fields of one decimal or fixed type: the library that writes them names
/// those types by their lengths alone.
fn refuse_same_lengths(
    schema: &Schema,
    spec: &UnboundPartitionSpec,
    partition_by: &[(Key, PartitionField)],
    faults: &mut Faults,
) -> Option<()> {
    let mut seen: Vec<Type> = Vec::new();
    for (field, (key, written)) in spec.fields().iter().zip(partition_by) {
        let source = schema.field_by_id(field.source_id)?;
        let Ok(result) = field.transform.result_type(&source.field_type) else { continue };
        let has_length = matches!(
            result.as_primitive_type(),
            Some(PrimitiveType::Decimal { .. } | PrimitiveType::Fixed(_))
        );
        if has_length && seen.contains(&result) {
            let problem = format!(
                "{written} is the second partition field of type {result}; manifests can't hold two yet"
            );
            faults.add(key, problem);
            return None;
        }
        seen.push(result);
    }
    Some(())
}

/// The id of the column that `field` is made of, if it can be: a declared one, or a field of its structs.
fn source_id(schema: &Schema, columns: &[Column], field: &PartitionField) -> Result<i32, String> {
    let source = find(columns, &field.column);
    let id = schema.field_id_by_name(&field.column).filter(|_| source.is_some());
    let id = id.ok_or_else(|| {
        let declared: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        format!("{:?} is no declared column; there are {}", field.column, declared.join(", "))
    })?;
    let source = source.and_then(|source| match source {
        ColumnType::Primitive(primitive) => Some(primitive),
        _ => None,
    });
    field.check_source(source).map(|()| id)
}

/// The type of the column `path`, dots leading into structs. Fields of lists and maps are none: a row has
/// many values of them, or none.
fn find<'a>(columns: &'a [Column], path: &str) -> Option<&'a ColumnType> {
    let (name, below) = path.split_once('.').map_or((path, None), |(name, below)| (name, Some(below)));
    let column = columns.iter().find(|column| column.name == name)?;
    match (below, &column.data_type) {
        (None, found) => Some(found),
        (Some(below), ColumnType::Struct(fields)) => find(fields, below),
        (Some(_), _) => None,
    }
}
