//! Why files can't be written anew: what waits, and what a person decides.

use arrow::error::ArrowError;
use icefall_datafile::{DataFileError, EvolveError, UnsupportedTable};
use icefall_manifest::DeadLetterError;
use icefall_store::{LocationError, StoreError};
use thiserror::Error;

/// Why a batch manifest's files can't be written anew.
#[derive(Debug, Error)]
pub enum RewriteError {
    /// One of its files is gone or unreadable for good: a person decides.
    #[error("{file} can't be rewritten")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: Damage,
    },
    /// The store can't be reached at present.
    #[error("the files can't be rewritten now")]
    Store(#[from] StoreError),
    /// The table can't be written.
    #[error("the files can't be rewritten")]
    Table(#[from] UnsupportedTable),
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum Damage {
    /// It is not there any more.
    #[error("the file is gone")]
    Gone(#[source] StoreError),
    /// Its name is none of this store.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// It is not the data file that the batch manifest describes.
    #[error(transparent)]
    Rows(#[from] DataFileError),
    /// Its rows are none of the table as it is now.
    #[error(transparent)]
    Schema(#[from] EvolveError),
    /// Its rows can't be chosen.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// It does not decompress.
    #[error(transparent)]
    Zstd(#[from] std::io::Error),
    /// It holds no dead letters.
    #[error(transparent)]
    Lines(#[from] DeadLetterError),
    /// It can't be written again.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has more or fewer rows than records are named for it.
    #[error("it has {rows} rows, but {records} records are named for it")]
    RowsDiffer {
        /// Rows found.
        rows: usize,
        /// Records named.
        records: usize,
    },
}

pub(crate) fn damaged(file: &str, damage: impl Into<Damage>) -> RewriteError {
    RewriteError::Damaged { file: file.to_owned(), source: damage.into() }
}
