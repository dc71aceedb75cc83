//! A table's names and numbers, in Iceberg's terms.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::kafka::NameError;

/// A table's full name: namespace levels and a table name, written with dots.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName {
    namespace: Vec<String>,
    name: String,
}

impl TableName {
    /// The namespace's levels, at least one.
    #[must_use]
    pub fn namespace(&self) -> &[String] {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// S3 Tables' and OSS Tables' rule for namespaces and tables, which every catalog accepts: lower-case
/// letters, digits and underscores, with a letter or digit at both ends
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-buckets-naming.html>).
fn is_plain_name(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=255).contains(&part.len())
        && part.chars().all(|c| plain(c) || c == '_')
        && part.starts_with(plain)
        && part.ends_with(plain)
}

impl TryFrom<String> for TableName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        let mut parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        let named = parts.len() >= 2 && parts.iter().all(|part| is_plain_name(part));
        match parts.pop() {
            Some(name) if named => Ok(Self { namespace: parts, name }),
            _ => Err(NameError::table(text)),
        }
    }
}

impl TryFrom<&str> for TableName {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        Self::try_from(text.to_owned())
    }
}

impl From<TableName> for String {
    fn from(table: TableName) -> Self {
        table.to_string()
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.namespace.iter().try_for_each(|level| write!(f, "{level}."))?;
        f.write_str(&self.name)
    }
}

/// The branch that snapshots are added to.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Branch(String);

impl Branch {
    /// Iceberg's default branch.
    #[must_use]
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The branch's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Branch {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if (1..=80).contains(&name.len()) && name.chars().all(allowed) {
            return Ok(Self(name));
        }
        Err(NameError::branch(name))
    }
}

impl From<Branch> for String {
    fn from(branch: Branch) -> Self {
        branch.0
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which table it is, whatever name it goes by: a table made again under its old name has another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TableUuid(pub Uuid);

impl fmt::Display for TableUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The schema that a data file was written with.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct SchemaId(pub i32);

/// The partition spec that a data file was written with.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct SpecId(pub i32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_written() {
        let table = TableName::try_from("lake.analytics.click_stream").expect("a plain name");
        assert_eq!(table.namespace(), ["lake", "analytics"]);
        assert_eq!(table.name(), "click_stream");
        assert_eq!(table.to_string(), "lake.analytics.click_stream");
    }

    #[test]
    fn names_that_table_buckets_refuse_are_refused() {
        for bad in ["clickstream", "a.b-c", "A.b", "a._b", "a.b_", "a..b", "", "a.b c"] {
            assert!(TableName::try_from(bad).is_err(), "{bad:?} should be refused");
        }
    }
}
