//! Events as the Kafka event source mapping delivers them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The topic that pipelines route.
pub const TOPIC: &str = "clicks";

/// The topic that pipelines with a second table route there.
pub const OTHER_TOPIC: &str = "others";

/// The timestamp of the record at offset 0; each later one is a millisecond newer. The key is the offset.
pub(crate) const FIRST_MS: u64 = 1_772_000_000_000;

/// A good record's value for the declared table.
#[must_use]
pub fn click(n: u64) -> String {
    json!({
        "event_id": format!("e-{n}"),
        "user_id": n,
        "event_time": format!("2026-03-01T{:02}:30:00Z", n % 24),
    })
    .to_string()
}

/// An event of one partition of [`TOPIC`] whose records have these values, from offset `first` on.
#[must_use]
pub fn event(partition: i32, first: u64, values: &[String]) -> Vec<u8> {
    event_of(TOPIC, partition, first, values)
}

/// The same of another topic.
#[must_use]
pub fn event_of(topic: &str, partition: i32, first: u64, values: &[String]) -> Vec<u8> {
    let records: Vec<Value> = (first..)
        .zip(values)
        .map(|(offset, value)| {
            json!({
                "topic": topic, "partition": partition, "offset": offset,
                "timestamp": FIRST_MS + offset, "timestampType": "CREATE_TIME",
                "key": STANDARD.encode(offset.to_string()), "value": STANDARD.encode(value), "headers": [],
            })
        })
        .collect();
    let event = json!({
        "eventSource": "SelfManagedKafka", "bootstrapServers": "127.0.0.1:9092",
        "records": { format!("{topic}-{partition}"): records },
    });
    event.to_string().into_bytes()
}
