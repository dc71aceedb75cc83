//! What the dead-letter table has of a source, by the table that each letter was meant for.

use std::collections::BTreeMap;

use iceberg::spec::{ManifestContentType, ManifestFile, TableMetadata};
use icefall_catalog::{CatalogError, Snapshots};
use icefall_datafile::{Columns, read_as};
use icefall_ledger::{Applied, Ledger, OutboxSpan, applied_property_name};
use icefall_manifest::{Partition, Source, TableUuid};
use icefall_store::Location;
use icefall_tables::{TableError, ident};

use super::compare::Print;
use crate::dead_letters::letters;
use crate::live_files::live_files;
use crate::replay::data_files;
use crate::{CliError, Desk};

/// The dead letters of a source.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    /// Per table that they were meant for and partition, ascending by offset.
    pub(crate) by_table: BTreeMap<String, BTreeMap<Partition, Vec<Print>>>,
    /// Delete files of the dead-letter table: rows that they hide are still counted.
    pub(crate) delete_files: u64,
    /// Which files of dead letters the dead-letter table has taken in.
    applied: Option<Applied>,
}

impl Letters {
    /// Which dead letters of `ledger` the dead-letter table has not taken in yet.
    pub(crate) fn under_way(&self, ledger: &Ledger) -> Vec<OutboxSpan> {
        let applied = self.applied.as_ref().map(|applied| applied.number(ledger.id())).unwrap_or_default();
        let left = ledger.outbox().entries().iter().filter(|entry| entry.number > applied);
        left.flat_map(|entry| entry.spans.iter().copied()).collect()
    }
}

/// All dead letters of `source`; none where there is no such table yet.
pub(crate) async fn letters_of(desk: &Desk, source: &Source) -> Result<Letters, CliError> {
    let mut found = Letters::default();
    let loaded = match desk.catalog.load_table(&ident(&desk.settings.dead_letters)?, Snapshots::Refs).await {
        Ok(loaded) => loaded,
        Err(CatalogError::NotFound(_)) => return Ok(found),
        Err(fault) => return Err(fault.into()),
    };
    let uuid = TableUuid(loaded.metadata.uuid());
    if let Some(value) = loaded.metadata.properties().get(&applied_property_name(&source.pipeline)) {
        let applied = Applied::read(source.pipeline.clone(), value, uuid).map_err(TableError::from)?;
        found.applied = Some(applied);
    }
    found.delete_files = delete_files(desk, &loaded.metadata).await?;
    for path in data_files(desk, &loaded.metadata).await? {
        let location =
            Location::parse(&path).map_err(|fault| CliError::DeadLetters(format!("{path}: {fault}")))?;
        let file = desk.tables.get(&location).await.map_err(CliError::Tables)?;
        let rows = read_as(file, loaded.metadata.current_schema(), Columns::ById)?;
        for letter in letters(&rows)?.into_iter().filter(|letter| letter.source == *source) {
            let print = (letter.offset, letter.id().fingerprint);
            let of_table = found.by_table.entry(letter.target_table).or_default();
            of_table.entry(letter.partition).or_default().push(print);
        }
    }
    found.by_table.values_mut().flat_map(BTreeMap::values_mut).for_each(|prints| prints.sort_unstable());
    Ok(found)
}

async fn delete_files(desk: &Desk, metadata: &TableMetadata) -> Result<u64, CliError> {
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(0) };
    let deletes = |manifest: &ManifestFile| manifest.content == ManifestContentType::Deletes;
    Ok(live_files(desk, metadata, snapshot, deletes).await?.len() as u64)
}
