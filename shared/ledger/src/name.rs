//! The names of the ledgers' properties in a table's metadata.
//!
//! The name says whose ledger the value is, so that the ledgers of several sources and branches
//! stand side by side and a table's properties tell which sources it holds.

use icefall_manifest::{Branch, ClusterName, Source};

use crate::LedgerError;
use crate::ids::source as source_of;

/// What all names begin with.
const PREFIX: &str = "icefall.ledger.";

/// The name of the property that holds the ledger of `branch` and `source`.
#[must_use]
pub fn property_name(branch: &Branch, source: &Source) -> String {
    format!("{PREFIX}{branch}.{source}")
}

/// Whose ledger the property called `name` holds; `None` if it is no ledger at all. A branch has no
/// dot in it, so the first one ends it.
pub fn read_property_name(name: &str) -> Result<Option<(Branch, Source)>, LedgerError> {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    let parse = || {
        let (branch, source) = rest.split_once('.').ok_or_else(|| "no source in it".to_owned())?;
        let branch = Branch::try_from(branch.to_owned()).map_err(|error| error.to_string())?;
        Ok((branch, read_source(source)?))
    };
    parse()
        .map(Some)
        .map_err(|why: String| LedgerError::malformed("ledger property's name", &format!("{name:?}: {why}")))
}

/// The source that is written as `text`: pipeline/cluster/topic.
pub fn read_source(text: &str) -> Result<Source, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [pipeline, cluster, topic] = parts.as_slice() else {
        return Err("its source is not pipeline/cluster/topic".to_owned());
    };
    source_of(pipeline, cluster, topic)
}

/// A source among `held`, those that a table has ledgers of, that is `source` under another cluster
/// name, unless the settings (`named`) know both names. Then the cluster was most likely renamed, and its
/// records would land a second time, those of a late batch manifest of the old name among them once the new
/// name has landed first: the batch manifest is quarantined
/// ([`Reason::UnnamedCluster`](crate::Reason::UnnamedCluster)).
pub fn unnamed_twin<'a>(
    held: impl IntoIterator<Item = &'a Source>,
    source: &Source,
    named: &[ClusterName],
) -> Option<&'a Source> {
    held.into_iter().find(|other| {
        other.pipeline == source.pipeline
            && other.topic == source.topic
            && other.cluster != source.cluster
            && !(named.contains(&other.cluster) && named.contains(&source.cluster))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(cluster: &str) -> Source {
        source_of("demo", cluster, "shop.orders-1").expect("a source")
    }

    #[test]
    fn a_name_reads_back_as_what_it_was_made_of() {
        let name = property_name(&Branch::main(), &source("prod.eu"));
        assert_eq!(name, "icefall.ledger.main.demo/prod.eu/shop.orders-1");
        assert_eq!(read_property_name(&name), Ok(Some((Branch::main(), source("prod.eu")))));
    }

    #[test]
    fn other_properties_are_none_and_broken_names_are_errors() {
        assert_eq!(read_property_name("write.format.default"), Ok(None));
        for broken in
            ["main", "main.demo/local", "main.demo/local/a/b", "ma/in.demo/local/t", ".demo/local/t"]
        {
            let read = read_property_name(&format!("icefall.ledger.{broken}"));
            assert!(matches!(read, Err(LedgerError::Malformed { .. })), "{broken} gave {read:?}");
        }
    }

    #[test]
    fn a_twin_is_the_same_topic_under_another_cluster_name_unless_both_are_named() {
        let (old, new) = (source("old"), source("new"));
        assert_eq!(unnamed_twin([&old, &new], &new, &["new".try_into().expect("a name")]), Some(&old));
        // The new name landed first, and what was made under the old one comes late.
        assert_eq!(unnamed_twin([&new], &old, &["new".try_into().expect("a name")]), Some(&new));
        let both = ["new".try_into().expect("a name"), "old".try_into().expect("a name")];
        assert_eq!(unnamed_twin([&old, &new], &new, &both), None);
        assert_eq!(unnamed_twin([&new], &new, &[]), None);
    }
}
