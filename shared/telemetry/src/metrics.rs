//! The one table of metrics: name, unit, dimensions and meaning of each.
//!
//! Alarms, dashboards and documentation all name metrics, so they are declared once, here.

use std::fmt::{self, Write};

/// How values of one invocation become one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// They are added up; nothing is written when nothing happened.
    Counter,
    /// The highest stands; an observed zero is written.
    Highest,
    /// The latest stands; an observed zero is written.
    Latest,
}

/// A unit, by CloudWatch's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
    /// Milliseconds.
    Milliseconds,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a metric is told apart by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dimension {
    /// By function alone.
    Function,
    /// By function and table; also by function alone, over all its tables.
    Table,
}

macro_rules! metrics {
    ($($name:ident: $kind:ident $unit:ident by $dimension:ident = $meaning:literal;)+) => {
        /// A metric.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Metric {
            $(#[doc = $meaning] $name,)+
        }

        impl Metric {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What it says.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }

            /// How values of one invocation become one.
            #[must_use]
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)+ }
            }

            /// Its unit.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)+ }
            }

            /// What it is told apart by.
            #[must_use]
            pub const fn dimension(self) -> Dimension {
                match self { $(Self::$name => Dimension::$dimension,)+ }
            }
        }
    };
}

metrics! {
    RecordsReceived: Counter Count by Function = "Records in the events that the writer was given.";
    TombstonesSkipped: Counter Count by Function = "Records without a value that a route said to skip.";
    RecordsWritten: Counter Count by Table = "Rows in the data files that the writer uploaded.";
    DataFilesWritten: Counter Count by Table = "Data files that the writer uploaded.";
    BytesWritten: Counter Bytes by Table = "Size of the data files that the writer uploaded.";
    DeadLetters: Counter Count by Table = "Records that no row could be made of. Alarm: producers send what the table can't hold.";
    BatchesReceived: Counter Count by Table = "Batch manifests that the committer took up, counted before anything is decided about them.";
    BatchesCommitted: Counter Count by Table = "Batch manifests whose records a snapshot settled.";
    RecordsCommitted: Counter Count by Table = "Records that a snapshot settled, as a row or a dead letter.";
    DuplicateBatches: Counter Count by Table = "Batch manifests all of whose records were settled before. Normal after a retry.";
    TrimmedBatches: Counter Count by Table = "Batch manifests of which some records were settled before.";
    RecordsSkipped: Counter Count by Table = "Records of duplicate and trimmed batch manifests that were settled before: what was delivered again, or replayed.";
    RenewedBatches: Counter Count by Table = "Batch manifests whose files were written anew before they were committed: they were old, or of a schema or spec that the table has dropped. Alarm: commits do not keep up.";
    SnapshotsCommitted: Counter Count by Table = "Snapshots added.";
    CommitConflicts: Counter Count by Table = "Commits refused because the table had changed. Normal beside compaction; each is built anew.";
    UnknownOutcomes: Counter Count by Table = "Commits without a clear answer, settled by reading the ledger. Alarm when they go on: the catalog is unwell.";
    TableFailures: Counter Count by Table = "Rounds in which a table could not be loaded, read or committed; its messages stay queued. Alarm.";
    QuarantinedMessages: Counter Count by Function = "Messages that can't be decided automatically, kept in the ops bucket with the reason. Alarm: a person decides.";
    SourcesStopped: Counter Count by Table = "Sources that stopped in a table because a record differs from the one settled at its offset. Alarm: a person decides.";
    OldestBatchManifestAge: Highest Milliseconds by Table = "Age of the oldest batch manifest when its round begins: how far commits are behind.";
    LastSnapshotAge: Highest Milliseconds by Table = "Age of the last snapshot that changed a ledger, when an invocation begins; absent before the first one and while the metadata does not show it. The lowest of all tables is the pipeline's, the highest that of the table that waits longest. Alarm when it grows though records come.";
    TableMetadataSize: Highest Bytes by Table = "Size of the catalog's answer that holds the table's metadata, when an invocation begins. Alarm at half the catalog's limit.";
    LedgerObjectsRead: Counter Count by Table = "Ledger segments and index nodes read from the ops bucket. Grows with old or repeated offsets.";
    OutboxEntriesWaiting: Latest Count by Function = "Dead-letter files of all tables that are not in the dead-letter table yet. Alarm when it stays above zero.";
    DeadLettersCommitted: Counter Count by Function = "Rows added to the dead-letter table.";
    RoundsUnended: Counter Count by Function = "Rounds that the committer did not live to end. Alarm when it goes on: what they held is taken by itself, and parked in the end.";
    MessagesLeft: Latest Count by Function = "Messages that a round received and left in the queue.";
}

impl Metric {
    /// Its name in CloudWatch.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// The table as Markdown, for the documentation.
#[must_use]
pub fn reference() -> String {
    let head = "| metric | unit | by | meaning |\n|---|---|---|---|\n".to_owned();
    Metric::ALL.iter().fold(head, |mut text, metric| {
        let by = match metric.dimension() {
            Dimension::Function => "function",
            Dimension::Table => "function, table",
        };
        let _ = writeln!(text, "| `{}` | {} | {by} | {} |", metric.name(), metric.unit(), metric.meaning());
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_a_row_for_every_metric() {
        let reference = reference();
        assert_eq!(reference.lines().count(), Metric::ALL.len() + 2);
        assert!(
            reference.contains("| `CommitConflicts` | Count | function, table | Commits refused"),
            "{reference}"
        );
        assert!(reference.lines().all(|line| line.matches('|').count() == 5), "{reference}");
    }

    #[test]
    fn metrics_stand_at_their_place_in_all() {
        assert!(Metric::ALL.iter().enumerate().all(|(index, metric)| *metric as usize == index));
    }
}
