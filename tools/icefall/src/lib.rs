//! The operator's tool.
//!
//! What Icefall can't decide waits in quarantine for a person, and this is what that person works with.
//! It reads the settings that the functions read, acts through the same adapters, and decides nothing by
//! itself: what is released goes to the commit queue, and the committer decides about it record by
//! record as about any other batch. What an operator says about a ledger itself (a source that stands still, a
//! rewind, a lost property) is committed to the table as the committer would: an empty snapshot, on the very metadata
//! whose ledger was read.
//!
//! | command | what it does |
//! |---|---|
//! | `quarantine list`, `show`, `release`, `discard` | what can't be decided automatically |
//! | `stops list`, `show`, `accept`, `discard` | sources that stand still in a table |
//! | `replay` | makes rows of dead letters that can be rows by now |
//! | `audit` | proves of each record of a topic that it is there exactly once |
//! | `ledger rewind` | frees the rows that a rollback took out of a branch |
//! | `ledger restore` | puts back a ledger that was lost from the table's properties |

mod arguments;
mod audit;
mod dead_letters;
mod desk;
mod discard;
mod error;
mod ledger;
mod list;
mod live_files;
mod release;
mod replay;
mod show;
mod stops;
mod time;

use std::io::Write;

use icefall_ledger::StopDecision;

pub use arguments::{
    Arguments, AuditArguments, Command, LedgerCommand, NamedSource, QuarantineCommand, ReplayArguments,
    StopsCommand,
};
pub use audit::{Extent, Isolation, KafkaTopics, MskKeys, Reader, Seen, TopicError, Topics};
pub use desk::Desk;
pub use error::CliError;

/// Does what `arguments` ask for, and says on `out` what came of it.
pub async fn run(desk: &Desk, arguments: Arguments, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let json = arguments.json;
    match arguments.command {
        Command::Quarantine { command } => quarantine(desk, command, json, out).await,
        Command::Stops { command } => stops(desk, command, json, out).await,
        Command::Replay(asked) => replay::run(desk, &asked.filter()?, asked.dry_run, json, out).await,
        Command::Audit(asked) => {
            let topics = audit::topics(desk, &asked).await?;
            audit::run(desk, topics, &asked, json, out).await
        }
        Command::Ledger { command } => {
            let (LedgerCommand::Rewind(named) | LedgerCommand::Restore(named)) = &command;
            let place = (named.table.as_str(), named.source.as_str());
            match &command {
                LedgerCommand::Rewind(_) => ledger::rewind(desk, place, &named.because, json, out).await,
                LedgerCommand::Restore(_) => ledger::restore(desk, place, &named.because, json, out).await,
            }
        }
    }
}

async fn quarantine(
    desk: &Desk,
    command: QuarantineCommand,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    match command {
        QuarantineCommand::List { reason, all } => list::run(desk, reason.as_deref(), all, json, out).await,
        QuarantineCommand::Show { id } => show::run(desk, &id, json, out).await,
        QuarantineCommand::Release { id, reason_overruled } => {
            release::run(desk, &id, &reason_overruled, json, out).await
        }
        QuarantineCommand::Discard { id, because } => discard::run(desk, &id, &because, json, out).await,
    }
}

async fn stops(
    desk: &Desk,
    command: StopsCommand,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let (named, decision) = match command {
        StopsCommand::List { all } => return stops::list(desk, all, json, out).await,
        StopsCommand::Show { id } => return stops::show(desk, &id, json, out).await,
        StopsCommand::Accept(named) => (named, StopDecision::Accept),
        StopsCommand::Discard(named) => (named, StopDecision::Discard),
    };
    stops::end(desk, (&named.table, &named.source), decision, &named.because, json, out).await
}
