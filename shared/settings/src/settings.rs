//! The settings, validated: what the rest of Icefall is given.
//!
//! A [`Settings`] exists only if all of it can be used, so nothing downstream checks again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use iceberg::spec::{Schema, UnboundPartitionSpec};
use icefall_manifest::{Branch, ClusterName, PipelineId, TableName, Topic};

use crate::credentials::CredentialsSettings;
use crate::environment::Environment;
use crate::fault::{Faults, Key, SettingsError};
use crate::node::Node;
use crate::partition::PartitionField;
use crate::raw::RawSettings;
use crate::read::Read;
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
    /// The declared tables, each name once.
    pub tables: Vec<TableSettings>,
    /// The routes, each topic once; at least one.
    pub routes: Vec<Route>,
}

impl Settings {
    /// Reads the settings' TOML `text` with the overrides that `environment` holds. The error names
    /// everything that is wrong, not just the first.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, SettingsError> {
        let mut node = Node::parse(text)?;
        let mut faults = Faults::default();
        node.apply(environment, &mut faults);
        let raw = RawSettings::read(node, &Key::default(), &mut faults);
        let settings = raw.and_then(|raw| validate::settings(raw, environment, &mut faults));
        faults.into_result(settings)
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

/// The Iceberg REST catalog.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CatalogSettings {
    /// The base; `/v1/config` is below it.
    pub uri: HttpUrl,
    /// The warehouse that the catalog is asked for.
    pub warehouse: String,
    /// How requests are signed, if they are.
    pub sign: Option<Signing>,
    /// The keys to sign with.
    pub credentials: CredentialsSettings,
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
