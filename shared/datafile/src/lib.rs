//! Rows as partitioned Parquet data files with Iceberg metrics.
//!
//! A [`FileFormat`] is a table's schema, partition spec and write properties made ready once. It takes
//! a batch of rows, splits them by partition (order is kept, so that each row of a file can be traced
//! to the record it came from), and gives finished files with the entry that a manifest needs: counts,
//! sizes and bounds. Nothing here touches a store: a file is bytes until its caller has put them.

mod bounds;
mod checksum;
mod evolve;
mod format;
mod metrics;
mod parquet_file;
mod parquet_schema;
mod partition;
mod path;
mod read;
mod single_value;
mod transform;

pub use evolve::{Columns, EvolveError, read_as};
pub use format::{DataFileError, FileFormat, NewDataFile, UnsupportedTable};
pub use metrics::MetricsMode;
pub use read::{check_whole, read, read_back};

#[cfg(test)]
mod tests;
