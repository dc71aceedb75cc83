//! Tables made ready for writing, kept while the environment is warm.
//!
//! A table's metadata is asked for once a minute at most as long as its records fit. When one does not
//! fit, the table may have a new schema that it would fit, so the metadata is loaded again before
//! anything is decided, though not more often than every 30 seconds: a producer of nothing but bad
//! records must not become the catalog's heaviest client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use iceberg::spec::{FormatVersion, TableMetadata};
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{Catalog, Snapshots};
use icefall_clock::{Clock, Timestamp};
use icefall_convert::{Converter, UnsupportedSchema};
use icefall_datafile::FileFormat;
use icefall_manifest::{SchemaId, SpecId, TableName, TableUuid};
use icefall_mutations::{Mutation, is};
use icefall_store::Location;
use tokio::sync::Mutex as AsyncMutex;

use crate::WriterError;
use crate::error::UnusableTable;

/// Metadata older than this is loaded again.
const MAX_AGE: Duration = Duration::from_mins(1);
/// Metadata younger than this is not loaded again, whatever the records.
const MIN_AGE: Duration = Duration::from_secs(30);

/// A table as it was when its metadata was loaded.
#[derive(Debug)]
pub(crate) struct WritableTable {
    pub(crate) uuid: TableUuid,
    pub(crate) schema_id: SchemaId,
    pub(crate) spec_id: SpecId,
    pub(crate) location: String,
    pub(crate) format: FileFormat,
    metadata: Arc<TableMetadata>,
    converter: Mutex<Option<Converter>>,
}

impl WritableTable {
    fn new(metadata: Arc<TableMetadata>) -> Result<Self, UnusableTable> {
        if metadata.format_version() == FormatVersion::V1 {
            return Err(UnusableTable::FormatVersion);
        }
        // Every file's URI is made of it.
        Location::parse(metadata.location())?;
        let (schema, spec) = (metadata.current_schema(), metadata.default_partition_spec());
        Ok(Self {
            uuid: TableUuid(metadata.uuid()),
            schema_id: SchemaId(schema.schema_id()),
            spec_id: SpecId(spec.spec_id()),
            location: metadata.location().to_owned(),
            format: FileFormat::new(schema, spec, metadata.properties())?,
            converter: Mutex::new(Some(Converter::new(schema)?)),
            metadata,
        })
    }

    /// A converter without rows: the one used last, which knows the producers' order of fields, or a
    /// new one.
    pub(crate) fn converter(&self) -> Result<Converter, UnsupportedSchema> {
        let kept = self.converter.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(|| Converter::new(self.metadata.current_schema()), Ok)
    }

    /// Keeps `converter`, which holds no rows, for the next batch.
    pub(crate) fn keep(&self, converter: Converter) {
        *self.converter.lock().unwrap_or_else(PoisonError::into_inner) = Some(converter);
    }

    /// Whether records become the same here as in `other`.
    fn is_like(&self, other: &Self) -> bool {
        (self.uuid, self.schema_id, self.spec_id) == (other.uuid, other.schema_id, other.spec_id)
            && self.location == other.location
    }
}

#[derive(Debug)]
struct Cached {
    table: Arc<WritableTable>,
    loaded_at: Timestamp,
}

/// The tables that batches went to lately.
#[derive(Debug, Default)]
pub(crate) struct Tables(AsyncMutex<HashMap<TableName, Cached>>);

impl Tables {
    /// The table, at most a minute old.
    pub(crate) async fn table(
        &self,
        name: &TableName,
        catalog: &dyn Catalog,
        clock: &dyn Clock,
    ) -> Result<Arc<WritableTable>, WriterError> {
        let mut tables = self.0.lock().await;
        let is_young = |at: Timestamp| clock.now().since(at) < MAX_AGE || is(Mutation::TableNeverReloaded);
        if let Some(cached) = tables.get(name).filter(|cached| is_young(cached.loaded_at)) {
            return Ok(Arc::clone(&cached.table));
        }
        let loaded = load_into(&mut tables, name, catalog, clock).await;
        match tables.get(name) {
            Some(old) if loaded.is_err() && is(Mutation::LetterForOutage) => Ok(Arc::clone(&old.table)),
            _ => loaded,
        }
    }

    /// The table loaded anew because records did not fit it; `None` when that was done lately, or when
    /// it is the same as before.
    pub(crate) async fn grown(
        &self,
        name: &TableName,
        catalog: &dyn Catalog,
        clock: &dyn Clock,
    ) -> Result<Option<Arc<WritableTable>>, WriterError> {
        let mut tables = self.0.lock().await;
        let before = match tables.get(name) {
            Some(_) if is(Mutation::TableNeverReloaded) => return Ok(None),
            Some(cached) if clock.now().since(cached.loaded_at) < MIN_AGE => return Ok(None),
            cached => cached.map(|cached| Arc::clone(&cached.table)),
        };
        let loaded = load_into(&mut tables, name, catalog, clock).await;
        if loaded.is_err() && is(Mutation::LetterForOutage) {
            return Ok(None);
        }
        let table = loaded?;
        Ok(Some(table).filter(|table| before.is_none_or(|before| !before.is_like(table))))
    }
}

async fn load_into(
    tables: &mut HashMap<TableName, Cached>,
    name: &TableName,
    catalog: &dyn Catalog,
    clock: &dyn Clock,
) -> Result<Arc<WritableTable>, WriterError> {
    let loaded_at = clock.now();
    let unusable = |source| WriterError::Unusable { table: name.clone(), source };
    let ident = ident(name).map_err(unusable)?;
    let loaded = catalog.load_table(&ident, Snapshots::Refs).await;
    let loaded = loaded.map_err(|source| WriterError::Catalog { table: name.clone(), source })?;
    let table = Arc::new(WritableTable::new(loaded.metadata).map_err(unusable)?);
    tables.insert(name.clone(), Cached { table: Arc::clone(&table), loaded_at });
    Ok(table)
}

fn ident(table: &TableName) -> Result<TableIdent, UnusableTable> {
    let namespace = NamespaceIdent::from_vec(table.namespace().to_vec());
    let namespace = namespace.map_err(|error| UnusableTable::Name(Box::new(error)))?;
    Ok(TableIdent::new(namespace, table.name().to_owned()))
}
