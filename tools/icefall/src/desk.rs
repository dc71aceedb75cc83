//! What the commands act through, and how they find an entry.

use std::collections::BTreeSet;
use std::sync::Arc;

use icefall_catalog::Catalog;
use icefall_clock::{Clock, Entropy};
use icefall_manifest::TableName;
use icefall_parts::Parts;
use icefall_queue::CommitQueue;
use icefall_settings::Settings;
use icefall_store::{Decided, FiledEntry, ObjectLister, ObjectStore, OpsBucket, QuarantineDecision};
use icefall_tables::{Changer, LedgerStore};
use serde_json::Value;

use crate::{CliError, Topics};

/// The parts of a pipeline, as an operator reaches them.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The catalog of the tables.
    pub catalog: Arc<dyn Catalog>,
    /// The object store that the tables live in.
    pub tables: Arc<dyn ObjectStore>,
    /// Icefall's own bucket.
    pub ops: OpsBucket,
    /// What lists it.
    pub lister: Arc<dyn ObjectLister>,
    /// The ledgers' objects in it.
    pub ledgers: Arc<LedgerStore>,
    /// The queue of batch manifests.
    pub queue: Arc<dyn CommitQueue>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The functions' settings.
    pub settings: Arc<Settings>,
    /// Where topics are read, if not from the brokers that the settings name.
    pub topics: Option<Arc<dyn Topics>>,
}

impl Desk {
    /// The desk that these parts make up, and what lists the ops bucket.
    #[must_use]
    pub fn new(parts: Parts, lister: Arc<dyn ObjectLister>) -> Self {
        let Parts { settings, catalog, tables, ops, queue, clock, entropy, .. } = parts;
        let (ledgers, settings) = (Arc::new(LedgerStore::new(ops.clone())), Arc::new(settings));
        Self { catalog, tables, ops, lister, ledgers, queue, clock, entropy, settings, topics: None }
    }

    /// All tables that the settings name, the dead-letter table aside.
    pub(crate) fn tables_named(&self) -> BTreeSet<TableName> {
        let routed = self.settings.routes.iter().map(|route| &route.table);
        routed.chain(self.settings.tables.iter().map(|declared| &declared.name)).cloned().collect()
    }

    /// What changes ledgers.
    pub(crate) fn changer(&self) -> Changer<'_> {
        Changer {
            catalog: self.catalog.as_ref(),
            tables: &self.tables,
            ledgers: &self.ledgers,
            clock: self.clock.as_ref(),
            entropy: self.entropy.as_ref(),
        }
    }

    /// The entry that `name` means: an id, or `<reason>/<id>` or `<day>/<reason>/<id>` where several have it. A message
    /// that was put aside and could not be deleted is put aside once more when it comes again, which may be on another day.
    pub(crate) async fn find(&self, name: &str) -> Result<(FiledEntry, Value), CliError> {
        let mut parts = name.rsplitn(3, '/');
        let (id, reason, day) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let all = self.ops.filed(self.lister.as_ref()).await?;
        let is_meant = |entry: &FiledEntry| {
            entry.id == id
                && reason.is_none_or(|reason| entry.reason == reason)
                && day.is_none_or(|day| entry.day == day)
        };
        let found: Vec<_> = all.into_iter().map(|(entry, _)| entry).filter(is_meant).collect();
        let entry = match found.as_slice() {
            [] => return Err(CliError::NoEntry(name.to_owned())),
            [entry] => entry.clone(),
            several => {
                let name = |FiledEntry { day, reason, id }: &FiledEntry| format!("{day}/{reason}/{id}");
                let names = several.iter().map(name).collect::<Vec<_>>().join(", ");
                return Err(CliError::Several { id: id.to_owned(), names });
            }
        };
        let text = self.ops.filed_text(&entry).await?;
        let text = text.ok_or_else(|| CliError::NoEntry(name.to_owned()))?;
        Ok((entry, text))
    }

    /// The same of an entry about which nothing was decided yet.
    pub(crate) async fn find_open(&self, name: &str) -> Result<(FiledEntry, Value), CliError> {
        let (entry, text) = self.find(name).await?;
        match self.ops.decision(&entry).await? {
            None => Ok((entry, text)),
            Some(decision) => Err(CliError::Decided { id: entry.id, decision: Box::new(decision) }),
        }
    }

    /// Says what was decided about an entry.
    pub(crate) async fn decide(
        &self,
        entry: &FiledEntry,
        decided: Decided,
        because: &str,
    ) -> Result<(), CliError> {
        let when_ms = self.clock.now().unix_ms();
        let decision = QuarantineDecision { decided, because: because.to_owned(), when_ms };
        Ok(self.ops.put_decision(entry, &decision).await?)
    }
}
