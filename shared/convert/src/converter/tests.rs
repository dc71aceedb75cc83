//! Each rule of the crate's table, and that a refused value leaves no trace.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use iceberg::spec::NestedField;

use super::*;

fn schema(fields: Vec<NestedField>) -> Schema {
    let fields = fields.into_iter().map(Arc::new);
    Schema::builder().with_fields(fields).build().expect("a schema")
}

fn primitive(primitive: PrimitiveType) -> Type {
    Type::Primitive(primitive)
}

/// A schema of one optional column `a`.
fn one(r#type: Type) -> Schema {
    schema(vec![NestedField::optional(1, "a", r#type)])
}

fn converter(schema: &Schema) -> Converter {
    Converter::new(schema).expect("a supported schema")
}

/// What becomes of `value` in a column `a` of the type.
fn append(r#type: &Type, value: &str) -> Result<(), BadRecord> {
    converter(&one(r#type.clone())).append(format!(r#"{{"a":{value}}}"#).as_bytes())
}

fn class(primitive_type: &PrimitiveType, value: &str) -> Option<BadRecordClass> {
    append(&primitive(primitive_type.clone()), value).err().map(|bad| bad.class)
}

fn reason(r#type: PrimitiveType, value: &str) -> String {
    append(&primitive(r#type), value).expect_err("a refused value").to_string()
}

const DECIMAL: PrimitiveType = PrimitiveType::Decimal { precision: 10, scale: 2 };

#[test]
fn reasons_name_path_type_found_and_rule() {
    assert_eq!(
        reason(PrimitiveType::Long, r#""abc""#),
        r#"a: long expected, found string "abc": only numbers are taken; a string is not converted to a number"#
    );
    assert_eq!(
        reason(PrimitiveType::Int, "3000000000"),
        "a: int expected, found number 3000000000: the number is out of the type's range"
    );
    assert_eq!(
        reason(PrimitiveType::Timestamptz, "1700000000"),
        "a: timestamptz expected, found number 1700000000: \
         a time is written as text (ISO 8601): the unit of a number can't be guessed"
    );
    let long = format!("\"{}\"", "x".repeat(500));
    assert!(reason(PrimitiveType::Int, &long).len() < 250);
    let mut columns =
        converter(&schema(vec![NestedField::required(1, "id", primitive(PrimitiveType::Long))]));
    assert_eq!(
        columns.append(b"{}").expect_err("no id").to_string(),
        "id: long expected, found no such field: a required column needs a value"
    );
    assert_eq!(
        columns.append(br#"{"id":null}"#).expect_err("a null id").to_string(),
        "id: long expected, found null: a required column takes no null"
    );
}

/// Asserts what a column of the type takes, and what it refuses and why.
fn check(r#type: &PrimitiveType, taken: &[&str], refused: &[(&str, BadRecordClass)]) {
    for value in taken {
        assert_eq!(class(r#type, value), None, "{type} {value}");
    }
    for (value, expected) in refused {
        assert_eq!(class(r#type, value), Some(*expected), "{type} {value}");
    }
}

#[test]
fn numbers_are_taken_exactly_or_refused() {
    use BadRecordClass::{BadFormat, NotExact, OutOfRange, WrongType};
    check(&PrimitiveType::Boolean, &["true", "false", "null"], &[("0", WrongType), (r#""true""#, WrongType)]);
    check(
        &PrimitiveType::Int,
        &["0", "-0", "1.0", "1e3", "2147483647", "-2147483648", "10e-1"],
        &[("1.5", NotExact), ("2147483648", OutOfRange), ("1e400", OutOfRange), ("true", WrongType)],
    );
    check(
        &PrimitiveType::Long,
        &["9223372036854775807", "-9223372036854775808"],
        &[("9223372036854775808", OutOfRange), ("[1]", WrongType), ("{}", WrongType)],
    );
    check(
        &PrimitiveType::Float,
        &["0.1", "3.4028234e38", "-0.0", "0e-999"],
        &[("1e39", OutOfRange), ("1e-60", OutOfRange), (r#""1""#, WrongType)],
    );
    check(&PrimitiveType::Double, &["1e308", "5e-324"], &[("1e309", OutOfRange), ("1e-400", OutOfRange)]);
    check(
        &DECIMAL,
        &["1.50", r#""1.50""#, "12345678.90", "1e7", "-0"],
        &[
            ("1.005", NotExact),
            (r#""1.005""#, NotExact),
            ("123456789", OutOfRange),
            (r#""x""#, BadFormat),
            (r#"" 1""#, BadFormat),
            (r#""""#, BadFormat),
            ("true", WrongType),
        ],
    );
    let wide = PrimitiveType::Decimal { precision: 38, scale: 0 };
    check(&wide, &["1e20", "-99999999999999999999999999999999999999"], &[("1e38", OutOfRange)]);
}

#[test]
fn times_are_taken_exactly_or_refused() {
    use BadRecordClass::{BadFormat, NotExact, OutOfRange, WrongType};
    check(
        &PrimitiveType::Date,
        &[r#""2024-02-29""#],
        &[(r#""2023-02-29""#, BadFormat), ("19000", WrongType)],
    );
    check(
        &PrimitiveType::Time,
        &[r#""10:20""#, r#""10:20:30.123456000""#],
        &[(r#""10:20:30.1234567""#, NotExact), (r#""25:00""#, BadFormat)],
    );
    check(
        &PrimitiveType::Timestamp,
        &[r#""2024-01-02T03:04:05""#, r#""2024-01-02""#],
        &[(r#""2024-01-02T03:04:05Z""#, BadFormat), ("1", WrongType)],
    );
    check(
        &PrimitiveType::Timestamptz,
        &[r#""2024-01-02 03:04:05.123456+05:30""#, r#""2024-01-02""#],
        &[
            (r#""2024-01-02 03:04:05.123456789+05:30""#, NotExact),
            (r#""2024-01-02T03:04:05""#, BadFormat),
            ("1700000000000", WrongType),
        ],
    );
    check(
        &PrimitiveType::TimestamptzNs,
        &[r#""2024-01-02T03:04:05.123456789Z""#],
        &[(r#""2300-01-01T00:00:00Z""#, OutOfRange), (r#""2024-01-02T03:04:05.1234567891Z""#, NotExact)],
    );
}

#[test]
fn texts_and_bytes_are_taken_exactly_or_refused() {
    use BadRecordClass::{BadFormat, WrongType};
    check(
        &PrimitiveType::String,
        &[r#""""#, r#""\u00e9\ud83d\ude00""#],
        &[("1", WrongType), ("{}", WrongType), ("true", WrongType)],
    );
    check(
        &PrimitiveType::Uuid,
        &[r#""f79c3e09-677c-4bbd-a479-3f349cb785e7""#],
        &[(r#""f79c3e09677c4bbda4793f349cb785e7""#, BadFormat), (r#""x""#, BadFormat)],
    );
    check(&PrimitiveType::Fixed(3), &[r#""AAEC""#], &[(r#""AAE=""#, BadFormat), ("1", WrongType)]);
    check(
        &PrimitiveType::Binary,
        &[r#""AAE=""#, r#""""#],
        &[(r#""hello""#, BadFormat), (r#""AAF=""#, BadFormat)],
    );
}

#[test]
fn what_is_not_json_is_refused() {
    let mut columns = converter(&one(primitive(PrimitiveType::String)));
    for value in [
        r#"{"a":"x""#,
        r#"{"a":"x"} {}"#,
        r#"{"a" "x"}"#,
        r#"{"a":}"#,
        "{a:1}",
        r#"{"a":"x",}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":"\x"}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\udc00\ud800"}"#,
        r#"{"a":"\ud800\u0041"}"#,
        r#"{"a":"\u12g4"}"#,
        r#"{"b":01}"#,
        r#"{"b":1.}"#,
        r#"{"b":-}"#,
        r#"{"b":.5}"#,
        r#"{"b":1e}"#,
        r#"{"b":+1}"#,
        r#"{"b":NaN}"#,
        r#"{"b":nul}"#,
        r#"{"b":[1,]}"#,
        r#"{"b":[1 2]}"#,
        r#"{"b":{"c"}}"#,
        "",
        " ",
        "{",
        "nope",
        "\u{feff}{}",
    ] {
        let bad = columns.append(value.as_bytes()).expect_err(value);
        assert_eq!(bad.class, BadRecordClass::MalformedJson, "{value}: {bad}");
    }
    assert_eq!(
        columns.append(b"{\"a\":\"\xff\"}").map_err(|bad| bad.class),
        Err(BadRecordClass::InvalidUtf8)
    );
    assert_eq!(
        columns.append(br#"{"a":"x"} {}"#).expect_err("two values").to_string(),
        "value: JSON expected, found '{' at byte 10: nothing may follow the value"
    );
    assert_eq!(columns.rows(), 0);
}

#[test]
fn a_value_that_is_no_object_is_named_so() {
    let mut columns = converter(&one(primitive(PrimitiveType::String)));
    for value in ["\"hello\"", "42", "[1,2]", "null", "true"] {
        let bad = columns.append(value.as_bytes()).expect_err("no object");
        assert_eq!(bad.class, BadRecordClass::NotAnObject, "{value}");
    }
    let bad = columns.append(b"\"hello\"").expect_err("no object");
    assert_eq!(
        bad.to_string(),
        r#"value: object expected, found string "hello": a record's value is a JSON object"#
    );
}

#[test]
fn deep_nesting_is_refused_wherever_it_stands() {
    let mut columns = converter(&one(primitive(PrimitiveType::String)));
    let deep =
        |name: &str, levels: usize| format!(r#"{{"{name}":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert_eq!(columns.append(deep("b", 63).as_bytes()), Ok(()));
    let class =
        |value: String, columns: &mut Converter| columns.append(value.as_bytes()).expect_err("deep").class;
    assert_eq!(class(deep("b", 64), &mut columns), BadRecordClass::NestingTooDeep);
    let endless = r#"{"b":"#.repeat(100_000);
    for value in [deep("a", 100_000), deep("b", 100_000), endless, "[".repeat(100_000)] {
        assert_eq!(class(value, &mut columns), BadRecordClass::NestingTooDeep);
    }
    assert_eq!(class(deep("a", 5), &mut columns), BadRecordClass::WrongType);
}

fn nested() -> Schema {
    let item = Type::Struct(StructType::new(vec![
        NestedField::required(5, "price", primitive(DECIMAL)).into(),
        NestedField::optional(6, "note", primitive(PrimitiveType::String)).into(),
    ]));
    let list = Type::List(ListType::new(NestedField::list_element(4, item, true).into()));
    let map = |key: PrimitiveType, at: i32| {
        let key = NestedField::map_key_element(at, primitive(key)).into();
        Type::Map(MapType::new(
            key,
            NestedField::map_value_element(at + 1, primitive(PrimitiveType::Int), false).into(),
        ))
    };
    schema(vec![
        NestedField::required(1, "id", primitive(PrimitiveType::Int)),
        NestedField::optional(2, "items", list),
        NestedField::optional(3, "tags", map(PrimitiveType::String, 10)),
        NestedField::optional(7, "by_day", map(PrimitiveType::Date, 20)),
    ])
}

#[test]
fn nested_values_become_nested_columns() {
    let mut columns = converter(&nested());
    for value in [
        r#"{"id":1,"items":[{"price":1.5,"note":"a"},{"price":"2"}],"tags":{"x":1,"y":null}}"#,
        r#"{"id":2,"items":null,"by_day":[{"key":"2024-01-01","value":3},{"value":null,"key":"2024-01-02"}]}"#,
        r#"{"tags":{},"items":[],"id":3}"#,
    ] {
        columns.append(value.as_bytes()).expect(value);
    }
    let batch = columns.finish().expect("a batch");
    let items = batch.column(1).as_list::<i32>();
    assert_eq!((items.value_length(0), items.is_valid(1), items.value_length(2)), (2, false, 0));
    let tags = batch.column(2).as_map();
    assert_eq!(tags.value_length(0), 2);
    assert_eq!(tags.values().as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(1), None]);
    assert_eq!(batch.column(3).as_map().value_length(1), 2);
    assert_eq!(batch.schema().field(1).metadata().get("PARQUET:field_id").map(String::as_str), Some("2"));
}

#[test]
fn faults_within_name_their_path() {
    use BadRecordClass::{DuplicateField, MissingRequired, NotExact, WrongType};
    let mut columns = converter(&nested());
    let mut path = |value: &str| {
        let bad = columns.append(value.as_bytes()).expect_err(value);
        (bad.path, bad.class)
    };
    let at = |path: &str, class| (path.to_owned(), class);
    assert_eq!(path(r#"{"id":1,"items":[{"price":1},{"price":0.001}]}"#), at("items[1].price", NotExact));
    assert_eq!(path(r#"{"id":1,"items":[{"note":"x"}]}"#), at("items[0].price", MissingRequired));
    assert_eq!(path(r#"{"id":1,"items":[null]}"#), at("items[0]", MissingRequired));
    assert_eq!(path(r#"{"id":1,"items":{}}"#), at("items", WrongType));
    assert_eq!(path(r#"{"id":1,"tags":{"x":"1"}}"#), at("tags[\"x\"]", WrongType));
    assert_eq!(path(r#"{"id":1,"tags":{"x":1,"x":2}}"#), at("tags", DuplicateField));
    assert_eq!(path(r#"{"id":1,"by_day":[{"key":null,"value":1}]}"#), at("by_day[0].key", MissingRequired));
    assert_eq!(path(r#"{"id":1,"by_day":{"2024-01-01":1}}"#), at("by_day", WrongType));
    assert_eq!(path(r#"{"id":1,"id":1}"#), at("value", DuplicateField));
    assert_eq!(path(r#"{"id":1,"\u0069d":1}"#), at("value", DuplicateField));
    assert_eq!(path(r#"{"id":1,"u":1,"v":2,"u":3}"#), at("value", DuplicateField));
}

#[test]
fn a_refused_value_leaves_no_trace() {
    let mut columns = converter(&nested());
    let mut expected = converter(&nested());
    let good = r#"{"id":1,"items":[{"price":1.5,"note":"a"}],"tags":{"x":1},"by_day":[]}"#;
    for bad in [
        r#"{"id":1,"items":[{"price":1,"note":"b"},{"price":2,"note":5}]}"#,
        r#"{"id":1,"items":[{"price":1,"note":"b"}],"tags":{"x":1,"y":2},"by_day":[{"key":"2024-01-01","value":"#,
        r#"{"id":9,"tags":{"x":1,"x":1}}"#,
        r#"{"items":null,"new":1}"#,
    ] {
        columns.append(good.as_bytes()).expect("good");
        columns.append(bad.as_bytes()).expect_err("bad");
        expected.append(good.as_bytes()).expect("good");
    }
    assert_eq!(columns.finish().expect("a batch"), expected.finish().expect("a batch"));
    assert_eq!(columns.unknown_fields(), []);
}

#[test]
fn a_type_that_changes_midstream_stops_nothing() {
    let mut columns = converter(&one(primitive(PrimitiveType::Int)));
    let values = ["1", "2", r#""x""#, "[3]", "4"];
    let taken = values.map(|value| columns.append(format!(r#"{{"a":{value}}}"#).as_bytes()).is_ok());
    assert_eq!(taken, [true, true, false, false, true]);
    let batch = columns.finish().expect("a batch");
    assert_eq!(batch.column(0).as_primitive::<Int32Type>().values(), &[1, 2, 4]);
}

#[test]
fn dropped_and_reordered_fields_are_fine() {
    let fields = vec![
        NestedField::optional(1, "a", primitive(PrimitiveType::Int)),
        NestedField::optional(2, "c", primitive(PrimitiveType::Long)),
        NestedField::optional(3, "t", primitive(PrimitiveType::Timestamptz)),
    ];
    let mut columns = converter(&schema(fields));
    let values =
        [r#"{"t":"1970-01-01T00:00:01Z","c":7,"a":1}"#, r#"{"a":2}"#, r#" { "c" : 8 , "t" : null } "#, "{}"];
    for _ in 0..2 {
        for value in values {
            columns.append(value.as_bytes()).expect("good");
        }
    }
    let batch = columns.finish().expect("a batch");
    let a: Vec<_> = batch.column(0).as_primitive::<Int32Type>().iter().take(4).collect();
    assert_eq!(a, [Some(1), Some(2), None, None]);
    let c: Vec<_> = batch.column(1).as_primitive::<Int64Type>().iter().skip(4).collect();
    assert_eq!(c, [Some(7), None, Some(8), None]);
    assert_eq!(batch.column(2).as_primitive::<TimestampMicrosecondType>().value(4), 1_000_000);
    assert_eq!(columns.finish().expect("no rows").num_rows(), 0);
}

#[test]
fn unknown_fields_are_counted_by_path() {
    let mut columns = converter(&nested());
    for _ in 0..2 {
        columns
            .append(br#"{"id":1,"new":{"x":1},"items":[{"price":1,"sku":"s"},{"sku":"t","price":2}]}"#)
            .expect("good");
    }
    let field =
        |within: &str, name: &str, count| UnknownField { within: within.into(), name: name.into(), count };
    assert_eq!(columns.unknown_fields(), [field("", "new", 2), field("items.element", "sku", 4)]);
    for name in 0..300 {
        columns.append(format!(r#"{{"id":1,"n{name}":1}}"#).as_bytes()).expect("good");
    }
    assert_eq!(columns.unknown_fields().len(), 256);
    assert_eq!(columns.unknown_fields_beyond(), 46);
}

#[test]
fn classes_keep_their_names() {
    use BadRecordClass::{
        BadFormat, DuplicateField, InvalidUtf8, MalformedJson, MissingRequired, NestingTooDeep, NotAnObject,
        NotExact, OutOfRange, WrongType,
    };
    let names = [
        (InvalidUtf8, "invalid-utf8"),
        (MalformedJson, "malformed-json"),
        (NotAnObject, "not-an-object"),
        (NestingTooDeep, "nesting-too-deep"),
        (DuplicateField, "duplicate-field"),
        (MissingRequired, "missing-required"),
        (WrongType, "wrong-type"),
        (OutOfRange, "out-of-range"),
        (NotExact, "not-exact"),
        (BadFormat, "bad-format"),
    ];
    for (class, name) in names {
        assert_eq!(class.as_str(), name);
    }
}

#[test]
fn schemas_that_json_has_no_value_for_are_refused() {
    let key = NestedField::map_key_element(
        2,
        Type::List(ListType::new(NestedField::list_element(4, primitive(PrimitiveType::Int), true).into())),
    );
    let value = NestedField::map_value_element(3, primitive(PrimitiveType::Int), false);
    let map = Type::Map(MapType::new(key.into(), value.into()));
    assert!(matches!(Converter::new(&one(map)), Err(UnsupportedSchema::NestedKey(path)) if path == "a"));
}
