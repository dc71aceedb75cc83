//! Rows as one Parquet file in memory.
//!
//! Codec and sizes follow the table's properties. A dictionary is used only where a sample says that
//! it pays: on columns of distinct values it costs time and bytes and is thrown away in the end.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, ArrayRef, RecordBatch};
use bytes::Bytes;
use iceberg::spec::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, GzipLevel, LogicalType, ZstdLevel};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use crate::format::{DataFileError, UnsupportedTable};
use crate::{parquet_schema, single_value};

const CODEC_KEY: &str = "write.parquet.compression-codec";
const LEVEL_KEY: &str = "write.parquet.compression-level";
const ROWS_KEY: &str = "write.parquet.row-group-limit";

/// Rows that are looked at to see whether a dictionary pays.
const SAMPLE: usize = 256;

/// A table's choices.
#[derive(Debug)]
pub(crate) struct ParquetSettings {
    schema: SchemaDescriptor,
    compression: Compression,
    row_group_rows: usize,
}

/// A finished file.
#[derive(Debug)]
pub(crate) struct WrittenParquet {
    pub(crate) bytes: Bytes,
    pub(crate) columns: Vec<WrittenColumn>,
    pub(crate) split_offsets: Vec<i64>,
}

/// What the file's footer says of one column.
#[derive(Debug)]
pub(crate) struct WrittenColumn {
    pub(crate) field_id: i32,
    pub(crate) size: u64,
    pub(crate) values: u64,
    pub(crate) nulls: Option<u64>,
}

impl ParquetSettings {
    /// Reads the table's properties; zstd at level 1 is the default.
    pub(crate) fn new(
        schema: &Schema,
        properties: &HashMap<String, String>,
    ) -> Result<Self, UnsupportedTable> {
        let level = number(properties, LEVEL_KEY)?;
        let codec = properties.get(CODEC_KEY).map_or("zstd", String::as_str);
        let refuse = |key: &str, value: &str, rule| UnsupportedTable::Property {
            key: key.to_owned(),
            value: value.to_owned(),
            rule,
        };
        let bad_level = || {
            let level = level.map_or_else(String::new, |level| level.to_string());
            refuse(LEVEL_KEY, &level, "it is no level of this codec")
        };
        let compression = match codec.to_ascii_lowercase().as_str() {
            "zstd" => {
                let level = level.map_or(Ok(1), i32::try_from).map_err(|_| bad_level())?;
                Compression::ZSTD(ZstdLevel::try_new(level).map_err(|_| bad_level())?)
            }
            "gzip" => {
                let level = level.map_or(Ok(6), u32::try_from).map_err(|_| bad_level())?;
                Compression::GZIP(GzipLevel::try_new(level).map_err(|_| bad_level())?)
            }
            "snappy" => Compression::SNAPPY,
            "uncompressed" | "none" => Compression::UNCOMPRESSED,
            _ => return Err(refuse(CODEC_KEY, codec, "it must be zstd, snappy, gzip or uncompressed")),
        };
        let rows = number(properties, ROWS_KEY)?.unwrap_or(1_048_576);
        let row_group_rows = usize::try_from(rows).ok().filter(|rows| *rows > 0);
        let row_group_rows =
            row_group_rows.ok_or_else(|| refuse(ROWS_KEY, &rows.to_string(), "it must be at least 1"))?;
        Ok(Self { schema: parquet_schema::of(schema)?, compression, row_group_rows })
    }

    /// Writes `rows`.
    pub(crate) fn write(&self, rows: &RecordBatch) -> Result<WrittenParquet, DataFileError> {
        let options = ArrowWriterOptions::new()
            .with_properties(self.properties(rows))
            .with_parquet_schema(self.schema.clone())
            .with_skip_arrow_metadata(true);
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new_with_options(&mut file, rows.schema(), options)?;
        // Group by group: a batch of many groups in one call makes the writer call itself that deep.
        for start in (0..rows.num_rows()).step_by(self.row_group_rows) {
            writer.write(&rows.slice(start, self.row_group_rows.min(rows.num_rows() - start)))?;
        }
        let metadata = writer.close()?;
        Ok(WrittenParquet {
            columns: columns(&metadata),
            split_offsets: split_offsets(&metadata),
            bytes: file.into(),
        })
    }

    fn properties(&self, rows: &RecordBatch) -> WriterProperties {
        let mut builder = WriterProperties::builder()
            .set_created_by(concat!("icefall ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(self.compression)
            .set_max_row_group_row_count(Some(self.row_group_rows))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_dictionary_enabled(true);
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            builder = without_useless_dictionary(builder, field.name(), column);
        }
        self.without_statistics_of_uuids(builder).build()
    }

    /// Iceberg's Java reader orders uuids in its own way, and would skip row groups by statistics in Parquet's order.
    fn without_statistics_of_uuids(&self, builder: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
        let columns = self.schema.columns().iter();
        let uuids = columns.filter(|column| column.logical_type_ref() == Some(&LogicalType::Uuid));
        uuids.fold(builder, |builder, uuid| {
            builder.set_column_statistics_enabled(uuid.path().clone(), EnabledStatistics::None)
        })
    }
}

/// Columns inside structs, lists and maps keep the dictionary: they are rarely the bulk.
fn without_useless_dictionary(
    builder: WriterPropertiesBuilder,
    name: &str,
    column: &ArrayRef,
) -> WriterPropertiesBuilder {
    if column.data_type().is_nested() || repeats(column) {
        return builder;
    }
    builder.set_column_dictionary_enabled(ColumnPath::new(vec![name.to_owned()]), false)
}

/// Whether a sample of the column holds each value twice or more on average.
fn repeats(column: &ArrayRef) -> bool {
    let step = (column.len() / SAMPLE).max(1);
    let sample = (0..column.len()).step_by(step);
    let (mut taken, mut distinct) = (0_usize, HashSet::new());
    for value in sample.filter_map(|row| single_value::at(column, row)) {
        taken += 1;
        distinct.insert(value);
    }
    distinct.len() * 2 <= taken
}

/// One entry per column, its row groups added up.
fn columns(metadata: &ParquetMetaData) -> Vec<WrittenColumn> {
    let mut columns: Vec<WrittenColumn> = Vec::new();
    for chunk in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let Some(found) = written(chunk) else { continue };
        match columns.iter_mut().find(|column| column.field_id == found.field_id) {
            None => columns.push(found),
            Some(column) => {
                column.size += found.size;
                column.values += found.values;
                column.nulls = column.nulls.zip(found.nulls).map(|(one, other)| one + other);
            }
        }
    }
    columns
}

fn written(chunk: &ColumnChunkMetaData) -> Option<WrittenColumn> {
    let info = chunk.column_descr().self_type().get_basic_info();
    Some(WrittenColumn {
        field_id: info.has_id().then(|| info.id())?,
        size: u64::try_from(chunk.compressed_size()).ok()?,
        values: u64::try_from(chunk.num_values()).ok()?,
        nulls: chunk.statistics().and_then(parquet::file::statistics::Statistics::null_count_opt),
    })
}

fn split_offsets(metadata: &ParquetMetaData) -> Vec<i64> {
    let starts = metadata.row_groups().iter().filter_map(|group| group.columns().first());
    starts.filter_map(|chunk| i64::try_from(chunk.byte_range().0).ok()).collect()
}

fn number(properties: &HashMap<String, String>, key: &str) -> Result<Option<i64>, UnsupportedTable> {
    let Some(value) = properties.get(key) else { return Ok(None) };
    let refused = || UnsupportedTable::Property {
        key: key.to_owned(),
        value: value.clone(),
        rule: "it must be a whole number",
    };
    value.trim().parse().map(Some).map_err(|_| refused())
}
