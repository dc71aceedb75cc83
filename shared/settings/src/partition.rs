//! Partition fields, as the settings write them.
//!
//! All of Iceberg's transforms are understood, so that one the writer lacks is refused by name and
//! never read as something else. A field that can't be honoured refuses the settings: a table is never
//! quietly made without it. Transforms: <https://iceberg.apache.org/spec/#partition-transforms>.

use std::fmt;

use iceberg::spec::{PrimitiveType, Transform};

/// A field of the partition spec of a table that Icefall makes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartitionField {
    /// The source column.
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
            transform => format!("{}_{transform}", self.column),
        }
    }

    /// Reads `column`, `transform(column)`, `bucket(column, n)` or `truncate(column, n)`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((function, arguments)) = text.split_once('(') else {
            return Self::new(text, Transform::Identity, text);
        };
        let arguments =
            arguments.strip_suffix(')').ok_or_else(|| format!("{text:?} lacks its closing bracket"))?;
        match arguments.split_once(',') {
            None => Self::new(arguments, plain(function.trim()).ok_or_else(|| not_one(text))?, text),
            Some((column, number)) => {
                let number = number.trim().parse().ok().filter(|number| *number > 0);
                let transform = number.and_then(|number| sized(function.trim(), number));
                Self::new(column, transform.ok_or_else(|| not_one(text))?, text)
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

    /// Whether the writer can split by it.
    pub(crate) fn check_supported(&self) -> Result<(), String> {
        match self.transform {
            Transform::Identity | Transform::Hour => Ok(()),
            _ => Err(format!(
                "{self} can't be written yet; supported are identity(column), or the column alone, and hour(column)"
            )),
        }
    }

    /// Whether values of `source` can be transformed so.
    pub(crate) fn check_source(&self, source: Option<&PrimitiveType>) -> Result<(), String> {
        match (self.transform, source) {
            (_, None) => {
                Err(format!("{} is no column of a primitive type; partition by one that is", self.column))
            }
            (Transform::Hour, Some(source)) if !is_timestamp(source) => Err(format!(
                "{self} needs a column of type timestamp or timestamptz, and {} is {source}",
                self.column
            )),
            _ => Ok(()),
        }
    }
}

fn is_timestamp(source: &PrimitiveType) -> bool {
    matches!(
        source,
        PrimitiveType::Timestamp
            | PrimitiveType::Timestamptz
            | PrimitiveType::TimestampNs
            | PrimitiveType::TimestamptzNs
    )
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
            Transform::Bucket(buckets) => write!(f, "bucket({}, {buckets})", self.column),
            Transform::Truncate(width) => write!(f, "truncate({}, {width})", self.column),
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
            ("bucket(user_id, 16)", "user_id_bucket"),
            ("truncate(page_url, 8)", "page_url_trunc"),
            ("void(user_id)", "user_id_void"),
        ] {
            let field = PartitionField::parse(text).expect(text);
            assert_eq!((field.to_string().as_str(), field.name().as_str()), (text, name));
        }
        let bare = PartitionField::parse(" country ").expect("a column alone");
        assert_eq!(bare.to_string(), "identity(country)");
    }

    #[test]
    fn what_the_writer_lacks_is_refused_by_name() {
        let day = PartitionField::parse("day(event_time)").expect("a transform");
        let problem = day.check_supported().expect_err("not written yet");
        assert!(problem.contains("day(event_time)") && problem.contains("hour(column)"), "{problem}");
        assert!(PartitionField::parse("hour(event_time)").expect("hour").check_supported().is_ok());
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
            "hour((a))",
            "a)",
        ] {
            assert!(PartitionField::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn hours_are_taken_of_timestamps_alone() {
        let hour = PartitionField::parse("hour(t)").expect("hour");
        assert!(hour.check_source(Some(&PrimitiveType::Timestamptz)).is_ok());
        let problem = hour.check_source(Some(&PrimitiveType::Long)).expect_err("a number has no hour");
        assert!(problem.contains("timestamp or timestamptz") && problem.contains("long"), "{problem}");
        assert!(hour.check_source(None).is_err());
    }
}
