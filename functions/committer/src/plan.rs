//! What is to happen with each batch manifest of a table, decided on the metadata as it was loaded.
//!
//! A plan belongs to one load. When its commit meets a conflict or its outcome is unknown, the plan
//! is thrown away and made anew on what the catalog shows then: the ledger in that metadata says
//! which records are settled, whoever settled them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use icefall_ledger::{
    Discard, Evidence, Free, LedgerError, Round, RoundResult, SnapshotMark, Verdict, Wanted,
};
use icefall_manifest::{BatchManifest, ClusterName, RecordList, Source};
use icefall_mutations::{Mutation, is};
use icefall_queue::Receipt;

use crate::Ports;
use crate::deadline::Deadline;
use crate::failure::TableFailure;
use crate::inbox::{Delivery, chain};
use crate::outbox::Progress;
use crate::quarantine::Reason;
use crate::renewals::{Renewals, is_stale};
use icefall_rewrite::{RewriteError, Rewriter};
use icefall_store::StoreError;
use icefall_tables::{AppendError, FileGroup, LedgerStore, LedgerStoreError, Table};
use tracing::{info, warn};

/// What happens with one delivery once the plan is carried out.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// All its records are settled by what was loaded: it can go.
    Settled,
    /// All its records are settled once the plan is committed: it can go then.
    Committed,
    /// The same, and some of its records are settled by what was loaded, or by what the plan's other batch manifests bring.
    Trimmed {
        /// How many.
        skipped: u64,
    },
    /// The same, and it is another batch manifest of the plan that brings them.
    Repeated,
    /// It is put in quarantine, and can go then.
    Quarantine(Reason, String),
    /// The same because of some of its records, which an operator discarded as copies. All others are settled once the
    /// plan is committed.
    Discarded(RecordList),
    /// It stays queued, since one of its files can't be read now; the text says why.
    HeldUp(String),
    /// It stays queued, since its rows have to be written anew and this round has no time left for that.
    Later,
    /// It stays queued, since its source stands still in this table, and has for that long.
    Waits {
        /// Since when, in milliseconds since the epoch.
        since_ms: u64,
    },
}

/// The plan for one table.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// Every delivery with its fate.
    pub(crate) fates: Vec<(&'a Delivery, Fate)>,
    /// Batches whose records are settled by the commit, each with its files as the table's own.
    accepted: Vec<(Cow<'a, BatchManifest>, FileGroup)>,
    /// Records of each batch manifest that went into the settlement.
    settled_records: Vec<u64>,
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

/// What deciding takes, besides the deliveries.
#[derive(Debug)]
pub(crate) struct Planner<'p> {
    pub(crate) ports: &'p Ports,
    pub(crate) ledgers: &'p LedgerStore,
    pub(crate) renewals: &'p Renewals,
    pub(crate) clusters: &'p [ClusterName],
    pub(crate) progress: &'p Progress,
    pub(crate) table: &'p Table,
    /// Until when rows are written anew.
    pub(crate) rewriting: Deadline,
}

impl Planner<'_> {
    /// Decides about `deliveries`, all of which are for the table.
    pub(crate) async fn plan<'a>(&self, deliveries: &'a [Delivery]) -> Result<Plan<'a>, TableFailure> {
        let mut plan =
            Plan { fates: Vec::new(), accepted: Vec::new(), settled_records: Vec::new(), rounds: Vec::new() };
        for (source, deliveries) in by_source(deliveries) {
            let changed = plan.rounds.iter().filter(|round| round.is_changed());
            let landing: Vec<Source> = changed.map(|round| round.ledger().id().source.clone()).collect();
            let mut open = Vec::new();
            for delivery in deliveries {
                match fit(self.table, delivery, self.clusters, &landing) {
                    Ok(files) => open.push((delivery, files)),
                    Err((reason, detail)) => plan.fates.push((delivery, Fate::Quarantine(reason, detail))),
                }
            }
            if !open.is_empty() {
                self.decide(&mut plan, source, open).await?;
            }
        }
        Ok(plan)
    }

    async fn decide<'a>(
        &self,
        plan: &mut Plan<'a>,
        source: &Source,
        deliveries: Vec<(&'a Delivery, Option<FileGroup>)>,
    ) -> Result<(), TableFailure> {
        let ledger = self.table.ledger(source, self.ledgers).await?;
        let wanted = Wanted::of(deliveries.iter().map(|(delivery, _)| &delivery.batch));
        let (held, read) = self.ledgers.look_up(&ledger, &wanted).await?;
        self.ports.metrics.ledger_objects_read(&self.table.name, read);
        let id = ledger.id().clone();
        let mut round = Round::new(ledger, held).map_err(LedgerStoreError::from)?;
        self.progress.clear(&mut round, &id).map_err(LedgerStoreError::from)?;
        for (delivery, files) in deliveries {
            let fate = self.fate(plan, &mut round, delivery, files).await?;
            plan.fates.push((delivery, fate));
        }
        plan.rounds.push(round);
        Ok(())
    }

    async fn fate<'a>(
        &self,
        plan: &mut Plan<'a>,
        round: &mut Round,
        delivery: &'a Delivery,
        files: Option<FileGroup>,
    ) -> Result<Fate, TableFailure> {
        let batch = &delivery.batch;
        Ok(match decide(round, delivery).map_err(LedgerStoreError::from)? {
            Verdict::Commit if is(Mutation::FreeDropped) => Fate::Settled,
            Verdict::Commit => match self.current(batch, self.is_spent(round, delivery)).await {
                Ok(Some(current)) => {
                    // Looked at before, unless they were written anew.
                    let files = match (&current, files) {
                        (Cow::Borrowed(_), Some(files)) => files,
                        _ => group_of(self.table, &current)?,
                    };
                    plan.accept(round, delivery, current, files)?;
                    Fate::Committed
                }
                Ok(None) => Fate::Later,
                Err(fault) => not_rewritten(fault)?,
            },
            Verdict::Duplicate(_) if is(Mutation::DuplicateKept) => Fate::Waits { since_ms: u64::MAX },
            Verdict::Duplicate(Evidence::Committed) => Fate::Settled,
            Verdict::Duplicate(Evidence::ThisRound) => Fate::Repeated,
            Verdict::Trim(free) => {
                let skipped = (batch.record_count() - free.len()) as u64;
                self.fate_of_trimmed(plan, round, delivery, free, Fate::Trimmed { skipped }).await?
            }
            Verdict::Discard(Discard { free, copies }) if free.is_empty() => Fate::Discarded(copies),
            Verdict::Discard(Discard { free, copies }) => {
                self.fate_of_trimmed(plan, round, delivery, free, Fate::Discarded(copies)).await?
            }
            Verdict::Quarantine(reason) => Fate::Quarantine(quarantine_of(&reason), reason.to_string()),
            Verdict::Stop(conflict) => {
                let since_ms = self.ports.clock.now().unix_ms();
                round.stop(conflict, since_ms);
                Fate::Waits { since_ms }
            }
            Verdict::Stopped(stop) => Fate::Waits { since_ms: stop.since_ms },
        })
    }

    /// Takes in the `free` records of a delivery, whose fate is `accepted` then.
    async fn fate_of_trimmed(
        &self,
        plan: &mut Plan<'_>,
        round: &mut Round,
        delivery: &Delivery,
        free: Free,
        accepted: Fate,
    ) -> Result<Fate, TableFailure> {
        match self.trim(&delivery.batch, free, self.is_spent(round, delivery)).await {
            Ok(Some(trimmed)) => {
                let files = group_of(self.table, &trimmed)?;
                plan.accept(round, delivery, Cow::Owned(trimmed), files)?;
                Ok(accepted)
            }
            Ok(None) => Ok(Fate::Later),
            Err(fault) => not_rewritten(fault),
        }
    }

    /// Whether a delivery's own files can't be committed any more: they are old, of a dropped schema or spec, or a snapshot
    /// may have named them before. That one may have been rolled back and its records freed by a rewind; its expiry
    /// removes the files that it added, as Iceberg's libraries do it for snapshots outside the branch's history.
    fn is_spent(&self, round: &Round, Delivery { batch, message, .. }: &Delivery) -> bool {
        let may_be_named =
            round.ledger().last_rewind().is_some() && message.receive_count > 1 && !batch.files.is_empty();
        may_be_named || is_stale(&self.table.metadata, batch, self.ports.clock.now())
    }

    /// The batch manifest with files that can be committed: its own, or new ones, if there is time to write them.
    async fn current<'a>(
        &self,
        batch: &'a BatchManifest,
        is_spent: bool,
    ) -> Result<Option<Cow<'a, BatchManifest>>, RewriteError> {
        let (metadata, now) = (&self.table.metadata, self.ports.clock.now());
        if !is_spent {
            return Ok(Some(Cow::Borrowed(batch)));
        }
        if let Some(renewed) = self.renewals.of(metadata, batch, None, now) {
            return Ok(Some(Cow::Owned(renewed)));
        }
        if self.rewriting.is_over(now) {
            return Ok(None);
        }
        let renewed = self.rewriter().renew(batch, None).await?;
        self.tell_renewed(batch);
        self.renewals.keep(batch.id, None, renewed.clone());
        Ok(Some(Cow::Owned(renewed)))
    }

    fn rewriter(&self) -> Rewriter<'_> {
        let Ports { tables, ops, clock, entropy, .. } = self.ports;
        Rewriter {
            tables: tables.as_ref(),
            ops,
            clock: clock.as_ref(),
            entropy: entropy.as_ref(),
            metadata: &self.table.metadata,
        }
    }

    fn tell_renewed(&self, batch: &BatchManifest) {
        self.ports.metrics.batch_renewed(&self.table.name);
        warn!(table = %self.table.name, batch = %batch.id, made_at_ms = batch.made_at_ms, "its files were written anew: they are old, of a schema or partition spec that the table has dropped, or a snapshot that was rolled back may have named them");
    }

    /// The batch manifest with files of its `free` records, if there is time to write them.
    async fn trim(
        &self,
        batch: &BatchManifest,
        free: Free,
        is_spent: bool,
    ) -> Result<Option<BatchManifest>, RewriteError> {
        let (metadata, now) = (&self.table.metadata, self.ports.clock.now());
        if let Some(trimmed) = self.renewals.of(metadata, batch, Some(&free), now) {
            return Ok(Some(trimmed));
        }
        if self.rewriting.is_over(now) {
            return Ok(None);
        }
        let trimmed = if is_spent {
            self.tell_renewed(batch);
            self.rewriter().renew(batch, Some(&free)).await?
        } else {
            self.rewriter().trim(batch, &free).await?
        };
        info!(table = %self.table.name, batch = %batch.id, free = free.len(), of = batch.record_count(), "trimmed to the records that are not settled yet");
        self.renewals.keep(batch.id, Some(free), trimmed.clone());
        Ok(Some(trimmed))
    }
}

/// What the ledger says about a delivery, by why it came.
fn decide(round: &Round, delivery: &Delivery) -> Result<Verdict, LedgerError> {
    if delivery.is_replay() {
        return round.decide_replay(&delivery.batch);
    }
    round.decide_overruled(&delivery.batch, delivery.overrules())
}

/// Why what the ledger can't decide goes to quarantine.
const fn quarantine_of(reason: &icefall_ledger::Reason) -> Reason {
    match reason {
        icefall_ledger::Reason::OtherTable { .. } => Reason::AnotherTable,
        icefall_ledger::Reason::OtherEncoding { .. } => Reason::AnotherEncoding,
        icefall_ledger::Reason::NoDeadLetter { .. } => Reason::NoDeadLetter,
        icefall_ledger::Reason::UnnamedCluster { .. } => Reason::AnotherCluster,
    }
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

/// The files of a batch manifest as the table's own, none if they have to be written anew first; or why it can't
/// be decided for this table at all. Sources that are `landing` in the same commit count as held.
fn fit(
    table: &Table,
    delivery: &Delivery,
    clusters: &[ClusterName],
    landing: &[Source],
) -> Result<Option<FileGroup>, (Reason, String)> {
    let batch = &delivery.batch;
    if batch.table_uuid != table.uuid() && !is(Mutation::UuidIgnored) {
        let detail = format!(
            "its files were written for table {}, the table of that name is {} now",
            batch.table_uuid,
            table.uuid()
        );
        return Err((Reason::AnotherTable, detail));
    }
    if let Some(path) = batch.file_outside(table.metadata.location()) {
        let detail = format!("{path} is outside {}", table.metadata.location());
        return Err((Reason::FileOutside, detail));
    }
    let files = match group_of(table, batch) {
        Ok(files) => Some(files),
        Err(AppendError::NoSchema(_) | AppendError::NoSpec(_)) => None,
        Err(fault) => return Err((Reason::BadMetrics, fault.to_string())),
    };
    if delivery.overrules_reason(Reason::AnotherCluster) || is(Mutation::ClusterIgnored) {
        return Ok(files);
    }
    match table.unnamed_twin(&batch.source, clusters, landing) {
        Some(twin) => Err((Reason::AnotherCluster, format!("the table holds this topic as {twin}"))),
        None => Ok(files),
    }
}

/// What is wrong with a file for good makes its batch manifest a person's business. What the store says of one file alone
/// holds up one batch manifest: one that is gone may look like one that may not be read. All else concerns the others too.
fn not_rewritten(fault: RewriteError) -> Result<Fate, TableFailure> {
    match fault {
        RewriteError::Damaged { .. } if is(Mutation::GoneFileDropped) => Ok(Fate::Settled),
        fault @ RewriteError::Damaged { .. } => Ok(Fate::Quarantine(Reason::FileDamaged, chain(&fault))),
        fault @ RewriteError::Store(StoreError::Denied { .. } | StoreError::Rejected { .. }) => {
            Ok(Fate::HeldUp(chain(&fault)))
        }
        fault => Err(fault.into()),
    }
}

impl<'a> Plan<'a> {
    /// Whether there is anything to commit.
    pub(crate) fn is_changed(&self) -> bool {
        self.rounds.iter().any(Round::is_changed)
    }

    /// How many records each batch manifest has that the plan's commit settles.
    pub(crate) fn settled_records(&self) -> impl Iterator<Item = u64> {
        self.settled_records.iter().copied()
    }

    /// What the commit of `mark` consists of; the fates are kept.
    pub(crate) fn settle(&mut self, mark: SnapshotMark) -> Result<Settlement, TableFailure> {
        let changed = std::mem::take(&mut self.rounds).into_iter().filter(Round::is_changed);
        let results = changed.map(|round| round.finish(mark));
        let accepted = std::mem::take(&mut self.accepted);
        self.settled_records = accepted.iter().map(|(batch, _)| batch.record_count() as u64).collect();
        Ok(Settlement {
            results: results.collect::<Result<_, _>>().map_err(LedgerStoreError::from)?,
            batches: accepted.len(),
            newest_record_ms: accepted.iter().filter_map(|(batch, _)| batch.newest_record_ms).max(),
            groups: FileGroup::gather(accepted.into_iter().map(|(_, files)| files)),
        })
    }

    /// The messages that can go once the plan is carried out, those in quarantine aside.
    pub(crate) fn settled(&self) -> Vec<Receipt> {
        let settled = |fate: &Fate| {
            matches!(fate, Fate::Settled | Fate::Committed | Fate::Trimmed { .. } | Fate::Repeated)
        };
        let waits = |fate: &Fate| matches!(fate, Fate::Waits { .. }) && is(Mutation::StoppedAcknowledged);
        let receipts = self.fates.iter().filter(|(_, fate)| settled(fate) || waits(fate));
        receipts.map(|(delivery, _)| delivery.message.receipt.clone()).collect()
    }

    /// Takes in a batch all of whose records are free.
    fn accept(
        &mut self,
        round: &mut Round,
        delivery: &Delivery,
        batch: Cow<'a, BatchManifest>,
        files: FileGroup,
    ) -> Result<(), LedgerStoreError> {
        if delivery.is_replay() {
            round.accept_replay(&batch)?;
        } else {
            round.accept_overruled(&batch, delivery.overrules())?;
        }
        self.accepted.push((batch, files));
        Ok(())
    }
}

/// The files of one batch manifest, as the table's own.
fn group_of(table: &Table, batch: &BatchManifest) -> Result<FileGroup, AppendError> {
    let entries = batch.files.iter().map(|file| &file.data_file);
    FileGroup::new(&table.metadata, batch.schema_id, batch.spec_id, entries)
}
