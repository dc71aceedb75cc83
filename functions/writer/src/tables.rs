//! Tables as the writer knows them: loaded, made ready to write, and kept for a short while.
//!
//! Metadata is at most a minute old. When records don't fit, the reason may be that the table was
//! changed since, so it is loaded again before they are given up, at most every half minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iceberg::spec::TableMetadata;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{Catalog, Snapshots};
use icefall_clock::{Clock, Timestamp};
use icefall_convert::Converter;
use icefall_datafile::FileFormat;
use icefall_manifest::{SchemaId, SpecId, TableName, TableUuid};

use crate::WriterError;

const KEPT_FOR: Duration = Duration::from_mins(1);
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// A table made ready to write.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) name: TableName,
    pub(crate) uuid: TableUuid,
    pub(crate) schema_id: SchemaId,
    pub(crate) spec_id: SpecId,
    pub(crate) location: String,
    pub(crate) format: FileFormat,
    /// It keeps what it learned about the order of fields, so there is one per table.
    pub(crate) converter: Mutex<Converter>,
    loaded: Timestamp,
}

/// The tables of a warm function.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    open: Mutex<HashMap<TableName, Arc<OpenTable>>>,
}

impl Tables {
    /// The table as it was at most a minute ago.
    pub(crate) async fn open(
        &self,
        catalog: &dyn Catalog,
        clock: &dyn Clock,
        name: &TableName,
    ) -> Result<Arc<OpenTable>, WriterError> {
        let known = self.tables().get(name).cloned();
        match known.filter(|table| clock.now().since(table.loaded) < KEPT_FOR) {
            Some(table) => Ok(table),
            None => self.load(catalog, clock, name).await,
        }
    }

    /// A newer state of `table`, if it was not loaded just now.
    pub(crate) async fn again(
        &self,
        catalog: &dyn Catalog,
        clock: &dyn Clock,
        table: &OpenTable,
    ) -> Result<Option<Arc<OpenTable>>, WriterError> {
        if clock.now().since(table.loaded) < AGAIN_AFTER {
            return Ok(None);
        }
        let newer = self.load(catalog, clock, &table.name).await?;
        Ok((newer.schema_id != table.schema_id || newer.uuid != table.uuid).then_some(newer))
    }

    async fn load(
        &self,
        catalog: &dyn Catalog,
        clock: &dyn Clock,
        name: &TableName,
    ) -> Result<Arc<OpenTable>, WriterError> {
        let loaded = clock.now();
        let table = catalog.load_table(&ident(name)?, Snapshots::Refs).await;
        let table = table.map_err(|source| WriterError::Load { table: name.clone(), source })?;
        let open = Arc::new(OpenTable::new(name.clone(), &table.metadata, loaded)?);
        self.tables().insert(name.clone(), Arc::clone(&open));
        Ok(open)
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<TableName, Arc<OpenTable>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenTable {
    fn new(name: TableName, metadata: &TableMetadata, loaded: Timestamp) -> Result<Self, WriterError> {
        let (schema, spec) = (metadata.current_schema(), metadata.default_partition_spec());
        let converter =
            Converter::new(schema).map_err(|source| WriterError::Schema { table: name.clone(), source })?;
        let format = FileFormat::new(schema, spec, metadata.properties())
            .map_err(|source| WriterError::Table { table: name.clone(), source })?;
        Ok(Self {
            name,
            uuid: TableUuid(metadata.uuid()),
            schema_id: SchemaId(metadata.current_schema_id()),
            spec_id: SpecId(metadata.default_partition_spec_id()),
            location: metadata.location().to_owned(),
            format,
            converter: Mutex::new(converter),
            loaded,
        })
    }
}

fn ident(table: &TableName) -> Result<TableIdent, WriterError> {
    let namespace = NamespaceIdent::from_vec(table.namespace().to_vec());
    let namespace = namespace.map_err(|source| WriterError::BadTable(table.clone(), source))?;
    Ok(TableIdent::new(namespace, table.name().to_owned()))
}
