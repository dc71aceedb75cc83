//! A table as it was loaded, with the ledgers that stand in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::spec::{SnapshotReference, TableMetadata};
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::LoadedTable;
use icefall_clock::Timestamp;
use icefall_ledger::{
    Ledger, LedgerError, LedgerId, Lineage, SnapshotId, property_name, read_property_name, unnamed_twin,
};
use icefall_manifest::{Branch, ClusterName, Source, TableName, TableUuid};
use icefall_mutations::{Mutation, is};

use crate::history::{compare, has_settled, is_unwritten, settled_sources};
use crate::{LedgerStore, LedgerStoreError, TableError};

/// Which sources a snapshot of ours settled records of; written into its summary.
pub const SOURCES_KEY: &str = "icefall.sources";

/// The catalog's identifier of a table.
pub fn ident(table: &TableName) -> Result<TableIdent, TableError> {
    let namespace = NamespaceIdent::from_vec(table.namespace().to_vec()).map_err(TableError::Name)?;
    Ok(TableIdent::new(namespace, table.name().to_owned()))
}

/// One branch of a table, as its metadata stood when it was loaded.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: TableName,
    /// The branch.
    pub branch: Branch,
    /// Its metadata.
    pub metadata: Arc<TableMetadata>,
    /// Its branches and tags with their retention.
    pub references: Arc<BTreeMap<String, SnapshotReference>>,
    properties: BTreeMap<Source, String>,
}

impl Table {
    /// The table with the ledgers of `branch` that its properties name.
    pub fn open(name: TableName, branch: Branch, loaded: LoadedTable) -> Result<Self, LedgerError> {
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
    #[must_use]
    pub fn uuid(&self) -> TableUuid {
        TableUuid(self.metadata.uuid())
    }

    /// The id of the ledger of `source`.
    #[must_use]
    pub fn ledger_id(&self, source: &Source) -> LedgerId {
        LedgerId { table_uuid: self.uuid(), branch: self.branch.clone(), source: source.clone() }
    }

    /// The ledgers that stand in it, without those that can't be read.
    #[must_use]
    pub fn readable_ledgers(&self) -> Vec<Ledger> {
        let read = |source: &Source| self.read(source).and_then(Result::ok);
        self.properties.keys().filter_map(read).collect()
    }

    /// When a ledger of it last changed, as far as the metadata still shows that snapshot.
    #[must_use]
    pub fn last_settled(&self) -> Option<Timestamp> {
        let ledgers = self.readable_ledgers();
        let last = ledgers.iter().filter_map(Ledger::last_snapshot);
        let shown = last.filter_map(|mark| self.metadata.snapshot_by_id(mark.id.0));
        let newest = shown.map(|snapshot| snapshot.timestamp_ms()).max()?;
        u64::try_from(newest).ok().map(Timestamp::from_unix_ms)
    }

    /// The ledger of `source`: the one that stands in the metadata, or a new one where there has
    /// never been any. One that has gone missing is not begun anew.
    pub async fn ledger(&self, source: &Source, store: &LedgerStore) -> Result<Ledger, TableError> {
        if is(Mutation::LedgerRolledBack) && !self.has_settled(source) {
            return Ok(Ledger::new(self.ledger_id(source)));
        }
        if let Some(read) = self.read(source) {
            return Ok(read.map_err(LedgerStoreError::from)?);
        }
        let id = self.ledger_id(source);
        let registered = store.is_registered(&id).await.map_err(LedgerStoreError::from)?;
        let registered = registered && !is(Mutation::RegisterPassedOver);
        if registered || (self.has_settled(source) && !is(Mutation::SnapshotPassedOver)) {
            return Err(TableError::LedgerMissing(Box::new(id)));
        }
        // A topic whose ledger has gone missing would land again, under another name of its cluster perhaps; whoever
        // made that ledger may have died before the register knew of it.
        let is_passed_over =
            |held: &LedgerId, own| is(if held == &id { own } else { Mutation::TwinPassedOver });
        let registered = store.registered_of_topic(&id).await.map_err(LedgerStoreError::from)?.into_iter();
        let registered = registered.filter(|held| !is_passed_over(held, Mutation::RegisterPassedOver));
        let settled = self.settled_of_topic(source);
        let settled = settled.filter(|held| !is_passed_over(held, Mutation::SnapshotPassedOver));
        match registered.chain(settled).find(|held| !self.properties.contains_key(&held.source)) {
            Some(held) => Err(TableError::LedgerMissing(Box::new(held))),
            None => Ok(Ledger::new(id)),
        }
    }

    /// A source of the same pipeline and topic that the table holds, or that is `landing` in it, under a cluster
    /// name which the settings do not know.
    #[must_use]
    pub fn unnamed_twin<'a>(
        &'a self,
        source: &Source,
        named: &[ClusterName],
        landing: &'a [Source],
    ) -> Option<&'a Source> {
        unnamed_twin(self.properties.keys().chain(landing), source, named)
    }

    /// The branch's newest snapshot; `None` if it has none.
    #[must_use]
    pub fn head(&self) -> Option<SnapshotId> {
        self.metadata.snapshot_for_ref(self.branch.as_str()).map(|head| SnapshotId(head.snapshot_id()))
    }

    /// What the branch's history says about `ledger`, if the table was loaded with all its snapshots.
    pub fn lineage(&self, ledger: &Ledger) -> Result<Lineage, TableError> {
        let fault = |fault| TableError::Lineage { ledger: Box::new(ledger.id().clone()), fault };
        compare(&self.metadata, ledger.id(), ledger.into()).map_err(fault)
    }

    /// The ledger of `source` that stands in the metadata, if one does.
    #[must_use]
    pub fn read(&self, source: &Source) -> Option<Result<Ledger, LedgerError>> {
        let value = self.properties.get(source)?;
        Some(Ledger::read(&property_name(&self.branch, source), value, self.uuid()))
    }

    /// Whether the newest snapshots are enough to tell if there has ever been a ledger of `source`: it stands in the metadata,
    /// or there never was a snapshot. Else an earlier one may have settled it, below another's or beside the branch.
    #[must_use]
    pub fn tells_of(&self, source: &Source) -> bool {
        self.properties.contains_key(source) || is_unwritten(&self.metadata)
    }

    /// The ledgers of the same topic, under whatever name of a cluster, that snapshots tell of.
    fn settled_of_topic(&self, source: &Source) -> impl Iterator<Item = LedgerId> {
        let settled = settled_sources(&self.metadata, &self.branch).into_iter();
        let is_twin = |held: &Source| (&held.pipeline, &held.topic) == (&source.pipeline, &source.topic);
        settled.filter(is_twin).map(|held| self.ledger_id(&held))
    }

    /// Whether a snapshot says that it settled records of `source`, as far as they were loaded.
    fn has_settled(&self, source: &Source) -> bool {
        has_settled(&self.metadata, &self.branch, source)
    }
}
