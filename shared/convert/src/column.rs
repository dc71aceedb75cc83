//! Columns under construction: the schema's tree with the values read so far.
//!
//! Each column can be cut back to a number of rows, and finds by itself what that means for the
//! columns within it. So a value that turns out not to fit is undone without any bookkeeping for the
//! values that do.

use arrow::array::{BooleanBufferBuilder, NullBufferBuilder, OffsetSizeTrait};

use crate::civil::Zone;
use crate::nested::{ListColumn, MapColumn, StructColumn};

/// A named place for values: a struct's field, a list's element, a map's key or value.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// The name as it usually stands in JSON, quotes included; empty when it would hold an escape.
    pub(crate) token: Box<[u8]>,
    pub(crate) required: bool,
    /// The Iceberg type, for those who read the reason of a refusal.
    pub(crate) type_name: Box<str>,
    pub(crate) column: Column,
}

#[derive(Debug)]
pub(crate) enum Column {
    Boolean(Booleans),
    Int(Values<i32>),
    Long(Values<i64>),
    Float(Values<f32>),
    Double(Values<f64>),
    Decimal(Values<i128>, DecimalType),
    Date(Values<i32>),
    Time(Values<i64>),
    Timestamp(Values<i64>, Unit, Zone),
    String(Texts<i32>),
    Uuid(Fixed),
    Fixed(Fixed),
    Binary(Texts<i64>),
    Struct(StructColumn),
    List(Box<ListColumn>),
    Map(Box<MapColumn>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalType {
    pub(crate) precision: u32,
    pub(crate) scale: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    Micros,
    Nanos,
}

/// Values of one width.
#[derive(Debug)]
pub(crate) struct Values<T> {
    pub(crate) values: Vec<T>,
    pub(crate) nulls: NullBufferBuilder,
}

impl<T: Copy + Default> Values<T> {
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    fn push_null(&mut self) {
        self.values.push(T::default());
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        cut(&mut self.nulls, rows);
    }
}

#[derive(Debug)]
pub(crate) struct Booleans {
    pub(crate) values: BooleanBufferBuilder,
    pub(crate) nulls: NullBufferBuilder,
}

impl Booleans {
    pub(crate) fn new() -> Self {
        Self { values: BooleanBufferBuilder::new(0), nulls: NullBufferBuilder::new(0) }
    }

    pub(crate) fn push(&mut self, value: Option<bool>) {
        self.values.append(value.unwrap_or_default());
        self.nulls.append(value.is_some());
    }

    fn truncate(&mut self, rows: usize) {
        if rows < self.values.len() {
            self.values.truncate(rows);
        }
        cut(&mut self.nulls, rows);
    }
}

/// Values of any length, one after the other.
#[derive(Debug)]
pub(crate) struct Texts<O> {
    pub(crate) bytes: Vec<u8>,
    /// Where each value ends, after a leading zero.
    pub(crate) offsets: Vec<O>,
    pub(crate) nulls: NullBufferBuilder,
}

impl<O: OffsetSizeTrait> Texts<O> {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), offsets: vec![O::zero()], nulls: NullBufferBuilder::new(0) }
    }

    /// False: the column holds as many bytes as it can; nothing was added.
    #[inline]
    #[must_use]
    pub(crate) fn push(&mut self, value: &[u8]) -> bool {
        self.bytes.extend_from_slice(value);
        self.end_value()
    }

    /// Makes a value of the bytes added since the last one.
    #[must_use]
    pub(crate) fn end_value(&mut self) -> bool {
        let Some(end) = O::from_usize(self.bytes.len()) else { return false };
        self.offsets.push(end);
        self.nulls.append_non_null();
        true
    }

    fn push_null(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or_default());
        self.nulls.append_null();
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.bytes.truncate(self.offsets.last().map_or(0, |end| end.as_usize()));
        cut(&mut self.nulls, rows);
    }

    /// The bytes of value `index`.
    pub(crate) fn value(&self, index: usize) -> &[u8] {
        let offset = |index: usize| self.offsets.get(index).map(|offset| offset.as_usize());
        let range = offset(index).zip(offset(index + 1));
        range.and_then(|(start, end)| self.bytes.get(start..end)).unwrap_or_default()
    }
}

/// Byte strings of one length.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) width: usize,
    pub(crate) rows: usize,
    pub(crate) nulls: NullBufferBuilder,
}

impl Fixed {
    pub(crate) fn new(width: usize) -> Self {
        Self { bytes: Vec::new(), width, rows: 0, nulls: NullBufferBuilder::new(0) }
    }

    /// `value` is of the column's width.
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.rows += 1;
        self.nulls.append_non_null();
    }

    fn push_null(&mut self) {
        self.rows += 1;
        self.bytes.resize(self.rows * self.width, 0);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.bytes.truncate(rows * self.width);
        cut(&mut self.nulls, rows);
    }
}

/// Cuts to `rows`, which the builder of nulls takes only when it has as many.
pub(crate) fn cut(nulls: &mut NullBufferBuilder, rows: usize) {
    if rows < nulls.len() {
        nulls.truncate(rows);
    }
}

impl Column {
    /// Rows so far.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Boolean(column) => column.values.len(),
            Self::Int(column) | Self::Date(column) => column.values.len(),
            Self::Long(column) | Self::Time(column) | Self::Timestamp(column, ..) => column.values.len(),
            Self::Float(column) => column.values.len(),
            Self::Double(column) => column.values.len(),
            Self::Decimal(column, _) => column.values.len(),
            Self::String(column) => column.len(),
            Self::Binary(column) => column.len(),
            Self::Uuid(column) | Self::Fixed(column) => column.rows,
            Self::Struct(column) => column.rows,
            Self::List(column) => column.len(),
            Self::Map(column) => column.len(),
        }
    }

    /// Adds a null. Below a null struct also required columns get one, which no reader sees.
    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Boolean(column) => column.push(None),
            Self::Int(column) | Self::Date(column) => column.push_null(),
            Self::Long(column) | Self::Time(column) | Self::Timestamp(column, ..) => column.push_null(),
            Self::Float(column) => column.push_null(),
            Self::Double(column) => column.push_null(),
            Self::Decimal(column, _) => column.push_null(),
            Self::String(column) => column.push_null(),
            Self::Binary(column) => column.push_null(),
            Self::Uuid(column) | Self::Fixed(column) => column.push_null(),
            Self::Struct(column) => column.push_null(),
            Self::List(column) => column.push_null(),
            Self::Map(column) => column.push_null(),
        }
    }

    /// Cuts back to `rows`. A column that has no more is left as it is.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Self::Boolean(column) => column.truncate(rows),
            Self::Int(column) | Self::Date(column) => column.truncate(rows),
            Self::Long(column) | Self::Time(column) | Self::Timestamp(column, ..) => column.truncate(rows),
            Self::Float(column) => column.truncate(rows),
            Self::Double(column) => column.truncate(rows),
            Self::Decimal(column, _) => column.truncate(rows),
            Self::String(column) => column.truncate(rows),
            Self::Binary(column) => column.truncate(rows),
            Self::Uuid(column) | Self::Fixed(column) => column.truncate(rows),
            Self::Struct(column) => column.truncate(rows),
            Self::List(column) => column.truncate(rows),
            Self::Map(column) => column.truncate(rows),
        }
    }
}
