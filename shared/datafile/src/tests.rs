//! Files read back and measured by brute force.

mod partitions;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use iceberg::spec::{
    Datum, ListType, MapType, NestedField, NestedFieldRef, PartitionSpec, PrimitiveType, Schema, StructType,
    Transform, Type,
};
use icefall_convert::Converter;
use icefall_manifest::SingleValue;
use parquet::basic::{LogicalType, Type as Physical};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use crate::{Columns, DataFileError, FileFormat, NewDataFile, read, read_as, read_back, single_value};

const DECIMAL: PrimitiveType = PrimitiveType::Decimal { precision: 20, scale: 2 };
/// The scalar columns, by the names that their values are made for.
const SCALARS: [(&str, PrimitiveType); 15] = [
    ("boolean", PrimitiveType::Boolean),
    ("int", PrimitiveType::Int),
    ("long", PrimitiveType::Long),
    ("float", PrimitiveType::Float),
    ("double", PrimitiveType::Double),
    ("decimal", DECIMAL),
    ("date", PrimitiveType::Date),
    ("time", PrimitiveType::Time),
    ("at", PrimitiveType::Timestamptz),
    ("local", PrimitiveType::Timestamp),
    ("nanos", PrimitiveType::TimestamptzNs),
    ("city", PrimitiveType::String),
    ("uuid", PrimitiveType::Uuid),
    ("fixed", PrimitiveType::Fixed(3)),
    ("binary", PrimitiveType::Binary),
];

fn primitive(primitive: PrimitiveType) -> Type {
    Type::Primitive(primitive)
}

fn schema() -> Schema {
    let scalars = SCALARS.into_iter().zip(1..);
    let mut fields: Vec<NestedFieldRef> =
        scalars.map(|((name, kind), id)| NestedField::optional(id, name, primitive(kind)).into()).collect();
    let inner = StructType::new(vec![
        NestedField::required(31, "n", primitive(PrimitiveType::Long)).into(),
        NestedField::optional(32, "id", primitive(PrimitiveType::Uuid)).into(),
    ]);
    let element = NestedField::list_element(33, primitive(PrimitiveType::Int), false).into();
    let key = NestedField::map_key_element(34, primitive(PrimitiveType::String)).into();
    let value = NestedField::map_value_element(35, primitive(PrimitiveType::Double), false).into();
    fields.push(NestedField::optional(21, "inner", Type::Struct(inner)).into());
    fields.push(NestedField::optional(22, "list", Type::List(ListType::new(element))).into());
    fields.push(NestedField::optional(23, "map", Type::Map(MapType::new(key, value))).into());
    Schema::builder().with_fields(fields).build().expect("a schema")
}

fn spec(fields: &[(&str, Transform)]) -> PartitionSpec {
    let mut builder = PartitionSpec::builder(schema());
    for (source, transform) in fields {
        let name = format!("{source}_part");
        builder = builder.add_partition_field(source, name, *transform).expect("a partition field");
    }
    builder.build().expect("a spec")
}

fn member(name: &'static str, values: &'static str) -> BoxedStrategy<Option<String>> {
    prop::option::weighted(0.85, values)
        .prop_map(move |value| value.map(|v| format!("\"{name}\":{v}")))
        .boxed()
}

fn text_member(name: &'static str, values: BoxedStrategy<String>) -> BoxedStrategy<Option<String>> {
    let value = values.prop_map(move |text| format!("\"{name}\":{}", serde_json::Value::String(text)));
    prop::option::weighted(0.85, value).boxed()
}

fn bytes_member(name: &'static str, bytes: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Option<String>> {
    text_member(name, bytes.prop_map(|bytes| base64_simd::STANDARD.encode_to_string(bytes)).boxed())
}

/// A row's JSON. Values are few, so that partitions and dictionaries have more than one row.
fn any_row() -> impl Strategy<Value = String> {
    let members = vec![
        member("boolean", "true|false"),
        member("int", "0|-?[1-9][0-9]{0,8}"),
        member("long", "0|-?[1-9][0-9]{0,17}"),
        member("float", "-?(0|1)\\.[0-9]{1,4}"),
        member("double", "-?(0|7)\\.[0-9]{0,1}0"),
        member("decimal", "-?(0|[1-9][0-9]{0,17})\\.[0-9]{2}"),
        member("date", "\"(19|20)[0-9][0-9]-0[1-9]-1[0-9]\""),
        member("time", "\"1[0-9]:[0-5][0-9]:00\\.[0-9]{6}\""),
        member("at", "\"(1969-12-31T23|1970-01-01T00):[0-5]0:00\\.[0-9]{6}Z\""),
        member("local", "\"20[0-9]{2}-01-01T00:00:00\""),
        member("nanos", "\"2024-01-01T0[0-3]:00:00\\.[0-9]{9}Z\""),
        text_member(
            "city",
            prop::sample::select(vec!["", "Rome", "São Paulo", "Köln/Süd"]).prop_map(str::to_owned).boxed(),
        ),
        member("uuid", "\"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\""),
        bytes_member("fixed", prop::collection::vec(any::<u8>(), 3).boxed()),
        bytes_member("binary", prop::collection::vec(250_u8.., 0..20).boxed()),
        member(
            "inner",
            "\\{\"n\":[1-9]\\}|\\{\"n\":7,\"id\":\"00000000-0000-0000-0000-0000000000[0-9]{2}\"\\}",
        ),
        member("list", "\\[\\]|\\[1,null,[1-9]\\]"),
        member("map", "\\{\\}|\\{\"a\":0\\.[1-9],\"b\":null\\}"),
    ];
    members.prop_map(|members| {
        let members: Vec<_> = members.into_iter().flatten().collect();
        format!("{{{}}}", members.join(","))
    })
}

fn batch(rows: &[String]) -> RecordBatch {
    let mut converter = Converter::new(&schema()).expect("a supported schema");
    for row in rows {
        converter.append(row.as_bytes()).expect(row);
    }
    converter.finish().expect("a batch")
}

fn write(rows: &RecordBatch, spec: &PartitionSpec, properties: &[(&str, &str)]) -> Vec<NewDataFile> {
    let properties = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let format = FileFormat::new(&schema(), spec, &properties).expect("a supported table");
    let mut serial = 0;
    let name = || {
        serial += 1;
        format!("f{serial}")
    };
    format.write(rows, "s3://bucket/table/", name).expect("files")
}

/// Each scalar column of the rows that has metrics of its own, with its id and type.
fn measured(rows: &RecordBatch) -> Vec<(i32, PrimitiveType, ArrayRef)> {
    let scalars = SCALARS.into_iter().zip(1..).zip(rows.columns());
    scalars.map(|(((_, kind), id), column)| (id, kind, Arc::clone(column))).collect()
}

fn datum(value: &SingleValue, kind: &PrimitiveType) -> Datum {
    Datum::try_from_bytes(&value.0, kind.clone()).expect("a value of the type")
}

/// Whether `lower` and `upper` hold all values, and are values themselves where none is cut.
fn check_bounds(
    column: &ArrayRef,
    kind: &PrimitiveType,
    lower: Option<&SingleValue>,
    upper: Option<&SingleValue>,
) -> Result<(), TestCaseError> {
    let values: Vec<SingleValue> =
        (0..column.len()).filter_map(|row| single_value::at(column, row)).collect();
    if *kind != PrimitiveType::Uuid {
        prop_assert_eq!(lower.is_some(), !values.is_empty());
    }
    let cut = matches!(kind, PrimitiveType::String | PrimitiveType::Binary);
    let Some((lower, upper)) = lower.zip(upper) else {
        let ordered_in_two_ways = *kind == PrimitiveType::Uuid;
        prop_assert!(values.is_empty() || cut || ordered_in_two_ways, "only a cut text may lack a bound");
        return Ok(());
    };
    for value in &values {
        prop_assert!(datum(lower, kind) <= datum(value, kind), "{lower:?} {value:?}");
        prop_assert!(datum(upper, kind) >= datum(value, kind), "{upper:?} {value:?}");
    }
    prop_assert!(cut || (values.contains(lower) && values.contains(upper)));
    Ok(())
}

fn check_metrics(file: &NewDataFile, rows: &RecordBatch) -> Result<(), TestCaseError> {
    let entry = &file.entry;
    for (id, kind, column) in measured(rows) {
        prop_assert_eq!(entry.value_counts.get(&id), Some(&(column.len() as u64)));
        prop_assert_eq!(entry.null_value_counts.get(&id), Some(&(column.null_count() as u64)));
        prop_assert!(entry.column_sizes.get(&id).is_some_and(|size| *size > 0));
        let float = matches!(kind, PrimitiveType::Float | PrimitiveType::Double);
        prop_assert_eq!(entry.nan_value_counts.get(&id).copied(), float.then_some(0));
        check_bounds(&column, &kind, entry.lower_bounds.get(&id), entry.upper_bounds.get(&id))?;
    }
    for within_list_or_map in [33, 34, 35] {
        prop_assert!(!entry.lower_bounds.contains_key(&within_list_or_map));
        prop_assert!(entry.value_counts.contains_key(&within_list_or_map));
    }
    let sum: u64 = entry.column_sizes.values().sum();
    prop_assert!(sum < entry.file_size_in_bytes);
    Ok(())
}

/// The partition of a row, computed plainly.
fn partition_of(rows: &RecordBatch, row: usize) -> (Option<i32>, Option<String>) {
    let micros = rows.column(8).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    let micros = micros.is_valid(row).then(|| micros.value(row));
    let hour = micros.map(|micros| i32::try_from(micros.div_euclid(3_600_000_000)).expect("near the epoch"));
    let city = rows.column(11).as_string::<i32>();
    (hour, city.is_valid(row).then(|| city.value(row).to_owned()))
}

proptest! {
    #[test]
    fn a_file_with_any_damage_is_refused_before_it_is_read(
        at in any::<prop::sample::Index>(), flip in 1_u8.., end in any::<prop::sample::Index>(),
    ) {
        static FILE: LazyLock<NewDataFile> = LazyLock::new(|| {
            let row = r#"{"int":1,"city":"Rome","list":[1,null],"map":{"a":0.5}}"#.to_owned();
            write(&batch(&[row]), &PartitionSpec::unpartition_spec(), &[]).remove(0)
        });
        let refused = |bytes: Vec<u8>| {
            let read = read_back(bytes.into(), &FILE.entry, &schema());
            matches!(read, Err(DataFileError::Damaged { .. }))
        };
        let mut flipped = FILE.bytes.to_vec();
        flipped[at.index(FILE.bytes.len())] ^= flip;
        prop_assert!(refused(flipped));
        prop_assert!(refused(FILE.bytes[..end.index(FILE.bytes.len())].to_vec()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn files_hold_the_rows_of_their_partition_in_order_and_tell_the_truth_about_them(
        rows in prop::collection::vec(any_row(), 0..40),
    ) {
        let rows = batch(&rows);
        let spec = spec(&[("at", Transform::Hour), ("city", Transform::Identity)]);
        let files = write(&rows, &spec, &[]);
        let mut seen = BTreeMap::new();
        for file in &files {
            let expected = take_record_batch(&rows, &UInt32Array::from(file.rows.clone())).expect("rows");
            let found = read_back(file.bytes.clone(), &file.entry, &schema()).expect("a readable file");
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(&read_as(file.bytes.clone(), &schema(), Columns::ById).expect("a readable file"), &expected);
            prop_assert_eq!(file.entry.record_count, file.rows.len() as u64);
            prop_assert_eq!(file.entry.file_size_in_bytes, file.bytes.len() as u64);
            prop_assert!(file.rows.is_sorted());
            let (hour, city) = partition_of(&expected, 0);
            let values = vec![
                hour.map(|hour| SingleValue(hour.to_le_bytes().to_vec())),
                city.clone().map(|city| SingleValue(city.into_bytes())),
            ];
            prop_assert_eq!(&file.entry.partition, &values);
            for row in 0..expected.num_rows() {
                prop_assert_eq!(partition_of(&expected, row), (hour, city.clone()));
            }
            prop_assert!(seen.insert((hour, city), file.entry.path.clone()).is_none(), "one file per partition");
            check_metrics(file, &expected)?;
        }
        prop_assert_eq!(files.iter().map(|file| file.rows.len()).sum::<usize>(), rows.num_rows());
    }
}

const ROW: &str = r#"{"at":"2024-05-01T10:20:30Z","city":"Rome","uuid":"f79c3e09-677c-4bbd-a479-3f349cb785e7",
    "inner":{"n":1,"id":"f79c3e09-677c-4bbd-a479-3f349cb785e7"},"fixed":"AAEC"}"#;

#[test]
fn no_rows_make_no_file() {
    assert!(write(&batch(&[]), &spec(&[]), &[]).is_empty());
}

#[test]
fn columns_carry_field_ids_and_uuids_are_annotated() {
    let files = write(&batch(&[ROW.to_owned()]), &spec(&[]), &[]);
    let reader = SerializedFileReader::new(files[0].bytes.clone()).expect("a Parquet file");
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let ids: Vec<_> = columns.iter().map(|column| column.self_type().get_basic_info().id()).collect();
    assert_eq!(ids, (1..=15).chain(31..=35).collect::<Vec<_>>());
    let uuids = columns.iter().filter(|column| column.logical_type_ref() == Some(&LogicalType::Uuid));
    let uuids: Vec<_> = uuids.map(|column| column.path().string()).collect();
    assert_eq!(uuids, ["uuid", "inner.id"]);
}

/// The physical and logical types of Iceberg's appendix A, as readers look for them.
#[test]
fn columns_have_the_types_that_iceberg_asks_for() {
    let decimal = |precision| primitive(PrimitiveType::Decimal { precision, scale: 2 });
    let types = [
        decimal(9),
        decimal(18),
        decimal(19),
        decimal(38),
        primitive(PrimitiveType::Timestamp),
        primitive(PrimitiveType::Timestamptz),
        primitive(PrimitiveType::Time),
        primitive(PrimitiveType::Uuid),
    ];
    let fields = types.into_iter().zip(1..);
    let fields = fields.map(|(kind, id)| NestedField::optional(id, format!("c{id}"), kind).into());
    let schema = Schema::builder().with_fields(fields).build().expect("a schema");
    let columns = crate::parquet_schema::of(&schema).expect("a Parquet schema");
    let found: Vec<_> = columns
        .columns()
        .iter()
        .map(|column| {
            let utc = match column.logical_type_ref() {
                Some(
                    LogicalType::Timestamp { is_adjusted_to_u_t_c, .. }
                    | LogicalType::Time { is_adjusted_to_u_t_c, .. },
                ) => Some(*is_adjusted_to_u_t_c),
                _ => None,
            };
            (column.physical_type(), column.type_length(), utc)
        })
        .collect();
    let expected = [
        (Physical::INT32, -1, None),
        (Physical::INT64, -1, None),
        (Physical::FIXED_LEN_BYTE_ARRAY, 9, None),
        (Physical::FIXED_LEN_BYTE_ARRAY, 16, None),
        (Physical::INT64, -1, Some(false)),
        (Physical::INT64, -1, Some(true)),
        (Physical::INT64, -1, Some(false)),
        (Physical::FIXED_LEN_BYTE_ARRAY, 16, None),
    ];
    assert_eq!(found, expected);
}

/// Parquet and Iceberg keep -0.0 below 0.0 and NaN out of bounds; JSON has no NaN, other rows may.
#[test]
fn floats_are_ordered_as_iceberg_does() {
    use arrow::array::Float64Array;
    let field = NestedField::optional(1, "x", primitive(PrimitiveType::Double));
    let schema = Schema::builder().with_fields([field.into()]).build().expect("a schema");
    let arrow = iceberg::arrow::schema_to_arrow_schema(&schema).expect("an Arrow schema");
    let format = FileFormat::new(&schema, &PartitionSpec::unpartition_spec(), &HashMap::new());
    let format = format.expect("a supported table");
    let entry = |values: Vec<Option<f64>>| {
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let rows = RecordBatch::try_new(Arc::new(arrow.clone()), vec![column]).expect("rows");
        format.write(&rows, "s3://b/t", || "f".to_owned()).expect("a file").remove(0).entry
    };
    let bytes = |value: f64| Some(SingleValue(value.to_le_bytes().to_vec()));
    let mixed = entry(vec![Some(0.0), Some(f64::NAN), Some(-0.0), None, Some(-f64::NAN)]);
    assert_eq!(mixed.lower_bounds.get(&1).cloned(), bytes(-0.0));
    assert_eq!(mixed.upper_bounds.get(&1).cloned(), bytes(0.0));
    assert_eq!((mixed.nan_value_counts[&1], mixed.null_value_counts[&1], mixed.value_counts[&1]), (2, 1, 5));
    let none = entry(vec![Some(f64::NAN), None]);
    assert_eq!((none.lower_bounds.len(), none.upper_bounds.len(), none.nan_value_counts[&1]), (0, 0, 1));
}

#[test]
fn every_codec_that_a_table_may_ask_for_is_written() {
    let rows = batch(&[ROW.to_owned()]);
    for (codec, level) in [("zstd", "3"), ("gzip", "6"), ("snappy", ""), ("UNCOMPRESSED", "")] {
        let mut properties = vec![("write.parquet.compression-codec", codec)];
        properties.extend((!level.is_empty()).then_some(("write.parquet.compression-level", level)));
        let files = write(&rows, &spec(&[]), &properties);
        assert_eq!(read(files[0].bytes.clone(), &schema()).expect("a readable file"), rows, "{codec}");
    }
}

#[test]
fn row_groups_follow_the_table_and_are_where_the_entry_says() {
    let rows: Vec<_> = (0..10).map(|n| format!("{{\"int\":{n}}}")).collect();
    let rows = batch(&rows);
    let files = write(&rows, &spec(&[]), &[("write.parquet.row-group-limit", "4")]);
    let entry = &files[0].entry;
    assert_eq!(entry.split_offsets.len(), 3);
    assert_eq!(entry.split_offsets[0], 4, "after the magic number");
    assert!(entry.split_offsets.is_sorted());
    assert_eq!(entry.value_counts[&2], 10);
    assert_eq!(entry.upper_bounds[&2], SingleValue(9_i32.to_le_bytes().to_vec()));
}

#[test]
fn a_row_group_per_row_is_slow_but_no_danger() {
    let rows = batch(&vec!["{\"int\":1}".to_owned(); 4_000]);
    let files = write(&rows, &spec(&[]), &[("write.parquet.row-group-limit", "1")]);
    assert_eq!(files[0].entry.split_offsets.len(), 4_000);
    assert_eq!(files[0].entry.value_counts[&2], 4_000);
}

#[test]
fn metrics_follow_the_tables_modes() {
    let rows = batch(&[r#"{"city":"aaaaaaaaaaaaaaaaaaaaaaaa","int":1,"long":2}"#.to_owned()]);
    let modes = [
        ("write.metadata.metrics.default", "counts"),
        ("write.metadata.metrics.column.city", "truncate(2)"),
        ("write.metadata.metrics.column.long", "none"),
    ];
    let entry = write(&rows, &spec(&[]), &modes)[0].entry.clone();
    assert_eq!(entry.lower_bounds, BTreeMap::from([(12, SingleValue(b"aa".to_vec()))]));
    assert_eq!(entry.upper_bounds, BTreeMap::from([(12, SingleValue(b"ab".to_vec()))]));
    assert!(entry.value_counts.contains_key(&2) && !entry.value_counts.contains_key(&3));
}

#[test]
fn what_can_not_be_written_is_refused_with_its_reason() {
    let refused = |key: &str, value: &str| {
        let properties = HashMap::from([(key.to_owned(), value.to_owned())]);
        FileFormat::new(&schema(), &spec(&[]), &properties).expect_err("unsupported").to_string()
    };
    assert_eq!(
        refused("write.parquet.compression-codec", "lzo"),
        r#"table property write.parquet.compression-codec = "lzo": it must be zstd, snappy, gzip or uncompressed"#
    );
    for (key, value) in [
        ("write.parquet.row-group-limit", "0"),
        ("write.parquet.row-group-limit", "-5"),
        ("write.parquet.row-group-limit", "many"),
        ("write.metadata.metrics.default", "all"),
        ("write.parquet.compression-level", "99"),
    ] {
        let error = refused(key, value);
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
}
