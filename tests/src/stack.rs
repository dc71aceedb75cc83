//! The stack that is up, as `cargo xtask test` describes it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use aws_credential_types::Credentials;
use aws_sdk_sqs::config::{BehaviorVersion, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use serde::Deserialize;

/// The variable that names the stack's description.
const VARIABLE: &str = "ICEFALL_STACK";
/// The variable that names the catalog to test on; the first without.
const CATALOG_VARIABLE: &str = "ICEFALL_STACK_CATALOG";

/// A stack that is up. Its file has more in it, which the tests don't need.
#[derive(Clone, Debug, Deserialize)]
pub struct Stack {
    /// Which catalog `warehouse`, `table_bucket` and `catalog` are of.
    #[serde(skip)]
    pub which: WhichCatalog,
    second_catalog: Option<SecondCatalog>,
    /// The warehouse, as the catalog takes it.
    pub warehouse: String,
    /// The bucket that tables live in.
    pub table_bucket: String,
    /// Icefall's own bucket.
    pub ops_bucket: String,
    /// The Iceberg REST catalog.
    pub catalog: Service,
    /// The object store, with the key for the table bucket.
    pub store: Service,
    /// The object store, with the key for the ops bucket.
    pub ops: Service,
    /// The SQS server.
    pub queue: Service,
    /// The Kafka brokers.
    pub kafka_bootstrap: String,
}

/// One of the stack's catalogs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhichCatalog {
    /// SeaweedFS's, with a table bucket.
    #[default]
    First,
    /// Apache Iceberg's own, with an ordinary bucket. It asks for no signature.
    Second,
}

/// Apache Iceberg's own catalog, as the stack describes it.
#[derive(Clone, Debug, Deserialize)]
struct SecondCatalog {
    uri: String,
    failing_uri: String,
    warehouse: String,
    bucket: String,
}

/// One part, reached without the run's proxies, and its key.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    /// Where it is.
    #[serde(rename = "direct_endpoint")]
    pub endpoint: String,
    /// Its region.
    pub region: String,
    /// The access key id.
    pub access_key_id: String,
    /// The secret; one of this run alone.
    pub secret_access_key: String,
}

impl Stack {
    /// The stack that this process was started for.
    ///
    /// # Panics
    ///
    /// When there is none: these tests prove nothing without real parts, so they are never skipped.
    #[must_use]
    pub fn from_env() -> Self {
        let text =
            fs::read(Self::file()).expect("the stack's description can't be read: run `cargo xtask test`");
        let stack: Self =
            serde_json::from_slice(&text).expect("the stack's description is not the JSON that it should be");
        match env::var_os(CATALOG_VARIABLE).as_deref().map(OsStr::to_string_lossy).as_deref() {
            Some("second") => stack.on_second_catalog(),
            named => {
                assert!(named.unwrap_or("first") == "first", "{CATALOG_VARIABLE} must be first or second");
                stack
            }
        }
    }

    /// The same stack with the second catalog in the place of the first.
    ///
    /// # Panics
    ///
    /// When it is not up.
    #[must_use]
    pub fn on_second_catalog(mut self) -> Self {
        let second = self.second_catalog.clone();
        let second = second.expect("the second catalog is not up: run `cargo xtask test --all`");
        self.catalog = Service {
            endpoint: second.uri,
            region: String::new(),
            access_key_id: String::new(),
            secret_access_key: String::new(),
        };
        self.warehouse = second.warehouse;
        self.table_bucket = second.bucket;
        self.which = WhichCatalog::Second;
        self
    }

    /// The same stack with the second catalog as it fails now and then, even after it did what it was asked for.
    ///
    /// # Panics
    ///
    /// When it is not up.
    #[must_use]
    pub fn on_failing_catalog(self) -> Self {
        let mut stack = self.on_second_catalog();
        stack.catalog.endpoint = stack.second_catalog.as_ref().expect("it is up").failing_uri.clone();
        stack
    }

    /// Whether what needs Java is up.
    #[must_use]
    pub fn has_java(&self) -> bool {
        self.second_catalog.is_some()
    }

    /// The file that describes it.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn file() -> PathBuf {
        let path = env::var_os(VARIABLE).map(PathBuf::from);
        path.expect("no stack is up for this test: run `cargo xtask test`, which starts one")
    }

    /// The URL of a new queue of that name. Messages that were received and not deleted come back after
    /// `visibility_s` seconds.
    ///
    /// # Panics
    ///
    /// When it can't be made.
    pub async fn new_queue(&self, name: &str, visibility_s: u32) -> String {
        let Service { endpoint, region, access_key_id, secret_access_key } = &self.queue;
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(icefall_aws::http_client())
            .endpoint_url(endpoint)
            .region(Region::new(region.clone()))
            .credentials_provider(Credentials::new(access_key_id, secret_access_key, None, None, "stack"))
            .build();
        let create = aws_sdk_sqs::Client::from_conf(config)
            .create_queue()
            .queue_name(name)
            .attributes(QueueAttributeName::VisibilityTimeout, visibility_s.to_string())
            .attributes(QueueAttributeName::MaximumMessageSize, "1048576");
        create.send().await.expect("a queue").queue_url.expect("its URL")
    }
}
