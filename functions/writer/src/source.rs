//! The records of one topic, from routing to what is to be stored.
//!
//! A batch manifest speaks for one table and one source, so an event is worked off topic by topic.
//! Nothing is stored here yet: first everything of the event is known to be writable.

use std::sync::Arc;

use icefall_clock::Timestamp;
use icefall_datafile::NewDataFile;
use icefall_manifest::{
    BatchFile, BatchId, BatchManifest, Branch, DeadLetterFile, RecordId, RecordList, Source, TableName,
};
use icefall_mutations::{Mutation, is};
use icefall_records::PartitionRecords;
use icefall_settings::Route;
use icefall_store::Location;

use crate::dead_letters::{self, NewDeadLetters};
use crate::error::UnusableTable;
use crate::rows::{Converted, convert};
use crate::tables::{Tables, WritableTable};
use crate::upload::Upload;
use crate::{Ports, WriterError};

/// The records of one topic and where they go.
#[derive(Debug)]
pub(crate) struct Topical<'a> {
    pub(crate) source: Source,
    pub(crate) route: &'a Route,
    pub(crate) branch: Branch,
    pub(crate) partitions: &'a [PartitionRecords<'a>],
}

/// What is to be stored and said of one topic's records.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) uploads: Vec<Upload>,
    pub(crate) dead_letters: Option<NewDeadLetters>,
    /// `None` when all records were skipped.
    pub(crate) manifest: Option<BatchManifest>,
    pub(crate) skipped: u64,
}

impl Prepared {
    /// Rows in its data files.
    pub(crate) fn rows(&self) -> usize {
        let files = self.manifest.iter().flat_map(|manifest| &manifest.files);
        files.map(|file| file.records.len()).sum()
    }

    /// Its dead letters.
    pub(crate) fn dead_letter_count(&self) -> usize {
        self.dead_letters.as_ref().map_or(0, |letters| letters.records.len())
    }

    /// Names the stored object of the dead letters.
    pub(crate) fn dead_letters_stored(&mut self, key: String) {
        if let (Some(manifest), Some(letters)) = (&mut self.manifest, &self.dead_letters) {
            manifest.dead_letters = Some(DeadLetterFile { key, records: letters.records.clone() });
        }
    }
}

/// Converts the records, once more when the table has grown since it was loaded, and writes files.
pub(crate) async fn prepare(
    topical: &Topical<'_>,
    tables: &Tables,
    ports: &Ports,
) -> Result<Prepared, WriterError> {
    let (name, catalog, clock) = (&topical.route.table, &*ports.catalog, &*ports.clock);
    let table = tables.table(name, catalog, clock).await?;
    let mut converted = convert(topical.partitions, topical.route, table)?;
    if converted.misfits
        && let Some(grown) = tables.grown(name, catalog, clock).await?
    {
        converted = convert(topical.partitions, topical.route, grown)?;
    }
    written(topical, &converted, ports)
}

fn written(topical: &Topical<'_>, converted: &Converted<'_>, ports: &Ports) -> Result<Prepared, WriterError> {
    let (name, table, now) = (&topical.route.table, &converted.table, ports.clock.now());
    let files = if converted.rows.is_empty() {
        Vec::new()
    } else {
        let unique = || {
            if is(Mutation::NamesReused) { "rows".to_owned() } else { ports.entropy.uuid_at(now).to_string() }
        };
        let files = table.format.write(&converted.batch, &table.location, unique);
        files.map_err(|source| WriterError::DataFile { table: name.clone(), source })?
    };
    let dead_letters = dead_letters::file(
        &converted.refused,
        &topical.source,
        name,
        table.uuid,
        ports.entropy.uuid_at(now),
        now,
    )?;
    let uploads = files.iter().map(|file| upload(name, file)).collect::<Result<_, _>>()?;
    let files =
        files.into_iter().map(|file| traced(name, file, &converted.rows)).collect::<Result<Vec<_>, _>>()?;
    let skipped = converted.skipped;
    let any = !files.is_empty() || dead_letters.is_some();
    let manifest = any.then(|| {
        let id = BatchId(ports.entropy.uuid_at(now));
        manifest(id, now, topical, table, files, converted.newest_ms)
    });
    Ok(Prepared { uploads, dead_letters, manifest, skipped })
}

fn upload(table: &TableName, file: &NewDataFile) -> Result<Upload, WriterError> {
    let location = Location::parse(&file.entry.path).map_err(|source| WriterError::Unusable {
        table: table.clone(),
        source: UnusableTable::Location(source),
    })?;
    Ok(Upload { table: table.clone(), location, body: file.bytes.clone() })
}

/// The file with the record behind each of its rows.
fn traced(table: &TableName, file: NewDataFile, rows: &[RecordId]) -> Result<BatchFile, WriterError> {
    let record = |row: &u32| usize::try_from(*row).ok().and_then(|row| rows.get(row)).copied();
    let records: Option<RecordList> = file.rows.iter().map(record).collect();
    let records = records.ok_or_else(|| WriterError::ForeignRow(table.clone()))?;
    Ok(BatchFile { data_file: file.entry, records })
}

fn manifest(
    id: BatchId,
    now: Timestamp,
    topical: &Topical<'_>,
    table: &Arc<WritableTable>,
    files: Vec<BatchFile>,
    newest_record_ms: Option<i64>,
) -> BatchManifest {
    BatchManifest {
        id,
        made_at_ms: now.unix_ms(),
        source: topical.source.clone(),
        table: topical.route.table.clone(),
        branch: topical.branch.clone(),
        table_uuid: table.uuid,
        schema_id: table.schema_id,
        spec_id: table.spec_id,
        files,
        dead_letters: None,
        newest_record_ms,
    }
}
