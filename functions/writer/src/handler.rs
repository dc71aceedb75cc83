//! Lambda's side: an event's own bytes in, a report or a named error out.
//!
//! The body is taken as raw JSON: reading it is our own, since a field that a stricter type refuses
//! would block its partition for ever.

use std::io;

use lambda_runtime::LambdaEvent;
use serde_json::value::RawValue;
use tracing::warn;

use crate::{Report, Writer, WriterError};

/// Takes in one event.
pub async fn handle(writer: &Writer, event: LambdaEvent<Box<RawValue>>) -> Result<Report, WriterError> {
    let LambdaEvent { payload, context } = event;
    let written = writer.write(payload.get().as_bytes(), &context.request_id).await;
    let parts = writer.parts();
    if let Err(fault) = parts.metrics.flush(parts.clock.now(), &mut io::stdout().lock()) {
        warn!(error = &fault as &dyn std::error::Error, "the metrics can't be written");
    }
    written
}
