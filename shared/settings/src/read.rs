//! Reading a tree's node as what its key expects.
//!
//! The shape is settled here: types, and keys that nobody knows. What the values mean is validated
//! later. A value of the wrong shape is a fault and is left out, so that reading goes on.

use std::collections::BTreeMap;

use crate::fault::{Faults, Key};
use crate::node::Node;

/// What a key can hold.
pub(crate) trait Read: Sized {
    /// Reads `node`, which stands at `key`. `None` means that a fault was added.
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self>;
}

/// A scalar's reader: `None` when the node is of another kind.
fn scalar<T>(
    node: Node,
    expected: &str,
    key: &Key,
    faults: &mut Faults,
    take: impl FnOnce(Node) -> Option<T>,
) -> Option<T> {
    let found = node.kind();
    let value = take(node);
    if value.is_none() {
        faults.add(key, format_args!("must be {expected}, and is {found}"));
    }
    value
}

fn text(node: Node) -> Option<String> {
    match node {
        Node::Value(toml::Value::String(text)) | Node::Override(text) => Some(text),
        _ => None,
    }
}

fn boolean(node: Node) -> Option<bool> {
    match node {
        Node::Value(toml::Value::Boolean(value)) => Some(value),
        Node::Override(text) => text.parse().ok(),
        _ => None,
    }
}

fn whole_number(node: Node) -> Option<i64> {
    match node {
        Node::Value(toml::Value::Integer(value)) => Some(value),
        Node::Override(text) => text.parse().ok(),
        _ => None,
    }
}

impl Read for String {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        scalar(node, "a string", key, faults, text)
    }
}

impl Read for bool {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        scalar(node, "true or false", key, faults, boolean)
    }
}

impl Read for i64 {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        scalar(node, "a whole number", key, faults, whole_number)
    }
}

/// A faulty element leaves a gap, so that the others keep their places.
impl<T: Read> Read for Vec<Option<T>> {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        let list = scalar(node, "a list", key, faults, |node| match node {
            Node::List(list) => Some(list),
            _ => None,
        })?;
        Some(
            list.into_iter().enumerate().map(|(index, node)| T::read(node, &key.at(index), faults)).collect(),
        )
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        let table = table(node, key, faults)?;
        let read = |(name, node): (String, Node)| {
            let value = T::read(node, &key.child(&name), faults)?;
            Some((name, value))
        };
        Some(table.into_iter().filter_map(read).collect())
    }
}

/// The entries of a node that must be a table.
pub(crate) fn table(node: Node, key: &Key, faults: &mut Faults) -> Option<BTreeMap<String, Node>> {
    scalar(node, "a table", key, faults, |node| match node {
        Node::Table(table) => Some(table),
        _ => None,
    })
}

/// Names what a table holds and nobody knows. Nothing is ignored: a misspelt key would be.
pub(crate) fn refuse_unknown(left: BTreeMap<String, Node>, known: &[&str], key: &Key, faults: &mut Faults) {
    for name in left.into_keys() {
        faults.add(&key.child(&name), format_args!("there is no such key; here are {}", known.join(", ")));
    }
}
