//! One batch, from the event's bytes to accepted batch manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use icefall_manifest::{BatchManifest, ClusterName, Source, Topic};
use icefall_parts::Parts;
use icefall_records::{DecodeBuffer, EventError, KafkaEvent, PartitionRecords};
use icefall_settings::Route;
use icefall_store::QuarantineEntry;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;
use tracing::error;

use crate::backpressure::Backpressure;
use crate::convert::{Conversion, Converted};
use crate::tables::{OpenTable, Tables};
use crate::{WriterError, cluster, deliver};

/// What a batch became.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Records in the event.
    pub records: usize,
    /// Rows written.
    pub rows: usize,
    /// Dead letters written.
    pub dead_letters: usize,
    /// Tombstones skipped, as their route says.
    pub skipped: u64,
    /// Data files written.
    pub files: usize,
    /// Batch manifests enqueued.
    pub batches: usize,
    /// Events put in quarantine, since their records can't be told.
    pub quarantined: usize,
}

/// The writer of one pipeline, kept while the function stays warm.
#[derive(Debug)]
pub struct Writer {
    parts: Parts,
    tables: Tables,
    backpressure: Backpressure,
    buffer: Mutex<DecodeBuffer>,
}

impl Writer {
    /// The writer that acts through `parts`.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            tables: Tables::default(),
            backpressure: Backpressure::default(),
            buffer: Mutex::default(),
        }
    }

    /// The parts that it acts through.
    #[must_use]
    pub const fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Takes in one event. `Ok` only when all of it is durable and the queue has every batch manifest.
    pub async fn write(&self, event: &[u8], request_id: &str) -> Result<Report, WriterError> {
        let Parts { ops, clock, settings, metrics, queue, .. } = &self.parts;
        self.backpressure.check(ops, &settings.pipeline, clock.now()).await?;
        let mut buffer = self.buffer.lock().await;
        let parsed = match KafkaEvent::parse(event, &mut buffer) {
            Ok(parsed) => parsed,
            Err(fault) => return self.put_aside(event, request_id, &fault).await,
        };
        let mut report = Report { records: parsed.len(), ..Report::default() };
        metrics.records_received(parsed.len() as u64);
        let mut messages = Vec::new();
        for (topic, partitions) in by_topic(&parsed) {
            let batch = self.take_in(&parsed, topic, &partitions, &mut report).await?;
            if batch.record_count() > 0 {
                messages.push(deliver::message(&self.parts, batch).await?);
            }
        }
        if !messages.is_empty() {
            queue.send(&messages).await?;
        }
        report.batches = messages.len();
        Ok(report)
    }

    /// Converts and stores the records of one topic.
    async fn take_in(
        &self,
        event: &KafkaEvent<'_>,
        topic: &Topic,
        partitions: &[&PartitionRecords<'_>],
        report: &mut Report,
    ) -> Result<BatchManifest, WriterError> {
        let settings = &self.parts.settings;
        let route = settings.route(topic).ok_or_else(|| WriterError::NoRoute(topic.clone()))?;
        let source = self.source(cluster::name(settings.cluster.as_ref(), event)?, topic);
        let (table, converted) = self.convert(route, &source, partitions).await?;
        self.parts.metrics.tombstones_skipped(converted.skipped);
        report.rows += converted.records.len();
        report.dead_letters += converted.letters.len();
        report.skipped += converted.skipped;
        let branch = settings.branch(&route.table);
        let batch = deliver::store(&self.parts, &table, branch, &source, converted).await?;
        report.files += batch.files.len();
        Ok(batch)
    }

    /// Converts by the table as it is known, and again by a newer state of it when that may matter.
    async fn convert(
        &self,
        route: &Route,
        source: &Source,
        partitions: &[&PartitionRecords<'_>],
    ) -> Result<(Arc<OpenTable>, Converted), WriterError> {
        let Parts { catalog, clock, .. } = &self.parts;
        let table = self.tables.open(catalog.as_ref(), clock.as_ref(), &route.table).await?;
        let conversion = Conversion { table: &table, source, tombstones: route.tombstones, now: clock.now() };
        let converted = conversion.convert(partitions)?;
        if converted.may_fit_newer
            && let Some(newer) = self.tables.again(catalog.as_ref(), clock.as_ref(), &table).await?
        {
            let converted = Conversion { table: &newer, ..conversion }.convert(partitions)?;
            return Ok((newer, converted));
        }
        Ok((table, converted))
    }

    fn source(&self, cluster: ClusterName, topic: &Topic) -> Source {
        Source { pipeline: self.parts.settings.pipeline.clone(), cluster, topic: topic.clone() }
    }

    /// An event whose records can't be told is kept as it came; Kafka would deliver it for ever.
    async fn put_aside(
        &self,
        event: &[u8],
        request_id: &str,
        fault: &EventError,
    ) -> Result<Report, WriterError> {
        let Parts { ops, clock, metrics, .. } = &self.parts;
        let entry = QuarantineEntry {
            reason: "unreadable-event",
            id: request_id,
            when: clock.now(),
            raw: Bytes::copy_from_slice(event),
            details: json!({
                "error": fault.to_string(),
                "what-to-do": "find out what invoked the writer; if it was the event source mapping, replay the \
                               offsets around this time",
            }),
        };
        let key = ops.quarantine(&entry).await?;
        metrics.quarantined(1);
        error!(
            key,
            error = fault as &dyn std::error::Error,
            "an event that can't be read was put in quarantine"
        );
        Ok(Report { quarantined: 1, ..Report::default() })
    }
}

/// Partitions by topic: each topic has its own route.
fn by_topic<'e, 'a>(event: &'e KafkaEvent<'a>) -> BTreeMap<&'e Topic, Vec<&'e PartitionRecords<'a>>> {
    let mut topics: BTreeMap<&Topic, Vec<&PartitionRecords<'a>>> = BTreeMap::new();
    for partition in &event.partitions {
        topics.entry(&partition.topic).or_default().push(partition);
    }
    topics
}
