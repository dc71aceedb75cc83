//! A table as it was loaded, with the ledgers that stand in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::spec::{SnapshotReference, TableMetadata};
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::LoadedTable;
use icefall_clock::Timestamp;
use icefall_ledger::{Ledger, LedgerError, LedgerId, property_name, read_property_name, unnamed_twin};
use icefall_manifest::{Branch, ClusterName, Source, TableName, TableUuid};
use icefall_mutations::{Mutation, is};

use crate::failure::TableFailure;
use crate::ledger_store::{LedgerStore, LedgerStoreError};

/// Which sources a snapshot of ours settled records of; written into its summary.
pub(crate) const SOURCES_KEY: &str = "icefall.sources";

/// The catalog's identifier of a table.
pub(crate) fn ident(table: &TableName) -> Result<TableIdent, TableFailure> {
    let namespace = NamespaceIdent::from_vec(table.namespace().to_vec()).map_err(TableFailure::Name)?;
    Ok(TableIdent::new(namespace, table.name().to_owned()))
}

/// One branch of a table, as its metadata stood when it was loaded.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: TableName,
    pub(crate) branch: Branch,
    pub(crate) metadata: Arc<TableMetadata>,
    pub(crate) references: Arc<BTreeMap<String, SnapshotReference>>,
    properties: BTreeMap<Source, String>,
}

impl Table {
    /// The table with the ledgers of `branch` that its properties name.
    pub(crate) fn open(name: TableName, branch: Branch, loaded: LoadedTable) -> Result<Self, LedgerError> {
        let mut properties = BTreeMap::new();
        for (key, value) in loaded.metadata.properties() {
            if let Some((of, source)) = read_property_name(key)?
                && of == branch
            {
                properties.insert(source, value.clone());
            }
        }
        let LoadedTable { metadata, references, .. } = loaded;
        Ok(Self { name, branch, metadata, references, properties })
    }

    /// Which table it is.
    pub(crate) fn uuid(&self) -> TableUuid {
        TableUuid(self.metadata.uuid())
    }

    /// The id of the ledger of `source`.
    pub(crate) fn ledger_id(&self, source: &Source) -> LedgerId {
        LedgerId { table_uuid: self.uuid(), branch: self.branch.clone(), source: source.clone() }
    }

    /// The ledgers that stand in it, without those that can't be read.
    pub(crate) fn readable_ledgers(&self) -> Vec<Ledger> {
        let read = |source: &Source| self.read(source).and_then(Result::ok);
        self.properties.keys().filter_map(read).collect()
    }

    /// When a ledger of it last changed, as far as the metadata still shows that snapshot.
    pub(crate) fn last_settled(&self) -> Option<Timestamp> {
        let ledgers = self.readable_ledgers();
        let last = ledgers.iter().filter_map(Ledger::last_snapshot);
        let shown = last.filter_map(|mark| self.metadata.snapshot_by_id(mark.id.0));
        let newest = shown.map(|snapshot| snapshot.timestamp_ms()).max()?;
        u64::try_from(newest).ok().map(Timestamp::from_unix_ms)
    }

    /// The ledger of `source`: the one that stands in the metadata, or a new one where there has
    /// never been any. One that has gone missing is not begun anew.
    pub(crate) async fn ledger(&self, source: &Source, store: &LedgerStore) -> Result<Ledger, TableFailure> {
        if is(Mutation::LedgerRolledBack) && !self.head_settled(source) {
            return Ok(Ledger::new(self.ledger_id(source)));
        }
        if let Some(read) = self.read(source) {
            return Ok(read.map_err(LedgerStoreError::from)?);
        }
        let id = self.ledger_id(source);
        let registered = store.is_registered(&id).await.map_err(LedgerStoreError::from)?;
        if (registered || self.head_settled(source)) && !is(Mutation::MissingLedgerIsNew) {
            return Err(TableFailure::LedgerMissing(Box::new(id)));
        }
        Ok(Ledger::new(id))
    }

    /// A source of the same pipeline and topic that the table holds under a cluster name which the
    /// settings do not know.
    pub(crate) fn unnamed_twin(&self, source: &Source, named: &[ClusterName]) -> Option<&Source> {
        unnamed_twin(self.properties.keys(), source, named)
    }

    fn read(&self, source: &Source) -> Option<Result<Ledger, LedgerError>> {
        let value = self.properties.get(source)?;
        Some(Ledger::read(&property_name(&self.branch, source), value, self.uuid()))
    }

    /// Whether the branch's newest snapshot says that it settled records of `source`.
    fn head_settled(&self, source: &Source) -> bool {
        let head = self.metadata.snapshot_for_ref(self.branch.as_str());
        let sources = head.and_then(|head| head.summary().additional_properties.get(SOURCES_KEY));
        sources.is_some_and(|sources| sources.split(' ').any(|held| held == source.to_string()))
    }
}
