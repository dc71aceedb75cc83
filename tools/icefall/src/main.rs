//! The operator's tool: its composition root.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use icefall_cli::{Arguments, CliError, Desk, run};
use icefall_parts::{Parts, ops_lister};
use icefall_settings::Environment;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match work(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("icefall: {}", error.chain());
            ExitCode::FAILURE
        }
    }
}

async fn work(arguments: Arguments) -> Result<(), CliError> {
    let environment = Environment::of_process();
    let environment = match &arguments.settings {
        Some(place) => environment.with_settings(place.clone()),
        None => environment,
    };
    let Parts { settings, catalog, tables, ops, queue, clock, entropy, .. } =
        Parts::from_environment(&environment, "icefall").await?;
    let lister = ops_lister(&settings).await?;
    let desk = Desk { catalog, tables, ops, lister, queue, clock, entropy };
    run(&desk, arguments, &mut io::stdout()).await
}
