//! Which manifests are merged.

use std::collections::{BTreeMap, HashMap};

use iceberg::spec::{ManifestContentType, ManifestFile};

use super::{MARK, MAX_MANIFESTS, MergeError};

const ENABLED_KEY: &str = "commit.manifest-merge.enabled";
const COUNT_KEY: &str = "commit.manifest.min-count-to-merge";
const SIZE_KEY: &str = "commit.manifest.target-size-bytes";

/// The default of Iceberg's libraries, and the most that a commit reads and holds in memory.
const TARGET_BYTES: u64 = 8 * 1024 * 1024;

/// What the table asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Rules {
    /// Fewer small manifests than these are left alone.
    min_count: usize,
    /// The size that a manifest should have.
    target_bytes: u64,
}

impl Rules {
    /// Reads the table's properties; `None`: it wants nothing merged.
    pub(super) fn read(properties: &HashMap<String, String>) -> Result<Option<Self>, MergeError> {
        let enabled = properties.get(ENABLED_KEY).is_none_or(|enabled| enabled.eq_ignore_ascii_case("true"));
        if !enabled {
            return Ok(None);
        }
        let min_count = usize::try_from(number(properties, COUNT_KEY, 100)?).unwrap_or(usize::MAX).max(2);
        let target_bytes = number(properties, SIZE_KEY, TARGET_BYTES)?.min(TARGET_BYTES);
        Ok(Some(Self { min_count, target_bytes }))
    }
}

fn number(properties: &HashMap<String, String>, key: &'static str, default: u64) -> Result<u64, MergeError> {
    let Some(value) = properties.get(key) else { return Ok(default) };
    value.trim().parse().map_err(|_| MergeError::Property { key, value: value.clone() })
}

/// The positions of the manifests to merge, ascending; none when there is nothing to gain.
pub(super) fn choose(manifests: &[ManifestFile], rules: &Rules) -> Vec<usize> {
    let mut by_spec: BTreeMap<i32, Vec<(u64, usize)>> = BTreeMap::new();
    for (index, manifest) in manifests.iter().enumerate() {
        if let Some(length) = small(manifest, rules.target_bytes) {
            by_spec.entry(manifest.partition_spec_id).or_default().push((length, index));
        }
    }
    // The spec with the most of them; the others have their turn in later commits.
    let Some(mut candidates) = by_spec.into_values().max_by_key(Vec::len) else { return Vec::new() };
    if candidates.len() < rules.min_count {
        return Vec::new();
    }
    candidates.sort_unstable();
    let mut total = 0;
    let within = |(length, _): &(u64, usize)| {
        total += length;
        total <= rules.target_bytes
    };
    let mut chosen: Vec<_> = candidates.into_iter().take(MAX_MANIFESTS).take_while(within).collect();
    let mut total: u64 = chosen.iter().map(|(length, _)| length).sum();
    while let Some((largest, _)) = chosen.last().copied()
        && largest > total - largest
    {
        chosen.pop();
        total -= largest;
    }
    let mut positions: Vec<_> = chosen.into_iter().map(|(_, index)| index).collect();
    positions.sort_unstable();
    positions
}

/// The length of a manifest that could be merged with another.
fn small(manifest: &ManifestFile, target_bytes: u64) -> Option<u64> {
    let is_ours = manifest.manifest_path.rsplit('/').next().is_some_and(|name| name.contains(MARK));
    let is_plain = manifest.content == ManifestContentType::Data && manifest.key_metadata.is_none();
    let length = u64::try_from(manifest.manifest_length).ok()?;
    (is_ours && is_plain && length <= target_bytes / 2).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest(name: &str, length: i64, spec: i32, content: ManifestContentType) -> ManifestFile {
        ManifestFile {
            manifest_path: format!("s3://lake/t/metadata/{name}.avro"),
            manifest_length: length,
            partition_spec_id: spec,
            content,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(1),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: None,
        }
    }

    fn ours(length: i64, spec: i32) -> ManifestFile {
        manifest(&format!("x{MARK}0"), length, spec, ManifestContentType::Data)
    }

    fn rules(entries: &[(&str, &str)]) -> Result<Option<Rules>, MergeError> {
        Rules::read(&entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn the_tables_properties_are_honoured() {
        let default = Rules { min_count: 100, target_bytes: TARGET_BYTES };
        assert_eq!(rules(&[]).expect("rules"), Some(default));
        assert_eq!(rules(&[(ENABLED_KEY, "false")]).expect("rules"), None);
        let set = rules(&[(COUNT_KEY, "5"), (SIZE_KEY, "1000")]).expect("rules");
        assert_eq!(set, Some(Rules { min_count: 5, target_bytes: 1000 }));
        assert_eq!(rules(&[(SIZE_KEY, "999999999999")]).expect("rules"), Some(default), "bounded");
        let error = rules(&[(COUNT_KEY, "many")]).expect_err("no number").to_string();
        assert!(error.contains(COUNT_KEY) && error.contains("many"), "{error}");
    }

    #[test]
    fn few_manifests_and_those_of_others_are_left_alone() {
        let rules = Rules { min_count: 3, target_bytes: 1000 };
        let mut list = vec![
            ours(10, 0),
            manifest("other-m0", 10, 0, ManifestContentType::Data),
            manifest(&format!("x{MARK}1"), 10, 0, ManifestContentType::Deletes),
            ours(501, 0),
            ours(10, 0),
            ours(10, 1),
        ];
        assert_eq!(choose(&list, &rules), [0_usize; 0]);
        list.push(ours(10, 0));
        assert_eq!(choose(&list, &rules), [0, 4, 6]);
        list.extend([ours(10, 1), ours(10, 1), ours(10, 1)]);
        assert_eq!(choose(&list, &rules), [5, 7, 8, 9], "one spec at a time");
    }

    #[test]
    fn a_large_one_waits_until_the_small_ones_are_as_large() {
        let rules = Rules { min_count: 3, target_bytes: 1000 };
        assert_eq!(choose(&[ours(400, 0), ours(10, 0), ours(10, 0)], &rules), [1, 2]);
        assert_eq!(choose(&[ours(400, 0), ours(200, 0), ours(200, 0)], &rules), [0, 1, 2]);
    }

    proptest! {
        /// Appends of any size, merged as they come: the list stays short and no entry is rewritten often.
        #[test]
        fn lists_stay_short_and_bytes_are_rewritten_seldom(lengths in prop::collection::vec(1_i64..2_000, 1..600)) {
            let rules = Rules { min_count: 10, target_bytes: 40_000 };
            let (mut list, mut written, mut added) = (Vec::new(), 0, 0);
            for length in lengths {
                list.insert(0, ours(length, 0));
                added += length;
                let chosen = choose(&list, &rules);
                prop_assert!(chosen.len() != 1 && chosen.len() <= MAX_MANIFESTS);
                if !chosen.is_empty() {
                    let total: i64 = chosen.iter().map(|index| list[*index].manifest_length).sum();
                    prop_assert!(total <= 40_000);
                    written += total;
                    let kept = list.iter().enumerate().filter(|(index, _)| !chosen.contains(index));
                    list = std::iter::once(ours(total, 0)).chain(kept.map(|(_, one)| one.clone())).collect();
                }
                let small = list.iter().filter(|one| one.manifest_length <= 20_000).count();
                // Ten, and one more for each doubling that no merge is worth.
                prop_assert!(small <= 25, "{small} small manifests");
            }
            prop_assert_eq!(list.iter().map(|one| one.manifest_length).sum::<i64>(), added);
            prop_assert!(written <= added * 16, "log2 of 40000 over 1");
        }
    }
}
