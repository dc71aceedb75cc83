//! The writer as a Lambda function.
//!
//! What is particular to Lambda ends here: the event's bytes and the request's id go in, a small
//! answer or a named error goes out, and the metrics of the invocation are written, however it ended.

use std::io;
use std::sync::Arc;

use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};
use serde::de::IgnoredAny;
use tracing::{error, info, warn};

use crate::event::{self, RawEventLayer};
use crate::{Report, Writer, WriterError};

/// Serves invocations for as long as the environment lives.
pub async fn serve(writer: Writer) -> Result<(), Error> {
    let writer = Arc::new(writer);
    let handler = service_fn(move |event: LambdaEvent<IgnoredAny>| {
        let writer = Arc::clone(&writer);
        async move { handle(&writer, &event.context.request_id).await }
    });
    Runtime::new(handler).layer(TracingLayer::new()).layer(RawEventLayer).run().await
}

async fn handle(writer: &Writer, request_id: &str) -> Result<Report, WriterError> {
    let outcome = writer.write(&event::current(), request_id).await;
    match &outcome {
        Ok(report) => info!(?report, "batch written"),
        Err(failure) => tell(failure),
    }
    if let Err(failure) = writer.flush_metrics(&mut io::stdout()) {
        warn!(error = %failure, "metrics can't be written");
    }
    outcome
}

/// Settings and tables that don't fit need a person; what is unavailable may come back by itself.
fn tell(failure: &WriterError) {
    let (kind, failure_text) = (failure.error_type(), failure.chain());
    match failure {
        WriterError::Catalog { .. }
        | WriterError::Upload { .. }
        | WriterError::Ops { .. }
        | WriterError::Queue(_) => warn!(kind, error = failure_text, "batch failed; it comes again"),
        _ => error!(kind, error = failure_text, "batch failed; it comes again until this is corrected"),
    }
}
