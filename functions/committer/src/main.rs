//! The committer function's composition root.

use icefall_committer::{Committer, Ports, handle};
use icefall_parts::Parts;
use icefall_settings::Environment;
use icefall_telemetry::start_logging;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let environment = Environment::of_process();
    let log = environment.log();
    start_logging(log.level.as_deref(), log.format.as_deref());
    let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } =
        Parts::from_environment(&environment, "committer").await?;
    let ports = Ports { catalog, tables, ops, queue, clock, entropy, metrics };
    let committer = &Committer::new(settings, ports)?;
    run(service_fn(move |event: LambdaEvent<Value>| handle(committer, event))).await
}
