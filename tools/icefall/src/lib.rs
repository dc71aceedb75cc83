//! The operator's tool.
//!
//! What Icefall can't decide waits in quarantine for a person, and this is what that person works with.
//! It reads the settings that the functions read, acts through the same adapters, and decides nothing by
//! itself: what is released goes to the commit queue, and the committer decides about it record by
//! record as about any other batch.

mod arguments;
mod desk;
mod discard;
mod error;
mod list;
mod release;
mod show;

use std::io::Write;

pub use arguments::{Arguments, Command, QuarantineCommand};
pub use desk::Desk;
pub use error::CliError;

/// Does what `arguments` ask for, and says on `out` what came of it.
pub async fn run(desk: &Desk, arguments: Arguments, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let json = arguments.json;
    let Command::Quarantine { command } = arguments.command;
    match command {
        QuarantineCommand::List { reason, all } => list::run(desk, reason.as_deref(), all, json, out).await,
        QuarantineCommand::Show { id } => show::run(desk, &id, json, out).await,
        QuarantineCommand::Release { id, reason_overruled } => {
            release::run(desk, &id, &reason_overruled, json, out).await
        }
        QuarantineCommand::Discard { id, because } => discard::run(desk, &id, &because, json, out).await,
    }
}
