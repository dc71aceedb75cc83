//! Everything outside the writer's own logic, as ports.

use std::sync::Arc;

use icefall_catalog::Catalog;
use icefall_clock::{Clock, Entropy};
use icefall_queue::CommitQueue;
use icefall_store::{ObjectStore, OpsBucket};
use icefall_telemetry::Metrics;

/// What the writer acts through. Each part has its own endpoint and credentials.
#[derive(Clone, Debug)]
pub struct Ports {
    /// The catalog of the tables; only asked for tables.
    pub catalog: Arc<dyn Catalog>,
    /// The object store that the tables lie in.
    pub tables: Arc<dyn ObjectStore>,
    /// Icefall's own bucket.
    pub ops: OpsBucket,
    /// Where batch manifests go.
    pub queue: Arc<dyn CommitQueue>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What is counted for operators.
    pub metrics: Arc<Metrics>,
}
