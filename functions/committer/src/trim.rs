//! A batch manifest without the records that are settled already.
//!
//! A batch that comes again with other boundaries holds records that the table has beside others that
//! it lacks. Its files are written anew with the free rows alone, under new names; the old ones stay
//! where they are and no snapshot will name them.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use iceberg::spec::SchemaRef;
use icefall_datafile::{DataFileError, FileFormat, NewDataFile, UnsupportedTable, read_back};
use icefall_ledger::{Free, Rows};
use icefall_manifest::{
    BatchFile, BatchManifest, DeadLetter, DeadLetterError, DeadLetterFile, RecordId, RecordList,
};
use icefall_store::{Location, LocationError, StoreError};
use thiserror::Error;

use crate::Ports;
use crate::table::Table;

/// Why a batch manifest can't be trimmed.
#[derive(Debug, Error)]
pub enum TrimError {
    /// One of its files is gone or unreadable for good: a person decides.
    #[error("{file} can't be rewritten")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: Damage,
    },
    /// The store can't be reached at present.
    #[error("the files can't be rewritten now")]
    Store(#[from] StoreError),
    /// The table can't be written.
    #[error("the files can't be rewritten")]
    Table(#[from] UnsupportedTable),
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum Damage {
    /// It is not there any more.
    #[error("the file is gone")]
    Gone(#[source] StoreError),
    /// Its name is none of this store.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// It is not the data file that the batch manifest describes.
    #[error(transparent)]
    Rows(#[from] DataFileError),
    /// Its rows can't be chosen.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// It does not decompress.
    #[error(transparent)]
    Zstd(#[from] std::io::Error),
    /// It holds no dead letters.
    #[error(transparent)]
    Lines(#[from] DeadLetterError),
    /// It can't be written again.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has more or fewer rows than records are named for it.
    #[error("it has {rows} rows, but {records} records are named for it")]
    RowsDiffer {
        /// Rows found.
        rows: usize,
        /// Records named.
        records: usize,
    },
}

/// The parts of `batch` that are free, in files of their own.
pub(crate) async fn trim(
    ports: &Ports,
    table: &Table,
    batch: &BatchManifest,
    free: &Free,
) -> Result<BatchManifest, TrimError> {
    let metadata = &table.metadata;
    // Only a batch without files may name a schema or spec that is gone; it needs neither.
    let schema = metadata.schema_by_id(batch.schema_id.0).unwrap_or_else(|| metadata.current_schema());
    let spec = metadata.partition_spec_by_id(batch.spec_id.0);
    let spec = spec.unwrap_or_else(|| metadata.default_partition_spec());
    let trimmer = Trimmer {
        ports,
        location: metadata.location(),
        schema,
        format: FileFormat::new(schema, spec, metadata.properties())?,
    };
    let mut rest = BatchManifest { files: Vec::new(), dead_letters: None, ..batch.clone() };
    for (file, rows) in batch.files.iter().zip(&free.files) {
        rest.files.extend(trimmer.file(file, rows).await?);
    }
    if let Some(letters) = &batch.dead_letters {
        rest.dead_letters = trimmer.dead_letters(batch, letters, &free.dead_letters).await?;
    }
    Ok(rest)
}

struct Trimmer<'a> {
    ports: &'a Ports,
    location: &'a str,
    schema: &'a SchemaRef,
    format: FileFormat,
}

impl Trimmer<'_> {
    async fn file(&self, file: &BatchFile, rows: &Rows) -> Result<Vec<BatchFile>, TrimError> {
        if rows.is_all() {
            return Ok(vec![file.clone()]);
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let path = &file.data_file.path;
        let location = Location::parse(path).map_err(|fault| damaged(path, fault))?;
        let bytes = get(path, self.ports.tables.get(&location).await)?;
        let kept: Vec<RecordId> = rows.select(&file.records).iter().collect();
        let chosen = read_back(bytes, &file.data_file, self.schema).map_err(|fault| damaged(path, fault))?;
        let chosen = choose(&chosen, rows, file.records.len()).map_err(|fault| damaged(path, fault))?;
        let name = || self.ports.entropy.uuid_at(self.ports.clock.now()).to_string();
        let files = self.format.write(&chosen, self.location, name).map_err(|fault| damaged(path, fault))?;
        let mut written = Vec::new();
        for NewDataFile { entry, bytes, rows } in files {
            let location = Location::parse(&entry.path).map_err(|fault| damaged(path, fault))?;
            self.ports.tables.put(&location, bytes).await?;
            let records: RecordList =
                rows.iter().filter_map(|row| kept.get(*row as usize)).copied().collect();
            written.push(BatchFile { data_file: entry, records });
        }
        Ok(written)
    }

    async fn dead_letters(
        &self,
        batch: &BatchManifest,
        file: &DeadLetterFile,
        rows: &Rows,
    ) -> Result<Option<DeadLetterFile>, TrimError> {
        if rows.is_all() {
            return Ok(Some(file.clone()));
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let key = &file.key;
        let bytes = get(key, self.ports.ops.read(key).await)?;
        let body = chosen_letters(&bytes, rows, file.records.len()).map_err(|fault| damaged(key, fault))?;
        let id = self.ports.entropy.uuid_at(self.ports.clock.now());
        let key = self.ports.ops.put_dead_letters(batch.table_uuid, id, body.into()).await?;
        Ok(Some(DeadLetterFile { key, records: rows.select(&file.records) }))
    }
}

/// A file that is gone is a person's business; one that can't be read now is read later.
fn get<T>(name: &str, answer: Result<T, StoreError>) -> Result<T, TrimError> {
    answer.map_err(|fault| match fault {
        StoreError::NotFound { .. } => damaged(name, Damage::Gone(fault)),
        other => other.into(),
    })
}

fn choose(rows: &RecordBatch, chosen: &Rows, records: usize) -> Result<RecordBatch, Damage> {
    same_count(rows.num_rows(), records)?;
    let mut mask = vec![false; rows.num_rows()];
    for range in chosen.ranges() {
        mask.iter_mut().take(range.end).skip(range.start).for_each(|row| *row = true);
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

fn damaged(file: &str, damage: impl Into<Damage>) -> TrimError {
    TrimError::Damaged { file: file.to_owned(), source: damage.into() }
}
