//! The tables that the settings declare, and the dead-letter table: made when they are absent.
//!
//! Some catalogs let two racing creations through, so a table is loaded first, created only when it
//! is not found, and loaded again: what the catalog shows then is the table. A declared table that
//! can't be made is reported and stands in nobody's way.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use iceberg::NamespaceIdent;
use icefall_catalog::{Catalog, CatalogError, LoadedTable, NewTable, Snapshots};
use icefall_manifest::TableName;
use icefall_settings::Settings;
use icefall_tables::ident;
use tracing::{error, info};

use crate::Ports;
use crate::dead_letter_table;
use crate::deadline::{Deadline, GivenUp};
use crate::failure::TableFailure;

/// Tables that are looked at side by side.
const TABLES_AT_ONCE: usize = 8;

/// A table that the catalog has or shall have.
#[derive(Debug)]
pub(crate) struct Wanted {
    name: TableName,
    /// How to make it; a table without stays what it is, and is missed when it is absent.
    definition: Option<NewTable>,
}

/// All tables that `settings` speak of: declared ones, routed ones, and the dead-letter table.
pub(crate) fn wanted(settings: &Settings) -> Result<Vec<Wanted>, iceberg::Error> {
    let mut tables = BTreeMap::new();
    for route in &settings.routes {
        tables.insert(route.table.clone(), None);
    }
    for declared in &settings.tables {
        let definition = declared.schema().map(|schema| NewTable {
            schema: schema.clone(),
            partition_spec: declared.partition_spec().cloned().unwrap_or_default(),
            properties: declared.properties.clone(),
            location: None,
        });
        tables.insert(declared.name.clone(), definition);
    }
    tables.insert(settings.dead_letters.clone(), Some(NewTable::new(dead_letter_table::schema()?)));
    Ok(tables.into_iter().map(|(name, definition)| Wanted { name, definition }).collect())
}

/// Makes sure that the tables are there. Gives those that are, and how many are not. A catalog that can't be
/// reached is an error at once: asking it for the other tables would only take time.
///
/// A table that is not given until `until` is not waited for, and where none is, the catalog counts as gone.
pub(crate) async fn ensure(
    ports: &Ports,
    wanted: &[Wanted],
    until: Deadline,
) -> Result<(Vec<(TableName, LoadedTable)>, usize), TableFailure> {
    let mut loaded = Vec::new();
    let mut missing = 0;
    let (catalog, clock) = (ports.catalog.as_ref(), ports.clock.as_ref());
    let looks = wanted
        .iter()
        .map(|table| async move { (table, in_time(until.hold(clock, look(catalog, table)).await)) });
    // Collected first: a stream that holds the closure itself is not known to be `Send`.
    let mut found = stream::iter(looks.collect::<Vec<_>>()).buffered(TABLES_AT_ONCE);
    while let Some((table, found)) = found.next().await {
        // One after the other: catalogs don't take well to two that make one namespace.
        let found = match found {
            Ok(None) => in_time(until.hold(clock, make(catalog, table)).await),
            Ok(Some(found)) => Ok(found),
            Err(failure) => Err(failure),
        };
        match found {
            Ok(found) => loaded.push((table.name.clone(), found)),
            Err(failure) if failure.is_unreachable() => return Err(failure),
            Err(failure) => {
                ports.metrics.table_failed(&table.name);
                error!(table = %table.name, error = &failure as &dyn std::error::Error, "the table is not there; its records wait");
                missing += 1;
            }
        }
    }
    if loaded.is_empty() && missing > 0 && until.is_over(clock.now()) {
        return Err(TableFailure::NoAnswer);
    }
    Ok((loaded, missing))
}

/// What the catalog said before it was no longer waited for.
fn in_time<T>(found: Result<Result<T, TableFailure>, GivenUp>) -> Result<T, TableFailure> {
    found.unwrap_or(Err(TableFailure::NoAnswer))
}

/// The table; `None`: it is absent and can be made.
async fn look(catalog: &dyn Catalog, table: &Wanted) -> Result<Option<LoadedTable>, TableFailure> {
    match catalog.load_table(&ident(&table.name)?, Snapshots::Refs).await {
        Err(CatalogError::NotFound(_)) if table.definition.is_some() => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Makes an absent table. Whoever else makes it at the same time, what the catalog shows then is the table.
async fn make(catalog: &dyn Catalog, table: &Wanted) -> Result<LoadedTable, TableFailure> {
    let ident = ident(&table.name)?;
    if let Some(definition) = &table.definition {
        ensure_namespace(catalog, ident.namespace()).await?;
        match catalog.create_table(&ident, definition).await {
            Ok(_) => info!(table = %table.name, "created"),
            Err(CatalogError::AlreadyExists(_) | CatalogError::Unavailable(_)) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Ok(catalog.load_table(&ident, Snapshots::Refs).await?)
}

async fn ensure_namespace(catalog: &dyn Catalog, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
    if catalog.namespace_exists(namespace).await? {
        return Ok(());
    }
    match catalog.create_namespace(namespace).await {
        Err(CatalogError::AlreadyExists(_)) => Ok(()),
        created => created,
    }
}
