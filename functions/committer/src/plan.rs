//! What is to happen with each batch manifest of a table, decided on the metadata as it was loaded.
//!
//! A plan belongs to one load. When its commit meets a conflict or its outcome is unknown, the plan
//! is thrown away and made anew on what the catalog shows then: the ledger in that metadata says
//! which records are settled, whoever settled them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use icefall_ledger::{Evidence, LedgerId, Round, RoundResult, SnapshotMark, Verdict, Wanted};
use icefall_manifest::{BatchManifest, ClusterName, Source};
use icefall_queue::Receipt;

use crate::append::{AppendBuilder, FileGroup};
use crate::failure::TableFailure;
use crate::inbox::Delivery;
use crate::ledger_store::{LedgerStore, LedgerStoreError};
use crate::outbox::Progress;
use crate::quarantine::Reason;
use crate::table::Table;

/// What happens with one delivery once the plan is carried out.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// All its records are settled by what was loaded: it can go.
    Settled,
    /// All its records are settled once the plan is committed: it can go then.
    Committed,
    /// It is put in quarantine, and can go then.
    Quarantine(Reason, String),
    /// It stays queued, since its source stands still in this table.
    Waits,
}

/// The plan for one table.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// Every delivery with its fate.
    pub(crate) fates: Vec<(&'a Delivery, Fate)>,
    /// Batches whose records are settled by the commit.
    accepted: Vec<&'a BatchManifest>,
    rounds: Vec<Round>,
}

/// What a plan's commit consists of, besides the snapshot itself.
#[derive(Debug)]
pub(crate) struct Settlement {
    /// The data files, by schema and spec.
    pub(crate) groups: Vec<FileGroup>,
    /// The new states of the ledgers that change, each with its objects and its property.
    pub(crate) results: Vec<RoundResult>,
    /// How many batch manifests it settles.
    pub(crate) batches: usize,
    /// The newest Kafka timestamp among the records.
    pub(crate) newest_record_ms: Option<i64>,
}

/// Decides about `deliveries`, all of which are for `table`.
pub(crate) async fn plan<'a>(
    table: &Table,
    deliveries: &'a [Delivery],
    store: &LedgerStore,
    clusters: &[ClusterName],
    progress: &Progress,
    now_ms: u64,
) -> Result<Plan<'a>, TableFailure> {
    let mut plan = Plan { fates: Vec::new(), accepted: Vec::new(), rounds: Vec::new() };
    for (source, deliveries) in by_source(deliveries) {
        let mut open = Vec::new();
        for delivery in deliveries {
            match unfit(table, &delivery.batch, clusters) {
                Some((reason, detail)) => plan.fates.push((delivery, Fate::Quarantine(reason, detail))),
                None => open.push(delivery),
            }
        }
        if !open.is_empty() {
            plan.decide(table, source, open, store, progress, now_ms).await?;
        }
    }
    Ok(plan)
}

/// Deliveries by source, each source's in the order in which their batch manifests were made.
fn by_source(deliveries: &[Delivery]) -> BTreeMap<&Source, Vec<&Delivery>> {
    let mut sources: BTreeMap<&Source, Vec<&Delivery>> = BTreeMap::new();
    for delivery in deliveries {
        sources.entry(&delivery.batch.source).or_default().push(delivery);
    }
    let made = |delivery: &&Delivery| (delivery.batch.made_at_ms, delivery.batch.id);
    for deliveries in sources.values_mut() {
        deliveries.sort_by_key(made);
    }
    sources
}

/// Why a batch manifest can't be decided for this table at all.
fn unfit(table: &Table, batch: &BatchManifest, clusters: &[ClusterName]) -> Option<(Reason, String)> {
    if batch.table_uuid != table.uuid() {
        let detail = format!(
            "its files were written for table {}, the table of that name is {} now",
            batch.table_uuid,
            table.uuid()
        );
        return Some((Reason::AnotherTable, detail));
    }
    if let Some(path) = batch.file_outside(table.metadata.location()) {
        let detail = format!("{path} is outside {}", table.metadata.location());
        return Some((Reason::FileOutside, detail));
    }
    if let Some(detail) = unknown_schema_or_spec(table, batch) {
        return Some((Reason::SchemaOrSpecGone, detail));
    }
    if let Some(fault) = AppendBuilder::fault(&table.metadata, &group_of(batch)) {
        return Some((Reason::BadMetrics, fault.to_string()));
    }
    let mut named = clusters.to_vec();
    named.push(batch.source.cluster.clone());
    let twin = table.unnamed_twin(&batch.source, &named)?;
    Some((Reason::AnotherCluster, format!("the table holds this topic as {twin}")))
}

fn unknown_schema_or_spec(table: &Table, batch: &BatchManifest) -> Option<String> {
    let (schema, spec) = (batch.schema_id.0, batch.spec_id.0);
    if batch.files.is_empty() {
        return None;
    }
    if table.metadata.schema_by_id(schema).is_none() {
        return Some(format!("the table has no schema {schema} any more"));
    }
    table
        .metadata
        .partition_spec_by_id(spec)
        .is_none()
        .then(|| format!("the table has no partition spec {spec} any more"))
}

impl<'a> Plan<'a> {
    /// Whether there is anything to commit.
    pub(crate) fn is_changed(&self) -> bool {
        self.rounds.iter().any(Round::is_changed)
    }

    /// The ids of the ledgers that were consulted.
    pub(crate) fn ledger_ids(&self) -> Vec<LedgerId> {
        self.rounds.iter().map(|round| round.ledger().id().clone()).collect()
    }

    /// What the commit of `mark` consists of; the fates are kept.
    pub(crate) fn settle(&mut self, mark: SnapshotMark) -> Result<Settlement, TableFailure> {
        let changed = std::mem::take(&mut self.rounds).into_iter().filter(Round::is_changed);
        let results = changed.map(|round| round.finish(mark));
        Ok(Settlement {
            groups: groups(&self.accepted),
            results: results.collect::<Result<_, _>>().map_err(LedgerStoreError::from)?,
            batches: self.accepted.len(),
            newest_record_ms: self.accepted.iter().filter_map(|batch| batch.newest_record_ms).max(),
        })
    }

    /// The messages that can go once the plan is carried out, those in quarantine aside.
    pub(crate) fn settled(&self) -> Vec<Receipt> {
        let settled = |fate: &Fate| matches!(fate, Fate::Settled | Fate::Committed);
        let receipts = self.fates.iter().filter(|(_, fate)| settled(fate));
        receipts.map(|(delivery, _)| delivery.message.receipt.clone()).collect()
    }

    async fn decide(
        &mut self,
        table: &Table,
        source: &Source,
        deliveries: Vec<&'a Delivery>,
        store: &LedgerStore,
        progress: &Progress,
        now_ms: u64,
    ) -> Result<(), TableFailure> {
        let ledger = table.ledger(source, store).await?;
        let wanted = Wanted::of(deliveries.iter().map(|delivery| &delivery.batch));
        let held = store.look_up(&ledger, &wanted).await?;
        let id = ledger.id().clone();
        let mut round = Round::new(ledger, held).map_err(LedgerStoreError::from)?;
        progress.clear(&mut round, &id).map_err(LedgerStoreError::from)?;
        for delivery in deliveries {
            let fate = self.fate(&mut round, delivery, now_ms).map_err(LedgerStoreError::from)?;
            self.fates.push((delivery, fate));
        }
        self.rounds.push(round);
        Ok(())
    }

    fn fate(
        &mut self,
        round: &mut Round,
        delivery: &'a Delivery,
        now_ms: u64,
    ) -> Result<Fate, icefall_ledger::LedgerError> {
        Ok(match round.decide(&delivery.batch)? {
            Verdict::Commit => {
                round.accept(&delivery.batch)?;
                self.accepted.push(&delivery.batch);
                Fate::Committed
            }
            Verdict::Duplicate(Evidence::Committed) => Fate::Settled,
            Verdict::Duplicate(Evidence::ThisRound) => Fate::Committed,
            Verdict::Trim(free) => Fate::Quarantine(
                Reason::PartlyHeld,
                format!(
                    "{} of its {} records are not settled yet",
                    free.len(),
                    delivery.batch.record_count()
                ),
            ),
            Verdict::Quarantine(reason) => Fate::Quarantine(Reason::AnotherEncoding, reason.to_string()),
            Verdict::Stop(conflict) => {
                round.stop(conflict, now_ms);
                Fate::Waits
            }
            Verdict::Stopped(_) => Fate::Waits,
        })
    }
}

/// The files of one batch manifest.
fn group_of(batch: &BatchManifest) -> FileGroup {
    let BatchManifest { schema_id, spec_id, .. } = *batch;
    let files = batch.files.iter().map(|file| file.data_file.clone()).collect();
    FileGroup { schema_id, spec_id, files }
}

/// The files of `batches`, gathered by schema and spec.
fn groups(batches: &[&BatchManifest]) -> Vec<FileGroup> {
    let mut groups: BTreeMap<_, FileGroup> = BTreeMap::new();
    for group in batches.iter().map(|batch| group_of(batch)).filter(|group| !group.files.is_empty()) {
        match groups.entry((group.schema_id, group.spec_id)) {
            Entry::Vacant(vacant) => {
                vacant.insert(group);
            }
            Entry::Occupied(known) => known.into_mut().files.extend(group.files),
        }
    }
    groups.into_values().collect()
}
