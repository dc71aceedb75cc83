//! The command line.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::audit::Isolation;

/// Looks after a pipeline of Icefall's: what stands in quarantine, and what becomes of it.
#[derive(Clone, Debug, Parser)]
#[command(name = "icefall", version)]
pub struct Arguments {
    /// Where the settings are: a path, or `s3://bucket/key`. What `ICEFALL_SETTINGS` says when absent. Single
    /// keys are overridden as for the functions: `ICEFALL__OPS__BUCKET`.
    #[arg(long, global = true, value_name = "PLACE")]
    pub settings: Option<OsString>,
    /// Answers in JSON, a document a command.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// What can't be decided automatically, and waits for you.
    Quarantine {
        /// What to do with it.
        #[command(subcommand)]
        command: QuarantineCommand,
    },
    /// Sources that stand still in a table, since a record came that differs from the one settled at its offset.
    Stops {
        /// What to do with them.
        #[command(subcommand)]
        command: StopsCommand,
    },
    /// Makes rows of dead letters that can be rows by now, each exactly once.
    Replay(ReplayArguments),
    /// Reads a topic and proves of each record that it is there exactly once: as a row, as a dead letter, or in
    /// quarantine. Lists what is not. Ends with 0 if all that is settled is proved, 1 if something is not there exactly
    /// once, 2 if it could not be audited, 3 if nothing is known to be wrong and yet not all can be proved.
    Audit(AuditArguments),
    /// The ledger of a source in a table.
    Ledger {
        /// What to do with it.
        #[command(subcommand)]
        command: LedgerCommand,
    },
}

/// What is audited, and how.
#[derive(Clone, Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct AuditArguments {
    /// The topic.
    pub topic: String,
    /// The brokers to read from, in place of audit.bootstrap in the settings: `HOST:PORT`, separated by commas.
    #[arg(long, value_name = "BROKERS")]
    pub kafka: Option<String>,
    /// The name that the cluster goes by in the ledgers. What the settings say when absent, or the only one that is
    /// held.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Which records of the topic count. Those of aborted transactions are asked for by `read_uncommitted` alone: an
    /// event source mapping that reads committed never delivered them.
    #[arg(long, value_enum, default_value = "read_committed")]
    pub isolation: Isolation,
    /// Columns of the table that say which record a row is, to find each row by value:
    /// `PARTITION,OFFSET`, or `PARTITION,OFFSET,TOPIC` where several topics share the table.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub offset_columns: Option<Vec<String>>,
    /// Others append rows to the table as well: rows in snapshots of theirs are no fault.
    #[arg(long)]
    pub others_append: bool,
    /// The pipeline has drained: what is in the topic and settled nowhere is a fault, and not still to come.
    #[arg(long)]
    pub drained: bool,
    /// Others delete rows, and you know of it: their delete files may hide rows of ours, and what they hide is proved of
    /// nobody. Without this, a table with delete files is not proved.
    #[arg(long)]
    pub deletes_are_known: bool,
    /// Takes the table's metadata at its word, and doesn't ask the store for each data file (one HEAD request each).
    #[arg(long)]
    pub files_by_metadata: bool,
    /// How many stretches of offsets are listed of each kind.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub list: usize,
    /// How many threads read, at most one for each core. One for each core when absent.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Which dead letters are replayed.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayArguments {
    /// The table that they were meant for.
    pub table: String,
    /// Only those of this error class; may be given several times.
    #[arg(long, value_name = "CLASS")]
    pub class: Vec<String>,
    /// Only those that became dead letters then or later, as `2024-05-01T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only those that became dead letters before then.
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only those of this topic.
    #[arg(long)]
    pub topic: Option<String>,
    /// Only those of this partition.
    #[arg(long)]
    pub partition: Option<i32>,
    /// Only the one at this offset, or those from one to another, both included: `40` or `40-59`.
    #[arg(long, value_name = "OFFSETS")]
    pub offsets: Option<String>,
    /// Says what would be replayed, and replays nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// What to do with sources that stand still.
#[derive(Clone, Debug, Subcommand)]
pub enum StopsCommand {
    /// Lists the sources that stand still.
    List {
        /// What was decided last about each source, too.
        #[arg(long)]
        all: bool,
    },
    /// Shows one stop: which record brought it about, and what can be done.
    Show {
        /// The stop's id, as `list` prints it.
        id: String,
    },
    /// Says that these are other records: the topic was made again. They land beside the older ones.
    Accept(NamedSource),
    /// Says that these are copies of what the table holds: what differs goes to quarantine, all else goes on.
    Discard(NamedSource),
}

/// A source in a table, and why something is done about it.
#[derive(Clone, Debug, clap::Args)]
pub struct NamedSource {
    /// The table.
    pub table: String,
    /// The source, as `list` prints it: pipeline/cluster/topic.
    pub source: String,
    /// Why, for whoever asks later.
    #[arg(long, value_name = "TEXT")]
    pub because: String,
}

/// What to do with a ledger.
#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// Frees the rows that a rollback took out of the table's branch, so that they land when they come again.
    Rewind(NamedSource),
    /// Puts back a ledger that was lost from the table's properties, from the table's metadata log, if it can be proved
    /// to be the newest there was.
    Restore(NamedSource),
}

/// What to do with quarantine.
#[derive(Clone, Debug, Subcommand)]
pub enum QuarantineCommand {
    /// Lists what waits for a decision.
    List {
        /// Only what is there for this reason.
        #[arg(long)]
        reason: Option<String>,
        /// What was decided about already, too.
        #[arg(long)]
        all: bool,
    },
    /// Shows one entry: why it is there, what it holds, what can be done.
    Show {
        /// The entry's id, as `list` prints it.
        id: String,
    },
    /// Gives an entry's records to the committer again: its files are written anew into the table as it is
    /// today, and the decision about them is made anew, record by record, with one reason overruled.
    Release {
        /// The entry's id, as `list` prints it.
        id: String,
        /// The reason that you overrule: the one that the entry is there for, spelt out.
        #[arg(long, value_name = "REASON")]
        reason_overruled: String,
    },
    /// Decides that an entry's records stay out. Nothing is deleted: the entry stays with your reason.
    Discard {
        /// The entry's id, as `list` prints it.
        id: String,
        /// Why, for whoever asks later.
        #[arg(long, value_name = "TEXT")]
        because: String,
    },
}
