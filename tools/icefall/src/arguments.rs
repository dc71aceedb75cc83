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
