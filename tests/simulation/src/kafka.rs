//! Kafka as far as an event source mapping sees it: topics, their records, and how far each partition was delivered.

use std::fmt::Write as _;

use crate::record::{Place, Record, RecordNo};
use crate::rng::Rng;

/// A topic of the pipeline.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    /// The table that its records go to, by index.
    pub(crate) table: usize,
    /// How often it was made again.
    pub(crate) generation: u32,
    pub(crate) partitions: Vec<Log>,
}

/// A partition.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// By offset, with gaps.
    pub(crate) records: Vec<RecordNo>,
    next_offset: i64,
    /// Records before this one are no longer kept.
    expired: usize,
    /// Committed: records before this one were answered for.
    pub(crate) committed: usize,
    /// Records before this one are in a batch that is under way.
    pub(crate) taken: usize,
}

/// Records of a batch: of which partition, from which to which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) partition: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// All topics and all records that ever were.
#[derive(Debug)]
pub(crate) struct Kafka {
    pub(crate) topics: Vec<Topic>,
    pub(crate) records: Vec<Record>,
}

impl Kafka {
    /// Topics by name and table, each of some partitions.
    pub(crate) fn new(rng: &Rng, topics: &[(&'static str, usize)]) -> Self {
        let topic = |&(name, table): &(&'static str, usize)| Topic {
            name,
            table,
            generation: 0,
            partitions: (0..rng.within(1..4)).map(|_| Log::default()).collect(),
        };
        Self { topics: topics.iter().map(topic).collect(), records: Vec::new() }
    }

    /// Produces `count` records to a partition of a topic. Now and then an offset is passed over, as by a
    /// transaction's marker or by log compaction.
    pub(crate) fn produce(&mut self, rng: &Rng, topic: usize, partition: usize, count: u64, now_ms: u64) {
        let Self { topics, records } = self;
        let Some(log) = topics.get_mut(topic).and_then(|topic| topic.partitions.get_mut(partition)) else {
            return;
        };
        for _ in 0..count {
            if rng.chance(120) {
                log.next_offset += rng.within(1..4).cast_signed();
            }
            let partition = i32::try_from(partition).unwrap_or_default();
            let place = Place { topic, partition, offset: log.next_offset, now_ms };
            log.next_offset += 1;
            log.records.push(records.len());
            records.push(Record::generate(rng, records.len(), place));
        }
    }

    /// The next records of some partitions of `topic`, from the committed offset on. A partition is in one batch at a
    /// time, but for `again`: then two consumers think that they own it.
    pub(crate) fn take(&mut self, rng: &Rng, topic: usize, again: bool, most: u64) -> Vec<Span> {
        let Some(topic) = self.topics.get_mut(topic) else { return Vec::new() };
        let mut spans = Vec::new();
        for (partition, log) in topic.partitions.iter_mut().enumerate() {
            let from = log.committed;
            let left = log.records.len() - from;
            let held = log.taken > log.committed && !again;
            if left == 0 || held || (!spans.is_empty() && rng.chance(400)) {
                continue;
            }
            let to = from + usize::try_from(rng.within(most.div_ceil(13)..most)).unwrap_or(1).min(left);
            log.taken = log.taken.max(to);
            spans.push(Span { partition, from, to });
        }
        spans
    }

    /// The records of `spans`.
    pub(crate) fn numbers(&self, topic: usize, spans: &[Span]) -> Vec<RecordNo> {
        let Some(topic) = self.topics.get(topic) else { return Vec::new() };
        let of = |span: &Span| {
            let log = topic.partitions.get(span.partition);
            log.and_then(|log| log.records.get(span.from..span.to)).unwrap_or_default().to_vec()
        };
        spans.iter().flat_map(of).collect()
    }

    /// Gives the records of `spans` back, or commits them.
    pub(crate) fn settle(&mut self, topic: usize, spans: &[Span], committed: bool) {
        let Some(topic) = self.topics.get_mut(topic) else { return };
        for span in spans {
            let Some(log) = topic.partitions.get_mut(span.partition) else { continue };
            if committed {
                log.committed = log.committed.max(span.to);
            }
            // Whatever is not committed is delivered again, with other boundaries.
            log.taken = log.committed;
        }
    }

    /// The trigger begins at the earliest offset that is kept.
    pub(crate) fn rewind(&mut self, topic: usize) {
        for log in self.topics.get_mut(topic).iter_mut().flat_map(|topic| &mut topic.partitions) {
            (log.committed, log.taken) = (log.expired, log.expired);
        }
    }

    /// What was committed may be too old to be kept, by and by; says whether some of it went.
    pub(crate) fn expire(&mut self, rng: &Rng, topic: usize) -> bool {
        let mut any = false;
        for log in self.topics.get_mut(topic).iter_mut().flat_map(|topic| &mut topic.partitions) {
            let kept = log.committed - rng.index(log.committed - log.expired + 1);
            any |= kept > log.expired;
            log.expired = kept;
        }
        any
    }

    /// The topic is deleted and made again.
    pub(crate) fn recreate(&mut self, topic: usize) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.generation += 1;
            topic.partitions.iter_mut().for_each(|log| *log = Log::default());
        }
    }

    /// Whether every record was delivered and committed.
    pub(crate) fn is_drained(&self) -> bool {
        let logs = || self.topics.iter().flat_map(|topic| &topic.partitions);
        logs().all(|log| log.committed == log.records.len())
    }

    /// The event that delivers `numbers`, by way of a schema registry or not.
    pub(crate) fn event(&self, topic: usize, numbers: &[RecordNo], registry: bool) -> String {
        let name = self.topics.get(topic).map_or("", |topic| topic.name);
        let mut map = String::new();
        let mut last = None;
        for record in numbers.iter().filter_map(|no| self.records.get(*no)) {
            // Writing to a string can't fail.
            let _ = match last {
                Some(partition) if partition == record.partition => write!(map, ","),
                Some(_) => write!(map, "],\"{name}-{}\":[", record.partition),
                None => write!(map, "\"{name}-{}\":[", record.partition),
            };
            map.push_str(&record.event_json(name, registry));
            last = Some(record.partition);
        }
        let end = if last.is_some() { "]" } else { "" };
        format!(
            r#"{{"eventSource":"SelfManagedKafka","bootstrapServers":"b:9092","records":{{{map}{end}}}}}"#
        )
    }
}
