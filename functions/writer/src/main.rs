//! The writer function's composition root.

use icefall_parts::Parts;
use icefall_settings::Environment;
use icefall_telemetry::start_logging;
use icefall_writer::{Writer, handle};
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let environment = Environment::of_process();
    let log = environment.log();
    start_logging(log.level.as_deref(), log.format.as_deref());
    let writer = &Writer::new(Parts::from_environment(&environment, "writer").await?);
    run(service_fn(move |event: LambdaEvent<Box<RawValue>>| handle(writer, event))).await
}
