//! Dead letters on their way into the dead-letter table.
//!
//! A dead letter is settled by the ledger of the table that it was meant for; the dead-letter table
//! follows in a second commit. Entries of outboxes are numbered, and that commit records how far it
//! took in each of them, so an entry is applied exactly once whatever happens in between. An outbox is
//! cleared by its table's next commit, of what a load of the dead-letter table showed to be applied.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use iceberg::TableIdent;
use iceberg::spec::{MAIN_BRANCH, TableMetadata};
use icefall_catalog::{Commit, CommitOutcome, LoadedTable, Reason, Snapshots};
use icefall_datafile::NewDataFile;
use icefall_ledger::{
    Applied, Continued, EntryNumber, Ledger, LedgerError, LedgerId, Lineage, OutboxEntry, Round, SnapshotId,
    applied_property_name,
};
use icefall_manifest::{
    Branch, DeadLetter, DeadLetterError, PipelineId, SchemaId, Source, SpecId, TableName, TableUuid,
};
use icefall_mutations::{Mutation, is};
use icefall_store::{Location, LocationError, StoreError, file_io};
use icefall_tables::{
    Append, AppendBuilder, AppendError, FileGroup, LedgerStore, LedgerStoreError, SOURCES_KEY, TableError,
    compare, has_settled, ident, is_unwritten,
};
use thiserror::Error;
use tracing::{error, info, warn};

use crate::Ports;
use crate::dead_letter_table::{self, DeadLetterRowsError};
use crate::deadline::Deadline;
use crate::failure::TableFailure;

/// Attempts at the dead-letter table in one round; what is left goes with the next.
const MAX_ATTEMPTS: u32 = 10;
/// Attempts of which the outcome is unknown: see [`crate::settle`].
const MAX_UNKNOWN: u32 = 3;

/// Dead letters in one commit, and their bytes, so that a flood of them does not outgrow the function's memory.
const MAX_LETTERS: usize = 100_000;
const MAX_BYTES: usize = 32 << 20;
/// Files of dead letters that are read at the same time.
const READS_AT_ONCE: usize = 8;

/// Why an outbox's entry can't be read.
#[derive(Debug, Error)]
pub(crate) enum EntryError {
    #[error("the file of dead letters can't be read")]
    Store(#[from] StoreError),
    #[error("the file of dead letters is damaged")]
    Zstd(#[from] std::io::Error),
    #[error("the file of dead letters is damaged")]
    Lines(#[from] DeadLetterError),
    /// What was read is not what was stored: an empty object decompresses to no dead letters without an error.
    #[error("the file of dead letters holds {found}, but {settled} were settled by it")]
    Count { found: usize, settled: u64 },
}

/// Why dead letters could not be delivered now. They stay in their outboxes.
#[derive(Debug, Error)]
pub enum DeliveryError {
    /// The table can't be loaded or committed to.
    #[error(transparent)]
    Table(#[from] TableFailure),
    /// The dead letters don't become rows of it.
    #[error(transparent)]
    Rows(#[from] DeadLetterRowsError),
    /// Its files can't be written.
    #[error("the dead-letter table's files can't be written")]
    Store(#[from] StoreError),
    /// Its location is none of this store.
    #[error("the dead-letter table lies elsewhere than in this store")]
    Location(#[from] LocationError),
}

/// How far the dead-letter table is known to have taken in the outboxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Option<Applied>);

impl Progress {
    /// Drops from the round's outbox what is known to be applied.
    pub(crate) fn clear(&self, round: &mut Round, ledger: &LedgerId) -> Result<(), LedgerError> {
        if is(Mutation::OutboxClearedEarly) {
            let next = round.ledger().outbox().next_number();
            return round.clear_outbox(EntryNumber(next.0.saturating_sub(1)));
        }
        match &self.0 {
            Some(applied) => round.clear_outbox(applied.number(ledger)),
            None => Ok(()),
        }
    }

    /// How many entries of a ledger's outbox are not known to be applied.
    pub(crate) fn waiting(&self, ledger: &Ledger) -> u64 {
        let pending = self.0.as_ref().and_then(|applied| applied.pending(ledger).ok());
        pending.map_or(ledger.outbox().entries(), |pending| pending.entries).len() as u64
    }
}

/// The dead-letter table of a pipeline.
#[derive(Debug)]
pub(crate) struct Outboxes<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) ledgers: &'a LedgerStore,
    pub(crate) pipeline: &'a PipelineId,
    pub(crate) table: &'a TableName,
    pub(crate) deadline: Deadline,
}

/// Letters that one commit takes in, and up to which entry of each outbox.
#[derive(Default)]
struct Mail {
    letters: Vec<DeadLetter>,
    bytes: usize,
    through: BTreeMap<LedgerId, EntryNumber>,
}

impl Mail {
    fn add(&mut self, Letters { letters, bytes }: Letters) {
        self.letters.extend(letters);
        self.bytes += bytes;
    }

    fn is_full(&self) -> bool {
        self.letters.len() >= MAX_LETTERS || self.bytes >= MAX_BYTES
    }
}

/// The dead letters of one file, and how large they are.
struct Letters {
    letters: Vec<DeadLetter>,
    bytes: usize,
}

impl Outboxes<'_> {
    /// Reads how far the dead-letter table is.
    pub(crate) async fn progress(&self) -> Result<Progress, DeliveryError> {
        let work = async {
            let (_, applied) = self.load().await?;
            Ok(Progress(Some(applied)))
        };
        self.hold(work).await
    }

    /// Delivers what waits in the outboxes of `ledgers`, as much of it as goes into one commit.
    pub(crate) async fn deliver(&self, ledgers: &[Ledger]) -> Result<Progress, DeliveryError> {
        self.hold(self.attempts(ledgers)).await
    }

    async fn hold(
        &self,
        work: impl Future<Output = Result<Progress, DeliveryError>> + Send,
    ) -> Result<Progress, DeliveryError> {
        let out_of_time = |_| Err(TableFailure::OutOfTime.into());
        self.deadline.hold(self.ports.clock.as_ref(), work).await.unwrap_or_else(out_of_time)
    }

    async fn attempts(&self, ledgers: &[Ledger]) -> Result<Progress, DeliveryError> {
        let (mut last, mut unknown) = (String::new(), 0);
        for attempt in 1..=MAX_ATTEMPTS {
            let (loaded, mut applied) = self.load().await?;
            let mail = self.collect(ledgers, &applied).await;
            if mail.through.is_empty() {
                return Ok(Progress(Some(applied)));
            }
            for (ledger, number) in mail.through.iter().filter(|_| !is(Mutation::AppliedUnrecorded)) {
                applied.advance(ledger, *number).map_err(ledger_failure)?;
            }
            let commit = self.build(&loaded, &applied, &mail.letters, attempt == 1).await?;
            match self.ports.catalog.commit(&self.ident()?, &commit).await {
                CommitOutcome::Committed(after) => {
                    return self.delivered(&after.metadata, mail.letters.len()).await;
                }
                CommitOutcome::Unknown(_) if is(Mutation::DeliveryAssumed) => {
                    return Ok(Progress(Some(applied)));
                }
                CommitOutcome::Conflict(reason) => {
                    self.ports.metrics.commit_conflict(self.table);
                    last = self.begin_anew(attempt, &reason);
                }
                CommitOutcome::Unknown(reason) => {
                    self.ports.metrics.commit_unknown(self.table);
                    last = self.begin_anew(attempt, &reason);
                    unknown += 1;
                }
                refused => return Err(TableFailure::refused(&refused).into()),
            }
            if unknown == MAX_UNKNOWN {
                return Err(TableFailure::NotSettled { attempts: attempt, last }.into());
            }
        }
        Err(TableFailure::NotSettled { attempts: MAX_ATTEMPTS, last }.into())
    }

    fn begin_anew(&self, attempt: u32, reason: &Reason) -> String {
        warn!(table = %self.table, attempt, %reason, "the dead letters' commit is built anew");
        reason.to_string()
    }

    async fn delivered(&self, metadata: &TableMetadata, count: usize) -> Result<Progress, DeliveryError> {
        self.register(metadata).await?;
        self.ports.metrics.dead_letters_committed(count as u64);
        info!(table = %self.table, count, "dead letters committed");
        Ok(Progress(Some(self.applied_in(metadata)?)))
    }

    fn ident(&self) -> Result<TableIdent, TableFailure> {
        Ok(ident(self.table)?)
    }

    /// The table, and how far it is. What it says of that is doubted like any ledger: by an old value, or by that of
    /// another history, entries would be applied a second time.
    async fn load(&self) -> Result<(LoadedTable, Applied), TableFailure> {
        let loaded = self.load_with(Snapshots::Refs).await?;
        let applied = self.applied_in(&loaded.metadata)?;
        let id = self.register_id(&loaded.metadata)?;
        // Where nothing is said yet, earlier snapshots are asked, which may stand beside the branch.
        let says = applied.last_snapshot().is_some() || is_unwritten(&loaded.metadata);
        if says && self.ledgers.is_compared(&id, applied.last_snapshot(), head(&loaded.metadata)) {
            self.check_there(&loaded.metadata, &applied, &id).await?;
            return Ok((loaded, applied));
        }
        let loaded = self.load_with(Snapshots::All).await?;
        let applied = self.applied_in(&loaded.metadata)?;
        let id = self.register_id(&loaded.metadata)?;
        self.check_there(&loaded.metadata, &applied, &id).await?;
        self.check_lineage(&loaded.metadata, &applied, &id)?;
        self.ledgers.remember_compared(&id, applied.last_snapshot(), head(&loaded.metadata));
        Ok((loaded, applied))
    }

    async fn load_with(&self, snapshots: Snapshots) -> Result<LoadedTable, TableFailure> {
        Ok(self.ports.catalog.load_table(&self.ident()?, snapshots).await?)
    }

    /// A property that has gone missing is not begun anew.
    async fn check_there(
        &self,
        metadata: &TableMetadata,
        applied: &Applied,
        id: &LedgerId,
    ) -> Result<(), TableFailure> {
        if applied.last_snapshot().is_some() {
            return Ok(());
        }
        if has_settled(metadata, &id.branch, &id.source) || self.ledgers.is_registered(id).await? {
            return Err(TableError::LedgerMissing(Box::new(id.clone())).into());
        }
        Ok(())
    }

    fn check_lineage(
        &self,
        metadata: &TableMetadata,
        applied: &Applied,
        id: &LedgerId,
    ) -> Result<(), TableFailure> {
        let found = Continued { last: applied.last_snapshot(), rewind: None };
        let lineage = compare(metadata, id, found)
            .map_err(|fault| TableError::Lineage { ledger: Box::new(id.clone()), fault })?;
        if let Lineage::RolledBack { to } = lineage {
            warn!(table = %self.table, snapshot = %to.id, "the dead-letter table was rolled back; the dead letters that went with it do not come again");
        }
        Ok(())
    }

    fn applied_in(&self, metadata: &TableMetadata) -> Result<Applied, TableFailure> {
        let uuid = TableUuid(metadata.uuid());
        match metadata.properties().get(&applied_property_name(self.pipeline)) {
            Some(value) => Applied::read(self.pipeline.clone(), value, uuid).map_err(ledger_failure),
            None => Ok(Applied::new(self.pipeline.clone(), uuid, Branch::main())),
        }
    }

    async fn register(&self, metadata: &TableMetadata) -> Result<(), TableFailure> {
        let id = self.register_id(metadata)?;
        Ok(self.ledgers.register(&id, &self.table.to_string()).await?)
    }

    /// The register's entry of the dead-letter table: no Kafka topic, but named like one.
    fn register_id(&self, metadata: &TableMetadata) -> Result<LedgerId, TableFailure> {
        let name = |text: &str| text.try_into().map_err(TableFailure::Register);
        let source = Source {
            pipeline: self.pipeline.clone(),
            cluster: "icefall".try_into().map_err(TableFailure::Register)?,
            topic: name("outbox")?,
        };
        Ok(LedgerId { table_uuid: TableUuid(metadata.uuid()), branch: Branch::main(), source })
    }

    /// Reads what waits, as much as goes into one commit and there is time for. An entry that can't be read holds back
    /// the later ones of its ledger.
    async fn collect(&self, ledgers: &[Ledger], applied: &Applied) -> Mail {
        let reading = self.deadline.half(self.ports.clock.now());
        let mut mail = Mail::default();
        for ledger in ledgers {
            let reads =
                pending(ledger, applied).iter().map(|entry| async move { (entry, self.read(entry).await) });
            // Collected first: a stream that holds the closure itself is not known to be `Send`.
            let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffered(READS_AT_ONCE);
            while let Some((entry, read)) = reads.next().await {
                match read {
                    Ok(letters) => mail.add(letters),
                    Err(fault) => {
                        error!(ledger = %ledger.id(), key = entry.key, error = &fault as &dyn std::error::Error, "dead letters can't be read; they and the later ones of this table wait");
                        if !is(Mutation::UnreadableLettersPassed) {
                            break;
                        }
                    }
                }
                mail.through.insert(ledger.id().clone(), entry.number);
                if mail.is_full() || reading.is_over(self.ports.clock.now()) {
                    return mail;
                }
            }
        }
        mail
    }

    async fn read(&self, entry: &OutboxEntry) -> Result<Letters, EntryError> {
        let body = self.ports.ops.read(&entry.key).await?;
        let text = zstd::decode_all(body.as_ref())?;
        let letters = DeadLetter::decode_lines(&text)?;
        let settled = entry.spans.iter().map(|span| span.count).sum();
        if letters.len() as u64 == settled {
            return Ok(Letters { letters, bytes: text.len() });
        }
        Err(EntryError::Count { found: letters.len(), settled })
    }

    async fn build(
        &self,
        loaded: &LoadedTable,
        applied: &Applied,
        letters: &[DeadLetter],
        may_merge: bool,
    ) -> Result<Commit, DeliveryError> {
        let Ports { clock, entropy, tables, .. } = self.ports;
        let LoadedTable { metadata, references, .. } = loaded;
        let name = || entropy.uuid_at(clock.now()).to_string();
        let files = dead_letter_table::files(metadata, letters, name)?;
        let mut entries = Vec::new();
        for NewDataFile { entry, bytes, .. } in files {
            tables.put(&Location::parse(&entry.path)?, bytes).await?;
            entries.push(entry);
        }
        let file_io = file_io(Arc::clone(tables));
        let builder = AppendBuilder::new(metadata, references, &file_io, clock.as_ref(), entropy.as_ref());
        let builder = builder.map_err(append_failure)?;
        let key = builder.next_key();
        let property = applied.property(key.into()).map_err(ledger_failure)?;
        let (schema_id, spec_id) = (metadata.current_schema_id(), metadata.default_partition_spec_id());
        let group = FileGroup::new(metadata, SchemaId(schema_id), SpecId(spec_id), entries.iter());
        let append = Append {
            branch: Branch::main(),
            groups: vec![group.map_err(append_failure)?],
            may_merge,
            properties: HashMap::from([property]),
            summary: BTreeMap::from([
                (SOURCES_KEY.to_owned(), self.register_id(metadata)?.source.to_string()),
                ("icefall.dead-letters".to_owned(), letters.len().to_string()),
            ]),
        };
        Ok(builder.build(&append, key).await.map_err(append_failure)?)
    }
}

fn head(metadata: &TableMetadata) -> Option<SnapshotId> {
    metadata.snapshot_for_ref(MAIN_BRANCH).map(|head| SnapshotId(head.snapshot_id()))
}

/// What of a ledger's outbox the dead-letter table lacks.
fn pending<'a>(ledger: &'a Ledger, applied: &Applied) -> &'a [OutboxEntry] {
    let pending = match applied.pending(ledger) {
        Ok(pending) => pending,
        Err(behind @ LedgerError::OutboxBehind { .. }) => {
            // The ledger was loaded before the dead-letter table, so another committer may simply have gone on in
            // between. One that is truly behind fails its table's next attempt, whose load follows that of the
            // dead-letter table.
            warn!(ledger = %ledger.id(), %behind, "the dead-letter table is ahead of the ledger as it was loaded; its outbox is looked at again in the next round");
            return &[];
        }
        Err(fault) => {
            error!(ledger = %ledger.id(), error = &fault as &dyn std::error::Error, "the outbox is held back");
            return &[];
        }
    };
    if let Some(missing) = pending.missing_through {
        warn!(ledger = %ledger.id(), through = missing.0, "the dead-letter table lacks entries that were cleared: is it another table than before?");
    }
    pending.entries
}

fn ledger_failure(error: LedgerError) -> TableFailure {
    LedgerStoreError::from(error).into()
}

fn append_failure(error: AppendError) -> TableFailure {
    error.into()
}
