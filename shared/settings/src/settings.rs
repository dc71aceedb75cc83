//! The settings, validated: what the rest of Icefall is given.
//!
//! A [`Settings`] exists only if all of it can be used, so nothing downstream checks again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use iceberg::spec::{Schema, UnboundPartitionSpec};
use icefall_manifest::{Branch, ClusterName, PipelineId, TableName, Topic};
use icefall_secret::Secret;

use crate::credentials::CredentialsSettings;
use crate::environment::Environment;
use crate::fault::{Faults, Key, SettingsError};
use crate::node::Node;
use crate::partition::PartitionField;
use crate::raw::RawSettings;
use crate::read::Read;
use crate::reference::SecretReference;
use crate::table::Definition;
use crate::types::Column;
use crate::validate;
use crate::values::{ByteSize, HttpUrl, Region};

/// All of Icefall's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The pipeline's id.
    pub pipeline: PipelineId,
    /// The Kafka cluster's name. Absent: MSK's is in the event; self-managed Kafka is refused.
    pub cluster: Option<ClusterName>,
    /// Other clusters whose records are in the tables, too.
    pub known_clusters: Vec<ClusterName>,
    /// What stands between Icefall and everything that it talks to.
    pub network: NetworkSettings,
    /// The Iceberg REST catalog.
    pub catalog: CatalogSettings,
    /// The object store that the tables lie in.
    pub store: StoreSettings,
    /// Icefall's own bucket.
    pub ops: OpsSettings,
    /// The commit queue.
    pub queue: QueueSettings,
    /// The committer's rounds.
    pub committer: CommitterSettings,
    /// The table of dead letters; neither declared nor routed to.
    pub dead_letters: TableName,
    /// How the operator's tool reads topics.
    pub audit: AuditSettings,
    /// The declared tables, each name once.
    pub tables: Vec<TableSettings>,
    /// The routes, each topic once; at least one.
    pub routes: Vec<Route>,
}

impl Settings {
    /// Reads the settings' TOML `text` with the overrides that `environment` holds. The error names
    /// everything that is wrong, not just the first.
    /// Secrets that are kept elsewhere are faults here: see [`draft`](Self::draft).
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, SettingsError> {
        Self::draft(text, environment)?.resolve(BTreeMap::new())
    }

    /// Reads and checks everything, and leaves open only what secrets that are kept elsewhere hold.
    pub fn draft(text: &str, environment: &Environment) -> Result<Draft, SettingsError> {
        let (settings, references) = read(text, environment, BTreeMap::new())?;
        Ok(Draft {
            text: Secret::new(text.to_owned()),
            environment: environment.clone(),
            settings,
            references,
        })
    }

    /// Where the records of `topic` go.
    #[must_use]
    pub fn route(&self, topic: &Topic) -> Option<&Route> {
        self.routes.iter().find(|route| route.topic == *topic)
    }

    /// What is declared of `table`; nothing, if it is only routed to.
    #[must_use]
    pub fn table(&self, table: &TableName) -> Option<&TableSettings> {
        self.tables.iter().find(|declared| declared.name == *table)
    }

    /// The branch of `table` that snapshots are added to.
    #[must_use]
    pub fn branch(&self, table: &TableName) -> Branch {
        self.table(table).map_or_else(Branch::main, |declared| declared.branch.clone())
    }
}

/// Settings that are sound but for secrets that are kept elsewhere.
#[derive(Debug)]
pub struct Draft {
    text: Secret,
    environment: Environment,
    /// With stand-ins for those secrets.
    settings: Settings,
    references: Vec<SecretReference>,
}

impl Draft {
    /// The secrets that are kept elsewhere.
    #[must_use]
    pub fn references(&self) -> &[SecretReference] {
        &self.references
    }

    /// How everything is reached, the places that hold the secrets included.
    #[must_use]
    pub fn network(&self) -> &NetworkSettings {
        &self.settings.network
    }

    /// The settings, with the secrets by the keys that they are for.
    pub fn resolve(self, secrets: BTreeMap<String, Secret>) -> Result<Settings, SettingsError> {
        if self.references.is_empty() {
            return Ok(self.settings);
        }
        let mut faults = Faults::default();
        for reference in self.references.iter().filter(|reference| !secrets.contains_key(&reference.key)) {
            let problem = format!("{} was not fetched; functions fetch it when they start", reference.store);
            faults.add(&Key::named(&reference.key), problem);
        }
        faults.into_result(Some(()))?;
        read(self.text.expose(), &self.environment, secrets).map(|(settings, _)| settings)
    }
}

/// Reads the settings once, with the secrets that are known.
fn read(
    text: &str,
    environment: &Environment,
    secrets: BTreeMap<String, Secret>,
) -> Result<(Settings, Vec<SecretReference>), SettingsError> {
    let mut node = Node::parse(text)?;
    let mut faults = Faults::default();
    faults.references.resolved = secrets;
    node.apply(environment, &mut faults);
    let raw = RawSettings::read(node, &Key::default(), &mut faults);
    let settings = raw.and_then(|raw| validate::settings(raw, environment, &mut faults));
    let references = std::mem::take(&mut faults.references.found);
    faults.into_result(settings).map(|settings| (settings, references))
}

/// What stands between Icefall and everything that it talks to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NetworkSettings {
    /// A file of certificate authorities that are trusted besides the public ones.
    pub ca_bundle: Option<PathBuf>,
    /// The URL of a proxy for HTTPS; it may hold a password.
    pub proxy: Option<Secret>,
    /// Hosts that are reached without it.
    pub no_proxy: String,
}

/// The Iceberg REST catalog.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CatalogSettings {
    /// The base; `/v1/config` is below it.
    pub uri: HttpUrl,
    /// The warehouse that the catalog is asked for.
    pub warehouse: String,
    /// How requests prove who sends them.
    pub sign_in: SignInSettings,
}

/// How requests to the catalog prove who sends them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SignInSettings {
    /// They don't.
    Unsigned,
    /// Each is signed with these keys.
    SigV4(Signing, CredentialsSettings),
    /// Each carries this token.
    Bearer(Secret),
    /// Each carries a token that is fetched.
    OAuth2(OAuth2Settings),
}

/// How tokens are fetched (OAuth 2.0 client credentials).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OAuth2Settings {
    /// Who issues them; absent: the catalog itself.
    pub token_endpoint: Option<HttpUrl>,
    /// The client's id.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Secret,
    /// What the token is to be good for.
    pub scope: String,
    /// Whom the token is for.
    pub audience: Option<String>,
}

/// How requests to the catalog are signed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signing {
    /// The signing name, such as `s3tables`.
    pub name: String,
    /// The signing region.
    pub region: Region,
}

/// An object store, and how to reach it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreSettings {
    /// The S3 API; absent: AWS's own.
    pub endpoint: Option<HttpUrl>,
    /// The region.
    pub region: Region,
    /// Whether the bucket stands in the path.
    pub path_style: bool,
    /// The keys.
    pub credentials: CredentialsSettings,
    /// Whether the catalog's own keys for a table come first. Never for the ops bucket.
    pub vended_credentials: bool,
}

/// Icefall's own bucket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpsSettings {
    /// The bucket.
    pub bucket: String,
    /// What all keys begin with, without a slash at either end; may be empty.
    pub prefix: String,
    /// How to reach it.
    pub store: StoreSettings,
}

/// The commit queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueueSettings {
    /// The queue.
    pub url: HttpUrl,
    /// The SQS API; absent: AWS's own.
    pub endpoint: Option<HttpUrl>,
    /// The region.
    pub region: Region,
    /// The keys.
    pub credentials: CredentialsSettings,
}

/// The committer's rounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommitterSettings {
    /// The least time between two snapshots of a table within an invocation.
    pub commit_interval: Duration,
    /// The invocation ends when the queue has been empty for this long.
    pub linger: Duration,
    /// How long received messages stay hidden from others, unless it is renewed.
    pub hold: Duration,
    /// The most messages in one round.
    pub max_messages: NonZeroU32,
    /// The most bytes of messages in one round.
    pub max_bytes: ByteSize,
}

/// How `icefall audit` reads topics.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditSettings {
    /// The brokers, `host:port` separated by commas. Absent: nothing can be audited.
    pub bootstrap: Option<String>,
    /// Whether they are reached by TLS.
    pub tls: bool,
    /// How to sign in.
    pub sign_in: KafkaSignIn,
}

/// How to sign in to Kafka.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum KafkaSignIn {
    /// Not at all.
    #[default]
    None,
    /// As a user with a password.
    Password {
        /// How the password is shown to be known.
        mechanism: PasswordMechanism,
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// As AWS knows the holder of these keys (MSK's IAM access control).
    MskIam(Region, CredentialsSettings),
}

/// How a password is shown to be known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PasswordMechanism {
    /// It is sent.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

/// A declared table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSettings {
    /// Its name.
    pub name: TableName,
    /// The branch that snapshots are added to.
    pub branch: Branch,
    /// The partition fields that it is made with; empty unless `columns` are given.
    pub partition_by: Vec<PartitionField>,
    /// The properties that it is made with; empty unless `columns` are given.
    pub properties: BTreeMap<String, String>,
    /// The columns. Given: made when absent. Absent: must be there.
    pub columns: Option<Vec<Column>>,
    pub(crate) definition: Option<Definition>,
}

impl TableSettings {
    /// The schema to make it with, field ids from 1 on; `None` if it must be there.
    #[must_use]
    pub fn schema(&self) -> Option<&Schema> {
        self.definition.as_ref().map(|definition| &definition.schema)
    }

    /// The partition spec to make it with, by the ids of [`schema`](Self::schema). Without fields: the
    /// table is unpartitioned.
    #[must_use]
    pub fn partition_spec(&self) -> Option<&UnboundPartitionSpec> {
        self.definition.as_ref().map(|definition| &definition.partition_spec)
    }
}

/// Which table a topic's records go to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// The topic.
    pub topic: Topic,
    /// The table.
    pub table: TableName,
    /// What becomes of records without a value.
    pub tombstones: Tombstones,
}

/// What becomes of records without a value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tombstones {
    /// Each is a dead letter.
    #[default]
    DeadLetter,
    /// Each is counted and not kept.
    Skip,
}
