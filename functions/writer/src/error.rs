//! Why a batch fails. Its records stay in Kafka and come again, whatever it is.

use std::time::Duration;

use icefall_catalog::CatalogError;
use icefall_convert::{FinishError, UnsupportedSchema};
use icefall_datafile::{DataFileError, UnsupportedTable};
use icefall_manifest::{NameError, TableName, Topic};
use icefall_queue::QueueError;
use icefall_store::{LocationError, StoreError};
use lambda_runtime::Diagnostic;
use thiserror::Error;

/// Why a batch was not taken in.
#[derive(Debug, Error)]
pub enum WriterError {
    /// No route says where the topic's records go.
    #[error("topic {0} has no route: add [[route]] topic = \"{0}\" with its table to the settings")]
    NoRoute(Topic),
    /// The cluster has no name.
    #[error("the Kafka cluster has no name: set kafka.cluster (an MSK event would bring the cluster's id)")]
    NoCluster,
    /// The cluster's name can't be used.
    #[error("the Kafka cluster's name can't be used: set kafka.cluster")]
    BadCluster(#[from] NameError),
    /// A table's name can't be used.
    #[error("the name of table {0} can't be used")]
    BadTable(TableName, #[source] iceberg::Error),
    /// Nobody has committed for too long.
    #[error(
        "the committer has not run for {} h: batches are refused until it does, and wait in Kafka; check its schedule and its log",
        .0.as_secs() / 3_600
    )]
    NobodyCommits(Duration),
    /// The table can't be loaded.
    #[error("table {table} can't be loaded")]
    Load {
        /// The table.
        table: TableName,
        /// Why.
        source: CatalogError,
    },
    /// The table can't be written by this version.
    #[error("table {table} can't be written")]
    Schema {
        /// The table.
        table: TableName,
        /// Why.
        source: UnsupportedSchema,
    },
    /// The table can't be written by this version.
    #[error("table {table} can't be written")]
    Table {
        /// The table.
        table: TableName,
        /// Why.
        source: UnsupportedTable,
    },
    /// The rows could not be made into columns.
    #[error("the batch can't be converted")]
    Finish(#[from] FinishError),
    /// The rows could not be made into files.
    #[error("the data files can't be made")]
    DataFile(#[from] DataFileError),
    /// The table lies in another kind of store.
    #[error("the table's location can't be written")]
    Location(#[from] LocationError),
    /// A data file, the dead letters or quarantine could not be stored.
    #[error("a file can't be stored")]
    Store(#[from] StoreError),
    /// The queue did not accept the batch manifests.
    #[error("the batch manifests can't be enqueued")]
    Queue(#[from] QueueError),
    /// The dead letters or the batch manifest could not be written down.
    #[error("the batch manifest can't be written down")]
    Encode(#[from] serde_json::Error),
    /// The dead letters could not be compressed.
    #[error("the dead letters can't be compressed")]
    Compress(#[from] std::io::Error),
}

impl WriterError {
    /// A stable name, which alarms and log filters can rest on.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoRoute(_) | Self::NoCluster | Self::BadCluster(_) | Self::BadTable(..) => {
                "Icefall.Settings"
            }
            Self::NobodyCommits(_) => "Icefall.NobodyCommits",
            Self::Load { .. } => "Icefall.Catalog",
            Self::Schema { .. } | Self::Table { .. } | Self::Location(_) => "Icefall.Table",
            Self::Store(_) => "Icefall.Store",
            Self::Queue(_) => "Icefall.Queue",
            Self::Finish(_) | Self::DataFile(_) | Self::Encode(_) | Self::Compress(_) => "Icefall.Internal",
        }
    }
}

impl From<WriterError> for Diagnostic {
    fn from(error: WriterError) -> Self {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let error_message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { error_type: error.name().to_owned(), error_message }
    }
}
