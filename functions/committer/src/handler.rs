//! Lambda's side: a scheduled invocation becomes a drain of the queue, and its report the answer.
//!
//! What the event says does not matter: whoever invokes the committer wants the queue drained.

use std::io;

use icefall_clock::Timestamp;
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde::de::IgnoredAny;
use tracing::warn;

use crate::{Committer, DrainError, Report};

/// Drains until the invocation's deadline nears. Metrics are written round by round.
pub async fn handle(committer: &Committer, event: LambdaEvent<IgnoredAny>) -> Result<Report, DrainError> {
    let deadline = Timestamp::from_unix_ms(event.context.deadline);
    let drained = committer.drain_by_rounds(deadline, &|| write_metrics(committer)).await;
    write_metrics(committer);
    drained
}

fn write_metrics(committer: &Committer) {
    let now = committer.ports.clock.now();
    if let Err(fault) = committer.ports.metrics.flush(now, &mut io::stdout().lock()) {
        warn!(error = &fault as &dyn std::error::Error, "the metrics can't be written");
    }
}

impl From<DrainError> for Diagnostic {
    /// Stable names, which alarms and log filters can rest on.
    fn from(error: DrainError) -> Self {
        let error_type = match &error {
            DrainError::Queue(_) => "Icefall.QueueUnreadable",
            DrainError::Catalog(_) => "Icefall.CatalogUnreachable",
            DrainError::Tables { .. } => "Icefall.TablesNotSettled",
        };
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let error_message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { error_type: error_type.to_owned(), error_message }
    }
}
