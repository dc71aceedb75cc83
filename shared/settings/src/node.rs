//! The settings as a tree, with the environment's overrides set into it.
//!
//! An override is text of which only the reader of its key knows the type, so it stays apart from
//! TOML's typed values until then: `"true"` in the file is a string, in a variable it may be a boolean.

use std::collections::BTreeMap;

use crate::environment::Environment;
use crate::fault::{Faults, Key, SettingsError};

/// A value that isn't read yet.
#[derive(Debug)]
pub(crate) enum Node {
    Table(BTreeMap<String, Self>),
    List(Vec<Self>),
    Value(toml::Value),
    Override(String),
}

impl Node {
    /// The tree of a TOML text.
    pub(crate) fn parse(text: &str) -> Result<Self, SettingsError> {
        match text.parse::<toml::Table>() {
            Ok(table) => Ok(toml::Value::Table(table).into()),
            Err(error) => Err(syntax(text, &error)),
        }
    }

    /// Sets every override in place; those that fit nowhere are faults.
    pub(crate) fn apply(&mut self, environment: &Environment, faults: &mut Faults) {
        for (variable, path, value) in environment.overrides() {
            let key = key(&path);
            faults.overridden(key.clone(), variable);
            match value {
                Some(text) => self.set(&path, text).unwrap_or_else(|problem| faults.add(&key, problem)),
                None => faults.add(&key, "is not valid UTF-8"),
            }
        }
    }

    /// What it is, as an operator would call it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::List(_) => "a list",
            Self::Override(_) => "a text",
            Self::Value(value) => value_kind(value),
        }
    }

    fn set(&mut self, path: &[String], text: &str) -> Result<(), String> {
        let Some((first, rest)) = path.split_first() else {
            *self = Self::Override(text.to_owned());
            return Ok(());
        };
        match self {
            Self::Table(table) => entry(table, first, rest)?.set(rest, text),
            Self::List(list) => item(list, first)?.set(rest, text),
            Self::Value(_) | Self::Override(_) => Err(format!("{first:?} is below a single value")),
        }
    }
}

impl From<toml::Value> for Node {
    fn from(value: toml::Value) -> Self {
        match value {
            toml::Value::Table(table) => {
                Self::Table(table.into_iter().map(|(name, value)| (name, value.into())).collect())
            }
            toml::Value::Array(list) => Self::List(list.into_iter().map(Self::from).collect()),
            value => Self::Value(value),
        }
    }
}

fn value_kind(value: &toml::Value) -> &'static str {
    match value {
        toml::Value::String(_) => "a string",
        toml::Value::Integer(_) => "a whole number",
        toml::Value::Float(_) => "a number with a fraction",
        toml::Value::Boolean(_) => "a boolean",
        toml::Value::Datetime(_) => "a date or time",
        toml::Value::Array(_) => "a list",
        toml::Value::Table(_) => "a table",
    }
}

fn entry<'a>(
    table: &'a mut BTreeMap<String, Node>,
    name: &str,
    rest: &[String],
) -> Result<&'a mut Node, String> {
    let numbered = rest.first().is_some_and(|next| next.parse::<usize>().is_ok());
    if numbered && !table.contains_key(name) {
        return Err("there is no such entry; a variable changes entries of the file, it adds none".to_owned());
    }
    Ok(table.entry(name.to_owned()).or_insert_with(|| Node::Table(BTreeMap::new())))
}

fn item<'a>(list: &'a mut [Node], index: &str) -> Result<&'a mut Node, String> {
    let count = list.len();
    let index =
        index.parse::<usize>().map_err(|_| format!("{index:?} is no entry's number, counted from 0"))?;
    list.get_mut(index).ok_or_else(|| {
        format!("there are {count} entries, counted from 0; a variable changes entries, it adds none")
    })
}

/// The key that a variable means, as the file spells it.
fn key(path: &[String]) -> Key {
    path.iter().fold(Key::default(), |key, part| match part.parse() {
        Ok(index) => key.at(index),
        Err(_) => key.child(part),
    })
}

/// The place of a syntax error, without the line itself: it may hold a secret.
fn syntax(text: &str, error: &toml::de::Error) -> SettingsError {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    SettingsError::one(&format!("line {line}, column {column}"), format!("is no TOML: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, variables: &[(&str, &str)]) -> Result<Node, SettingsError> {
        let mut faults = Faults::default();
        let mut node = Node::parse(text)?;
        node.apply(&variables.iter().copied().collect(), &mut faults);
        faults.into_result(Some(node))
    }

    #[test]
    fn overrides_reach_tables_lists_and_what_was_absent() {
        let text = "[[route]]\ntable = 'a.b'\n";
        let variables =
            [("ICEFALL__ROUTE__0__TABLE", "c.d"), ("ICEFALL__STORE__CREDENTIALS__ACCESS_KEY_ID", "k")];
        let tree = format!("{:?}", applied(text, &variables).expect("both fit"));
        assert!(tree.contains(r#""table": Override("c.d")"#), "{tree}");
        assert!(tree.contains(r#""access_key_id": Override("k")"#), "{tree}");
    }

    #[test]
    fn overrides_of_entries_that_are_not_there_are_faults() {
        let text = "pipeline = 'p'\n[[route]]\ntable = 'a.b'\n";
        for (variable, key) in [
            ("ICEFALL__ROUTE__1__TABLE", "route[1].table"),
            ("ICEFALL__ROUTE__FIRST__TABLE", "route.first.table"),
            ("ICEFALL__TABLE__0__NAME", "table[0].name"),
            ("ICEFALL__PIPELINE__ID", "pipeline.id"),
        ] {
            let error = applied(text, &[(variable, "x")]).expect_err("fits nowhere");
            assert_eq!(error.faults()[0].key, key);
            assert!(error.to_string().contains(variable), "{error}");
        }
    }

    #[test]
    fn a_syntax_error_says_where_and_never_what() {
        let error = applied("a = 1\nsecret = 'hush\n", &[]).expect_err("an open string");
        assert!(error.to_string().contains("line 2, column"), "{error}");
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}
