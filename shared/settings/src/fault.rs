//! What is wrong with the settings: everything, at once, by key.
//!
//! An operator who fixes one fault only to meet the next loses a deployment for each. So nothing here
//! stops at the first fault: reading and validating go on as far as they can, and [`Faults`] collects.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::reference::References;

/// A key as the file spells it: `catalog.uri`, `route[1].table`.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self::named(name) } else { Self(format!("{self}.{name}")) }
    }

    pub(crate) fn at(&self, index: usize) -> Self {
        Self(format!("{self}[{index}]"))
    }

    fn holds(&self, other: &Self) -> bool {
        other.0.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that is wrong, and what to do about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The key that is at fault, as the file spells it.
    pub key: String,
    /// What is wrong with it and what to write instead. Never holds a secret.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// All faults of the settings, one a line when displayed.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub struct SettingsError {
    faults: Vec<Fault>,
}

impl SettingsError {
    pub(crate) fn one(key: &str, problem: impl Into<String>) -> Self {
        Self { faults: vec![Fault { key: key.to_owned(), problem: problem.into() }] }
    }

    /// The faults, sorted by key; at least one.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.len();
        write!(f, "the settings have {count} fault{}:", if count == 1 { "" } else { "s" })?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<(Key, String)>,
    /// Which environment variable set a key, so that a fault sends the operator to the right place.
    overridden: BTreeMap<Key, String>,
    /// Secrets that are kept elsewhere: met by the same reading.
    pub(crate) references: References,
}

impl Faults {
    pub(crate) fn overridden(&mut self, key: Key, variable: &str) {
        self.overridden.insert(key, variable.to_owned());
    }

    pub(crate) fn add(&mut self, key: &Key, problem: impl fmt::Display) {
        let origin = self.overridden.get(key);
        let problem = match origin {
            Some(variable) => format!("{problem} (set by {variable})"),
            None => problem.to_string(),
        };
        self.found.push((key.clone(), problem));
    }

    /// How many were found so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// A required key is absent. Said once: not when the key or what it stands in is at fault already.
    pub(crate) fn missing(&mut self, key: &Key, remedy: impl fmt::Display) {
        if !self.found.iter().any(|(faulty, _)| faulty.holds(key)) {
            self.add(key, format_args!("missing; {remedy}"));
        }
    }

    /// `value`, unless something was found to be wrong.
    pub(crate) fn into_result<T>(mut self, value: Option<T>) -> Result<T, SettingsError> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => {
                self.found.sort();
                Err(SettingsError { faults: self.found.into_iter().map(fault).collect() })
            }
        }
    }
}

fn fault((key, problem): (Key, String)) -> Fault {
    Fault { key: key.0, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_is_not_named_twice() {
        let mut faults = Faults::default();
        faults.add(&Key::named("catalog"), "must be a table");
        faults.missing(&Key::named("catalog").child("uri"), "say where it is");
        faults.missing(&Key::named("catalogue"), "say which");
        let error = faults.into_result(Some(())).expect_err("two faults");
        assert_eq!(
            error.to_string(),
            "the settings have 2 faults:\n  catalog: must be a table\n  catalogue: missing; say which"
        );
    }

    #[test]
    fn a_fault_names_the_variable_that_set_the_key() {
        let mut faults = Faults::default();
        let key = Key::named("route").at(1).child("table");
        faults.overridden(key.clone(), "ICEFALL__ROUTE__1__TABLE");
        faults.add(&key, "is no table name");
        let error = faults.into_result(None::<()>).expect_err("a fault");
        assert_eq!(
            error.faults()[0].to_string(),
            "route[1].table: is no table name (set by ICEFALL__ROUTE__1__TABLE)"
        );
    }
}
