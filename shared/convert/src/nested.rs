//! Objects and lists into struct, list and map columns.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use arrow::array::NullBufferBuilder;

use crate::column::{Column, Field, cut};
use crate::cursor::Cursor;
use crate::error::{BadRecordClass, Fault, Read, Step, shown};
use crate::unknown::StructId;

const OBJECTS_ONLY: &str = "only objects are taken";
const LISTS_ONLY: &str = "only lists are taken";

/// A struct, the row itself among them.
#[derive(Debug)]
pub(crate) struct StructColumn {
    pub(crate) id: StructId,
    pub(crate) fields: Vec<Field>,
    by_name: HashMap<Box<str>, usize>,
    /// For each field the one that followed it last: producers write fields in one order.
    successors: Vec<usize>,
    /// The field that came first last.
    first: usize,
    pub(crate) rows: usize,
    pub(crate) nulls: NullBufferBuilder,
}

impl StructColumn {
    pub(crate) fn new(id: StructId, fields: Vec<Field>) -> Self {
        let by_name =
            fields.iter().enumerate().map(|(index, field)| (field.name.as_str().into(), index)).collect();
        let successors = (1..=fields.len()).collect();
        Self { id, fields, by_name, successors, first: 0, rows: 0, nulls: NullBufferBuilder::new(0) }
    }

    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>, type_name: &str) -> Read<()> {
        if cursor.peek() != Some(b'{') {
            return Err(cursor.wrong_type(type_name, OBJECTS_ONLY));
        }
        cursor.open()?;
        let unknown = cursor.unknown.mark();
        cursor.space();
        let mut read = 0;
        if !cursor.take(b'}') {
            read = self.read_members(cursor)?;
        }
        cursor.close();
        if let Some(name) = cursor.unknown.repeated(self.id, unknown) {
            return Err(repeated(name));
        }
        if read < self.fields.len() {
            self.fill_missing()?;
        }
        self.rows += 1;
        self.nulls.append_non_null();
        Ok(())
    }

    /// Reads members up to the closing bracket and counts those that have a column.
    fn read_members(&mut self, cursor: &mut Cursor<'_>) -> Read<usize> {
        let mut read = 0;
        let mut last = None;
        loop {
            if let Some(index) = self.read_name(cursor, last)? {
                last = Some(index);
                read += 1;
                self.read_member(cursor, index)?;
            } else {
                cursor.expect(b':', "a colon must follow a name")?;
                cursor.space();
                cursor.skip()?;
            }
            if !cursor.another(b'}')? {
                return Ok(read);
            }
        }
    }

    fn read_member(&mut self, cursor: &mut Cursor<'_>, index: usize) -> Read<()> {
        let rows = self.rows;
        let Some(field) = self.fields.get_mut(index) else { return Ok(()) };
        if field.column.len() > rows {
            return Err(repeated(&field.name));
        }
        cursor.expect(b':', "a colon must follow a name")?;
        field.read(cursor).map_err(|fault| fault.within(Step::Field(field.name.clone())))
    }

    /// The index of the field that the next name is; `None`: it has no column and was logged.
    #[inline]
    fn read_name(&mut self, cursor: &mut Cursor<'_>, last: Option<usize>) -> Read<Option<usize>> {
        let guess = last.map_or(Some(self.first), |last| self.successors.get(last).copied());
        if let Some(guess) = guess
            && let Some(field) = self.fields.get(guess)
            && !field.token.is_empty()
            && cursor.take_token(&field.token)
        {
            return Ok(Some(guess));
        }
        let name = cursor.string()?;
        let Some(index) = self.by_name.get(&*name).copied() else {
            cursor.unknown.push(self.id, name);
            return Ok(None);
        };
        match last.and_then(|last| self.successors.get_mut(last)) {
            Some(successor) => *successor = index,
            None => self.first = index,
        }
        Ok(Some(index))
    }

    fn fill_missing(&mut self) -> Read<()> {
        for field in &mut self.fields {
            if field.column.len() > self.rows {
                continue;
            }
            if field.required {
                return Err(missing(field).within(Step::Field(field.name.clone())));
            }
            field.column.push_null();
        }
        Ok(())
    }

    pub(crate) fn push_null(&mut self) {
        self.fields.iter_mut().for_each(|field| field.column.push_null());
        self.rows += 1;
        self.nulls.append_null();
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.fields.iter_mut().for_each(|field| field.column.truncate(rows));
        self.rows = self.rows.min(rows);
        cut(&mut self.nulls, rows);
    }
}

#[cold]
fn repeated(name: &str) -> Fault {
    Fault::new(
        BadRecordClass::DuplicateField,
        "each field once",
        format!("{:?} twice", shown(name, 60)),
        "nobody can say which of the two is meant",
    )
}

#[cold]
fn missing(field: &Field) -> Fault {
    Fault::new(
        BadRecordClass::MissingRequired,
        field.type_name.to_string(),
        "no such field".to_owned(),
        "a required column needs a value",
    )
}

/// The ends of the rows' values among those of a column within, and which rows are null.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) offsets: Vec<i32>,
    pub(crate) nulls: NullBufferBuilder,
}

impl Ends {
    fn new() -> Self {
        Self { offsets: vec![0], nulls: NullBufferBuilder::new(0) }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Where the next row's values begin.
    fn start(&self) -> usize {
        self.offsets.last().and_then(|end| usize::try_from(*end).ok()).unwrap_or_default()
    }

    fn push(&mut self, end: usize) -> Read<()> {
        let Ok(end) = i32::try_from(end) else { return Err(too_many()) };
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    fn push_null(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or_default());
        self.nulls.append_null();
    }

    /// Cuts back to `rows` and says how many values are left.
    fn truncate(&mut self, rows: usize) -> usize {
        self.offsets.truncate(rows + 1);
        cut(&mut self.nulls, rows);
        self.start()
    }
}

#[cold]
fn too_many() -> Fault {
    Fault::new(
        BadRecordClass::OutOfRange,
        "at most 2^31 - 1 elements in a batch",
        "more".to_owned(),
        "the column holds as many as one batch can",
    )
}

#[derive(Debug)]
pub(crate) struct ListColumn {
    pub(crate) element: Field,
    pub(crate) ends: Ends,
}

impl ListColumn {
    pub(crate) fn new(element: Field) -> Self {
        Self { element, ends: Ends::new() }
    }

    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>, type_name: &str) -> Read<()> {
        if cursor.peek() != Some(b'[') {
            return Err(cursor.wrong_type(type_name, LISTS_ONLY));
        }
        let element = &mut self.element;
        read_list(cursor, |cursor| element.read(cursor))?;
        self.ends.push(self.element.column.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn push_null(&mut self) {
        self.ends.push_null();
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        let elements = self.ends.truncate(rows);
        self.element.column.truncate(elements);
    }
}

/// Reads a list, `element` by element. The next byte is its bracket.
fn read_list<'a>(cursor: &mut Cursor<'a>, mut element: impl FnMut(&mut Cursor<'a>) -> Read<()>) -> Read<()> {
    cursor.open()?;
    cursor.space();
    if !cursor.take(b']') {
        for index in 0.. {
            element(cursor).map_err(|fault| fault.within(Step::Element(index)))?;
            if !cursor.another(b']')? {
                break;
            }
        }
    }
    cursor.close();
    Ok(())
}

#[derive(Debug)]
pub(crate) struct MapColumn {
    /// A struct of two required or optional fields, `key` and `value`.
    pub(crate) entries: StructColumn,
    pub(crate) ends: Ends,
}

impl MapColumn {
    pub(crate) fn new(entries: StructColumn) -> Self {
        Self { entries, ends: Ends::new() }
    }

    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>, type_name: &str) -> Read<()> {
        let from = self.ends.start();
        match (self.has_text_keys(), cursor.peek()) {
            (true, Some(b'{')) => self.read_object(cursor)?,
            (true, _) => {
                return Err(cursor.wrong_type(type_name, "a map with string keys is written as an object"));
            }
            (false, Some(b'[')) => {
                let entries = &mut self.entries;
                read_list(cursor, |cursor| entries.read(cursor, "object with key and value"))?;
            }
            (false, _) => {
                let rule =
                    "a map with other than string keys is written as a list of {\"key\": …, \"value\": …}";
                return Err(cursor.wrong_type(type_name, rule));
            }
        }
        self.refuse_repeated_keys(from)?;
        self.ends.push(self.entries.rows)
    }

    fn has_text_keys(&self) -> bool {
        matches!(self.key_column(), Some(Column::String(_)))
    }

    fn key_column(&self) -> Option<&Column> {
        self.entries.fields.first().map(|key| &key.column)
    }

    fn read_object(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        cursor.open()?;
        cursor.space();
        if !cursor.take(b'}') {
            loop {
                let key = cursor.string()?;
                cursor.expect(b':', "a colon must follow a name")?;
                self.read_entry(cursor, &key).map_err(|fault| fault.within(Step::Key(key.into_owned())))?;
                if !cursor.another(b'}')? {
                    break;
                }
            }
        }
        cursor.close();
        Ok(())
    }

    fn read_entry(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()> {
        let [Field { column: Column::String(keys), .. }, value] = self.entries.fields.as_mut_slice() else {
            return Ok(());
        };
        if !keys.push(key.as_bytes()) {
            return Err(too_many());
        }
        value.read(cursor)?;
        self.entries.rows += 1;
        self.entries.nulls.append_non_null();
        Ok(())
    }

    /// A key that stands twice among the entries since `from` is refused, as a field is.
    fn refuse_repeated_keys(&self, from: usize) -> Read<()> {
        let (Some(keys), range) = (self.key_column(), from..self.entries.rows) else { return Ok(()) };
        let mut seen = HashSet::with_capacity(range.len());
        for index in range {
            if !seen.insert(keys.bytes_of(index)) {
                return Err(repeated(&String::from_utf8_lossy(&keys.bytes_of(index))));
            }
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn push_null(&mut self) {
        self.ends.push_null();
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        let entries = self.ends.truncate(rows);
        self.entries.truncate(entries);
    }
}

impl Column {
    /// Bytes that are the same for two values exactly when the values are; none for nested columns,
    /// which no schema has as keys.
    fn bytes_of(&self, index: usize) -> Cow<'_, [u8]> {
        fn of<T: Copy, const N: usize>(
            values: &[T],
            index: usize,
            bytes: fn(T) -> [u8; N],
        ) -> Cow<'static, [u8]> {
            Cow::Owned(values.get(index).map_or_else(Vec::new, |value| bytes(*value).to_vec()))
        }
        match self {
            Self::Boolean(column) => Cow::Owned(vec![u8::from(column.values.get_bit(index))]),
            Self::Int(column) | Self::Date(column) => of(&column.values, index, i32::to_le_bytes),
            Self::Long(column) | Self::Time(column) | Self::Timestamp(column, ..) => {
                of(&column.values, index, i64::to_le_bytes)
            }
            // Adding zero makes one of both zeros, which are one number.
            Self::Float(column) => of(&column.values, index, |value| (value + 0.0).to_le_bytes()),
            Self::Double(column) => of(&column.values, index, |value| (value + 0.0).to_le_bytes()),
            Self::Decimal(column, _) => of(&column.values, index, i128::to_le_bytes),
            Self::String(column) => Cow::Borrowed(column.value(index)),
            Self::Binary(column) => Cow::Borrowed(column.value(index)),
            Self::Uuid(column) | Self::Fixed(column) => {
                let start = index * column.width;
                Cow::Borrowed(column.bytes.get(start..start + column.width).unwrap_or_default())
            }
            Self::Struct(_) | Self::List(_) | Self::Map(_) => Cow::Borrowed(&[]),
        }
    }
}
