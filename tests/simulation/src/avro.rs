//! Just enough Avro to read what a snapshot names, by the specification and nobody's library.
//!
//! The account at the end reads every manifest of every snapshot. A library compiles the schema that each of them carries
//! anew, which was a third of a schedule's time; here the same schema is compiled once. It is one reader more that has
//! to agree with what was written.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::Value;

/// A file's metadata and records.
#[derive(Debug)]
pub(crate) struct AvroFile {
    pub(crate) metadata: BTreeMap<String, Vec<u8>>,
    pub(crate) records: Vec<Datum>,
}

/// What stands in a file, as far as it is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Datum {
    Nothing,
    Number(i64),
    Bytes(Vec<u8>),
    Record(Vec<(Rc<str>, Self)>),
}

impl Datum {
    /// A record's field.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Record(fields) = self else { return None };
        fields.iter().find(|(held, _)| held.as_ref() == name).map(|(_, value)| value)
    }

    pub(crate) fn number(&self) -> Option<i64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn text(&self) -> Option<String> {
        let Self::Bytes(bytes) = self else { return None };
        String::from_utf8(bytes.clone()).ok()
    }
}

/// A compiled schema.
#[derive(Clone, Debug)]
enum Node {
    Null,
    Boolean,
    Number,
    Float,
    Double,
    Bytes,
    Fixed(usize),
    Many(Rc<Self>),
    Map(Rc<Self>),
    Union(Rc<[Self]>),
    Record(Rc<[(Rc<str>, Self)]>),
}

const MAGIC: [u8; 4] = *b"Obj\x01";
const SYNC_BYTES: usize = 16;

/// Reads a whole file.
pub(crate) fn read(file: &[u8]) -> Result<AvroFile, String> {
    parse(file).ok_or_else(|| "it is no Avro file that this reads".to_owned())
}

fn parse(file: &[u8]) -> Option<AvroFile> {
    let mut left = Reader(file.strip_prefix(&MAGIC)?);
    let mut metadata = BTreeMap::new();
    left.blocks(|reader| {
        let key = String::from_utf8(reader.bytes()?.to_vec()).ok()?;
        metadata.insert(key, reader.bytes()?.to_vec());
        Some(())
    })?;
    if metadata.get("avro.codec").is_some_and(|codec| codec != b"null") {
        return None;
    }
    let schema = compiled(std::str::from_utf8(metadata.get("avro.schema")?).ok()?)?;
    left.take(SYNC_BYTES)?;
    let mut records = Vec::new();
    while !left.0.is_empty() {
        let count = left.number()?;
        left.number()?;
        for _ in 0..count {
            records.push(left.datum(&schema)?);
        }
        left.take(SYNC_BYTES)?;
    }
    Some(AvroFile { metadata, records })
}

/// The schema of `text`, compiled once on each thread.
fn compiled(text: &str) -> Option<Node> {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Node>> = RefCell::default();
    }
    if let Some(node) = COMPILED.with_borrow(|compiled| compiled.get(text).cloned()) {
        return Some(node);
    }
    let node = node(&serde_json::from_str(text).ok()?, &mut HashMap::new())?;
    COMPILED.with_borrow_mut(|compiled| compiled.insert(text.to_owned(), node.clone()));
    Some(node)
}

fn node(schema: &Value, named: &mut HashMap<String, Node>) -> Option<Node> {
    match schema {
        Value::String(name) => primitive(name).or_else(|| named.get(name).cloned()),
        Value::Array(branches) => {
            let branches: Option<Vec<_>> = branches.iter().map(|branch| node(branch, named)).collect();
            Some(Node::Union(branches?.into()))
        }
        Value::Object(schema) => {
            let node = match schema.get("type")?.as_str()? {
                "record" => {
                    let mut fields = Vec::new();
                    for field in schema.get("fields")?.as_array()? {
                        fields.push((field.get("name")?.as_str()?.into(), node(field.get("type")?, named)?));
                    }
                    Node::Record(fields.into())
                }
                "array" => Node::Many(Rc::new(node(schema.get("items")?, named)?)),
                "map" => Node::Map(Rc::new(node(schema.get("values")?, named)?)),
                "fixed" => Node::Fixed(usize::try_from(schema.get("size")?.as_u64()?).ok()?),
                "enum" => Node::Number,
                other => primitive(other)?,
            };
            if let Some(name) = schema.get("name").and_then(Value::as_str) {
                named.insert(name.to_owned(), node.clone());
            }
            Some(node)
        }
        _ => None,
    }
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" | "long" => Node::Number,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" | "string" => Node::Bytes,
        _ => return None,
    })
}

/// The bytes that are left.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    /// A variable-length zig-zag number.
    fn number(&mut self) -> Option<i64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    /// The items of an array or map: blocks of them, up to an empty one.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        loop {
            let count = self.number()?;
            // A negative count is followed by the block's size.
            if count < 0 {
                self.number()?;
            }
            for _ in 0..count.unsigned_abs() {
                item(self)?;
            }
            if count == 0 {
                return Some(());
            }
        }
    }

    fn datum(&mut self, node: &Node) -> Option<Datum> {
        Some(match node {
            Node::Null => Datum::Nothing,
            Node::Boolean => Datum::Number(i64::from(*self.take(1)?.first()?)),
            Node::Number => Datum::Number(self.number()?),
            Node::Float => self.skip(4)?,
            Node::Double => self.skip(8)?,
            Node::Bytes => Datum::Bytes(self.bytes()?.to_vec()),
            Node::Fixed(size) => self.skip(*size)?,
            Node::Union(branches) => {
                let branch = usize::try_from(self.number()?).ok()?;
                self.datum(branches.get(branch)?)?
            }
            Node::Record(fields) => {
                let fields = fields.iter().map(|(name, node)| Some((Rc::clone(name), self.datum(node)?)));
                Datum::Record(fields.collect::<Option<_>>()?)
            }
            // Lists and maps hold statistics, which the account does not need.
            Node::Many(item) => {
                self.blocks(|reader| reader.datum(item).map(drop))?;
                Datum::Nothing
            }
            Node::Map(value) => {
                self.blocks(|reader| {
                    reader.bytes()?;
                    reader.datum(value).map(drop)
                })?;
                Datum::Nothing
            }
        })
    }

    fn skip(&mut self, count: usize) -> Option<Datum> {
        self.take(count).map(|_| Datum::Nothing)
    }
}
