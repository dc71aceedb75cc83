//! A pipeline of one's own: settings, the adapters that they describe, and the two functions.

use std::error::Error;
use std::iter;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::Catalog;
use icefall_clock::{Clock, Entropy, SystemClock, SystemEntropy};
use icefall_committer::{Committer, DrainError};
use icefall_parts::Parts;
use icefall_settings::{Environment, Settings};
use icefall_writer::{Writer, WriterError};

use crate::{OTHER_TOPIC, Service, Stack, WhichCatalog};

/// The settings' keys under which secrets stand, by part.
pub const SECRETS: [&str; 4] = [
    "ICEFALL__CATALOG__CREDENTIALS__SECRET_ACCESS_KEY",
    "ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY",
    "ICEFALL__OPS__CREDENTIALS__SECRET_ACCESS_KEY",
    "ICEFALL__QUEUE__CREDENTIALS__SECRET_ACCESS_KEY",
];
/// How long an invocation of the committer may take.
const INVOCATION: Duration = Duration::from_mins(2);

/// The table that most tests use.
const TABLE: &str = r#"
[[table]]
name = "NAMESPACE.clicks"
partition_by = ["hour(event_time)"]
columns = [
  { name = "event_id", type = "string", required = true },
  { name = "user_id", type = "long" },
  { name = "event_time", type = "timestamptz", required = true },
]
"#;
/// The route of [`TOPIC`](crate::TOPIC) to it.
const ROUTE: &str = r#"
[[route]]
topic = "clicks"
table = "NAMESPACE.clicks"
"#;

/// Settings for one test, with a namespace, a queue and a prefix that no other test uses.
#[derive(Clone, Debug)]
pub struct Pipeline {
    stack: Stack,
    name: String,
    queue_url: String,
    overrides: Vec<(&'static str, String)>,
    /// Tables and routes as TOML.
    tables: String,
    /// Keys of `[catalog]` and `[store]`.
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
        Self::on(Stack::from_env(), name, visibility_s).await
    }

    /// The same on this stack.
    ///
    /// # Panics
    ///
    /// When its queue can't be made.
    pub async fn on(stack: Stack, name: &str, visibility_s: u32) -> Self {
        let name = format!("{name}-{:08x}", SystemEntropy.bits() >> 32);
        let queue_url = stack.new_queue(&name, visibility_s).await;
        let catalog_sign_in = match stack.which {
            WhichCatalog::First => signing(&stack.catalog),
            WhichCatalog::Second => String::new(),
        };
        let store_keys = credentials(&stack.store);
        let (overrides, tables) = (Vec::new(), String::new());
        let pipeline = Self { stack, name, queue_url, overrides, tables, catalog_sign_in, store_keys };
        pipeline.declaring(&format!("{TABLE}{ROUTE}"))
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
        self.declaring(ROUTE)
    }

    /// The same with these tables and routes, as TOML in which `NAMESPACE` stands for its namespace.
    #[must_use]
    pub fn declaring(&self, tables_and_routes: &str) -> Self {
        Self { tables: tables_and_routes.replace("NAMESPACE", &self.namespace_name()), ..self.clone() }
    }

    /// The same with a second table, to which [`OTHER_TOPIC`] is routed.
    #[must_use]
    pub fn with_other_table(&self) -> Self {
        let table = TABLE.replace("clicks", "others");
        let route = format!("[[route]]\ntopic = \"{OTHER_TOPIC}\"\ntable = \"NAMESPACE.others\"\n");
        self.declaring(&format!("{TABLE}{table}{ROUTE}{route}"))
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

    /// Its table, to which [`TOPIC`](crate::TOPIC) is routed.
    #[must_use]
    pub fn table(&self) -> TableIdent {
        TableIdent::new(self.namespace(), "clicks".to_owned())
    }

    /// The second table, if it has one.
    #[must_use]
    pub fn other_table(&self) -> TableIdent {
        TableIdent::new(self.namespace(), "others".to_owned())
    }

    /// The same with a queue of its own, as another deployment on the same tables would have.
    pub async fn with_queue(&self, name: &str, visibility_s: u32) -> Self {
        let queue_url = self.stack.new_queue(&format!("{}-{name}", self.name), visibility_s).await;
        Self { queue_url, ..self.clone() }
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
        self.drain_through(|catalog| catalog).await
    }

    /// The same, with something of a test's own before the catalog.
    ///
    /// # Panics
    ///
    /// When the settings are wrong.
    pub async fn drain_through(
        &self,
        before: impl FnOnce(Arc<dyn Catalog>) -> Arc<dyn Catalog>,
    ) -> Result<icefall_committer::Report, DrainError> {
        let Parts { settings, catalog, tables, ops, queue, clock, entropy, metrics } = self.parts().await;
        let catalog = before(catalog);
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
        format!(
            r#"
pipeline = "{name}"
kafka = {{ cluster = "local" }}
committer = {{ commit_interval = "100ms", linger = "1s", hold = "2s" }}
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

{tables}
"#,
            uri = catalog.endpoint,
            catalog_sign_in = self.catalog_sign_in,
            store_endpoint = store.endpoint,
            store_region = store.region,
            store_keys = self.store_keys,
            tables = self.tables,
            ops = reached(ops),
            queue = reached(queue),
        )
    }
}

fn signing(service: &Service) -> String {
    let region = &service.region;
    format!("sign = {{ name = \"s3tables\", region = \"{region}\" }}\n{}", credentials(service))
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
