//! Taking nothing more in when nobody commits.
//!
//! The queue keeps messages for days, Kafka for as long as it is told to. When the committer has not
//! run for hours the records are safer where they are, so the writer refuses its batches until there
//! is a fresh heartbeat. A pipeline without any heartbeat has just been set up, and goes on.

use std::time::Duration;

use icefall_clock::{Clock, Timestamp};
use icefall_manifest::PipelineId;
use icefall_mutations::{Mutation, is};
use icefall_store::OpsBucket;
use tokio::sync::Mutex;

use crate::WriterError;

/// Older than this, batches are refused.
const LIMIT: Duration = Duration::from_hours(12);
/// The heartbeat is read at most this often.
const INTERVAL: Duration = Duration::from_mins(1);

/// What was read of the heartbeat, and when.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Timestamp,
    round_began: Option<Timestamp>,
}

/// The last look at the committer's heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Backpressure(Mutex<Option<Seen>>);

impl Backpressure {
    /// Fails when the committer's last round began too long ago.
    pub(crate) async fn check(
        &self,
        pipeline: &PipelineId,
        ops: &OpsBucket,
        clock: &dyn Clock,
    ) -> Result<(), WriterError> {
        let now = clock.now();
        let age = self.look(pipeline, ops, now).await?.map(|began| now.since(began));
        match age.filter(|age| *age > LIMIT) {
            None => Ok(()),
            Some(_) if is(Mutation::StallIgnored) => Ok(()),
            Some(age) => {
                Err(WriterError::Stalled { pipeline: pipeline.clone(), hours: age.as_secs() / 3600 })
            }
        }
    }

    async fn look(
        &self,
        pipeline: &PipelineId,
        ops: &OpsBucket,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, WriterError> {
        let mut seen = self.0.lock().await;
        if let Some(seen) = seen.filter(|seen| now.since(seen.at) < INTERVAL) {
            return Ok(seen.round_began);
        }
        let failed = WriterError::ops("the committer's heartbeat can't be read");
        let heartbeat = ops.heartbeat(pipeline).await.map_err(failed)?;
        let round_began = heartbeat.map(|heartbeat| Timestamp::from_unix_ms(heartbeat.started_ms));
        *seen = Some(Seen { at: now, round_began });
        Ok(round_began)
    }
}
