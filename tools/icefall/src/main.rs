//! The operator's tool: its composition root.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use icefall_cli::{Arguments, CliError, Command, Desk, run};
use icefall_parts::{Parts, ops_lister};
use icefall_settings::Environment;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_audit = matches!(arguments.command, Command::Audit(_));
    match work(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("icefall: {}", error.chain());
            // What could not be audited is told from what was and is not as it should be, or is not known to be.
            match error {
                CliError::Unproved => ExitCode::from(3),
                CliError::NotProved => ExitCode::FAILURE,
                _ if is_audit => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn work(arguments: Arguments) -> Result<(), CliError> {
    let environment = Environment::of_process();
    let environment = match &arguments.settings {
        Some(place) => environment.with_settings(place.clone()),
        None => environment,
    };
    let parts = Parts::from_environment(&environment, "icefall").await?;
    let lister = ops_lister(&parts.settings).await?;
    let desk = Desk::new(parts, lister);
    run(&desk, arguments, &mut io::stdout()).await
}
