//! Partitions held to values that `PyIceberg` computed, to the specification's, and to a plain reference.

use std::collections::HashSet;

use serde_json::Value;

use super::*;
use crate::UnsupportedTable;

#[derive(serde::Deserialize)]
struct Fixtures {
    entries: Vec<Fixture>,
}

#[derive(serde::Deserialize)]
struct Fixture {
    column: String,
    record: Value,
    transform: String,
    partition: Option<String>,
    path: String,
}

fn kind(column: &str) -> PrimitiveType {
    if column == "local_ns" {
        return PrimitiveType::TimestampNs;
    }
    SCALARS.into_iter().find(|(name, _)| *name == column).expect(column).1
}

/// Partition and folder of a table's only row, partitioned by its only column.
fn only(column: &str, record: &Value, transform: Transform) -> (Option<SingleValue>, String) {
    let field = NestedField::optional(1, column, primitive(kind(column))).into();
    let schema = Schema::builder().with_fields([field]).build().expect("a schema");
    let builder = PartitionSpec::builder(schema.clone()).add_partition_field(column, "p", transform);
    let spec = builder.expect("a partition field").build().expect("a spec");
    let mut converter = Converter::new(&schema).expect("a supported schema");
    converter.append(serde_json::json!({ column: record }).to_string().as_bytes()).expect("a row");
    let format = FileFormat::new(&schema, &spec, &HashMap::new()).expect("a supported table");
    let rows = converter.finish().expect("a batch");
    let entry = format.write(&rows, "s3://b/t", || "f".to_owned()).expect("a file").remove(0).entry;
    let path = entry.path.strip_prefix("s3://b/t/data/").and_then(|path| path.strip_suffix("/f.parquet"));
    (entry.partition[0].clone(), path.expect("a folder").to_owned())
}

/// What hexadecimal digits write.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2).map(|start| &digits[start..start + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// A decimal's unscaled value: two's complement, the highest byte first.
fn unscaled(bytes: &[u8]) -> i128 {
    bytes.iter().fold(if bytes[0] < 128 { 0 } else { -1 }, |sum, byte| (sum << 8) | i128::from(*byte))
}

/// Java and `PyIceberg` show these in different ways; Java's is what the tests of paths have.
fn shown_differently(fixture: &Fixture) -> bool {
    let times = ["time", "at", "local", "nanos", "local_ns"];
    let binaries = ["boolean", "fixed", "binary"];
    let as_it_is = fixture.transform == "identity" || fixture.transform.starts_with("truncate");
    as_it_is && [times.as_slice(), &binaries].concat().contains(&fixture.column.as_str())
}

#[test]
fn partitions_are_those_of_pyiceberg() {
    let fixtures: Fixtures =
        serde_json::from_str(include_str!("../../testdata/transforms.json")).expect("the fixtures");
    assert!(fixtures.entries.len() > 1_000);
    for fixture in fixtures.entries {
        let Fixture { column, record, transform, partition, path } = &fixture;
        if column == "uuid" && !transform.starts_with("bucket") {
            continue;
        }
        let (found, folder) = only(column, record, transform.parse().expect("a transform"));
        let mut expected = partition.as_deref().map(bytes);
        if kind(column) == DECIMAL && !transform.starts_with("bucket") {
            // PyIceberg writes some decimals below zero with a byte more than they need.
            expected = expected.map(|bytes| single_value::decimal(unscaled(&bytes)));
        }
        assert_eq!(found.map(|value| value.0), expected, "{transform} of {column} {record}");
        assert!(
            shown_differently(&fixture) || &folder == path,
            "{transform} of {column} {record}: {folder}, {path}"
        );
    }
}

/// Hashes of the specification's appendix B.
#[test]
fn buckets_are_those_of_the_specification() {
    let moment = "2017-11-16T22:31:08";
    let hashes: [(&str, Value, i32); 13] = [
        ("int", 34.into(), 2_017_239_379),
        ("long", 34.into(), 2_017_239_379),
        ("decimal", "14.20".into(), -500_754_589),
        ("date", "2017-11-16".into(), -653_330_422),
        ("time", "22:31:08".into(), -662_762_989),
        ("local", moment.into(), -2_047_944_441),
        ("local", format!("{moment}.000001").into(), -1_207_196_810),
        ("at", "2017-11-16T14:31:08-08:00".into(), -2_047_944_441),
        ("local_ns", moment.into(), -2_047_944_441),
        ("local_ns", format!("{moment}.000001001").into(), -1_207_196_810),
        ("nanos", "2017-11-16T14:31:08.000001001-08:00".into(), -1_207_196_810),
        ("city", "iceberg".into(), 1_210_000_089),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7".into(), 1_488_055_340),
    ];
    for (column, record, hash) in hashes {
        for buckets in [1, 16, i32::MAX] {
            let expected = (hash & i32::MAX) % buckets;
            let (found, path) = only(column, &record, Transform::Bucket(buckets.unsigned_abs()));
            assert_eq!(found, Some(SingleValue(expected.to_le_bytes().to_vec())), "{column} {record}");
            assert_eq!(path, format!("p={expected}"));
        }
    }
    let bytes = base64_simd::STANDARD.encode_to_string([0, 1, 2, 3]);
    let (found, _) = only("binary", &bytes.into(), Transform::Bucket(i32::MAX.unsigned_abs()));
    let hash: i32 = -188_683_207;
    let expected = hash & i32::MAX;
    assert_eq!(found, Some(SingleValue(expected.to_le_bytes().to_vec())));
}

/// The reference: one value by the specification's words, from the value's own single-value serialization.
fn plainly(transform: Transform, kind: &PrimitiveType, value: Option<SingleValue>) -> Option<SingleValue> {
    let bytes = value?.0;
    let number = || {
        bytes.iter().rev().fold(if bytes[bytes.len() - 1] < 128 { 0 } else { -1 }, |sum: i128, byte| {
            (sum << 8) | i128::from(*byte)
        })
    };
    let per_day = match kind {
        PrimitiveType::Date => 1,
        PrimitiveType::Timestamp | PrimitiveType::Timestamptz => 86_400_000_000,
        _ => 86_400_000_000_000,
    };
    let first = chrono::NaiveDate::from_ymd_opt(1970, 1, 1).expect("a date");
    let date = || {
        let days =
            chrono::TimeDelta::days(i64::try_from(number().div_euclid(per_day)).expect("near the epoch"));
        chrono::Datelike::year(&(first + days)) * 12 + chrono::Datelike::month0(&(first + days)).cast_signed()
    };
    let int = |number: i128| Some(i32::try_from(number).expect("an int").to_le_bytes().to_vec());
    let bytes = match transform {
        Transform::Identity => Some(bytes.clone()),
        Transform::Year => int((date().div_euclid(12) - 1970).into()),
        Transform::Month => int((date() - 1970 * 12).into()),
        Transform::Day => int(number().div_euclid(per_day)),
        Transform::Hour => int(number().div_euclid(per_day / 24)),
        Transform::Truncate(width) => Some(match kind {
            PrimitiveType::String => {
                let text = String::from_utf8(bytes.clone()).expect("a text");
                text.chars().take(width as usize).collect::<String>().into_bytes()
            }
            PrimitiveType::Binary => bytes.iter().take(width as usize).copied().collect(),
            PrimitiveType::Decimal { .. } => {
                let unscaled = unscaled(&bytes);
                let floor = unscaled - unscaled.rem_euclid(width.into());
                let shortest =
                    (1..=16).find(|length| floor << (128 - length * 8) >> (128 - length * 8) == floor);
                floor.to_be_bytes()[16 - shortest.expect("a length")..].to_vec()
            }
            _ => {
                let floor = number() - number().rem_euclid(width.into());
                floor.to_le_bytes()[..bytes.len()].to_vec()
            }
        }),
        // One bucket holds all.
        Transform::Bucket(1) => int(0),
        _ => None,
    };
    bytes.map(SingleValue)
}

fn any_spec() -> impl Strategy<Value = Vec<(&'static str, Transform)>> {
    let day = ["at", "local", "nanos", "date"].map(|column| (column, Transform::Day));
    let month = ["at", "local", "nanos", "date"].map(|column| (column, Transform::Month));
    let year = ["at", "local", "nanos", "date"].map(|column| (column, Transform::Year));
    let hour = ["at", "local", "nanos"].map(|column| (column, Transform::Hour));
    let truncate =
        ["int", "long", "decimal", "city", "binary"].map(|column| (column, Transform::Truncate(3)));
    let odd =
        [("city", Transform::Void), ("uuid", Transform::Bucket(1)), ("inner.n", Transform::Truncate(2))];
    let all = [day.as_slice(), &month, &year, &hour, &truncate, &odd].concat();
    prop::sample::subsequence(all, 1..4).prop_filter("no two periods of one column", |fields| {
        let mut columns: Vec<_> = fields.iter().map(|(column, _)| column).collect();
        columns.dedup();
        columns.len() == fields.len()
            && fields.iter().map(|(column, _)| column).collect::<std::collections::BTreeSet<_>>().len()
                == fields.len()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_row_of_a_file_has_the_files_partition(
        rows in prop::collection::vec(any_row(), 1..30),
        fields in any_spec(),
    ) {
        let rows = batch(&rows);
        let files = write(&rows, &spec(&fields), &[]);
        let mut found = HashSet::new();
        for file in &files {
            for row in &file.rows {
                let plain: Vec<_> = fields.iter().map(|(name, transform)| {
                    let row = *row as usize;
                    if *name == "inner.n" {
                        let inner = rows.column_by_name("inner").expect("a column").as_struct();
                        let n = inner.is_valid(row).then(|| single_value::at(inner.column(0), row)).flatten();
                        return plainly(*transform, &PrimitiveType::Long, n);
                    }
                    let column = rows.column_by_name(name).expect("a column");
                    plainly(*transform, &kind(name), single_value::at(column, row))
                }).collect();
                prop_assert_eq!(&file.entry.partition, &plain, "{:?}", &fields);
            }
            prop_assert!(found.insert(file.entry.partition.clone()), "one file per partition");
        }
        let seen: usize = files.iter().map(|file| file.rows.len()).sum();
        prop_assert_eq!(seen, rows.num_rows());
    }
}

#[test]
fn paths_name_the_partition() {
    let rows = batch(&[ROW.to_owned(), "{}".to_owned()]);
    let paths = |fields: &[(&str, Transform)]| -> Vec<String> {
        write(&rows, &spec(fields), &[]).into_iter().map(|file| file.entry.path).collect()
    };
    assert_eq!(paths(&[]), ["s3://bucket/table/data/f1.parquet"]);
    assert_eq!(
        paths(&[("at", Transform::Hour), ("city", Transform::Identity)]),
        [
            "s3://bucket/table/data/at_part=2024-05-01-10/city_part=Rome/f1.parquet",
            "s3://bucket/table/data/at_part=null/city_part=null/f2.parquet",
        ]
    );
}

/// A void field keeps its place, and a field of a struct that is null is null.
#[test]
fn voids_keep_their_place_and_null_structs_have_null_fields() {
    let rows = batch(&[r#"{"inner":{"n":-7},"city":"Rome"}"#.to_owned(), "{}".to_owned()]);
    let spec = spec(&[
        ("int", Transform::Void),
        ("inner.n", Transform::Truncate(10)),
        ("city", Transform::Identity),
    ]);
    let files = write(&rows, &spec, &[]);
    let partitions: Vec<_> = files.iter().map(|file| file.entry.partition.clone()).collect();
    let n = Some(SingleValue((-10_i64).to_le_bytes().to_vec()));
    assert_eq!(partitions, [vec![None, n, Some(SingleValue(b"Rome".to_vec()))], vec![None, None, None]]);
    assert!(
        files[0].entry.path.contains("/int_part=null/inner.n_part=-10/city_part=Rome/"),
        "{}",
        files[0].entry.path
    );
}

#[test]
fn fields_that_no_partition_can_be_made_of_are_refused_by_name() {
    let refused = |column: &str, transform| {
        FileFormat::new(&schema(), &spec(&[(column, transform)]), &HashMap::new()).expect_err("unsupported")
    };
    for (column, transform, named) in [
        ("int", Transform::Bucket(0), "partition field int_part uses bucket[0]"),
        ("int", Transform::Truncate(u32::MAX), "its number must be from 1 to 2147483647"),
        ("list.element", Transform::Identity, "list.element_part is on no column"),
        ("map.value", Transform::Identity, "map.value_part is on no column"),
        ("city", Transform::Unknown, "none of Iceberg's transforms"),
        ("inner", Transform::Void, "not of a primitive type"),
        ("uuid", Transform::Identity, "use bucket"),
        ("uuid", Transform::Void, "use bucket"),
    ] {
        let error = refused(column, transform);
        assert!(matches!(error, UnsupportedTable::Transform { .. } | UnsupportedTable::NestedSource(_)));
        assert!(error.to_string().contains(named), "{error}");
    }
}

/// A partition's value is the column's own, whatever its type.
#[test]
fn every_scalar_type_can_be_a_partition() {
    let row = r#"{"boolean":true,"int":-7,"long":8,"float":-0.0,"double":1.5,"decimal":"-12.30","date":"1969-12-31",
        "time":"10:20","at":"1969-12-31T23:59:59.999999Z","local":"2024-01-02","nanos":"2024-01-02T00:00:00.000000001Z",
        "city":"a/b","uuid":"f79c3e09-677c-4bbd-a479-3f349cb785e7","fixed":"AAEC","binary":"AP8="}"#;
    let rows = batch(&["{}".to_owned(), row.to_owned(), "{}".to_owned(), row.to_owned()]);
    for ((name, _), column) in
        SCALARS.into_iter().zip(rows.columns()).filter(|((name, _), _)| *name != "uuid")
    {
        let files = write(&rows, &spec(&[(name, Transform::Identity)]), &[]);
        let found: Vec<_> =
            files.iter().map(|file| (file.rows.clone(), file.entry.partition.clone())).collect();
        let value = single_value::at(column, 1);
        assert!(value.is_some(), "{name}");
        assert_eq!(found, [(vec![0, 2], vec![None]), (vec![1, 3], vec![value])], "{name}");
        for file in &files {
            let path = file.entry.path.strip_prefix("s3://").expect("a URI");
            assert!(
                path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/=-_.*+%".contains(&byte)),
                "{path}"
            );
        }
    }
}
