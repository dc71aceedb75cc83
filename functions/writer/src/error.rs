//! Why a batch failed.
//!
//! A failed batch loses nothing: its records stay in Kafka and come again. So each message says which
//! part failed and what to do, and the type that Lambda reports is a stable word to alarm by.

use std::error::Error;
use std::iter;

use icefall_catalog::CatalogError;
use icefall_convert::{FinishError, UnsupportedSchema};
use icefall_datafile::{DataFileError, UnsupportedTable};
use icefall_manifest::{PipelineId, TableName, Topic};
use icefall_queue::QueueError;
use icefall_store::{LocationError, StoreError};
use lambda_runtime::Diagnostic;
use thiserror::Error;

/// Why a table can't be written, whatever the records.
#[derive(Debug, Error)]
pub enum UnusableTable {
    /// Its schema.
    #[error(transparent)]
    Schema(#[from] UnsupportedSchema),
    /// Its partition spec or its properties.
    #[error(transparent)]
    Format(#[from] UnsupportedTable),
    /// Its location.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Its format version has no sequence numbers, by which the committer notices rollbacks.
    #[error("it has format version 1: upgrade it to version 2")]
    FormatVersion,
    /// Its name, in the catalog's terms.
    #[error("the catalog's library refuses its name")]
    Name(#[source] Box<iceberg::Error>),
}

/// Why a batch failed. Nothing of it is acknowledged; the records stay in Kafka.
#[derive(Debug, Error)]
pub enum WriterError {
    /// Nobody commits, so taking more in would only fill the queue.
    #[error(
        "the committer of pipeline {pipeline} has begun no round for {hours} h: check its schedule and its errors; \
         until then records stay in Kafka"
    )]
    Stalled {
        /// The pipeline.
        pipeline: PipelineId,
        /// Whole hours since its last round began.
        hours: u64,
    },
    /// Nothing says where a topic's records go.
    #[error(
        "no route for topic {0}: add a [[route]] with topic = \"{0}\" and its table, or take the topic out of the trigger"
    )]
    NoRoute(Topic),
    /// Nothing names the Kafka cluster.
    #[error("{0}: set kafka.cluster to a name that stays the same for as long as the cluster does")]
    NoCluster(String),
    /// A table can't be loaded.
    #[error("can't load table {table} for its schema")]
    Catalog {
        /// The table.
        table: TableName,
        /// The catalog's answer.
        source: CatalogError,
    },
    /// A table that this version can't write.
    #[error("table {table} can't be written")]
    Unusable {
        /// The table.
        table: TableName,
        /// Why.
        source: UnusableTable,
    },
    /// The object store of the tables.
    #[error("a data file of table {table} can't be stored")]
    Upload {
        /// The table.
        table: TableName,
        /// The store's answer.
        source: StoreError,
    },
    /// The ops bucket.
    #[error("{what} in the ops bucket")]
    Ops {
        /// What was tried, as `can't …`.
        what: &'static str,
        /// The store's answer.
        source: StoreError,
    },
    /// The commit queue.
    #[error("batch manifests can't be queued")]
    Queue(#[from] QueueError),
    /// Rows that could not be made into a batch.
    #[error("the rows for table {table} can't be put together; report this with the event")]
    Rows {
        /// The table.
        table: TableName,
        /// Why.
        source: FinishError,
    },
    /// Rows that could not be made into files.
    #[error("the rows for table {table} can't be written as files; report this with the event")]
    DataFile {
        /// The table.
        table: TableName,
        /// Why.
        source: DataFileError,
    },
    /// A file that holds other rows than were put into it.
    #[error("a data file of table {0} holds rows that no record became; report this with the event")]
    ForeignRow(TableName),
    /// What is to be sent or stored has no text form.
    #[error("a batch manifest or dead letter can't be written as text; report this with the event")]
    Encode(#[from] serde_json::Error),
    /// Dead letters that can't be compressed.
    #[error("dead letters can't be compressed; report this with the event")]
    Compress(#[from] std::io::Error),
}

impl WriterError {
    /// The stable word that Lambda reports and alarms can tell apart.
    #[must_use]
    pub const fn error_type(&self) -> &'static str {
        match self {
            Self::Stalled { .. } => "CommitterStalled",
            Self::NoRoute(_) => "NoRoute",
            Self::NoCluster(_) => "NoCluster",
            Self::Catalog { source: CatalogError::NotFound(_), .. } => "TableNotFound",
            Self::Catalog { .. } => "CatalogUnavailable",
            Self::Unusable { .. } => "UnusableTable",
            Self::Upload { .. } => "StoreUnavailable",
            Self::Ops { .. } => "OpsBucketUnavailable",
            Self::Queue(_) => "QueueUnavailable",
            Self::Rows { .. }
            | Self::DataFile { .. }
            | Self::ForeignRow(_)
            | Self::Encode(_)
            | Self::Compress(_) => "Fault",
        }
    }

    /// The message with all its causes, in one line.
    #[must_use]
    pub fn chain(&self) -> String {
        chain(self)
    }

    pub(crate) const fn ops(what: &'static str) -> impl FnOnce(StoreError) -> Self {
        move |source| Self::Ops { what, source }
    }
}

impl From<WriterError> for Diagnostic {
    fn from(error: WriterError) -> Self {
        Self { error_type: error.error_type().to_owned(), error_message: error.chain() }
    }
}

/// `error` and its causes, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
