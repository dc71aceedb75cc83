//! The writer function's composition root.

use icefall_parts::Parts;
use icefall_settings::Environment;
use icefall_telemetry::start_logging;
use icefall_writer::{Ports, Writer, serve};
use lambda_runtime::Error;

// One thread: a function of this size has about one processor.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let environment = Environment::of_process();
    let log = environment.log();
    start_logging(log.level.as_deref(), log.format.as_deref());
    let parts = Parts::from_environment(&environment, "writer").await;
    let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } =
        parts.inspect_err(|error| tracing::error!(error = error as &dyn std::error::Error, "can't start"))?;
    serve(Writer::new(settings, Ports { catalog, tables, ops, queue, clock, entropy, metrics })).await
}
