//! Rows of a batch manifest's files into new files, each traced to its record.

use std::collections::BTreeMap;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use bytes::Bytes;
use iceberg::spec::{PartitionSpecRef, SchemaRef, TableMetadata};
use icefall_clock::{Clock, Entropy};
use icefall_datafile::{Columns, FileFormat, NewDataFile, check_whole, read, read_as};
use icefall_ledger::{Free, Rows};
use icefall_manifest::{
    BatchFile, BatchManifest, DeadLetter, DeadLetterFile, RecordId, RecordList, SchemaId, SpecId, TableUuid,
};
use icefall_mutations::{Mutation, is};
use icefall_store::{Location, ObjectStore, OpsBucket, StoreError};

use crate::damage::{Damage, RewriteError, damaged};

/// What rewriting takes, besides the batch manifest.
#[derive(Clone, Copy, Debug)]
pub struct Rewriter<'a> {
    /// The store that the tables live in.
    pub tables: &'a dyn ObjectStore,
    /// Icefall's own bucket.
    pub ops: &'a OpsBucket,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Randomness.
    pub entropy: &'a dyn Entropy,
    /// The table as it was loaded.
    pub metadata: &'a TableMetadata,
}

/// Copies of data files in the ops bucket: the file's path, and the copy's key.
pub type FileCopies = BTreeMap<String, String>;

impl Rewriter<'_> {
    /// The parts of `batch` that are free. Files that lose no row stay as they are.
    pub async fn trim(&self, batch: &BatchManifest, free: &Free) -> Result<BatchManifest, RewriteError> {
        self.job(batch, Keep::Whole)?.run(batch, Some(free)).await
    }

    /// The parts of `batch` that are free, or all of it, in new files alone: of the schema and spec that it
    /// was written with where the table still has both, of the present ones where it has not.
    pub async fn renew(
        &self,
        batch: &BatchManifest,
        free: Option<&Free>,
    ) -> Result<BatchManifest, RewriteError> {
        let renewed = self.job(batch, Keep::None)?.run(batch, free).await?;
        Ok(BatchManifest { made_at_ms: self.clock.now().unix_ms(), ..renewed })
    }

    /// All of `batch`, read from `copies` where there is one, in new files of the table as it is today,
    /// whichever table it was written for. Another table's columns become those of the same names, as the records' own
    /// fields would.
    pub async fn adopt(
        &self,
        batch: &BatchManifest,
        copies: &FileCopies,
    ) -> Result<BatchManifest, RewriteError> {
        let is_own = batch.table_uuid == TableUuid(self.metadata.uuid());
        let told = if is_own { Columns::ById } else { Columns::ByName };
        let adopted = self.today(told, Keep::None, copies.clone())?.run(batch, None).await?;
        Ok(BatchManifest { made_at_ms: self.clock.now().unix_ms(), ..adopted })
    }

    fn job(&self, batch: &BatchManifest, keep: Keep) -> Result<Job<'_>, RewriteError> {
        let schema = self.metadata.schema_by_id(batch.schema_id.0);
        let spec = self.metadata.partition_spec_by_id(batch.spec_id.0);
        match (schema, spec) {
            (Some(schema), Some(spec)) => {
                self.target(schema, spec, Source::AsWritten, keep, FileCopies::new())
            }
            _ => self.today(Columns::ById, keep, FileCopies::new()),
        }
    }

    fn today(&self, told: Columns, keep: Keep, copies: FileCopies) -> Result<Job<'_>, RewriteError> {
        let (schema, spec) = (self.metadata.current_schema(), self.metadata.default_partition_spec());
        self.target(schema, spec, Source::Other(told), keep, copies)
    }

    fn target(
        &self,
        schema: &SchemaRef,
        spec: &PartitionSpecRef,
        source: Source,
        keep: Keep,
        copies: FileCopies,
    ) -> Result<Job<'_>, RewriteError> {
        let format = FileFormat::new(schema, spec, self.metadata.properties())?;
        Ok(Job {
            parts: *self,
            schema: SchemaRef::clone(schema),
            spec_id: spec.spec_id(),
            source,
            keep,
            copies,
            format,
        })
    }
}

/// Which files stay as they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Keep {
    /// Those all of whose rows stay.
    Whole,
    /// None.
    None,
}

/// What the files that are read are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// Of the very schema that is written.
    AsWritten,
    /// Of some other one.
    Other(Columns),
}

struct Job<'a> {
    parts: Rewriter<'a>,
    schema: SchemaRef,
    spec_id: i32,
    source: Source,
    keep: Keep,
    copies: FileCopies,
    format: FileFormat,
}

impl Job<'_> {
    async fn run(&self, batch: &BatchManifest, free: Option<&Free>) -> Result<BatchManifest, RewriteError> {
        let mut rest = BatchManifest {
            files: Vec::new(),
            dead_letters: None,
            table_uuid: TableUuid(self.parts.metadata.uuid()),
            schema_id: SchemaId(self.schema.schema_id()),
            spec_id: SpecId(self.spec_id),
            ..batch.clone()
        };
        for (index, file) in batch.files.iter().enumerate() {
            let rows = free.and_then(|free| free.files.get(index));
            rest.files.extend(self.file(file, rows).await?);
        }
        if let Some(letters) = &batch.dead_letters {
            rest.dead_letters = match free {
                None => Some(letters.clone()),
                Some(_) if is(Mutation::TrimDropsLetters) => None,
                Some(free) => self.dead_letters(batch, letters, &free.dead_letters).await?,
            };
        }
        Ok(rest)
    }

    /// `rows` of a file; all of them if none are named.
    async fn file(&self, file: &BatchFile, rows: Option<&Rows>) -> Result<Vec<BatchFile>, RewriteError> {
        let rows = rows.filter(|rows| !rows.is_all());
        if rows.is_some_and(Rows::is_empty) {
            return Ok(Vec::new());
        }
        if rows.is_none() && self.keep == Keep::Whole {
            return Ok(vec![file.clone()]);
        }
        let path = &file.data_file.path;
        let bytes = self.bytes(path).await?;
        check_whole(&bytes, &file.data_file).map_err(|fault| damaged(path, fault))?;
        let found = self.read(path, bytes)?;
        same_count(found.num_rows(), file.records.len()).map_err(|fault| damaged(path, fault))?;
        let (chosen, kept): (RecordBatch, Vec<RecordId>) = match rows {
            None => (found, file.records.iter().collect()),
            Some(rows) => {
                let chosen = choose(&found, rows).map_err(|fault| damaged(path, fault))?;
                (chosen, rows.select(&file.records).iter().collect())
            }
        };
        self.write(path, &chosen, &kept).await
    }

    async fn bytes(&self, path: &str) -> Result<Bytes, RewriteError> {
        if let Some(key) = self.copies.get(path) {
            return get(key, self.parts.ops.read(key).await);
        }
        let location = Location::parse(path).map_err(|fault| damaged(path, fault))?;
        get(path, self.parts.tables.get(&location).await)
    }

    fn read(&self, path: &str, bytes: Bytes) -> Result<RecordBatch, RewriteError> {
        match self.source {
            Source::AsWritten => read(bytes, &self.schema).map_err(|fault| damaged(path, fault)),
            Source::Other(told) => read_as(bytes, &self.schema, told).map_err(|fault| damaged(path, fault)),
        }
    }

    async fn write(
        &self,
        old: &str,
        rows: &RecordBatch,
        records: &[RecordId],
    ) -> Result<Vec<BatchFile>, RewriteError> {
        let Rewriter { tables, clock, entropy, metadata, .. } = self.parts;
        let name = || entropy.uuid_at(clock.now()).to_string();
        let files = self.format.write(rows, metadata.location(), name);
        let mut written = Vec::new();
        for NewDataFile { entry, bytes, rows } in files.map_err(|fault| damaged(old, fault))? {
            let location = Location::parse(&entry.path).map_err(|fault| damaged(old, fault))?;
            tables.put(&location, bytes).await?;
            let records: RecordList =
                rows.iter().filter_map(|row| records.get(*row as usize)).copied().collect();
            written.push(BatchFile { data_file: entry, records });
        }
        Ok(written)
    }

    async fn dead_letters(
        &self,
        batch: &BatchManifest,
        file: &DeadLetterFile,
        rows: &Rows,
    ) -> Result<Option<DeadLetterFile>, RewriteError> {
        if rows.is_all() {
            return Ok(Some(file.clone()));
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let (key, Rewriter { ops, clock, entropy, .. }) = (&file.key, self.parts);
        let bytes = get(key, ops.read(key).await)?;
        let body = chosen_letters(&bytes, rows, file.records.len()).map_err(|fault| damaged(key, fault))?;
        let id = entropy.uuid_at(clock.now());
        let key = ops.put_dead_letters(batch.table_uuid, id, body.into()).await?;
        Ok(Some(DeadLetterFile { key, records: rows.select(&file.records) }))
    }
}

/// A file that is gone is a person's business; one that can't be read now is read later.
fn get<T>(name: &str, answer: Result<T, StoreError>) -> Result<T, RewriteError> {
    answer.map_err(|fault| match fault {
        StoreError::NotFound { .. } => damaged(name, Damage::Gone(fault)),
        other => other.into(),
    })
}

fn choose(rows: &RecordBatch, chosen: &Rows) -> Result<RecordBatch, Damage> {
    let mut mask = vec![is(Mutation::TrimInverted); rows.num_rows()];
    for range in chosen.ranges() {
        mask.iter_mut().take(range.end).skip(range.start).for_each(|row| *row = !*row);
    }
    Ok(filter_record_batch(rows, &BooleanArray::from(mask))?)
}

fn chosen_letters(file: &[u8], chosen: &Rows, records: usize) -> Result<Vec<u8>, Damage> {
    let letters = DeadLetter::decode_lines(&zstd::decode_all(file)?)?;
    same_count(letters.len(), records)?;
    let kept = chosen.ranges().iter().filter_map(|range| letters.get(range.clone()));
    let kept: Vec<DeadLetter> = kept.flatten().cloned().collect();
    Ok(zstd::encode_all(DeadLetter::encode_lines(&kept)?.as_slice(), 1)?)
}

fn same_count(rows: usize, records: usize) -> Result<(), Damage> {
    if rows == records { Ok(()) } else { Err(Damage::RowsDiffer { rows, records }) }
}
