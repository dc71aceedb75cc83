//! The conversion once more, written to be obviously right instead of fast, and the properties that
//! hold the real one to it.
//!
//! The reference takes a value apart into a tree by `serde_json`, works on digits as text, and leaves
//! calendars and base64 to other libraries. It shares no code with the conversion. Schemas and values
//! are made of a tape of random bytes, good ones and slightly wrong ones mixed.

mod generate;
mod json;
mod rows;
mod values;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use iceberg::spec::{MapType, NestedFieldRef, Schema, StructType, Type};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use crate::Converter;
use generate::Tape;
use json::Json;
use rows::Val;

/// Why a value is refused; the reference does not say more.
#[derive(Debug)]
struct Refused;

type Taken<T> = Result<T, Refused>;

/// The row that `value` is.
fn row(schema: &Schema, value: &[u8]) -> Taken<Val> {
    let text = std::str::from_utf8(value).map_err(|_| Refused)?;
    structure(schema.as_struct(), &Json::parse(text).ok_or(Refused)?)
}

fn field(field: &NestedFieldRef, json: Option<&Json>) -> Taken<Val> {
    match json {
        None | Some(Json::Null) if field.required => Err(Refused),
        None | Some(Json::Null) => Ok(Val::Null),
        Some(json) => value(&field.field_type, json),
    }
}

fn value(r#type: &Type, json: &Json) -> Taken<Val> {
    match (r#type, json) {
        (Type::Primitive(primitive), json) => values::primitive(primitive, json),
        (Type::Struct(fields), json) => structure(fields, json),
        (Type::List(list), Json::List(elements)) => {
            let elements = elements.iter().map(|element| field(&list.element_field, Some(element)));
            Ok(Val::List(elements.collect::<Taken<_>>()?))
        }
        (Type::Map(map), json) => entries(map, json),
        _ => Err(Refused),
    }
}

fn structure(fields: &StructType, json: &Json) -> Taken<Val> {
    let Json::Object(members) = json else { return Err(Refused) };
    once(members.iter().map(|(name, _)| name))?;
    let member = |name: &str| members.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value);
    let values = fields.fields().iter().map(|each| field(each, member(&each.name)));
    Ok(Val::Struct(values.collect::<Taken<_>>()?))
}

fn entries(map: &MapType, json: &Json) -> Taken<Val> {
    let text_keys = map.key_field.field_type.to_string() == "string";
    let entries: Vec<Val> = match (text_keys, json) {
        (true, Json::Object(members)) => {
            let entries = members.iter().map(|(key, value)| {
                Ok(Val::Struct(vec![Val::Text(key.clone()), field(&map.value_field, Some(value))?]))
            });
            entries.collect::<Taken<_>>()?
        }
        (false, Json::List(elements)) => {
            let fields = StructType::new(vec![Arc::clone(&map.key_field), Arc::clone(&map.value_field)]);
            elements.iter().map(|element| structure(&fields, element)).collect::<Taken<_>>()?
        }
        _ => return Err(Refused),
    };
    once(entries.iter().map(Val::key))?;
    Ok(Val::List(entries))
}

fn once<T: std::hash::Hash + Eq>(items: impl Iterator<Item = T>) -> Taken<()> {
    let mut seen = HashSet::new();
    items.into_iter().all(|item| seen.insert(item)).then_some(()).ok_or(Refused)
}

/// A schema, and values that fit it more or less.
fn cases() -> impl Strategy<Value = (Schema, Vec<Vec<u8>>)> {
    let tape = |most: usize| prop::collection::vec(any::<u8>(), 0..most);
    (tape(60), prop::collection::vec(tape(120), 1..12)).prop_map(|(schema, rows)| {
        let schema = generate::schema(&mut Tape::new(schema));
        let rows = rows.into_iter().map(|row| generate::row(&mut Tape::new(row), &schema)).collect();
        (schema, rows)
    })
}

fn batch(schema: &Schema, values: &[Vec<u8>]) -> RecordBatch {
    let mut columns = Converter::new(schema).expect("a supported schema");
    for value in values {
        columns.append(value).expect("a good value");
    }
    columns.finish().expect("a batch")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_value_is_taken_or_refused_as_the_reference_does((schema, values) in cases()) {
        let mut columns = Converter::new(&schema).expect("a supported schema");
        // Twice, since the second batch is read with what was learned in the first.
        for _ in 0..2 {
            let mut expected = Vec::new();
            for value in &values {
                let (taken, reference) = (columns.append(value), row(&schema, value));
                let text = String::from_utf8_lossy(value);
                prop_assert_eq!(taken.is_ok(), reference.is_ok(), "{} in {}: {:?}", text, schema, taken);
                expected.extend(reference);
            }
            prop_assert_eq!(columns.rows(), expected.len());
            prop_assert_eq!(rows::of(&columns.finish().expect("a batch")), expected);
        }
    }

    #[test]
    fn a_refused_value_changes_nothing((schema, values) in cases()) {
        let mut columns = Converter::new(&schema).expect("a supported schema");
        let good: Vec<_> = values.iter().filter(|value| columns.append(value).is_ok()).cloned().collect();
        prop_assert_eq!(columns.finish().expect("a batch"), batch(&schema, &good));
        let mut only_good = Converter::new(&schema).expect("a supported schema");
        for value in &good {
            only_good.append(value).expect("a good value");
        }
        prop_assert_eq!(columns.unknown_fields(), only_good.unknown_fields());
    }

    #[test]
    fn no_bytes_panic((schema, values) in cases(), noise in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut columns = Converter::new(&schema).expect("a supported schema");
        let _ = columns.append(&noise);
        for value in &values {
            let (head, tail) = value.split_at(noise.len().min(value.len()));
            let _ = columns.append(&[head, noise.as_slice(), tail].concat());
        }
        let rows = columns.rows();
        prop_assert_eq!(columns.finish().expect("a batch").num_rows(), rows);
    }
}

/// Were next to no values good, the properties above would say little.
#[test]
fn values_are_good_and_bad_in_turn() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..200 {
        let (schema, values) = cases().new_tree(&mut runner).expect("a case").current();
        let taken = values.iter().filter(|value| row(&schema, value).is_ok()).count();
        good += taken;
        bad += values.len() - taken;
    }
    assert!(good > 250 && bad > 250, "{good} good, {bad} bad");
}
