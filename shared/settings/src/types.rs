//! A column's type, as the settings write it.
//!
//! Iceberg's names for primitive types, and three forms around them:
//!
//! ```text
//! type   = primitive | "list<" inner ">" | "map<" type "," inner ">" | "struct<" field {"," field} ">"
//! inner  = type ["?"]
//! field  = name ["?"] ":" type
//! ```
//!
//! A `?` marks what may be null or missing; without it an element, a value or a field is required. Types:
//! <https://iceberg.apache.org/spec/#schemas-and-data-types>.

use std::fmt;
use std::sync::Arc;

use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, StructType, Type};

/// Deeper types are refused: nobody writes them, and reading them is recursive.
const MAX_DEPTH: usize = 32;

/// A type without field ids: those are given when the table's schema is made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ColumnType {
    /// A single value.
    Primitive(PrimitiveType),
    /// Values in order.
    List {
        /// What each is.
        element: Box<Self>,
        /// Whether none may be null.
        element_required: bool,
    },
    /// Values by key.
    Map {
        /// What a key is; never null.
        key: Box<Self>,
        /// What a value is.
        value: Box<Self>,
        /// Whether none may be null.
        value_required: bool,
    },
    /// Named fields, in order.
    Struct(Vec<Column>),
}

/// A column, or a field of a struct.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Column {
    /// Its name; without a dot, which separates the levels of nested names.
    pub name: String,
    /// What it holds.
    pub data_type: ColumnType,
    /// Whether every record must have it.
    pub required: bool,
}

impl ColumnType {
    /// The type that `text` writes, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text, depth: 0 };
        let parsed = parser.any_type()?;
        match parser.peek() {
            None => Ok(parsed),
            Some(_) => Err(parser.unexpected("the end")),
        }
    }

    /// The primitive types in it, at any depth.
    pub(crate) fn primitives(&self) -> Vec<&PrimitiveType> {
        match self {
            Self::Primitive(primitive) => vec![primitive],
            Self::List { element, .. } => element.primitives(),
            Self::Map { key, value, .. } => [key.primitives(), value.primitives()].concat(),
            Self::Struct(fields) => fields.iter().flat_map(|field| field.data_type.primitives()).collect(),
        }
    }

    fn to_iceberg(&self, ids: &mut FieldIds) -> Type {
        match self {
            Self::Primitive(primitive) => Type::Primitive(primitive.clone()),
            Self::List { element, element_required } => {
                let id = ids.next();
                let field = NestedField::list_element(id, element.to_iceberg(ids), *element_required);
                Type::List(ListType::new(Arc::new(field)))
            }
            Self::Map { key, value, value_required } => {
                let (key_id, value_id) = (ids.next(), ids.next());
                let key = NestedField::map_key_element(key_id, key.to_iceberg(ids));
                let value = NestedField::map_value_element(value_id, value.to_iceberg(ids), *value_required);
                Type::Map(MapType::new(Arc::new(key), Arc::new(value)))
            }
            Self::Struct(fields) => Type::Struct(StructType::new(to_iceberg_fields(fields, ids))),
        }
    }
}

/// Field ids from 1 on.
#[derive(Debug, Default)]
pub(crate) struct FieldIds(i32);

impl FieldIds {
    fn next(&mut self) -> i32 {
        self.0 += 1;
        self.0
    }
}

/// Columns with fresh ids: those of one level are consecutive, nested ones follow, as catalogs assign
/// them.
pub(crate) fn to_iceberg_fields(columns: &[Column], ids: &mut FieldIds) -> Vec<NestedFieldRef> {
    let numbered: Vec<_> = columns.iter().map(|column| (ids.next(), column)).collect();
    let field = |(id, column): (i32, &Column)| {
        Arc::new(NestedField::new(id, &column.name, column.data_type.to_iceberg(ids), column.required))
    };
    numbered.into_iter().map(field).collect()
}

/// Whether a column's name can be used: with a dot it could be mistaken for a nested one's, and engines
/// trip over blanks at its ends.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("is empty; name the column"),
        name if name.trim() != name => Err("begins or ends with a blank; leave it out"),
        name if name.contains('.') => Err("holds a dot, which stands for nesting; use an underscore"),
        _ => Ok(()),
    }
}

/// The first name that stands twice but for case, which many engines don't tell apart.
pub(crate) fn repeated_name(columns: &[Column]) -> Option<&str> {
    let mut seen = std::collections::HashSet::new();
    columns.iter().map(|column| column.name.as_str()).find(|name| !seen.insert(name.to_lowercase()))
}

/// What is left of the text.
struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any_type(&mut self) -> Result<ColumnType, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
        }
        let parsed = match self.word() {
            "list" => self.list(),
            "map" => self.map(),
            "struct" => self.fields(),
            primitive => self.primitive(primitive),
        };
        self.depth -= 1;
        parsed
    }

    fn list(&mut self) -> Result<ColumnType, String> {
        self.expect('<')?;
        let (element, element_required) = self.inner()?;
        self.expect('>')?;
        Ok(ColumnType::List { element: Box::new(element), element_required })
    }

    fn map(&mut self) -> Result<ColumnType, String> {
        self.expect('<')?;
        let key = Box::new(self.any_type()?);
        self.expect(',')?;
        let (value, value_required) = self.inner()?;
        self.expect('>')?;
        Ok(ColumnType::Map { key, value: Box::new(value), value_required })
    }

    fn fields(&mut self) -> Result<ColumnType, String> {
        self.expect('<')?;
        let mut fields = vec![self.field()?];
        while self.accept(',') {
            fields.push(self.field()?);
        }
        self.expect('>')?;
        match repeated_name(&fields) {
            None => Ok(ColumnType::Struct(fields)),
            Some(name) => {
                Err(format!("has the field {name:?} twice in one struct (upper and lower case count as one)"))
            }
        }
    }

    fn field(&mut self) -> Result<Column, String> {
        let name = self.word().to_owned();
        check_name(&name).map_err(|problem| format!("has a field whose name {problem}"))?;
        let required = !self.accept('?');
        self.expect(':')?;
        Ok(Column { name, data_type: self.any_type()?, required })
    }

    fn inner(&mut self) -> Result<(ColumnType, bool), String> {
        let inner = self.any_type()?;
        Ok((inner, !self.accept('?')))
    }

    fn primitive(&mut self, name: &str) -> Result<ColumnType, String> {
        let primitive = match name {
            "boolean" => PrimitiveType::Boolean,
            "int" => PrimitiveType::Int,
            "long" => PrimitiveType::Long,
            "float" => PrimitiveType::Float,
            "double" => PrimitiveType::Double,
            "date" => PrimitiveType::Date,
            "time" => PrimitiveType::Time,
            "timestamp" => PrimitiveType::Timestamp,
            "timestamptz" => PrimitiveType::Timestamptz,
            "timestamp_ns" => PrimitiveType::TimestampNs,
            "timestamptz_ns" => PrimitiveType::TimestamptzNs,
            "string" => PrimitiveType::String,
            "uuid" => PrimitiveType::Uuid,
            "binary" => PrimitiveType::Binary,
            "decimal" => self.decimal()?,
            "fixed" => self.fixed()?,
            _ => {
                return Err(format!(
                    "{name:?} is no type; there are {PRIMITIVES}, list<T>, map<K, V>, struct<a: T>"
                ));
            }
        };
        Ok(ColumnType::Primitive(primitive))
    }

    fn decimal(&mut self) -> Result<PrimitiveType, String> {
        self.expect('(')?;
        let precision = self.number()?;
        self.expect(',')?;
        let scale = self.number()?;
        self.expect(')')?;
        if (1..=38).contains(&precision) && scale <= precision {
            return Ok(PrimitiveType::Decimal { precision, scale });
        }
        Err("decimal(P, S) has 1 to 38 digits (P), of which S, at most P, are decimals".to_owned())
    }

    fn fixed(&mut self) -> Result<PrimitiveType, String> {
        self.expect('(')?;
        let length = self.number()?;
        self.expect(')')?;
        if length == 0 {
            return Err("fixed(N) has at least 1 byte".to_owned());
        }
        Ok(PrimitiveType::Fixed(length.into()))
    }

    fn number(&mut self) -> Result<u32, String> {
        let word = self.word();
        word.parse().map_err(|_| format!("{word:?} is no number that fits here"))
    }

    /// What stands before the next mark or the end.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c| "<>(),:?".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.trim()
    }

    fn peek(&self) -> Option<char> {
        self.rest.trim_start().chars().next()
    }

    fn accept(&mut self, mark: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, mark: char) -> Result<(), String> {
        if self.accept(mark) { Ok(()) } else { Err(self.unexpected(&format!("{mark:?}"))) }
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.rest.trim() {
            "" => format!("ends where {wanted} is expected"),
            rest => format!("has {rest:?} where {wanted} is expected"),
        }
    }
}

const PRIMITIVES: &str = "boolean, int, long, float, double, decimal(P, S), date, time, timestamp, timestamptz, \
                          timestamp_ns, timestamptz_ns, string, uuid, fixed(N), binary";

impl fmt::Display for ColumnType {
    /// As the settings write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |required: bool| if required { "" } else { "?" };
        match self {
            Self::Primitive(PrimitiveType::Decimal { precision, scale }) => {
                write!(f, "decimal({precision}, {scale})")
            }
            Self::Primitive(PrimitiveType::Fixed(length)) => write!(f, "fixed({length})"),
            Self::Primitive(primitive) => primitive.fmt(f),
            Self::List { element, element_required } => {
                write!(f, "list<{element}{}>", mark(*element_required))
            }
            Self::Map { key, value, value_required } => {
                write!(f, "map<{key}, {value}{}>", mark(*value_required))
            }
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}{}: {}", field.name, mark(field.required), field.data_type)?;
                }
                f.write_str(">")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn primitive() -> impl Strategy<Value = ColumnType> {
        let plain = prop::sample::select(vec![
            PrimitiveType::Boolean,
            PrimitiveType::Int,
            PrimitiveType::Long,
            PrimitiveType::Float,
            PrimitiveType::Double,
            PrimitiveType::Date,
            PrimitiveType::Time,
            PrimitiveType::Timestamp,
            PrimitiveType::Timestamptz,
            PrimitiveType::TimestampNs,
            PrimitiveType::TimestamptzNs,
            PrimitiveType::String,
            PrimitiveType::Uuid,
            PrimitiveType::Binary,
        ]);
        let decimal = (1u32..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| PrimitiveType::Decimal { precision, scale });
        prop_oneof![plain, decimal, (1u64..100).prop_map(PrimitiveType::Fixed)]
            .prop_map(ColumnType::Primitive)
    }

    fn any_type() -> impl Strategy<Value = ColumnType> {
        primitive().prop_recursive(4, 24, 4, |inner| {
            let field = ("[a-z][a-z_]{0,6}", inner.clone(), any::<bool>());
            prop_oneof![
                (inner.clone(), any::<bool>()).prop_map(|(element, element_required)| ColumnType::List {
                    element: Box::new(element),
                    element_required
                }),
                (inner.clone(), inner, any::<bool>()).prop_map(|(key, value, value_required)| {
                    ColumnType::Map { key: Box::new(key), value: Box::new(value), value_required }
                }),
                prop::collection::btree_map("[a-z][a-z_]{0,6}", field, 1..4).prop_map(|fields| {
                    let column = |(name, (_, data_type, required))| Column { name, data_type, required };
                    ColumnType::Struct(fields.into_iter().map(column).collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_type_reads_back_as_written(data_type in any_type()) {
            prop_assert_eq!(ColumnType::parse(&data_type.to_string()), Ok(data_type));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z<>(),:? 0-9]{0,40}") {
            let _ = ColumnType::parse(&text);
        }

        #[test]
        fn every_field_has_an_id_of_its_own(data_type in any_type()) {
            let column = Column { name: "c".to_owned(), data_type, required: false };
            let fields = to_iceberg_fields(&[column.clone(), Column { name: "d".to_owned(), ..column }], &mut FieldIds::default());
            let schema = iceberg::spec::Schema::builder().with_fields(fields).build().expect("unique ids");
            let count = i32::try_from(schema.field_id_to_fields().len()).expect("few fields");
            prop_assert_eq!(schema.highest_field_id(), count);
        }
    }

    #[test]
    fn required_and_optional_parts_are_told_apart() {
        let parsed = ColumnType::parse("struct< a : long , b? : list<string?> , c: map<string,double>>")
            .expect("a type");
        assert_eq!(parsed.to_string(), "struct<a: long, b?: list<string?>, c: map<string, double>>");
    }

    #[test]
    fn problems_say_where_and_what_is_expected() {
        for (text, problem) in [
            ("", "\"\" is no type; there are boolean"),
            ("integer", "\"integer\" is no type"),
            ("list<long", "ends where '>' is expected"),
            ("long?", "has \"?\" where the end is expected"),
            ("map<string>", "has \">\" where ',' is expected"),
            ("struct<a long>", "has \">\" where ':' is expected"),
            ("struct<a: long, A: int>", "has the field \"A\" twice"),
            ("decimal(39, 0)", "1 to 38 digits"),
            ("decimal(5, 6)", "1 to 38 digits"),
            ("fixed(0)", "at least 1 byte"),
            ("fixed(-1)", "is no number"),
        ] {
            let found = ColumnType::parse(text).expect_err(text);
            assert!(found.contains(problem), "{text:?}: {found}");
        }
        assert!(ColumnType::parse(&"list<".repeat(100_000)).expect_err("too deep").contains("deeper"));
    }
}
