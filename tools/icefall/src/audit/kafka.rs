//! Topics of a Kafka cluster, read by librdkafka.
//!
//! Partitions are assigned by hand, from the offsets that the audit begins with: no consumer group is joined, and no offset
//! is ever committed. (The library wants a group's name all the same; brokers never hear of members.) What is read is what
//! the given isolation level shows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use icefall_manifest::{Offset, Partition, Topic};
use icefall_records::fingerprint::{Fingerprinter, Time};
use icefall_records::{Form, Payload};
use icefall_settings::{AuditSettings, KafkaSignIn, NetworkSettings, PasswordMechanism};
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::{Offset as Start, TopicPartitionList};

use super::batches::{Batches, Next, Record};
use super::compare::Seen;
use super::msk::MskKeys;
use super::topic::{Extent, Reader, TopicError, Topics};

/// How long an answer of the brokers may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the first one is waited for before it is looked whether there will be one; the next for twice as long.
const FIRST_TRY: Duration = Duration::from_secs(3);
/// How long a partition may show nothing new before its end.
const SILENCE: Duration = Duration::from_mins(1);
/// How long one look for a record waits.
const LOOK: Duration = Duration::from_millis(100);
/// Records that wait to be looked at, in all partitions of a reader, and at least in each. More would cost CPU time, and
/// save none of the wall's: their memory would be new for each, and no longer in the processor's caches when it is their turn.
const WAITING_KIB: usize = 16 * 1024;
const LEAST_WAITING_KIB: usize = 1024;

/// Which records a reader is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Isolation {
    /// None of aborted transactions, and nothing beyond one that is still open.
    #[value(name = "read_committed")]
    ReadCommitted,
    /// All.
    #[value(name = "read_uncommitted")]
    ReadUncommitted,
}

/// A Kafka cluster.
#[derive(Debug)]
pub struct KafkaTopics {
    config: ClientConfig,
    context: Context,
}

impl KafkaTopics {
    /// The cluster that the settings name, or the one at `bootstrap`. Nothing is asked of it yet.
    pub fn new(
        settings: &AuditSettings,
        network: &NetworkSettings,
        bootstrap: Option<&str>,
        isolation: Isolation,
        keys: Option<MskKeys>,
    ) -> Result<Self, TopicError> {
        let bootstrap = bootstrap.or(settings.bootstrap.as_deref()).ok_or_else(|| {
            let remedy = "say which brokers to read from: --kafka HOST:PORT, audit.bootstrap in the settings, or \
                          ICEFALL__AUDIT__BOOTSTRAP";
            TopicError::Settings(remedy.to_owned())
        })?;
        let mut config = plain(bootstrap, isolation);
        sign_in(&mut config, settings);
        if let Some(bundle) = network.ca_bundle.as_ref().filter(|_| settings.tls) {
            config.set("ssl.ca.location", bundle.display().to_string());
        }
        let context = Context { keys, last_problem: Arc::default(), is_refused: Arc::default() };
        Ok(Self { config, context })
    }

    fn consumer(&self, topic: &Topic) -> Result<Arc<BaseConsumer<Context>>, TopicError> {
        let made = self.config.create_with_context(self.context.clone());
        made.map(Arc::new).map_err(|fault| unmade(topic, &fault))
    }

    /// One that is told where a partition ends, whatever holds back its last records: brokers tell others where the first
    /// transaction begins that is still open.
    fn unheld(&self, topic: &Topic) -> Result<BaseConsumer<Context>, TopicError> {
        let mut config = self.config.clone();
        config.set("isolation.level", "read_uncommitted");
        config.create_with_context(self.context.clone()).map_err(|fault| unmade(topic, &fault))
    }

    /// What the brokers say of a topic. Why they can't be reached is told as events, which somebody has to look at; who
    /// is refused is not kept waiting.
    fn metadata(&self, consumer: &BaseConsumer<Context>, topic: &Topic) -> Result<Metadata, TopicError> {
        let (begun, mut wait) = (Instant::now(), FIRST_TRY);
        loop {
            let found = consumer.fetch_metadata(Some(topic.as_str()), wait);
            let fault = match found {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            drop(consumer.poll(LOOK));
            if begun.elapsed() >= PATIENCE || self.context.is_refused.load(Ordering::Relaxed) {
                return Err(self.broken(topic, &fault));
            }
            wait *= 2;
        }
    }

    fn broken(&self, topic: &Topic, fault: &KafkaError) -> TopicError {
        TopicError::Broker { topic: topic.clone(), why: self.context.told(fault) }
    }
}

fn unmade(topic: &Topic, fault: &KafkaError) -> TopicError {
    let why = format!(
        "{fault}; for TLS, scram-… and msk-iam this program has to be built with OpenSSL: \
         cargo build --release -p icefall-cli --features kafka-tls"
    );
    TopicError::Broker { topic: topic.clone(), why }
}

/// What is set for every cluster.
fn plain(bootstrap: &str, isolation: Isolation) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Error);
    let isolation = match isolation {
        Isolation::ReadCommitted => "read_committed",
        Isolation::ReadUncommitted => "read_uncommitted",
    };
    for (key, value) in [
        ("bootstrap.servers", bootstrap),
        ("client.id", "icefall-audit"),
        ("group.id", "icefall-audit"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "true"),
        ("allow.auto.create.topics", "false"),
        ("auto.offset.reset", "error"),
        ("isolation.level", isolation),
        ("check.crcs", "true"),
        ("fetch.wait.max.ms", "100"),
        ("queued.min.messages", "100000"),
        // Partitions are read one after the other: when one's records run out, more are wanted at once, and not after a second.
        ("fetch.queue.backoff.ms", "5"),
        // Some brokers answer with all that they have, whatever they are asked for.
        ("receive.message.max.bytes", "1000000000"),
    ] {
        config.set(key, value);
    }
    config
}

fn sign_in(config: &mut ClientConfig, settings: &AuditSettings) {
    let mechanism = match &settings.sign_in {
        KafkaSignIn::None => None,
        KafkaSignIn::MskIam(..) => Some("OAUTHBEARER"),
        KafkaSignIn::Password { mechanism, username, password } => {
            config.set("sasl.username", username).set("sasl.password", password.expose());
            Some(match mechanism {
                PasswordMechanism::Plain => "PLAIN",
                PasswordMechanism::ScramSha256 => "SCRAM-SHA-256",
                PasswordMechanism::ScramSha512 => "SCRAM-SHA-512",
            })
        }
    };
    let protocol = match (mechanism.is_some(), settings.tls) {
        (false, false) => "PLAINTEXT",
        (false, true) => "SSL",
        (true, false) => "SASL_PLAINTEXT",
        (true, true) => "SASL_SSL",
    };
    config.set("security.protocol", protocol);
    if let Some(mechanism) = mechanism {
        config.set("sasl.mechanism", mechanism);
    }
}

impl Topics for KafkaTopics {
    fn extents(&self, topic: &Topic) -> Result<Vec<Extent>, TopicError> {
        let consumer = self.consumer(topic)?;
        // Tokens are fetched where events are looked at, and nothing is answered without.
        let wait = if self.context.keys.is_some() { LOOK } else { Duration::ZERO };
        drop(consumer.poll(wait));
        let found = self.metadata(&consumer, topic)?;
        let known = found.topics().iter().find(|known| known.name() == topic.as_str());
        let known = known.filter(|known| known.error().is_none() && !known.partitions().is_empty());
        let known = known.ok_or_else(|| TopicError::NoTopic(topic.clone()))?;
        let unheld = self.unheld(topic)?;
        drop(unheld.poll(wait));
        let mut extents = Vec::new();
        for partition in known.partitions().iter().filter_map(|known| Partition::new(known.id().into())) {
            let marks = |consumer: &BaseConsumer<Context>| {
                let marks = consumer.fetch_watermarks(topic.as_str(), partition.number(), PATIENCE);
                marks.map_err(|fault| self.broken(topic, &fault))
            };
            // In this order, what is added meanwhile does not look as if it were held back.
            let (_, high) = marks(&unheld)?;
            let (start, end) = marks(&consumer)?;
            extents.push(Extent { partition, start, end, high: high.max(end) });
        }
        extents.sort_by_key(|extent| extent.partition);
        Ok(extents)
    }

    fn reader(&self, topic: &Topic, extents: &[Extent]) -> Result<Box<dyn Reader>, TopicError> {
        let mut config = self.config.clone();
        let share = (WAITING_KIB / extents.len().max(1)).max(LEAST_WAITING_KIB);
        config.set("queued.max.messages.kbytes", share.to_string());
        let consumer: BaseConsumer<Context> =
            config.create_with_context(self.context.clone()).map_err(|fault| unmade(topic, &fault))?;
        let consumer = Arc::new(consumer);
        let mut wanted = TopicPartitionList::new();
        let mut partitions = BTreeMap::new();
        for extent in extents.iter().filter(|extent| extent.start < extent.end) {
            let number = extent.partition.number();
            let records = Batches::of(&consumer, topic.as_str(), number);
            let records = records.ok_or_else(|| TopicError::NoTopic(topic.clone()))?;
            let added = wanted.add_partition_offset(topic.as_str(), number, Start::Offset(extent.start));
            added.map_err(|fault| self.broken(topic, &fault))?;
            let (position, end) = (extent.start, extent.end);
            partitions.insert(extent.partition, Queue { records, position, end, ended: false, ahead: None });
        }
        consumer.assign(&wanted).map_err(|fault| self.broken(topic, &fault))?;
        let fingerprinter = Fingerprinter::default();
        Ok(Box::new(KafkaReader { topic: topic.clone(), consumer, partitions, fingerprinter }))
    }
}

/// What librdkafka tells besides records.
#[derive(Clone, Debug)]
struct Context {
    keys: Option<MskKeys>,
    /// Its last complaint, for the error that comes of it.
    last_problem: Arc<Mutex<Option<String>>>,
    /// Whether the brokers don't accept who asks, or are not accepted: trying again changes neither.
    is_refused: Arc<AtomicBool>,
}

impl Context {
    /// `fault` with the complaint that explains it.
    fn told(&self, fault: &KafkaError) -> String {
        let last = self.last_problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.map_or_else(|| fault.to_string(), |last| format!("{fault}; {last}"))
    }

    fn last(&self) -> String {
        let last = self.last_problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.unwrap_or_else(|| "the brokers say nothing".to_owned())
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, _: RDKafkaLogLevel, _: &str, message: &str) {
        self.last_problem.lock().unwrap_or_else(PoisonError::into_inner).replace(message.to_owned());
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let for_good = [RDKafkaErrorCode::Authentication, RDKafkaErrorCode::SSL];
        if error.rdkafka_error_code().is_some_and(|code| for_good.contains(&code)) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        let problem = format!("{error}: {reason}");
        self.last_problem.lock().unwrap_or_else(PoisonError::into_inner).replace(problem);
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let keys = self.keys.as_ref().ok_or("no keys are there to sign in with")?;
        let token = keys.token()?;
        Ok(OAuthToken {
            token: token.text.expose().to_owned(),
            principal_name: "icefall".to_owned(),
            lifetime_ms: token.ends_ms,
        })
    }
}

impl ConsumerContext for Context {}

/// A partition's records as they come in.
struct Queue {
    records: Batches<Context>,
    /// The offset that comes next, as far as is known.
    position: i64,
    /// Where the audit ends.
    end: i64,
    /// Whether all that can be read was.
    ended: bool,
    /// A record that was met beyond the end of what was asked for.
    ahead: Option<Seen>,
}

/// Some partitions of a topic, under way.
struct KafkaReader {
    topic: Topic,
    consumer: Arc<BaseConsumer<Context>>,
    partitions: BTreeMap<Partition, Queue>,
    fingerprinter: Fingerprinter,
}

impl fmt::Debug for KafkaReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaReader").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Reader for KafkaReader {
    fn read(&mut self, partition: Partition, end: i64, each: &mut dyn FnMut(Seen)) -> Result<(), TopicError> {
        // Group and token events come here; nothing else does, since each partition has a queue of its own.
        drop(self.consumer.poll(Duration::ZERO));
        let Some(queue) = self.partitions.get_mut(&partition) else { return Ok(()) };
        let end = end.min(queue.end);
        if let Some(ahead) = queue.ahead.take_if(|ahead| ahead.offset.position() < end) {
            each(ahead);
        }
        let mut silent_since: Option<Instant> = None;
        while !queue.ended && queue.ahead.is_none() && queue.position < end {
            let failed =
                |position, why| TopicError::Partition { topic: self.topic.clone(), partition, position, why };
            match queue.records.next(LOOK) {
                Next::Record(record) => {
                    let position = record.position;
                    let seen = seen(&mut self.fingerprinter, record);
                    let seen = seen.ok_or_else(|| failed(position, "its offset is none".to_owned()))?;
                    (queue.position, silent_since) = (position + 1, None);
                    if position >= end { queue.ahead = Some(seen) } else { each(seen) }
                }
                Next::End => queue.ended = true,
                Next::Failed(code, reason) => {
                    let fault = KafkaError::MessageConsumption(code);
                    return Err(failed(queue.position, format!("{fault}: {reason}")));
                }
                Next::Silence if silent_since.get_or_insert_with(Instant::now).elapsed() > SILENCE => {
                    return Err(failed(queue.position, self.consumer.context().last()));
                }
                Next::Silence => drop(self.consumer.poll(Duration::ZERO)),
            }
        }
        Ok(())
    }
}

/// What the audit needs of a record; `None` if its offset is none.
fn seen(fingerprinter: &mut Fingerprinter, record: Record<'_>) -> Option<Seen> {
    let bytes = |bytes| Payload { form: Form::Bytes, bytes };
    let (key, value) = (record.key.map(bytes), record.value.map(bytes));
    let fingerprint = fingerprinter.compute(record.time.map_or(Time::None, Time::Millis), key, value);
    Some(Seen { offset: Offset::new(record.position)?, fingerprint, tombstone: value.is_none() })
}
