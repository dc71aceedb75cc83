//! Partition fields, as the settings write them.
//!
//! All of Iceberg's transforms are understood. A field that can't be honoured refuses the settings: a table
//! is never quietly made without it. Transforms: <https://iceberg.apache.org/spec/#partition-transforms>.

use std::fmt;

use iceberg::spec::{PrimitiveType, Transform, Type};

/// A field of the partition spec of a table that Icefall makes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartitionField {
    /// The source column; dots lead into a struct.
    pub column: String,
    /// What its values are turned into.
    pub transform: Transform,
}

impl PartitionField {
    /// The field's own name: the column's for identity, else with the transform's behind it, as other
    /// writers name them.
    #[must_use]
    pub fn name(&self) -> String {
        match self.transform {
            Transform::Identity => self.column.clone(),
            Transform::Bucket(_) => format!("{}_bucket", self.column),
            Transform::Truncate(_) => format!("{}_trunc", self.column),
            Transform::Void => format!("{}_null", self.column),
            transform => format!("{}_{transform}", self.column),
        }
    }

    /// Reads `column`, `transform(column)`, `bucket(n, column)` or `truncate(n, column)`; column and number may
    /// stand in either order.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((function, arguments)) = text.split_once('(') else {
            return Self::new(text, Transform::Identity, text);
        };
        let arguments =
            arguments.strip_suffix(')').ok_or_else(|| format!("{text:?} lacks its closing bracket"))?;
        match arguments.split_once(',') {
            None => Self::new(arguments, plain(function.trim()).ok_or_else(|| not_one(text))?, text),
            Some((first, second)) => {
                let (number, column) = match (number(first), number(second)) {
                    (Some(number), None) => (number, second),
                    (None, Some(number)) => (number, first),
                    _ => return Err(not_one(text)),
                };
                Self::new(column, sized(function.trim(), number).ok_or_else(|| not_one(text))?, text)
            }
        }
    }

    fn new(column: &str, transform: Transform, text: &str) -> Result<Self, String> {
        let column = column.trim();
        if column.is_empty() || column.contains(['(', ')', ',']) {
            return Err(not_one(text));
        }
        Ok(Self { column: column.to_owned(), transform })
    }

    /// Whether values of `source` can be transformed so.
    pub(crate) fn check_source(&self, source: Option<&PrimitiveType>) -> Result<(), String> {
        let Some(source) = source else {
            return Err(format!(
                "{} is no column of a primitive type; partition by one that is",
                self.column
            ));
        };
        if let (Transform::Truncate(width), PrimitiveType::Decimal { precision, .. }) =
            (self.transform, source)
            && !holds_truncated(*precision, width)
        {
            return Err(format!("{self} has values that {source} can't hold; choose a smaller width"));
        }
        if *source == PrimitiveType::Uuid && matches!(self.transform, Transform::Identity | Transform::Void) {
            return Err(format!(
                "{self} has uuids, which can't be written as partitions yet; use bucket(16, {})",
                self.column
            ));
        }
        if self.transform.result_type(&Type::Primitive(source.clone())).is_ok() {
            return Ok(());
        }
        Err(format!("{self} needs a column of type {}, and {} is {source}", self.sources(), self.column))
    }

    /// The types that its transform is made for.
    fn sources(&self) -> &'static str {
        match self.transform {
            Transform::Hour => "timestamp or timestamptz",
            Transform::Year | Transform::Month | Transform::Day => "date, timestamp or timestamptz",
            Transform::Truncate(_) => "int, long, decimal, string or binary",
            _ => "int, long, decimal, date, time, timestamp, timestamptz, string, uuid, fixed or binary",
        }
    }
}

/// Whether all values of a decimal still fit into its bytes when they are truncated, which goes down.
fn holds_truncated(precision: u32, width: u32) -> bool {
    let Ok(bytes) = Type::decimal_required_bytes(precision) else { return false };
    let highest = 10_i128.checked_pow(precision).map(|limit| limit - 1 + i128::from(width));
    highest.is_some_and(|highest| bytes >= 16 || highest <= 1 << (bytes * 8 - 1))
}

/// A number of buckets, or a width: what Iceberg has room for.
fn number(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|number| (1..=i32::MAX.unsigned_abs()).contains(number))
}

fn plain(function: &str) -> Option<Transform> {
    match function {
        "identity" => Some(Transform::Identity),
        "hour" => Some(Transform::Hour),
        "day" => Some(Transform::Day),
        "month" => Some(Transform::Month),
        "year" => Some(Transform::Year),
        "void" => Some(Transform::Void),
        _ => None,
    }
}

fn sized(function: &str, number: u32) -> Option<Transform> {
    match function {
        "bucket" => Some(Transform::Bucket(number)),
        "truncate" => Some(Transform::Truncate(number)),
        _ => None,
    }
}

fn not_one(text: &str) -> String {
    format!("{text:?} is no partition field; write a column, or transform(column) such as hour(event_time)")
}

impl fmt::Display for PartitionField {
    /// As the settings write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transform {
            Transform::Bucket(buckets) => write!(f, "bucket({buckets}, {})", self.column),
            Transform::Truncate(width) => write!(f, "truncate({width}, {})", self.column),
            transform => write!(f, "{transform}({})", self.column),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transform_is_understood_and_written_back() {
        for (text, name) in [
            ("identity(country)", "country"),
            ("hour(event_time)", "event_time_hour"),
            ("day(event_time)", "event_time_day"),
            ("month(event_time)", "event_time_month"),
            ("year(event_time)", "event_time_year"),
            ("bucket(16, user_id)", "user_id_bucket"),
            ("truncate(8, page_url)", "page_url_trunc"),
            ("void(user_id)", "user_id_null"),
        ] {
            let field = PartitionField::parse(text).expect(text);
            assert_eq!((field.to_string().as_str(), field.name().as_str()), (text, name));
        }
        let bare = PartitionField::parse(" country ").expect("a column alone");
        assert_eq!(bare.to_string(), "identity(country)");
        let turned = PartitionField::parse("bucket(user_id,16)").expect("either order");
        assert_eq!(turned.to_string(), "bucket(16, user_id)");
    }

    #[test]
    fn what_is_no_partition_field_is_refused() {
        for bad in [
            "",
            "hour(",
            "hour()",
            "hours(a)",
            "hour(a, 2)",
            "bucket(a)",
            "bucket(a, 0)",
            "bucket(a, x)",
            "bucket(4, 16)",
            "bucket(a, 2147483648)",
            "truncate(0, a)",
            "bucket(16, a, b)",
            "day(3, a)",
            "hour((a))",
            "a)",
        ] {
            assert!(PartitionField::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn transforms_are_taken_of_the_types_that_they_are_made_for() {
        fn check(text: &str, source: &PrimitiveType) -> Result<(), String> {
            PartitionField::parse(text).expect(text).check_source(Some(source))
        }
        for (text, good, bad, named) in [
            (
                "hour(t)",
                PrimitiveType::Timestamptz,
                PrimitiveType::Date,
                "timestamp or timestamptz, and t is date",
            ),
            (
                "day(t)",
                PrimitiveType::Date,
                PrimitiveType::Long,
                "date, timestamp or timestamptz, and t is long",
            ),
            ("truncate(4, t)", PrimitiveType::Binary, PrimitiveType::Uuid, "string or binary, and t is uuid"),
            ("bucket(4, t)", PrimitiveType::Uuid, PrimitiveType::Double, "fixed or binary, and t is double"),
        ] {
            assert_eq!(check(text, &good), Ok(()));
            let problem = check(text, &bad).expect_err(text);
            assert!(problem.starts_with(text) && problem.contains(named), "{problem}");
        }
        let decimal = PrimitiveType::Decimal { precision: 2, scale: 0 };
        assert_eq!(check("truncate(10, t)", &decimal), Ok(()));
        assert!(check("truncate(100, t)", &decimal).expect_err("below a byte").contains("smaller width"));
        assert_eq!(check("void(t)", &PrimitiveType::Double), Ok(()));
        assert_eq!(check("t", &PrimitiveType::Float), Ok(()));
        assert!(check("t", &PrimitiveType::Uuid).expect_err("a uuid").ends_with("use bucket(16, t)"));
        assert!(PartitionField::parse("hour(t)").expect("hour").check_source(None).is_err());
    }
}
