//! A topic on the stack's broker, with the very records that [`event_of`](crate::event_of) delivers.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::Stack;
use crate::event::FIRST_MS;

const PATIENCE: Duration = Duration::from_secs(30);

/// A topic of a test's own.
pub struct TopicOnBroker {
    name: String,
    producer: BaseProducer,
}

impl std::fmt::Debug for TopicOnBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicOnBroker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TopicOnBroker {
    /// Makes the topic.
    ///
    /// # Panics
    ///
    /// When the broker doesn't.
    pub async fn new(stack: &Stack, name: &str, partitions: i32) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &stack.kafka_bootstrap);
        let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
        // The records' timestamps may be older than what brokers keep by default.
        let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1)).set("retention.ms", "-1");
        let made = admin.create_topics([&new], &AdminOptions::new()).await.expect("an answer");
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        Self { name: name.to_owned(), producer: config.create().expect("a producer") }
    }

    /// Produces these values to a partition whose next offset is `first`.
    ///
    /// # Panics
    ///
    /// When the broker does not take them.
    pub fn produce(&self, partition: i32, first: u64, values: &[String]) {
        for (offset, value) in (first..).zip(values) {
            let timestamp = i64::try_from(FIRST_MS + offset).expect("a time");
            let key = offset.to_string();
            let record = BaseRecord::to(&self.name).partition(partition).timestamp(timestamp);
            let sent = self.producer.send(record.key(&key).payload(value));
            sent.map_err(|(fault, _)| fault).expect("it is queued");
        }
        self.producer.flush(PATIENCE).expect("the broker has them");
    }
}
