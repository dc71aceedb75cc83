//! What a reader of the tables sees: rows from the real Parquet files, by way of the manifests of a snapshot.
//!
//! Nothing of Icefall is used here: not its reader, nor its ledger; nor the library that it writes manifests with.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use bytes::Bytes;
use iceberg::spec::{ManifestList, Snapshot, TableMetadata};
use icefall_store::Location;
use icefall_testkit::FakeStore;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::avro;
use crate::record::{RecordNo, Values};

/// A row of a table that records go to.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) no: RecordNo,
    pub(crate) partition: i64,
    pub(crate) offset: i64,
    pub(crate) values: Values,
}

/// A row of the dead-letter table.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) topic: String,
    pub(crate) partition: i64,
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) class: String,
    pub(crate) target: String,
}

/// A manifest as its list names it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) spec_id: i64,
}

/// What a manifest holds.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) schema_id: i32,
    /// The data files that are alive.
    pub(crate) files: Vec<String>,
}

/// An entry's status: its file was deleted.
const DELETED: i64 = 2;

/// Files that were read once, since they never change.
#[derive(Debug)]
pub(crate) struct Readers {
    store: Arc<FakeStore>,
    lists: BTreeMap<String, Rc<Vec<Listed>>>,
    manifests: BTreeMap<String, Rc<Manifest>>,
    rows: BTreeMap<String, Rc<Vec<Row>>>,
    letters: BTreeMap<String, Rc<Vec<Letter>>>,
}

impl Readers {
    pub(crate) fn new(store: Arc<FakeStore>) -> Self {
        Self {
            store,
            lists: BTreeMap::new(),
            manifests: BTreeMap::new(),
            rows: BTreeMap::new(),
            letters: BTreeMap::new(),
        }
    }

    /// The rows that `snapshot` shows, file by file.
    pub(crate) fn rows(&mut self, snapshot: &Snapshot) -> Result<Vec<Rc<Vec<Row>>>, String> {
        let files = self.data_files(snapshot)?;
        files.into_iter().map(|file| self.rows_of(&file)).collect()
    }

    /// The dead letters that `snapshot` shows, file by file.
    pub(crate) fn letters(&mut self, snapshot: &Snapshot) -> Result<Vec<Rc<Vec<Letter>>>, String> {
        let mut letters = Vec::new();
        for file in self.data_files(snapshot)? {
            let read = match self.letters.get(&file) {
                Some(read) => Rc::clone(read),
                None => Rc::new(letters_of(&batches(self.get(&file)?)?)?),
            };
            self.letters.insert(file, Rc::clone(&read));
            letters.push(read);
        }
        Ok(letters)
    }

    /// The rows of one file.
    pub(crate) fn rows_of(&mut self, file: &str) -> Result<Rc<Vec<Row>>, String> {
        if let Some(rows) = self.rows.get(file) {
            return Ok(Rc::clone(rows));
        }
        let rows = Rc::new(rows_in(self.get(file)?)?);
        self.rows.insert(file.to_owned(), Rc::clone(&rows));
        Ok(rows)
    }

    /// Everything that `snapshot` names: list, manifests, data files.
    pub(crate) fn named(&mut self, snapshot: &Snapshot) -> Result<Vec<String>, String> {
        let mut named = vec![snapshot.manifest_list().to_owned()];
        for manifest in self.manifests_of(snapshot)?.iter() {
            named.push(manifest.path.clone());
            named.extend(self.manifest(&manifest.path)?.files.iter().cloned());
        }
        Ok(named)
    }

    pub(crate) fn list(&self, table: &TableMetadata, snapshot: &Snapshot) -> Result<ManifestList, String> {
        let list = self.get(snapshot.manifest_list())?;
        ManifestList::parse_with_version(&list, table.format_version()).map_err(|error| error.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Result<Bytes, String> {
        let location = Location::parse(path).map_err(|error| error.to_string())?;
        self.store.peek(&location).ok_or_else(|| format!("a snapshot names {path}, which is not there"))
    }

    /// The data files of `snapshot`.
    pub(crate) fn data_files(&mut self, snapshot: &Snapshot) -> Result<Vec<String>, String> {
        let mut files = Vec::new();
        for manifest in self.manifests_of(snapshot)?.iter() {
            files.extend(self.manifest(&manifest.path)?.files.iter().cloned());
        }
        Ok(files)
    }

    /// The manifests of `snapshot`.
    pub(crate) fn manifests_of(&mut self, snapshot: &Snapshot) -> Result<Rc<Vec<Listed>>, String> {
        let path = snapshot.manifest_list();
        if let Some(manifests) = self.lists.get(path) {
            return Ok(Rc::clone(manifests));
        }
        let list = avro::read(&self.get(path)?).map_err(|why| format!("{path}: {why}"))?;
        let listed = |entry: &avro::Datum| {
            let path = entry.field("manifest_path")?.text()?;
            Some(Listed { path, spec_id: entry.field("partition_spec_id")?.number()? })
        };
        let manifests: Option<Vec<_>> = list.records.iter().map(listed).collect();
        let manifests = Rc::new(manifests.ok_or_else(|| format!("{path}: an entry names no manifest"))?);
        self.lists.insert(path.to_owned(), Rc::clone(&manifests));
        Ok(manifests)
    }

    /// What a manifest holds.
    pub(crate) fn manifest(&mut self, path: &str) -> Result<Rc<Manifest>, String> {
        if let Some(manifest) = self.manifests.get(path) {
            return Ok(Rc::clone(manifest));
        }
        let read = avro::read(&self.get(path)?).map_err(|why| format!("{path}: {why}"))?;
        let manifest = Manifest::of(&read).ok_or_else(|| format!("{path}: an entry is none"))?;
        let manifest = Rc::new(manifest);
        self.manifests.insert(path.to_owned(), Rc::clone(&manifest));
        Ok(manifest)
    }
}

impl Manifest {
    fn of(read: &avro::AvroFile) -> Option<Self> {
        let mut files = Vec::new();
        for entry in &read.records {
            if entry.field("status")?.number()? != DELETED {
                files.push(entry.field("data_file")?.field("file_path")?.text()?);
            }
        }
        let schema_id = std::str::from_utf8(read.metadata.get("schema-id")?).ok()?.parse().ok()?;
        Some(Self { schema_id, files })
    }
}

/// The rows of a data file's bytes.
pub(crate) fn rows_in(file: Bytes) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for batch in batches(file)? {
        let [id, p, o] = ["id", "p", "o"].map(|name| longs(&batch, name));
        let (n, q) = (longs(&batch, "n")?, longs(&batch, "q")?);
        let (text, extra) = (texts(&batch, "s")?, texts(&batch, "extra")?);
        for (index, ((id, p), o)) in id?.into_iter().zip(p?).zip(o?).enumerate() {
            let required = id.zip(p).zip(o).ok_or("a row has a null in a required column")?;
            let ((id, partition), offset) = required;
            let values = Values {
                n: n.get(index).copied().flatten(),
                s: text.get(index).cloned().flatten(),
                q: q.get(index).copied().flatten(),
                extra: extra.get(index).cloned().flatten(),
            };
            let no = usize::try_from(id).map_err(|_| format!("a row has the id {id}"))?;
            rows.push(Row { no, partition, offset, values });
        }
    }
    Ok(rows)
}

fn letters_of(batches: &[RecordBatch]) -> Result<Vec<Letter>, String> {
    let mut letters = Vec::new();
    for batch in batches {
        let [topic, class, target] = ["topic", "error_class", "target_table"].map(|name| texts(batch, name));
        let (topic, class, target) = (topic?, class?, target?);
        let (partition, offset) = (longs(batch, "partition")?, longs(batch, "offset")?);
        let timestamp = longs(batch, "timestamp")?;
        let (key, value) = (blobs(&column(batch, "key")?)?, blobs(&column(batch, "value")?)?);
        let headers = column(batch, "headers")?;
        for row in 0..batch.num_rows() {
            let text = |texts: &[Option<String>]| texts.get(row).cloned().flatten().unwrap_or_default();
            let long = |longs: &[Option<i64>]| longs.get(row).copied().flatten();
            letters.push(Letter {
                topic: text(&topic),
                partition: long(&partition).unwrap_or(-1),
                offset: long(&offset).unwrap_or(-1),
                timestamp_ms: long(&timestamp),
                key: key.get(row).cloned().flatten(),
                value: value.get(row).cloned().flatten(),
                headers: headers_at(&headers, row)?,
                class: text(&class),
                target: text(&target),
            });
        }
    }
    Ok(letters)
}

fn batches(file: Bytes) -> Result<Vec<RecordBatch>, String> {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).and_then(ParquetRecordBatchReaderBuilder::build);
    let reader = reader.map_err(|error| format!("a data file is no Parquet: {error}"))?;
    reader.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn column(batch: &RecordBatch, name: &str) -> Result<ArrayRef, String> {
    batch.column_by_name(name).cloned().ok_or_else(|| format!("a data file lacks column {name}"))
}

/// A column of whole numbers, or of moments in milliseconds; nulls where there is none.
fn longs(batch: &RecordBatch, name: &str) -> Result<Vec<Option<i64>>, String> {
    let Some(column) = batch.column_by_name(name) else { return Ok(vec![None; batch.num_rows()]) };
    let failed = |error: arrow::error::ArrowError| error.to_string();
    let column = match column.data_type() {
        DataType::Timestamp(..) => {
            let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
            cast(&cast(column, &millis).map_err(failed)?, &DataType::Int64)
        }
        _ => cast(column, &DataType::Int64),
    };
    Ok(column.map_err(failed)?.as_primitive::<Int64Type>().iter().collect())
}

fn texts(batch: &RecordBatch, name: &str) -> Result<Vec<Option<String>>, String> {
    let Some(column) = batch.column_by_name(name) else { return Ok(vec![None; batch.num_rows()]) };
    let column = cast(column, &DataType::Utf8).map_err(|error| error.to_string())?;
    Ok(column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect())
}

fn blobs(column: &ArrayRef) -> Result<Vec<Option<Vec<u8>>>, String> {
    let column = cast(column, &DataType::LargeBinary).map_err(|error| error.to_string())?;
    Ok(column.as_binary::<i64>().iter().map(|bytes| bytes.map(<[u8]>::to_vec)).collect())
}

type Headers = Vec<(String, Option<Vec<u8>>)>;

fn headers_at(headers: &ArrayRef, row: usize) -> Result<Headers, String> {
    let list = headers.as_list_opt::<i32>().ok_or("headers are no list")?.value(row);
    let entries = list.as_struct_opt().ok_or("headers are no structs")?;
    let part = |name: &str| entries.column_by_name(name).ok_or_else(|| format!("headers lack {name}"));
    let (keys, values) = (blobs(part("key")?)?, blobs(part("value")?)?);
    let text = |key: Option<Vec<u8>>| String::from_utf8(key.unwrap_or_default()).unwrap_or_default();
    Ok(keys.into_iter().map(text).zip(values).collect())
}
