//! What the dead-letter table has of a source, by the table that each letter was meant for.

use std::collections::BTreeMap;

use icefall_catalog::{CatalogError, Snapshots};
use icefall_datafile::read_as;
use icefall_manifest::{Partition, Source};
use icefall_store::Location;
use icefall_tables::ident;

use super::compare::Print;
use crate::dead_letters::letters;
use crate::replay::data_files;
use crate::{CliError, Desk};

/// Per table and partition, ascending by offset.
pub(crate) type Letters = BTreeMap<String, BTreeMap<Partition, Vec<Print>>>;

/// All dead letters of `source`; none where there is no such table yet.
pub(crate) async fn letters_of(desk: &Desk, source: &Source) -> Result<Letters, CliError> {
    let mut found = Letters::new();
    let loaded = match desk.catalog.load_table(&ident(&desk.settings.dead_letters)?, Snapshots::Refs).await {
        Ok(loaded) => loaded,
        Err(CatalogError::NotFound(_)) => return Ok(found),
        Err(fault) => return Err(fault.into()),
    };
    for path in data_files(desk, &loaded.metadata).await? {
        let location =
            Location::parse(&path).map_err(|fault| CliError::DeadLetters(format!("{path}: {fault}")))?;
        let file = desk.tables.get(&location).await.map_err(CliError::Tables)?;
        let rows = read_as(file, loaded.metadata.current_schema())?;
        for letter in letters(&rows)?.into_iter().filter(|letter| letter.source == *source) {
            let print = (letter.offset, letter.id().fingerprint);
            let of_table = found.entry(letter.target_table).or_default();
            of_table.entry(letter.partition).or_default().push(print);
        }
    }
    found.values_mut().flat_map(BTreeMap::values_mut).for_each(|prints| prints.sort_unstable());
    Ok(found)
}
