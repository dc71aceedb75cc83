//! What each stage of a record's way costs.
//!
//! One event of the largest size that the event source mapping delivers, of the field's usual
//! clickstream shape with random ids, goes from its bytes to finished data files again and again on one
//! thread. The stages are timed apart, so that a change shows where it pays, and the quickest round
//! counts, in which nothing else had the processor. Run it with `--release`.

#![expect(clippy::print_stdout, reason = "a measurement is its output")]

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iceberg::spec::{NestedField, PartitionSpec, PrimitiveType, Schema, Transform, Type};
use icefall_convert::Converter;
use icefall_datafile::FileFormat;
use icefall_records::fingerprint::{self, Time};
use icefall_records::{DecodeBuffer, KafkaEvent};

const EVENT_BYTES: usize = 6_000_000;
const ROUNDS: usize = 200;
const HOURS: u64 = 3;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Pseudo-random numbers (`SplitMix64`), the same at each run.
struct Numbers(u64);

impl Numbers {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn uuid(&mut self) -> uuid::Uuid {
        uuid::Uuid::from_u64_pair(self.next(), self.next())
    }
}

fn value(numbers: &mut Numbers) -> Outcome<String> {
    let mut value = format!(
        r#"{{"event_id":"{}","user_id":{},"session_id":"{}","page_url":"https://shop.example.com/products/{}","event_type":"{}""#,
        numbers.uuid(),
        numbers.below(2_000_000),
        numbers.uuid(),
        numbers.below(5_000),
        ["page_view", "click", "add_to_cart", "purchase"]
            .get(usize::try_from(numbers.below(4))?)
            .unwrap_or(&""),
    );
    if numbers.below(2) == 0 {
        write!(value, r#","referrer":"https://search.example.com/?q={}""#, numbers.below(300))?;
    }
    let micros = numbers.below(HOURS * 3_600_000_000);
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (10 + seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(value, r#","event_time":"2024-05-01T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z"}}"#)?;
    Ok(value)
}

fn event() -> Outcome<String> {
    let mut numbers = Numbers(7);
    let mut event = r#"{"eventSource":"aws:kafka","eventSourceArn":"arn:aws:kafka:us-east-1:123456789012:cluster/c/1","bootstrapServers":"b-1:9092,b-2:9092","records":{"clickstream-0":["#.to_owned();
    for offset in 0.. {
        let encode = |text: &str| base64_simd::STANDARD.encode_to_string(text);
        let key = encode(&numbers.below(2_000_000).to_string());
        let value = encode(&value(&mut numbers)?);
        let comma = if offset == 0 { "" } else { "," };
        write!(
            event,
            r#"{comma}{{"topic":"clickstream","partition":0,"offset":{offset},"timestamp":{},"timestampType":"CREATE_TIME","key":"{key}","value":"{value}","headers":[]}}"#,
            1_714_557_600_000_u64 + offset,
        )?;
        if event.len() > EVENT_BYTES - 500 {
            break;
        }
    }
    event.push_str("]}}");
    Ok(event)
}

fn schema() -> Outcome<Schema> {
    let text = |id, name: &str| NestedField::required(id, name, Type::Primitive(PrimitiveType::String));
    let fields = [
        text(1, "event_id"),
        NestedField::required(2, "user_id", Type::Primitive(PrimitiveType::Long)),
        text(3, "session_id"),
        text(4, "page_url"),
        text(5, "event_type"),
        NestedField::optional(6, "referrer", Type::Primitive(PrimitiveType::String)),
        NestedField::required(7, "event_time", Type::Primitive(PrimitiveType::Timestamptz)),
    ];
    Ok(Schema::builder().with_fields(fields.map(Arc::new)).build()?)
}

/// The quickest round of each stage.
#[derive(Default)]
struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    fn time<T>(&mut self, name: &'static str, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let start = Instant::now();
        let done = work()?;
        let spent = start.elapsed();
        match self.0.iter_mut().find(|(stage, _)| *stage == name) {
            Some((_, quickest)) => *quickest = spent.min(*quickest),
            None => self.0.push((name, spent)),
        }
        Ok(done)
    }
}

fn main() -> Outcome<()> {
    let (event, schema) = (event()?, schema()?);
    let spec = PartitionSpec::builder(schema.clone())
        .add_partition_field("event_time", "event_time_hour", Transform::Hour)?
        .build()?;
    let format = FileFormat::new(&schema, &spec, &HashMap::new())?;
    let mut converter = Converter::new(&schema)?;
    let (mut stages, mut buffer) = (Stages::default(), DecodeBuffer::default());
    let (mut records, mut bytes) = (0, 0);
    for _ in 0..ROUNDS {
        let parsed = stages
            .time("parse, decode, fingerprint", || Ok(KafkaEvent::parse(event.as_bytes(), &mut buffer)?))?;
        records = parsed.len();
        let all = || parsed.partitions.iter().flat_map(|partition| &partition.records);
        stages.time("(a fingerprint from parts)", || {
            let fingerprints = all().map(|record| {
                let time = record.timestamp_ms.map_or(Time::None, Time::Millis);
                u64::from(fingerprint::compute(time, record.key, record.value).0)
            });
            Ok(std::hint::black_box(fingerprints.sum::<u64>()))
        })?;
        let batch = stages.time("convert", || {
            for record in all() {
                converter.append(record.value.ok_or("a tombstone")?.bytes)?;
            }
            Ok(converter.finish()?)
        })?;
        let mut serial = 0;
        let files = stages.time("split, Parquet, metrics", || {
            Ok(format.write(&batch, "s3://bucket/table", || {
                serial += 1;
                format!("file-{serial}")
            })?)
        })?;
        bytes = files.iter().map(|file| file.bytes.len()).sum();
    }
    println!("{records} records, {} bytes of event, {bytes} bytes of Parquet", event.len());
    let mut total = 0;
    for (name, quickest) in &stages.0 {
        let nanos = quickest.as_nanos() / records as u128;
        println!("{nanos:6} ns/record  {name}");
        total += if name.starts_with('(') { 0 } else { nanos };
    }
    println!("{total:6} ns/record  in all: {} records a second", 1_000_000_000 / total.max(1));
    Ok(())
}
