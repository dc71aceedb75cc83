//! Why a record's value does not fit its table.
//!
//! The reason is read by whoever owns the producer, so it names the place, what the column holds,
//! what was found and the rule, in one line. What was found is quoted from the value, cut short.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The classes that dead letters are filed under. Their names stand in the dead-letter table and in
/// metrics, where people select by them: a name is never changed or given another meaning.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BadRecordClass {
    /// `invalid-utf8`: the value is not UTF-8 text.
    InvalidUtf8,
    /// `malformed-json`: the value is not JSON.
    MalformedJson,
    /// `not-an-object`: the value is JSON but no object.
    NotAnObject,
    /// `nesting-too-deep`: objects and lists within each other beyond the limit.
    NestingTooDeep,
    /// `duplicate-field`: a field that stands in an object twice.
    DuplicateField,
    /// `missing-required`: a required column without a value.
    MissingRequired,
    /// `wrong-type`: a JSON type that the column does not take.
    WrongType,
    /// `out-of-range`: a value that the column's type can't hold.
    OutOfRange,
    /// `not-exact`: a value that the column's type could hold only changed.
    NotExact,
    /// `bad-format`: a string that is not of the form that the column takes.
    BadFormat,
}

impl BadRecordClass {
    /// The class's stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid-utf8",
            Self::MalformedJson => "malformed-json",
            Self::NotAnObject => "not-an-object",
            Self::NestingTooDeep => "nesting-too-deep",
            Self::DuplicateField => "duplicate-field",
            Self::MissingRequired => "missing-required",
            Self::WrongType => "wrong-type",
            Self::OutOfRange => "out-of-range",
            Self::NotExact => "not-exact",
            Self::BadFormat => "bad-format",
        }
    }
}

/// The reason why a value became no row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadRecord {
    /// What kind of reason it is.
    pub class: BadRecordClass,
    /// Where: `items[3].price`, or `value` for the whole.
    pub path: String,
    /// What the place takes, such as `decimal(10,2)`.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// The rule that it breaks.
    pub rule: Cow<'static, str>,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} expected, found {}: {}", self.path, self.expected, self.found, self.rule)
    }
}

impl std::error::Error for BadRecord {}

/// A step of the path to a fault.
#[derive(Debug)]
pub(crate) enum Step {
    Field(String),
    Element(usize),
    Key(String),
}

/// A fault on its way out; each level that it passes adds its step, so that good records pay nothing.
/// Boxed, since it travels in the result of every read.
#[derive(Debug)]
pub(crate) struct Fault(Box<Parts>);

#[derive(Debug)]
struct Parts {
    class: BadRecordClass,
    expected: Cow<'static, str>,
    found: String,
    rule: Cow<'static, str>,
    /// Innermost first.
    steps: Vec<Step>,
}

pub(crate) type Read<T> = Result<T, Fault>;

impl Fault {
    #[cold]
    pub(crate) fn new(
        class: BadRecordClass,
        expected: impl Into<Cow<'static, str>>,
        found: String,
        rule: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (expected, rule) = (expected.into(), rule.into());
        Self(Box::new(Parts { class, expected, found, rule, steps: Vec::new() }))
    }

    /// The same with `class` instead of `old`.
    pub(crate) fn reclassed(mut self, old: BadRecordClass, class: BadRecordClass) -> Self {
        if self.0.class == old {
            self.0.class = class;
        }
        self
    }

    pub(crate) fn within(mut self, step: Step) -> Self {
        self.0.steps.push(step);
        self
    }

    pub(crate) fn into_bad_record(self) -> BadRecord {
        let path = path(&self.0.steps);
        let Parts { class, expected, found, rule, .. } = *self.0;
        BadRecord { class, path, expected: expected.into_owned(), found, rule }
    }
}

fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps.iter().rev() {
        let dot = if path.is_empty() { "" } else { "." };
        // Writing to a string can't fail.
        let _ = match step {
            Step::Field(name) => write!(path, "{dot}{}", shown(name, 80)),
            Step::Element(index) => write!(path, "[{index}]"),
            Step::Key(key) => write!(path, "[\"{}\"]", shown(key, 40)),
        };
    }
    if path.is_empty() { "value".to_owned() } else { path }
}

/// At most `limit` characters of `text`, without such that would spoil a log line.
pub(crate) fn shown(text: &str, limit: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(limit)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if text.chars().nth(limit).is_some() {
        shown.push('…');
    }
    shown
}
