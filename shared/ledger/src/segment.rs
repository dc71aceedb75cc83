//! Segments: the records that one snapshot settled, as an immutable object named by its hash.
//!
//! One is put per round, source and table (more where records stand beside each other at an offset), before the commit that
//! names it; each carries the open end of the index of all earlier ones. The encoding has one form for each content, so that the
//! same round made again is the same object, and costs 4 bytes a record besides a few for each run
//! of offsets.
//!
//! ```text
//! magic (4) · format (1) · table uuid (16) · branch, pipeline, cluster, topic (length, text)
//! incarnation · sequence number · index
//! partitions: count · per partition: number · runs: count · per run: gap, length, tag (1)
//!             · fingerprints (4 each, little endian)
//! ```

use icefall_manifest::wire::{Fault, Reader, put_signed, put_text, put_unsigned};
use icefall_manifest::{Branch, Encoding, Fingerprint, Offset, Partition, TableUuid};
use uuid::Uuid;

use crate::ids::source;
use crate::index::{decode_node, encode_node};
use crate::{Incarnation, Index, Kind, LedgerError, LedgerId, SequenceNumber, Settled, Settlements};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u8 = 1;
/// What segments begin with.
const SEGMENT_MAGIC: [u8; 4] = *b"IFLS";
/// What sealed index nodes begin with.
pub(crate) const NODE_MAGIC: [u8; 4] = *b"IFLN";
/// What errors call a segment.
const WHAT: &str = "ledger's segment";
/// The tag's bit for dead letters; the lower ones are the encoding.
const DEAD_LETTER: u8 = 0x80;

pub(crate) const NO_OFFSET: Fault = Fault("an offset is out of range");

/// What one snapshot settled, and the way to what earlier ones did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Segment {
    /// Whose ledger it belongs to.
    pub owner: LedgerId,
    /// The incarnation that its records belong to.
    pub incarnation: Incarnation,
    /// The sequence number of the snapshot that it was made for.
    pub sequence_number: SequenceNumber,
    /// The earlier segments.
    pub index: Index,
    /// The records.
    pub settled: Settlements,
}

impl Segment {
    /// Its bytes, always the same for the same content.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = header(SEGMENT_MAGIC);
        out.reserve(self.settled.len().saturating_mul(4));
        let LedgerId { table_uuid, branch, source } = &self.owner;
        out.extend_from_slice(table_uuid.0.as_bytes());
        let names =
            [branch.as_str(), source.pipeline.as_str(), source.cluster.as_str(), source.topic.as_str()];
        for name in names {
            put_text(&mut out, name);
        }
        put_unsigned(&mut out, u64::from(self.incarnation.0));
        put_signed(&mut out, self.sequence_number.0);
        self.index.encode(&mut out);
        encode_settled(&mut out, &self.settled);
        out
    }

    /// Reads a segment; anything that [`Segment::encode`] would not give is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, LedgerError> {
        let mut reader = open(WHAT, SEGMENT_MAGIC, bytes)?;
        let owner = decode_owner(&mut reader)?;
        let mut read = || {
            let incarnation =
                u32::try_from(reader.unsigned()?).map_err(|_| Fault("its incarnation is out of range"))?;
            let sequence_number = SequenceNumber(reader.signed()?);
            let index = Index::decode(&mut reader)?;
            let settled = decode_settled(&mut reader)?;
            reader.end()?;
            let incarnation = Incarnation(incarnation);
            Ok(Self { owner: owner.clone(), incarnation, sequence_number, index, settled })
        };
        read().map_err(|Fault(why)| LedgerError::malformed(WHAT, &why))
    }
}

/// What a fuzz target calls: any bytes are refused or are exactly what encoding gives again.
///
/// # Panics
/// When an object decodes that encodes otherwise, which would be a fault of this crate.
#[doc(hidden)]
pub fn fuzz_object(bytes: &[u8]) {
    if let Ok(segment) = Segment::decode(bytes) {
        assert_eq!(segment.encode(), bytes, "a segment that decodes has one encoding");
    }
    if let Ok(entries) = decode_node(bytes, 0) {
        assert_eq!(encode_node(0, &entries), bytes, "a node that decodes has one encoding");
    }
}

/// What every object begins with.
pub(crate) fn header(magic: [u8; 4]) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.push(FORMAT);
    out
}

/// A reader of what follows the header, if that is one of `magic` and a format that is known.
pub(crate) fn open<'a>(
    what: &'static str,
    magic: [u8; 4],
    bytes: &'a [u8],
) -> Result<Reader<'a>, LedgerError> {
    let mut reader = Reader::new(bytes);
    let malformed = |Fault(why)| LedgerError::malformed(what, &why);
    if reader.array::<4>().map_err(malformed)? != magic {
        return Err(malformed(Fault("it is something else")));
    }
    match reader.byte().map_err(malformed)? {
        FORMAT => Ok(reader),
        0 => Err(malformed(Fault("it has no format"))),
        newer => Err(LedgerError::Newer { what, version: u64::from(newer) }),
    }
}

fn decode_owner(reader: &mut Reader<'_>) -> Result<LedgerId, LedgerError> {
    let malformed = |Fault(why)| LedgerError::malformed(WHAT, &why);
    let table_uuid = TableUuid(Uuid::from_bytes(reader.array().map_err(malformed)?));
    let mut name = || reader.text().map_err(malformed);
    let (branch, pipeline, cluster, topic) = (name()?, name()?, name()?, name()?);
    let unnamed = |why: String| LedgerError::malformed(WHAT, &why);
    Ok(LedgerId {
        table_uuid,
        branch: Branch::try_from(branch.to_owned()).map_err(|error| unnamed(error.to_string()))?,
        source: source(pipeline, cluster, topic).map_err(unnamed)?,
    })
}

/// A stretch of offsets that were delivered alike and became the same.
struct Run {
    first: i64,
    length: u64,
    tag: u8,
}

impl Run {
    /// The position after its last.
    fn end(&self) -> Option<i64> {
        self.first.checked_add(i64::try_from(self.length).ok()?)
    }
}

fn tag(settled: Settled) -> u8 {
    let kind = if settled.kind == Kind::DeadLetter { DEAD_LETTER } else { 0 };
    kind | u8::from(settled.encoding)
}

fn untag(tag: u8) -> Result<(Kind, Encoding), Fault> {
    let kind = if tag & DEAD_LETTER == 0 { Kind::Row } else { Kind::DeadLetter };
    let encoding =
        Encoding::try_from(tag & !DEAD_LETTER).map_err(|_| Fault("a run's encoding is unknown"))?;
    Ok((kind, encoding))
}

fn encode_settled(out: &mut Vec<u8>, settled: &Settlements) {
    put_unsigned(out, settled.partitions().len() as u64);
    let mut next_partition = 0;
    for (partition, records) in settled.partitions() {
        put_unsigned(out, gap(next_partition, i64::from(partition.number())));
        next_partition = i64::from(partition.number()) + 1;
        let runs = runs(records);
        put_unsigned(out, runs.len() as u64);
        let mut end = 0;
        for run in &runs {
            put_unsigned(out, gap(end, run.first));
            put_unsigned(out, run.length);
            out.push(run.tag);
            end = run.end().unwrap_or(i64::MAX);
        }
        out.extend(records.iter().flat_map(|(_, settled)| settled.fingerprint.0.to_le_bytes()));
    }
}

fn runs(records: &[(Offset, Settled)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (offset, settled) in records {
        let (position, tag) = (offset.position(), tag(*settled));
        match runs.last_mut() {
            Some(last) if last.tag == tag && last.end() == Some(position) => last.length += 1,
            _ => runs.push(Run { first: position, length: 1, tag }),
        }
    }
    runs
}

fn decode_settled(reader: &mut Reader<'_>) -> Result<Settlements, Fault> {
    let mut settled = Settlements::default();
    let mut next_partition = 0;
    for _ in 0..reader.unsigned()? {
        let partition = partition_after(&mut next_partition, reader.unsigned()?)?;
        let runs = decode_runs(reader)?;
        let total = runs.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.length));
        let bytes = total.and_then(|total| total.checked_mul(4)).ok_or(Fault("it ends too early"))?;
        settled.put_partition(partition, records(&runs, reader.bytes(bytes)?)?);
    }
    Ok(settled)
}

fn decode_runs(reader: &mut Reader<'_>) -> Result<Vec<Run>, Fault> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = 0_i64;
    for _ in 0..reader.unsigned()? {
        let gap = i64::try_from(reader.unsigned()?).map_err(|_| NO_OFFSET)?;
        let first = end.checked_add(gap).ok_or(NO_OFFSET)?;
        let run = Run { first, length: reader.unsigned()?, tag: reader.byte()? };
        if run.length == 0 || runs.last().is_some_and(|last| gap == 0 && last.tag == run.tag) {
            return Err(Fault("a run of offsets is empty or continues the one before"));
        }
        end = run.end().ok_or(NO_OFFSET)?;
        runs.push(run);
    }
    if runs.is_empty() { Err(Fault("a partition has no record")) } else { Ok(runs) }
}

fn records(runs: &[Run], fingerprints: &[u8]) -> Result<Vec<(Offset, Settled)>, Fault> {
    let (words, _) = fingerprints.as_chunks::<4>();
    let mut words = words.iter();
    let mut records = Vec::with_capacity(words.len());
    for run in runs {
        let (kind, encoding) = untag(run.tag)?;
        for (position, word) in (run.first..run.end().ok_or(NO_OFFSET)?).zip(&mut words) {
            let fingerprint = Fingerprint(u32::from_le_bytes(*word));
            records.push((offset(Some(position))?, Settled { kind, encoding, fingerprint }));
        }
    }
    Ok(records)
}

/// How far `to` lies behind `from`, which is never beyond it.
pub(crate) fn gap(from: i64, to: i64) -> u64 {
    to.wrapping_sub(from).cast_unsigned()
}

/// The offset at `position`, if there is one.
pub(crate) fn offset(position: Option<i64>) -> Result<Offset, Fault> {
    position.and_then(Offset::new).ok_or(NO_OFFSET)
}

/// The partition that is `gap` beyond `next`; partitions ascend.
pub(crate) fn partition_after(next: &mut i64, gap: u64) -> Result<Partition, Fault> {
    let number = i64::try_from(gap).ok().and_then(|gap| next.checked_add(gap));
    let partition = number.and_then(Partition::new).ok_or(Fault("a partition is out of range"))?;
    *next = i64::from(partition.number()) + 1;
    Ok(partition)
}
