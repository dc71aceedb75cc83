//! Settling one table: load, decide, commit, and begin again when the answer is not clear.
//!
//! There is no special treatment of an unknown outcome. The next attempt loads the table and decides
//! by its ledger: if the lost commit did land, its records are settled there and the batch manifests
//! are duplicates; if not, they are free. Either way nothing was guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use iceberg::spec::TableMetadata;
use icefall_catalog::{Commit, CommitOutcome, LoadedTable, Reason, Snapshots};
use icefall_ledger::{Ledger, Lineage, RoundResult};
use icefall_manifest::{Branch, ClusterName, Source, TableName};
use icefall_mutations::{Mutation, is};
use icefall_store::file_io;
use icefall_tables::{Append, AppendBuilder, LedgerStore, LedgerStoreError, Table, ident, summary};
use tracing::{info, warn};

use crate::Ports;
use crate::carry_out::Settled;
use crate::deadline::Deadline;
use crate::failure::TableFailure;
use crate::inbox::Delivery;
use crate::outbox::Progress;
use crate::plan::{Plan, Planner, Settlement};
use crate::renewals::Renewals;
use crate::sweep::Sweep;

/// Attempts at one table in one round. Conflicts are rare, so more than a few in a row mean a table
/// that others commit to all the time; the next round goes on.
const MAX_ATTEMPTS: u32 = 20;
/// Attempts of which the outcome is unknown. A catalog that answers loads and no commit is failing, and
/// an invocation that waits for it settles no other table.
const MAX_UNKNOWN: u32 = 5;

const UNKNOWN: &str = "unknown";

/// The first pause between two attempts; doubled each time, half of it random.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What settling a table takes, besides the table.
#[derive(Debug)]
pub(crate) struct Settler<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) ledgers: &'a LedgerStore,
    pub(crate) renewals: &'a Renewals,
    pub(crate) clusters: &'a [ClusterName],
    pub(crate) progress: &'a Progress,
    pub(crate) sweep: Sweep,
    /// Until when tables are settled.
    pub(crate) deadline: Deadline,
    /// Until when rows are written anew.
    pub(crate) rewriting: Deadline,
}

/// How one attempt ended.
enum Attempt {
    Done(Settled),
    Again(&'static str, Reason),
}

impl Settler<'_> {
    /// Settles what was delivered for one branch of a table.
    pub(crate) async fn settle(
        &self,
        name: &TableName,
        branch: &Branch,
        deliveries: &[Delivery],
    ) -> Result<Settled, TableFailure> {
        let work = self.attempts(name, branch, deliveries);
        self.deadline.hold(self.ports.clock.as_ref(), work).await.unwrap_or(Err(TableFailure::OutOfTime))
    }

    async fn attempts(
        &self,
        name: &TableName,
        branch: &Branch,
        deliveries: &[Delivery],
    ) -> Result<Settled, TableFailure> {
        let (mut last, mut unknown) = (String::new(), 0);
        for attempt in 1..=MAX_ATTEMPTS {
            match self.attempt(name, branch, deliveries, attempt == 1).await? {
                Attempt::Done(settled) => return Ok(settled),
                Attempt::Again(outcome, reason) => {
                    warn!(table = %name, attempt, outcome, %reason, "the commit is decided anew on what the catalog shows");
                    last = format!("{outcome}: {reason}");
                    unknown += u32::from(outcome == UNKNOWN);
                }
            }
            if unknown == MAX_UNKNOWN || !self.deadline.allows_work(self.ports.clock.now()) {
                return Err(TableFailure::NotSettled { attempts: attempt, last });
            }
            self.pause(attempt).await;
        }
        Err(TableFailure::NotSettled { attempts: MAX_ATTEMPTS, last })
    }

    async fn attempt(
        &self,
        name: &TableName,
        branch: &Branch,
        deliveries: &[Delivery],
        is_first: bool,
    ) -> Result<Attempt, TableFailure> {
        let table = self.load(name, branch, deliveries).await?;
        let Self { ports, ledgers, renewals, clusters, progress, rewriting, .. } = *self;
        let planner = Planner { ports, ledgers, renewals, clusters, progress, table: &table, rewriting };
        let mut plan = planner.plan(deliveries).await?;
        if !plan.is_changed() {
            return self.carry_out(&table, &plan, false).await.map(Attempt::Done);
        }
        let commit = self.build(&table, &mut plan, is_first).await?;
        if is(Mutation::AcknowledgedBeforeCommit) {
            self.ports.queue.delete(&plan.settled()).await.ok();
        }
        let lent = renewals.lend(deliveries.iter().map(|delivery| delivery.batch.id));
        match self.ports.catalog.commit(&ident(name)?, &commit).await {
            CommitOutcome::Conflict(_) if is(Mutation::ConflictIsSuccess) => {
                self.carry_out(&table, &plan, false).await.map(Attempt::Done)
            }
            CommitOutcome::Unknown(_) if is(Mutation::UnknownIsSuccess) => {
                self.carry_out(&table, &plan, false).await.map(Attempt::Done)
            }
            CommitOutcome::Committed(after) => self.committed(table, *after, &plan).await.map(Attempt::Done),
            CommitOutcome::Conflict(reason) => {
                renewals.give_back(lent);
                self.ports.metrics.commit_conflict(name);
                Ok(Attempt::Again("conflict", reason))
            }
            CommitOutcome::Unknown(reason) => {
                self.ports.metrics.commit_unknown(name);
                Ok(Attempt::Again(UNKNOWN, reason))
            }
            refused => {
                renewals.give_back(lent);
                Err(TableFailure::refused(&refused))
            }
        }
    }

    /// The table, on a branch whose history continues the ledgers that the deliveries ask for. Most branches' newest
    /// snapshot is the ledger's own; otherwise, and for a source that is new, all snapshots are loaded and looked at.
    async fn load(
        &self,
        name: &TableName,
        branch: &Branch,
        deliveries: &[Delivery],
    ) -> Result<Table, TableFailure> {
        let table = self.open(name, branch, Snapshots::Refs).await?;
        let is_told = |delivery: &Delivery| table.tells_of(&delivery.batch.source);
        if self.doubtful(&table, deliveries).is_empty() && deliveries.iter().all(is_told) {
            return Ok(table);
        }
        let table = self.open(name, branch, Snapshots::All).await?;
        for ledger in self.doubtful(&table, deliveries) {
            if let Lineage::RolledBack { to } = table.lineage(&ledger)? {
                warn!(
                    table = %table.name,
                    source = %ledger.id().source,
                    snapshot = %to.id,
                    "the branch was rolled back; what went with it stays settled, and `icefall ledger rewind` brings it back"
                );
            }
            self.ledgers.remember_compared(ledger.id(), ledger.last_snapshot(), table.head());
        }
        Ok(table)
    }

    async fn open(
        &self,
        name: &TableName,
        branch: &Branch,
        snapshots: Snapshots,
    ) -> Result<Table, TableFailure> {
        let loaded = self.ports.catalog.load_table(&ident(name)?, snapshots).await?;
        Ok(Table::open(name.clone(), branch.clone(), loaded).map_err(LedgerStoreError::from)?)
    }

    /// The ledgers that the deliveries ask for and that are not known to be continued by the branch. What can't be
    /// read is told when it is decided by.
    fn doubtful(&self, table: &Table, deliveries: &[Delivery]) -> Vec<Ledger> {
        let sources: BTreeSet<&Source> = deliveries.iter().map(|delivery| &delivery.batch.source).collect();
        let ledgers = sources.into_iter().filter_map(|source| table.read(source)?.ok());
        let is_told =
            |ledger: &Ledger| self.ledgers.is_compared(ledger.id(), ledger.last_snapshot(), table.head());
        ledgers.filter(|ledger| !is_told(ledger)).collect()
    }

    /// Writes everything that the commit will name, in the order in which it must be durable.
    async fn build(
        &self,
        table: &Table,
        plan: &mut Plan<'_>,
        is_first: bool,
    ) -> Result<Commit, TableFailure> {
        let Ports { clock, entropy, tables, .. } = self.ports;
        let file_io = file_io(std::sync::Arc::clone(tables));
        let Table { metadata, references, .. } = table;
        let builder = AppendBuilder::new(metadata, references, &file_io, clock.as_ref(), entropy.as_ref())?;
        let key = builder.next_key();
        let mut settlement = plan.settle(key.into())?;
        let append = append(table, &mut settlement, is_first);
        for result in settlement.results {
            let put = self.ledgers.put(result.objects).await;
            put.or_else(|fault| if is(Mutation::SegmentUnsure) { Ok(()) } else { Err(fault) })?;
            self.ledgers.remember_tail(result.ledger.id(), result.tail);
        }
        Ok(builder.build(&append, key).await?)
    }

    async fn committed(
        &self,
        table: Table,
        after: LoadedTable,
        plan: &Plan<'_>,
    ) -> Result<Settled, TableFailure> {
        let Table { name, branch, .. } = table;
        let table = Table::open(name, branch, after).map_err(LedgerStoreError::from)?;
        info!(table = %table.name, snapshot = head(&table.metadata, &table.branch), "committed");
        self.ports.metrics.snapshot_committed(&table.name);
        plan.settled_records().for_each(|records| self.ports.metrics.batch_committed(&table.name, records));
        self.carry_out(&table, plan, true).await
    }

    async fn pause(&self, attempt: u32) {
        let longest = FIRST_PAUSE.saturating_mul(1 << attempt.min(10)).min(LONGEST_PAUSE);
        let half = longest / 2;
        let random = u32::try_from(self.ports.entropy.bits() % 1_000).unwrap_or(0);
        self.ports.clock.sleep(half + half * random / 1_000).await;
    }
}

fn append(table: &Table, settlement: &mut Settlement, may_merge: bool) -> Append {
    let groups = std::mem::take(&mut settlement.groups);
    let properties = settlement.results.iter();
    Append {
        branch: table.branch.clone(),
        groups,
        may_merge,
        properties: properties
            .map(|result| (result.property_name.clone(), result.property_value.clone()))
            .collect(),
        summary: summary_of(settlement),
    }
}

fn summary_of(settlement: &Settlement) -> BTreeMap<String, String> {
    let Settlement { results, batches, newest_record_ms, .. } = settlement;
    let count = |of: fn(&RoundResult) -> usize| results.iter().map(of).sum();
    let records = [count(|result| result.rows), count(|result| result.dead_letters)];
    summary(results.iter().map(|result| &result.ledger), records, *batches, *newest_record_ms)
}

fn head(metadata: &TableMetadata, branch: &Branch) -> i64 {
    metadata.snapshot_for_ref(branch.as_str()).map_or(-1, |snapshot| snapshot.snapshot_id())
}
