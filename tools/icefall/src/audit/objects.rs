//! Whether the data files that a table names are there: the store is asked for each, by a HEAD request.
//!
//! Metadata alone proves nothing about the files: a clean-up of orphans that went wrong, or a rule of the bucket's own,
//! takes an object and leaves the entry that names it. An object of another size is not the one that was written.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use icefall_catalog::Snapshots;
use icefall_ledger::SequenceNumber;
use icefall_store::{Location, StoreError};
use icefall_tables::{Table, TableError, ident};
use serde::Serialize;

use super::counts::SnapshotsKnown;
use super::files::{File, Files};
use super::progress::{Gone, Progress};
use crate::{CliError, Desk};

/// Files that are asked for at the same time.
const ASKED_AT_ONCE: usize = 48;

/// What the store said.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Objects {
    /// How many files it was asked for.
    pub(crate) asked: u64,
    pub(crate) broken: Vec<Broken>,
    /// Files that are gone, and that the table names no longer: it was rewritten while the audit ran.
    pub(crate) replaced: u64,
}

/// A data file that is not there as the table names it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Broken {
    pub(crate) table: String,
    pub(crate) path: String,
    /// Of the snapshot that added it.
    pub(crate) sequence_number: SequenceNumber,
    /// The snapshot's id, while the table still knows it.
    pub(crate) snapshot: Option<i64>,
    /// Its rows: the topic has at most so many of them.
    pub(crate) rows: u64,
    /// Its size in bytes, as the table says.
    pub(crate) size: u64,
    /// The size of what lies there; `None` if nothing does.
    pub(crate) found: Option<u64>,
}

/// Asks the store for each of `files`, and marks those that are not there.
pub(crate) async fn ask(
    desk: &Desk,
    table: &Table,
    files: &mut Files,
    known: &SnapshotsKnown,
) -> Result<Objects, CliError> {
    let asked = files.files.len() as u64;
    let gone = Gone::default();
    let progress = Progress::start(gone.clone(), asked, "data files asked for");
    let sizes: Vec<Option<u64>> = stream::iter(&files.files)
        .map(|file| size(desk, file, &gone))
        .buffered(ASKED_AT_ONCE)
        .try_collect()
        .await?;
    drop(progress);
    let mut objects = Objects { asked, ..Objects::default() };
    for (file, found) in files.files.iter_mut().zip(sizes) {
        file.is_broken = found != Some(file.size);
        if file.is_broken {
            objects.broken.push(Broken {
                table: table.name.to_string(),
                path: file.path.clone(),
                sequence_number: file.sequence_number,
                snapshot: known.get(&file.sequence_number).map(|known| known.id),
                rows: file.rows,
                size: file.size,
                found,
            });
        }
    }
    if !objects.broken.is_empty() {
        objects.leave_out_replaced(desk, table).await?;
    }
    Ok(objects)
}

/// The size of what lies at the file's place, if anything does.
async fn size(desk: &Desk, file: &File, gone: &Gone) -> Result<Option<u64>, CliError> {
    let location =
        Location::parse(&file.path).map_err(|fault| CliError::Asked(format!("{}: {fault}", file.path)))?;
    let found = match desk.tables.head(&location).await {
        Ok(found) => Some(found.size),
        Err(StoreError::NotFound { .. }) => None,
        Err(fault @ StoreError::Denied { .. }) => {
            return Err(CliError::Asked(format!(
                "{fault}; a store that may not list its objects answers like that for one that is missing: allow \
                 s3:ListBucket and s3:GetObject on the table's bucket, or leave this out with --files-by-metadata"
            )));
        }
        Err(fault) => return Err(CliError::Tables(fault)),
    };
    gone.add(1);
    Ok(found)
}

impl Objects {
    /// Takes over what was said of another table.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.asked += other.asked;
        self.broken.extend(other.broken);
        self.replaced += other.replaced;
    }

    /// A table that others rewrite may lose files between the look at its metadata and the one at the store: what the
    /// table names no longer does not have to be there.
    async fn leave_out_replaced(&mut self, desk: &Desk, table: &Table) -> Result<(), CliError> {
        let loaded = desk.catalog.load_table(&ident(&table.name)?, Snapshots::Refs).await?;
        let now = Table::open(table.name.clone(), table.branch.clone(), loaded).map_err(TableError::from)?;
        let now: BTreeSet<String> =
            Files::of(desk, &now, None).await?.files.into_iter().map(|file| file.path).collect();
        let before = self.broken.len();
        self.broken.retain(|broken| now.contains(&broken.path));
        self.replaced = (before - self.broken.len()) as u64;
        Ok(())
    }
}
