//! Fields of values that have no column.
//!
//! They are no fault: a producer adds a field before a table has it. They are counted by path, so
//! that the schema can follow and nobody has to find out by missing data. Only rows that were taken
//! count. The number of names kept is bounded, since producers make names out of anything.

use std::borrow::Cow;
use std::collections::HashMap;

/// Names that are kept; the rest is only counted.
const MAX_NAMES: usize = 256;

/// The struct that a field stands in, by its number in the schema's order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct StructId(pub(crate) usize);

/// The unknown fields of the value being read.
#[derive(Default)]
pub(crate) struct UnknownLog<'a> {
    fields: Vec<(StructId, Cow<'a, str>)>,
}

impl<'a> UnknownLog<'a> {
    pub(crate) fn mark(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn push(&mut self, within: StructId, name: Cow<'a, str>) {
        self.fields.push((within, name));
    }

    /// A name that stands twice among the fields of `within` logged since `mark`.
    pub(crate) fn repeated(&self, within: StructId, mark: usize) -> Option<&str> {
        let since = self.fields.get(mark..).filter(|fields| fields.len() > 1)?;
        let mut names: Vec<&str> =
            since.iter().filter(|(id, _)| *id == within).map(|(_, name)| &**name).collect();
        names.sort_unstable();
        let pair = names.windows(2).find(|pair| pair.first() == pair.last())?;
        pair.first().copied()
    }
}

/// A field without a column, and how many values of the rows taken had it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownField {
    /// Path of the struct that it stands in, such as `items.element`; empty for the row itself.
    pub within: String,
    /// Its name.
    pub name: String,
    /// How often it was met.
    pub count: u64,
}

/// The counts over all rows.
#[derive(Debug, Default)]
pub(crate) struct UnknownCounts {
    /// By struct, in the order of their ids.
    names: Vec<HashMap<Box<str>, u64>>,
    kept: usize,
    beyond: u64,
}

impl UnknownCounts {
    pub(crate) fn add(&mut self, log: UnknownLog<'_>) {
        for (StructId(id), name) in log.fields {
            if self.names.len() <= id {
                self.names.resize_with(id + 1, HashMap::new);
            }
            let Some(names) = self.names.get_mut(id) else { continue };
            if let Some(count) = names.get_mut(&*name) {
                *count += 1;
            } else if self.kept < MAX_NAMES {
                names.insert(name.into(), 1);
                self.kept += 1;
            } else {
                self.beyond += 1;
            }
        }
    }

    /// Fields that were met under names beyond those kept.
    pub(crate) const fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The counts, by struct and name. `paths` are the structs' in the order of their ids.
    pub(crate) fn list(&self, paths: &[String]) -> Vec<UnknownField> {
        let within = paths.iter().zip(&self.names);
        let mut list: Vec<_> = within
            .flat_map(|(path, names)| names.iter().map(move |(name, count)| (path, name, *count)))
            .map(|(path, name, count)| UnknownField { within: path.clone(), name: name.to_string(), count })
            .collect();
        list.sort_by(|a, b| (&a.within, &a.name).cmp(&(&b.within, &b.name)));
        list
    }
}
