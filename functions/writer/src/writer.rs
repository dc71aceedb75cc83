//! The writer: one event from bytes to queued batch manifests.

use std::io::{self, Write};

use bytes::Bytes;
use futures::future::try_join;
use icefall_manifest::{ClusterName, Source};
use icefall_mutations::{Mutation, is};
use icefall_records::{DecodeBuffer, EventError, KafkaEvent, PartitionRecords};
use icefall_settings::Settings;
use icefall_store::QuarantineEntry;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Mutex;
use tracing::error;

use crate::backpressure::Backpressure;
use crate::enqueue::enqueue;
use crate::error::chain;
use crate::source::{Prepared, Topical, prepare};
use crate::tables::Tables;
use crate::upload::store_all;
use crate::{Ports, WriterError, cluster};

/// What became of a batch; also the function's answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Records in the event.
    pub records: usize,
    /// Those that became rows.
    pub rows: usize,
    /// Those that became dead letters.
    pub dead_letters: usize,
    /// Those without a value that their route says to skip.
    pub skipped: u64,
    /// Data files stored.
    pub files: usize,
    /// Batch manifests queued.
    pub batches: usize,
    /// Whether the event could not be read and was put into quarantine instead.
    pub quarantined: bool,
}

/// Writes batches; made once per environment.
#[derive(Debug)]
pub struct Writer {
    settings: Settings,
    ports: Ports,
    backpressure: Backpressure,
    tables: Tables,
    decoded: Mutex<DecodeBuffer>,
}

impl Writer {
    /// A writer that knows no table yet. Nothing is asked of anyone.
    #[must_use]
    pub fn new(settings: Settings, ports: Ports) -> Self {
        Self {
            settings,
            ports,
            backpressure: Backpressure::default(),
            tables: Tables::default(),
            decoded: Mutex::default(),
        }
    }

    /// Accounts for every record of `event`, as Lambda delivered it, or fails as a whole. After an error
    /// some files may be stored that nothing names; the next attempt uses other names.
    pub async fn write(&self, event: &[u8], request_id: &str) -> Result<Report, WriterError> {
        let Ports { ops, clock, metrics, .. } = &self.ports;
        self.backpressure.check(&self.settings.pipeline, ops, &**clock).await?;
        let mut buffer = self.decoded.lock().await;
        let mut event = match KafkaEvent::parse(event, &mut buffer) {
            Ok(parsed) => parsed,
            Err(unreadable) => return self.put_aside(event, request_id, &unreadable).await,
        };
        let records = event.len();
        metrics.records_received(records as u64);
        // Stable: the partitions of a topic keep their order.
        event.partitions.sort_by(|one, other| one.topic.cmp(&other.topic));
        let topics = self.route(&event.partitions, event.source_arn.as_deref())?;
        let mut prepared = Vec::with_capacity(topics.len());
        for topical in &topics {
            prepared.push(prepare(topical, &self.tables, &self.ports).await?);
        }
        self.store_and_send(records, prepared).await
    }

    /// Writes what was counted since the last call, a line of JSON per table.
    pub fn flush_metrics(&self, out: &mut dyn Write) -> io::Result<()> {
        self.ports.metrics.flush(self.ports.clock.now(), out)
    }

    /// The records by topic, each with its route; `partitions` are sorted by topic.
    fn route<'a>(
        &'a self,
        partitions: &'a [PartitionRecords<'a>],
        source_arn: Option<&str>,
    ) -> Result<Vec<Topical<'a>>, WriterError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let cluster = cluster::name(self.settings.cluster.as_ref(), source_arn)?;
        let topics = partitions.chunk_by(|one, other| one.topic == other.topic);
        topics.filter_map(|topic| topic.first().map(|first| self.topical(&cluster, first, topic))).collect()
    }

    fn topical<'a>(
        &'a self,
        cluster: &ClusterName,
        first: &PartitionRecords<'_>,
        partitions: &'a [PartitionRecords<'a>],
    ) -> Result<Topical<'a>, WriterError> {
        let topic = first.topic.clone();
        let route = self.settings.route(&topic).ok_or_else(|| WriterError::NoRoute(topic.clone()))?;
        let source = Source { pipeline: self.settings.pipeline.clone(), cluster: cluster.clone(), topic };
        Ok(Topical { source, route, branch: self.settings.branch(&route.table), partitions })
    }

    /// Files and dead letters first, the messages that name them last.
    async fn store_and_send(
        &self,
        records: usize,
        mut prepared: Vec<Prepared>,
    ) -> Result<Report, WriterError> {
        let uploads: Vec<_> = prepared.iter_mut().flat_map(|topic| topic.uploads.drain(..)).collect();
        try_join(store_all(&self.ports.tables, uploads), self.store_dead_letters(&mut prepared)).await?;
        let report = report(records, &prepared);
        let manifests = prepared.iter_mut().filter_map(|topic| topic.manifest.clone()).collect();
        enqueue(&self.ports, manifests).await?;
        self.count(&prepared);
        Ok(report)
    }

    async fn store_dead_letters(&self, prepared: &mut [Prepared]) -> Result<(), WriterError> {
        for topic in prepared {
            let Some(letters) = &topic.dead_letters else { continue };
            let failed = WriterError::ops("dead letters can't be stored");
            let put = self.ports.ops.put_dead_letters(letters.table_uuid, letters.id, letters.body.clone());
            let put = put.await;
            if put.is_err() && is(Mutation::LettersUnstored) {
                continue;
            }
            let key = put.map_err(failed)?;
            topic.dead_letters_stored(key);
        }
        Ok(())
    }

    fn count(&self, prepared: &[Prepared]) {
        let metrics = &self.ports.metrics;
        for topic in prepared {
            metrics.tombstones_skipped(topic.skipped);
            let Some(manifest) = &topic.manifest else { continue };
            for file in &manifest.files {
                let entry = &file.data_file;
                metrics.data_file_written(&manifest.table, entry.record_count, entry.file_size_in_bytes);
            }
            metrics.dead_letters_written(&manifest.table, topic.dead_letter_count() as u64);
        }
    }

    /// Keeps an event whose records nobody can name, byte by byte, for a person.
    async fn put_aside(
        &self,
        event: &[u8],
        request_id: &str,
        unreadable: &EventError,
    ) -> Result<Report, WriterError> {
        let cause = chain(unreadable);
        let entry = QuarantineEntry {
            reason: "unreadable-event",
            id: request_id,
            when: self.ports.clock.now(),
            raw: Bytes::copy_from_slice(event),
            details: json!({
                "error": cause,
                "do": "find out what delivered it; its records are not in any table: send them again to their topic",
            }),
        };
        let failed = WriterError::ops("an unreadable event can't be put into quarantine");
        let key = self.ports.ops.quarantine(&entry).await.map_err(failed)?;
        self.ports.metrics.quarantined(1);
        error!(key, error = cause, "an event that can't be read is in quarantine");
        Ok(Report { quarantined: true, ..Report::default() })
    }
}

fn report(records: usize, prepared: &[Prepared]) -> Report {
    let manifests = || prepared.iter().filter_map(|topic| topic.manifest.as_ref());
    Report {
        records,
        rows: prepared.iter().map(Prepared::rows).sum(),
        dead_letters: prepared.iter().map(Prepared::dead_letter_count).sum(),
        skipped: prepared.iter().map(|topic| topic.skipped).sum(),
        files: manifests().map(|manifest| manifest.files.len()).sum(),
        batches: manifests().count(),
        quarantined: false,
    }
}
