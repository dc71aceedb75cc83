//! A pipeline of one's own: settings, the adapters that they describe, and the two functions.

use std::error::Error;
use std::iter;
use std::net::TcpListener;
use std::time::Duration;

use iceberg::{NamespaceIdent, TableIdent};
use icefall_clock::{Clock, Entropy, SystemClock, SystemEntropy};
use icefall_committer::{Committer, DrainError};
use icefall_parts::Parts;
use icefall_settings::{Environment, Settings};
use icefall_writer::{Writer, WriterError};

use crate::event::TOPIC;
use crate::{Service, Stack};

/// The settings' keys under which secrets stand, by part.
pub const SECRETS: [&str; 4] = [
    "ICEFALL__CATALOG__CREDENTIALS__SECRET_ACCESS_KEY",
    "ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY",
    "ICEFALL__OPS__CREDENTIALS__SECRET_ACCESS_KEY",
    "ICEFALL__QUEUE__CREDENTIALS__SECRET_ACCESS_KEY",
];
/// How long an invocation of the committer may take.
const INVOCATION: Duration = Duration::from_mins(2);

/// Settings for one test, with a namespace, a queue and a prefix that no other test uses.
#[derive(Clone, Debug)]
pub struct Pipeline {
    stack: Stack,
    name: String,
    queue_url: String,
    overrides: Vec<(&'static str, String)>,
    declares_table: bool,
    catalog_sign_in: String,
    store_keys: String,
}

impl Pipeline {
    /// A pipeline on the stack that is up, whose table is declared.
    ///
    /// # Panics
    ///
    /// Without a stack.
    pub async fn new(name: &str, visibility_s: u32) -> Self {
        let stack = Stack::from_env();
        let name = format!("{name}-{:08x}", SystemEntropy.bits() >> 32);
        let queue_url = stack.new_queue(&name, visibility_s).await;
        let sign = format!("sign = {{ name = \"s3tables\", region = \"{}\" }}", stack.catalog.region);
        let catalog_sign_in = format!("{sign}\n{}", credentials(&stack.catalog));
        let store_keys = credentials(&stack.store);
        let (overrides, declares_table) = (Vec::new(), true);
        Self { stack, name, queue_url, overrides, declares_table, catalog_sign_in, store_keys }
    }

    /// The same with another way to sign in to the catalog: keys of `[catalog]`.
    #[must_use]
    pub fn with_catalog_sign_in(&self, keys: impl Into<String>) -> Self {
        Self { catalog_sign_in: keys.into(), ..self.clone() }
    }

    /// The same with other keys for the table store: keys of `[store]`.
    #[must_use]
    pub fn with_store_keys(&self, keys: impl Into<String>) -> Self {
        Self { store_keys: keys.into(), ..self.clone() }
    }

    /// The same with one setting overridden, as the environment does it.
    #[must_use]
    pub fn with(&self, variable: &'static str, value: impl Into<String>) -> Self {
        let mut other = self.clone();
        other.overrides.push((variable, value.into()));
        other
    }

    /// The same without the table's columns: then nobody creates it.
    #[must_use]
    pub fn undeclared(&self) -> Self {
        Self { declares_table: false, ..self.clone() }
    }

    /// The stack that it is on.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The namespace of its tables.
    #[must_use]
    pub fn namespace(&self) -> NamespaceIdent {
        NamespaceIdent::new(self.namespace_name())
    }

    /// Its table, to which [`TOPIC`] is routed.
    #[must_use]
    pub fn table(&self) -> TableIdent {
        TableIdent::new(self.namespace(), "clicks".to_owned())
    }

    /// The adapters that its settings describe, made as the functions make them.
    ///
    /// # Panics
    ///
    /// When the settings are wrong.
    pub async fn parts(&self) -> Parts {
        let environment = Environment::from_iter(self.overrides.clone());
        let settings = Settings::parse(&self.settings(), &environment).expect("good settings");
        Parts::of_settings(settings, "tests").await.expect("parts")
    }

    /// One invocation of a cold writer.
    pub async fn write(&self, event: &[u8]) -> Result<icefall_writer::Report, WriterError> {
        let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } = self.parts().await;
        let ports = icefall_writer::Ports { catalog, tables, ops, queue, clock, entropy, metrics };
        Writer::new(settings, ports).write(event, "request").await
    }

    /// One invocation of a cold committer.
    ///
    /// # Panics
    ///
    /// When the settings are wrong.
    pub async fn drain(&self) -> Result<icefall_committer::Report, DrainError> {
        let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } = self.parts().await;
        let ports = icefall_committer::Ports { catalog, tables, ops, queue, clock, entropy, metrics };
        let committer = Committer::new(settings, ports).expect("a committer");
        committer.drain(SystemClock.now().plus(INVOCATION)).await
    }

    /// Catalogs take lower-case letters, digits and underscores.
    fn namespace_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The text of its settings.
    #[must_use]
    pub fn settings(&self) -> String {
        let Stack { warehouse, ops_bucket, catalog, store, ops, queue, .. } = &self.stack;
        let (name, namespace, url) = (&self.name, self.namespace_name(), &self.queue_url);
        let table = if self.declares_table { declared(&namespace) } else { String::new() };
        format!(
            r#"
pipeline = "{name}"
kafka = {{ cluster = "local" }}
committer = {{ commit_interval = "100ms", linger = "1s" }}
dead_letters = {{ table = "{namespace}.dead_letters" }}

[catalog]
uri = "{uri}"
warehouse = "{warehouse}"
{catalog_sign_in}

[store]
endpoint = "{store_endpoint}"
region = "{store_region}"
{store_keys}
path_style = true

[ops]
bucket = "{ops_bucket}"
prefix = "{name}"
{ops}
path_style = true

[queue]
url = "{url}"
{queue}

{table}
[[route]]
topic = "{TOPIC}"
table = "{namespace}.clicks"
"#,
            uri = catalog.endpoint,
            catalog_sign_in = self.catalog_sign_in,
            store_endpoint = store.endpoint,
            store_region = store.region,
            store_keys = self.store_keys,
            ops = reached(ops),
            queue = reached(queue),
        )
    }
}

fn declared(namespace: &str) -> String {
    format!(
        r#"[[table]]
name = "{namespace}.clicks"
partition_by = ["hour(event_time)"]
columns = [
  {{ name = "event_id", type = "string", required = true }},
  {{ name = "user_id", type = "long" }},
  {{ name = "event_time", type = "timestamptz", required = true }},
]
"#
    )
}

fn reached(service: &Service) -> String {
    let Service { endpoint, region, .. } = service;
    format!("endpoint = \"{endpoint}\"\nregion = \"{region}\"\n{}", credentials(service))
}

fn credentials(service: &Service) -> String {
    let Service { access_key_id, secret_access_key, .. } = service;
    format!(
        "credentials = {{ access_key_id = \"{access_key_id}\", secret_access_key = \"{secret_access_key}\" }}"
    )
}

/// A URL at which nobody listens.
///
/// # Panics
///
/// When no port is free.
#[must_use]
pub fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("its address"))
}

/// An error with all that caused it, as the functions log it.
#[must_use]
pub fn reasons(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
