//! Taking nothing in while nobody commits.
//!
//! Batch manifests expire in the queue and uncommitted files are cleaned up by table buckets, so a
//! writer that goes on for days without a committer would lose what it took. The committer's heartbeat
//! is looked at once in a while; when it is too old the batch is refused and stays in Kafka.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use icefall_clock::Timestamp;
use icefall_manifest::PipelineId;
use icefall_store::OpsBucket;

use crate::WriterError;

/// How long a look counts.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// How old the last sign of life may be.
const PATIENCE: Duration = Duration::from_hours(12);

/// What was seen last, kept while the function stays warm.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    seen: Mutex<Option<Seen>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    looked: Timestamp,
    /// When the committer's last round began; none has ever begun if there is nothing.
    round: Option<Timestamp>,
}

impl Backpressure {
    /// Refuses when the committer has been silent for too long. One that never ran may be on its way.
    pub(crate) async fn check(
        &self,
        ops: &OpsBucket,
        pipeline: &PipelineId,
        now: Timestamp,
    ) -> Result<(), WriterError> {
        let silence = self.last_round(ops, pipeline, now).await?.map(|round| now.since(round));
        match silence {
            Some(silence) if silence > PATIENCE => Err(WriterError::NobodyCommits(silence)),
            _ => Ok(()),
        }
    }

    async fn last_round(
        &self,
        ops: &OpsBucket,
        pipeline: &PipelineId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, WriterError> {
        let fresh = |seen: &Seen| now.since(seen.looked) < LOOK_EVERY;
        let known = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = known.filter(fresh) {
            return Ok(seen.round);
        }
        let heartbeat = ops.heartbeat(pipeline).await?;
        let round = heartbeat.map(|heartbeat| Timestamp::from_unix_ms(heartbeat.started_ms));
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Seen { looked: now, round });
        Ok(round)
    }
}
