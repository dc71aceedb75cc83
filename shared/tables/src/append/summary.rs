//! The snapshot's summary: what was added, and the totals after it.

use std::collections::{BTreeSet, HashMap};

use iceberg::spec::{DataFile, Summary};

/// What a snapshot adds.
#[derive(Debug, Default)]
pub(super) struct Added {
    files: u64,
    records: u64,
    bytes: u64,
    partitions: BTreeSet<String>,
}

impl Added {
    /// Counts a file.
    pub(super) fn count(&mut self, file: &DataFile) {
        self.files += 1;
        self.records += file.record_count();
        self.bytes += file.file_size_in_bytes();
        self.partitions.insert(format!("{:?}", file.partition()));
    }

    /// The summary's counts (spec, "Optional Snapshot Summary Fields"), with totals that follow from
    /// those of the parent. A parent without a total leaves it unknown; it is never guessed.
    pub(super) fn totals(&self, parent: Option<&Summary>) -> HashMap<String, String> {
        let mut summary = HashMap::new();
        let mut set = |key: &str, value: u64| summary.insert(key.to_owned(), value.to_string());
        set("added-data-files", self.files);
        set("added-records", self.records);
        set("added-files-size", self.bytes);
        set("changed-partition-count", self.partitions.len() as u64);
        let totals = [
            ("total-data-files", self.files),
            ("total-records", self.records),
            ("total-files-size", self.bytes),
            ("total-delete-files", 0),
            ("total-position-deletes", 0),
            ("total-equality-deletes", 0),
        ];
        for (key, added) in totals {
            let before = match parent {
                None => Some(0),
                Some(parent) => parent.additional_properties.get(key).and_then(|total| total.parse().ok()),
            };
            if let Some(total) = before.and_then(|before: u64| before.checked_add(added)) {
                set(key, total);
            }
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use iceberg::spec::Operation;

    use super::*;

    fn parent(total: Option<&str>) -> Summary {
        let entries = total.map(|total| ("total-records".to_owned(), total.to_owned()));
        Summary { operation: Operation::Append, additional_properties: entries.into_iter().collect() }
    }

    #[test]
    fn totals_follow_from_the_parents() {
        let added = Added { files: 1, records: 5, bytes: 10, partitions: BTreeSet::new() };
        assert_eq!(added.totals(None).get("total-records").map(String::as_str), Some("5"));
        let after = added.totals(Some(&parent(Some("37"))));
        assert_eq!(after.get("total-records").map(String::as_str), Some("42"));
    }

    #[test]
    fn an_unknown_total_stays_unknown() {
        let added = Added { files: 1, records: 5, bytes: 10, partitions: BTreeSet::new() };
        assert_eq!(added.totals(Some(&parent(None))).get("total-records"), None);
        assert_eq!(added.totals(Some(&parent(Some("many")))).get("total-records"), None);
    }
}
