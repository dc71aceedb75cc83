//! Kafka's coordinates, and the source that a ledger is kept for.
//!
//! A record's identity is (source, partition, offset). The source is named by settings (pipeline and
//! cluster name) and the topic, never by an ARN or a broker list: those change while the records
//! stay the same.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a name can't be used.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{what} {name:?} must be {rule}")]
pub struct NameError {
    what: &'static str,
    name: String,
    rule: &'static str,
}

impl NameError {
    pub(crate) const fn table(name: String) -> Self {
        let rule =
            "namespace.table, each of lower-case letters, digits and underscores between two of the former";
        Self { what: "table", name, rule }
    }

    pub(crate) const fn branch(name: String) -> Self {
        Self { what: "branch", name, rule: "1 to 80 letters, digits, underscores or hyphens" }
    }
}

/// A Kafka topic's name: 1 to 249 of `[A-Za-z0-9._-]`, as brokers enforce it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Topic(String);

/// The name that a Kafka cluster goes by in the ledgers: 1 to 80 of `[A-Za-z0-9._-]`.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

/// The pipeline's id: 1 to 40 of `[a-z0-9-]`.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct PipelineId(String);

fn is_kafka_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_pipeline_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

macro_rules! name {
    ($type:ident, $what:literal, $max:literal, $allowed:path, $rule:literal) => {
        impl $type {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                if (1..=$max).contains(&name.len()) && name.chars().all($allowed) {
                    return Ok(Self(name));
                }
                Err(NameError { what: $what, name, rule: $rule })
            }
        }

        impl TryFrom<&str> for $type {
            type Error = NameError;

            fn try_from(name: &str) -> Result<Self, NameError> {
                Self::try_from(name.to_owned())
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(Topic, "topic", 249, is_kafka_char, "1 to 249 letters, digits, dots, underscores or hyphens");
name!(
    ClusterName,
    "cluster name",
    80,
    is_kafka_char,
    "1 to 80 letters, digits, dots, underscores or hyphens"
);
name!(PipelineId, "pipeline id", 40, is_pipeline_char, "1 to 40 lower-case letters, digits or hyphens");

/// A partition of a topic; never negative.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Partition(i32);

impl Partition {
    /// The partition numbered `number`, if that is one.
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        i32::try_from(number).ok().filter(|number| *number >= 0).map(Self)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }
}

/// A position in a partition; never negative.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Offset(i64);

impl Offset {
    /// The offset `position`, if that is one. The last representable one is left out, so that every
    /// offset has a successor.
    #[must_use]
    pub const fn new(position: i64) -> Option<Self> {
        if position >= 0 && position < i64::MAX { Some(Self(position)) } else { None }
    }

    /// Its position.
    #[must_use]
    pub const fn position(self) -> i64 {
        self.0
    }

    /// The offset `count` further on, if there is one.
    #[must_use]
    pub fn plus(self, count: u32) -> Option<Self> {
        self.0.checked_add(i64::from(count)).and_then(Self::new)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Partition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        Self::new(number).ok_or_else(|| serde::de::Error::custom(format!("{number} is no partition")))
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let position = i64::deserialize(deserializer)?;
        Self::new(position).ok_or_else(|| serde::de::Error::custom(format!("{position} is no offset")))
    }
}

/// Where records come from: a topic of a cluster, read by a pipeline.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The pipeline that reads.
    pub pipeline: PipelineId,
    /// The cluster, by the name that the settings give it.
    pub cluster: ClusterName,
    /// The topic as the records name it, whatever table it is routed to.
    pub topic: Topic,
}

impl fmt::Display for Source {
    /// `pipeline/cluster/topic`: unambiguous, since none of the three may hold a slash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.pipeline, self.cluster, self.topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_the_error_says_the_rule() {
        assert!(Topic::try_from("shop.Order-Items_1").is_ok());
        let error = Topic::try_from("a/b").expect_err("a slash is no topic character");
        assert_eq!(
            error.to_string(),
            r#"topic "a/b" must be 1 to 249 letters, digits, dots, underscores or hyphens"#
        );
        assert!(PipelineId::try_from("Demo").is_err());
        assert!(ClusterName::try_from("").is_err());
        assert!(Topic::try_from("x".repeat(250)).is_err());
    }

    #[test]
    fn partitions_and_offsets_are_never_negative() {
        assert_eq!(Partition::new(-1), None);
        assert_eq!(Partition::new(i64::from(i32::MAX) + 1), None);
        assert_eq!(Offset::new(-1), None);
        assert_eq!(Offset::new(i64::MAX), None);
        assert_eq!(Offset::new(i64::MAX - 1).and_then(|last| last.plus(1)), None);
    }
}
