//! The command line.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

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
    /// The ledger of a source in a table.
    Ledger {
        /// What to do with it.
        #[command(subcommand)]
        command: LedgerCommand,
    },
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
