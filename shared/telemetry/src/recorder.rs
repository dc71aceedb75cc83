//! What happened in an invocation, as numbers.
//!
//! Callers say what happened, in verbs; which metrics that moves is settled here. A value is an atomic
//! cell: tables side by side record without waiting for each other, and a record costs an addition.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use icefall_clock::Timestamp;
use icefall_manifest::TableName;

use crate::emf;
use crate::metrics::{Kind, Metric};

/// The metrics of one function, from one [`flush`](Self::flush) to the next.
#[derive(Debug)]
pub struct Metrics {
    function: String,
    overall: Cells,
    tables: RwLock<BTreeMap<TableName, Cells>>,
}

impl Metrics {
    /// Nothing measured yet, by the function of this name.
    #[must_use]
    pub fn new(function: impl Into<String>) -> Self {
        Self { function: function.into(), overall: Cells::default(), tables: RwLock::default() }
    }

    /// The writer was given `count` records.
    pub fn records_received(&self, count: u64) {
        self.overall.record(Metric::RecordsReceived, count);
    }

    /// `count` records without a value were skipped, as their route says.
    pub fn tombstones_skipped(&self, count: u64) {
        self.overall.record(Metric::TombstonesSkipped, count);
    }

    /// A data file of `table` was uploaded.
    pub fn data_file_written(&self, table: &TableName, rows: u64, bytes: u64) {
        self.of(
            table,
            &[(Metric::DataFilesWritten, 1), (Metric::RecordsWritten, rows), (Metric::BytesWritten, bytes)],
        );
    }

    /// `count` records meant for `table` became dead letters.
    pub fn dead_letters_written(&self, table: &TableName, count: u64) {
        self.of(table, &[(Metric::DeadLetters, count)]);
    }

    /// A batch manifest of `table`, `age` old, is about to be decided.
    pub fn batch_received(&self, table: &TableName, age: Duration) {
        let age = milliseconds(age);
        self.of(table, &[(Metric::BatchesReceived, 1), (Metric::OldestBatchManifestAge, age)]);
    }

    /// A batch manifest for `table` that was sent `age` ago could not even be read, so that its own age is not known.
    pub fn batch_unread(&self, table: &TableName, age: Duration) {
        self.of(table, &[(Metric::OldestBatchManifestAge, milliseconds(age))]);
    }

    /// A snapshot settled a batch manifest, `records` of it.
    pub fn batch_committed(&self, table: &TableName, records: u64) {
        self.of(table, &[(Metric::BatchesCommitted, 1), (Metric::RecordsCommitted, records)]);
    }

    /// All `records` of a batch manifest were settled before.
    pub fn duplicate_skipped(&self, table: &TableName, records: u64) {
        self.of(table, &[(Metric::DuplicateBatches, 1), (Metric::RecordsSkipped, records)]);
    }

    /// Some records of a batch manifest were settled before: `skipped` of them.
    pub fn batch_trimmed(&self, table: &TableName, skipped: u64) {
        self.of(table, &[(Metric::TrimmedBatches, 1), (Metric::RecordsSkipped, skipped)]);
    }

    /// The files of a batch manifest were written anew before they were committed.
    pub fn batch_renewed(&self, table: &TableName) {
        self.of(table, &[(Metric::RenewedBatches, 1)]);
    }

    /// A snapshot was added.
    pub fn snapshot_committed(&self, table: &TableName) {
        self.of(table, &[(Metric::SnapshotsCommitted, 1)]);
    }

    /// A commit was refused because the table had changed.
    pub fn commit_conflict(&self, table: &TableName) {
        self.of(table, &[(Metric::CommitConflicts, 1)]);
    }

    /// A commit had no clear answer.
    pub fn commit_unknown(&self, table: &TableName) {
        self.of(table, &[(Metric::UnknownOutcomes, 1)]);
    }

    /// The round failed for `table`; its messages stay queued.
    pub fn table_failed(&self, table: &TableName) {
        self.of(table, &[(Metric::TableFailures, 1)]);
    }

    /// `count` messages went to quarantine.
    pub fn quarantined(&self, count: u64) {
        self.overall.record(Metric::QuarantinedMessages, count);
    }

    /// A source stopped in `table`.
    pub fn source_stopped(&self, table: &TableName) {
        self.of(table, &[(Metric::SourcesStopped, 1)]);
    }

    /// The last snapshot that changed a ledger of `table` is `age` old.
    pub fn last_snapshot_age(&self, table: &TableName, age: Duration) {
        self.of(table, &[(Metric::LastSnapshotAge, milliseconds(age))]);
    }

    /// The catalog's answer with the metadata of `table` has this size.
    pub fn table_metadata_size(&self, table: &TableName, bytes: u64) {
        self.of(table, &[(Metric::TableMetadataSize, bytes)]);
    }

    /// `count` objects of the ledgers of `table` were read.
    pub fn ledger_objects_read(&self, table: &TableName, count: u64) {
        self.of(table, &[(Metric::LedgerObjectsRead, count)]);
    }

    /// So many dead-letter files are not in the dead-letter table yet.
    pub fn outbox_entries_waiting(&self, count: u64) {
        self.overall.record(Metric::OutboxEntriesWaiting, count);
    }

    /// `count` rows were added to the dead-letter table.
    pub fn dead_letters_committed(&self, count: u64) {
        self.overall.record(Metric::DeadLettersCommitted, count);
    }

    /// `count` rounds were begun by a process that did not live to end them.
    pub fn rounds_unended(&self, count: u64) {
        self.overall.record(Metric::RoundsUnended, count);
    }

    /// The round left so many messages in the queue that it had received.
    pub fn messages_left(&self, count: u64) {
        self.overall.record(Metric::MessagesLeft, count);
    }

    /// Writes what was measured since the last call to `out` and starts again: a line for the function,
    /// one for each table. Call it at the end of an invocation.
    pub fn flush(&self, now: Timestamp, out: &mut dyn Write) -> io::Result<()> {
        let overall = self.overall.take();
        let mut lines =
            Vec::from_iter((!overall.is_empty()).then(|| emf::line(&self.function, None, &overall, now)));
        for (table, cells) in self.known_tables().iter() {
            let values = cells.take();
            if !values.is_empty() {
                lines.push(emf::line(&self.function, Some(&table.to_string()), &values, now));
            }
        }
        out.write_all(lines.concat().as_bytes())?;
        out.flush()
    }

    fn of(&self, table: &TableName, values: &[(Metric, u64)]) {
        let record = |cells: &Cells| values.iter().for_each(|(metric, value)| cells.record(*metric, *value));
        if let Some(cells) = self.known_tables().get(table) {
            return record(cells);
        }
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        record(tables.entry(table.clone()).or_default());
    }

    /// A panic elsewhere leaves the map whole: it only ever gains entries.
    fn known_tables(&self) -> RwLockReadGuard<'_, BTreeMap<TableName, Cells>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// One cell a metric, in the order of [`Metric::ALL`].
///
/// Counters hold their sum. The others hold one more than the value, so that zero means: not observed.
#[derive(Debug)]
struct Cells([AtomicU64; Metric::ALL.len()]);

impl Default for Cells {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Cells {
    // Cells are independent of each other and order nothing else, so relaxed operations do.
    fn record(&self, metric: Metric, value: u64) {
        let Some(cell) = self.0.get(metric as usize) else { return };
        match metric.kind() {
            Kind::Counter => cell.fetch_add(value, Ordering::Relaxed),
            Kind::Highest => cell.fetch_max(value.saturating_add(1), Ordering::Relaxed),
            Kind::Latest => cell.swap(value.saturating_add(1), Ordering::Relaxed),
        };
    }

    /// What was observed; nothing is, afterwards.
    fn take(&self) -> Vec<(Metric, u64)> {
        let values = Metric::ALL.iter().zip(&self.0);
        let observed =
            values.filter_map(|(metric, cell)| match (metric.kind(), cell.swap(0, Ordering::Relaxed)) {
                (_, 0) => None,
                (Kind::Counter, sum) => Some((*metric, sum)),
                (Kind::Highest | Kind::Latest, value) => Some((*metric, value - 1)),
            });
        observed.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn table(name: &str) -> TableName {
        TableName::try_from(name).expect("a plain name")
    }

    fn flushed(metrics: &Metrics) -> Vec<Value> {
        let mut out = Vec::new();
        metrics.flush(Timestamp::from_unix_ms(1_700_000_000_000), &mut out).expect("a vector takes all");
        let text = String::from_utf8(out).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
    }

    #[test]
    fn a_line_is_in_the_embedded_metric_format() {
        let metrics = Metrics::new("committer");
        metrics.commit_conflict(&table("lake.orders"));
        let expected = json!({
            "_aws": {
                "Timestamp": 1_700_000_000_000_u64,
                "CloudWatchMetrics": [{
                    "Namespace": "Icefall",
                    "Dimensions": [["Function"], ["Function", "Table"]],
                    "Metrics": [{ "Name": "CommitConflicts", "Unit": "Count" }],
                }],
            },
            "Function": "committer",
            "Table": "lake.orders",
            "CommitConflicts": 1,
        });
        assert_eq!(flushed(&metrics), [expected]);
    }

    #[test]
    fn function_and_tables_have_a_line_each() {
        let metrics = Metrics::new("writer");
        metrics.records_received(7);
        metrics.data_file_written(&table("lake.b"), 4, 100);
        metrics.data_file_written(&table("lake.a"), 2, 50);
        metrics.data_file_written(&table("lake.a"), 1, 30);
        let lines = flushed(&metrics);
        assert_eq!(lines.len(), 3);
        assert_eq!((&lines[0]["RecordsReceived"], lines[0].get("Table")), (&json!(7), None));
        assert_eq!(lines[0]["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Function"]]));
        let a =
            ["Table", "DataFilesWritten", "RecordsWritten", "BytesWritten"].map(|key| lines[1][key].clone());
        assert_eq!(a, [json!("lake.a"), json!(2), json!(3), json!(80)]);
        assert_eq!(lines[2]["Table"], "lake.b");
    }

    #[test]
    fn nothing_measured_is_nothing_written_and_a_flush_starts_again() {
        let metrics = Metrics::new("writer");
        metrics.records_received(0);
        assert!(flushed(&metrics).is_empty());
        metrics.records_received(1);
        assert_eq!(flushed(&metrics).len(), 1);
        assert!(flushed(&metrics).is_empty());
    }

    #[test]
    fn observed_zeros_are_written_and_ages_are_the_highest() {
        let metrics = Metrics::new("committer");
        let orders = table("lake.orders");
        metrics.messages_left(3);
        metrics.messages_left(0);
        metrics.batch_received(&orders, Duration::from_secs(9));
        metrics.batch_received(&orders, Duration::from_secs(2));
        metrics.last_snapshot_age(&orders, Duration::ZERO);
        let lines = flushed(&metrics);
        assert_eq!(lines[0]["MessagesLeft"], 0);
        assert_eq!(
            (&lines[1]["OldestBatchManifestAge"], &lines[1]["LastSnapshotAge"]),
            (&json!(9_000), &json!(0))
        );
    }

    #[test]
    fn threads_lose_no_count() {
        let metrics = Metrics::new("committer");
        let orders = table("lake.orders");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| metrics.batch_committed(&orders, 2)));
            }
        });
        let lines = flushed(&metrics);
        assert_eq!(
            (&lines[0]["BatchesCommitted"], &lines[0]["RecordsCommitted"]),
            (&json!(4_000), &json!(8_000))
        );
    }
}
