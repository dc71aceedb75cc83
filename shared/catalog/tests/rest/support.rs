//! A server that answers from a script, and what a client of it needs.
//!
//! It speaks just enough HTTP on a plain socket to misbehave on purpose, and keeps what it received byte for byte.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use iceberg::spec::{Operation, Snapshot, SnapshotReference, SnapshotRetention, Summary, TableMetadata};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};
use icefall_aws::{CachedCredentials, Network};
use icefall_catalog::{CatalogConfig, Commit, Limits, RestCatalog, SignIn, Signing};
use icefall_clock::{Clock, Entropy, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

/// The id of the snapshot that [`commit`] adds.
pub(crate) const SNAPSHOT: i64 = 4711;
pub(crate) const TABLE_UUID: Uuid = Uuid::from_u128(0x9c12_d441_03fe_4693_9a96_a070_5ddf_69c1);
pub(crate) const SECRET: &str = "wJalrXUtnFEMI-hush-secret";
pub(crate) const TOKEN: &str = "hush-token==";

/// How the server answers one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// With this status, these headers and this body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// By closing the connection once the request has been read.
    HangUp,
    /// By announcing more than it sends.
    Truncated(u16, Vec<u8>),
    /// Not at all.
    Silence,
    /// With an endless body.
    Endless(u16),
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::Answer(
            status,
            vec![("content-type", "application/json".to_owned())],
            body.to_string().into_bytes(),
        )
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self::Answer(status, Vec::new(), body.as_bytes().to_vec())
    }

    /// The specification's error.
    pub(crate) fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::json(
            status,
            &json!({"error": {"message": message, "type": kind, "code": status, "stack": ["at secret.Place"]}}),
        )
    }
}

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = named.next().map(|(_, value)| value.as_str());
        assert!(named.next().is_none(), "{name} came twice: {:?}", self.headers);
        value
    }
}

/// The scripted server. The last reply is repeated for ever.
#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Answers `GET …/v1/config` with an empty configuration, and all else from the script.
    pub(crate) fn start(replies: Vec<Reply>) -> Self {
        Self::with_config(&json!({"defaults": {}, "overrides": {"prefix": "lake"}}), replies)
    }

    pub(crate) fn with_config(config: &Value, replies: Vec<Reply>) -> Self {
        Self::with_config_replies(vec![Reply::json(200, config)], replies)
    }

    pub(crate) fn with_config_replies(config: Vec<Reply>, replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        thread::spawn(move || {
            let (mut config, mut replies) = (Script(config), Script(replies));
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read_request(&mut stream) else { continue };
                let asks_config = request.target.contains("/v1/config");
                let reply = if asks_config { config.next() } else { replies.next() };
                log.lock().unwrap().push(request);
                thread::spawn(move || answer(stream, &reply));
            }
        });
        Self { port, received }
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}/iceberg", self.port)
    }

    /// What came besides requests for the configuration.
    pub(crate) fn received(&self) -> Vec<Received> {
        let all = self.received.lock().unwrap().clone();
        all.into_iter().filter(|request| !request.target.contains("/v1/config")).collect()
    }

    pub(crate) fn received_configs(&self) -> Vec<Received> {
        let all = self.received.lock().unwrap().clone();
        all.into_iter().filter(|request| request.target.contains("/v1/config")).collect()
    }
}

struct Script(Vec<Reply>);

impl Script {
    fn next(&mut self) -> Reply {
        if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() }
    }
}

fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        more(stream, &mut bytes)?;
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> =
        lines.filter_map(|line| line.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let length = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < head + 4 + length {
        more(stream, &mut bytes)?;
    }
    Some(Received { method, target, headers, body: bytes[head + 4..].to_vec() })
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
    bytes.extend_from_slice(&buffer[..read]);
    Some(())
}

fn answer(mut stream: TcpStream, reply: &Reply) {
    // A client that gives up early makes writing fail, which is what it is meant to do.
    let _ = match reply {
        Reply::Answer(status, headers, body) => {
            let lines = headers.iter().fold(String::new(), |lines, (k, v)| lines + k + ": " + v + "\r\n");
            let head = head(*status, &format!("{lines}content-length: {}\r\n", body.len()));
            stream.write_all(&[head.as_bytes(), body].concat())
        }
        Reply::HangUp => Ok(()),
        Reply::Truncated(status, body) => {
            let head = head(*status, &format!("content-length: {}\r\n", body.len() + 100));
            stream.write_all(&[head.as_bytes(), body].concat())
        }
        Reply::Silence => {
            thread::sleep(Duration::from_secs(30));
            Ok(())
        }
        Reply::Endless(status) => endless(&mut stream, *status),
    };
}

fn endless(stream: &mut TcpStream, status: u16) -> std::io::Result<()> {
    stream.write_all(head(status, "").as_bytes())?;
    loop {
        stream.write_all(&[b'{'; 4096])?;
    }
}

fn head(status: u16, headers: &str) -> String {
    format!("HTTP/1.1 {status} Scripted\r\n{headers}connection: close\r\n\r\n")
}

/// A clock that stands still but for its sleeps, which take no time at all.
#[derive(Debug)]
pub(crate) struct StillClock(Mutex<(Timestamp, Vec<Duration>)>);

impl StillClock {
    pub(crate) fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new((now, Vec::new()))))
    }

    pub(crate) fn advance(&self, duration: Duration) {
        let mut state = self.0.lock().unwrap();
        state.0 = state.0.plus(duration);
    }

    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.0.lock().unwrap().1.clone()
    }
}

#[async_trait]
impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }

    async fn sleep(&self, duration: Duration) {
        let mut state = self.0.lock().unwrap();
        state.0 = state.0.plus(duration);
        state.1.push(duration);
    }
}

#[derive(Debug)]
pub(crate) struct NoEntropy;

impl Entropy for NoEntropy {
    fn bits(&self) -> u64 {
        0
    }
}

pub(crate) fn credentials() -> Credentials {
    Credentials::new("AKIDEXAMPLE", SECRET, Some(TOKEN.to_owned()), None, "test")
}

/// 2026-08-30T12:36:00Z, at which the tests' clocks stand.
pub(crate) const NOW: Timestamp = Timestamp::from_unix_ms(1_788_093_360_000);

pub(crate) fn signing(name: &str) -> Signing {
    signing_with(name, credentials(), StillClock::at(NOW))
}

pub(crate) fn signing_with(
    name: &str,
    provider: impl ProvideCredentials + 'static,
    clock: Arc<dyn Clock>,
) -> Signing {
    let credentials = CachedCredentials::new(provider, clock);
    Signing { name: name.to_owned(), region: "us-east-1".to_owned(), credentials }
}

pub(crate) fn limits() -> Limits {
    Limits { request_timeout: Duration::from_millis(400), answer_bytes: 1 << 20, ..Limits::default() }
}

/// A client of `uri` and its clock, signed as S3 Tables wants it.
pub(crate) fn client(uri: String) -> (RestCatalog, Arc<StillClock>) {
    client_with(uri, Some(signing("s3tables")))
}

pub(crate) fn client_with(uri: String, signing: Option<Signing>) -> (RestCatalog, Arc<StillClock>) {
    let clock = StillClock::at(NOW);
    let sign_in = signing.map_or(SignIn::Unsigned, SignIn::SigV4);
    (client_by(uri, sign_in, false, &clock), clock)
}

pub(crate) fn client_by(
    uri: String,
    sign_in: SignIn,
    vended_credentials: bool,
    clock: &Arc<StillClock>,
) -> RestCatalog {
    let (warehouse, network) = ("s3://lake".to_owned(), Network::default());
    let config = CatalogConfig { uri, warehouse, sign_in, vended_credentials, network, limits: limits() };
    let time: Arc<dyn Clock> = Arc::<StillClock>::clone(clock);
    RestCatalog::new(config, time, Arc::new(NoEntropy)).unwrap()
}

pub(crate) fn table() -> TableIdent {
    TableIdent::new(NamespaceIdent::new("analytics".to_owned()), "clicks".to_owned())
}

/// A table's metadata, with the snapshot of [`commit`] or without any.
pub(crate) fn metadata(with_snapshot: bool) -> Value {
    let mut metadata = json!({
        "format-version": 2, "table-uuid": TABLE_UUID, "location": "s3://lake/analytics/clicks",
        "last-sequence-number": i32::from(with_snapshot), "last-updated-ms": 1_788_093_360_000_i64, "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]}],
        "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0, "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0, "properties": {"a": "b"},
    });
    if with_snapshot {
        metadata["current-snapshot-id"] = SNAPSHOT.into();
        metadata["refs"] = json!({"main": {"snapshot-id": SNAPSHOT, "type": "branch"}});
        metadata["snapshots"] = json!([{
            "snapshot-id": SNAPSHOT, "sequence-number": 1, "timestamp-ms": 1_788_093_360_000_i64, "schema-id": 0,
            "manifest-list": "s3://lake/analytics/clicks/metadata/snap-4711.avro", "summary": {"operation": "append"}
        }]);
    }
    metadata
}

/// A load's or a commit's answer.
pub(crate) fn table_body(with_snapshot: bool) -> Value {
    json!({"metadata": metadata(with_snapshot), "metadata-location": "s3://lake/analytics/clicks/metadata/v1.metadata.json"})
}

pub(crate) fn parsed_metadata() -> TableMetadata {
    serde_json::from_value(metadata(false)).unwrap()
}

/// A commit that adds the snapshot [`SNAPSHOT`] to main.
pub(crate) fn commit() -> Commit {
    let snapshot = Snapshot::builder()
        .with_snapshot_id(SNAPSHOT)
        .with_sequence_number(1)
        .with_timestamp_ms(1_788_093_360_000)
        .with_manifest_list("s3://lake/analytics/clicks/metadata/snap-4711.avro")
        .with_summary(Summary { operation: Operation::Append, additional_properties: [].into() })
        .with_schema_id(0)
        .build();
    let retention = SnapshotRetention::branch(None, None, None);
    Commit::new(
        vec![
            TableRequirement::UuidMatch { uuid: TABLE_UUID },
            TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id: None },
        ],
        vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef {
                ref_name: "main".to_owned(),
                reference: SnapshotReference { snapshot_id: SNAPSHOT, retention },
            },
        ],
        Uuid::from_u128(7),
    )
}

/// A commit that adds no snapshot.
pub(crate) fn property_commit(key: &str, value: &str) -> Commit {
    let updates = [(key.to_owned(), value.to_owned())].into();
    Commit::new(Vec::new(), vec![TableUpdate::SetProperties { updates }], Uuid::from_u128(8))
}
