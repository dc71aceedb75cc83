//! A catalog in memory that commits as the Iceberg REST specification says.
//!
//! The ledger's promises rest on what a catalog refuses, so this one is strict where real ones are: all
//! requirements are checked against the very metadata that the updates are applied to, under one lock, and a
//! sequence number that isn't above the table's last is a conflict. Metadata is changed by the `iceberg` crate's
//! own builder and passes through its JSON form on each commit, so what a test loads is what a server would send.
//! Time is the given clock's; table UUIDs follow from the order of creations.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use iceberg::spec::{FormatVersion, SnapshotReference, SortOrder, TableMetadata, TableMetadataBuilder};
use iceberg::{NamespaceIdent, TableIdent, TableUpdate};
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Operation, Reason,
    Snapshots,
};
use icefall_clock::{Clock, Entropy};
use serde::Deserialize;
use serde_json::Value;

use crate::SeededEntropy;

/// The bucket that tables are put in when their creator names no location.
const BUCKET: &str = "lake";
/// The property by which a creation asks for a format version; it is not kept as a property.
const FORMAT_VERSION: &str = "format-version";

/// A catalog in memory.
#[derive(Debug)]
pub struct FakeCatalog {
    clock: Arc<dyn Clock>,
    entropy: SeededEntropy,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    namespaces: BTreeSet<NamespaceIdent>,
    tables: BTreeMap<TableIdent, Entry>,
    commits: Vec<(TableIdent, Commit)>,
    /// By location, as a server leaves them in the table's store.
    metadata_files: BTreeMap<String, Arc<Value>>,
}

impl State {
    /// Lets `entry` be what stands under its name from now on.
    fn set(&mut self, table: &TableIdent, entry: Entry) {
        let location = metadata_location(entry.metadata(), entry.version);
        self.metadata_files.insert(location, Arc::clone(&entry.json));
        self.tables.insert(table.clone(), entry);
    }
}

/// One table as it stands.
#[derive(Clone, Debug)]
struct Entry {
    /// What shows all of its snapshots.
    table: LoadedTable,
    /// The same as a server would send it.
    json: Arc<Value>,
    version: u32,
    /// What `snapshots=refs` shows of it, once somebody asked.
    referenced: Arc<OnceLock<LoadedTable>>,
}

impl Entry {
    fn new((metadata, json): (TableMetadata, Value), version: u32) -> Self {
        let location = metadata_location(&metadata, version);
        Self {
            table: loaded(metadata, &json, location),
            json: Arc::new(json),
            version,
            referenced: Arc::default(),
        }
    }

    fn metadata(&self) -> &Arc<TableMetadata> {
        &self.table.metadata
    }

    /// What a server answers to `snapshots=refs`.
    fn referenced(&self) -> Result<LoadedTable, String> {
        let (json, metadata) = (referenced_only(&self.json), self.metadata());
        if json.get("snapshots") == self.json.get("snapshots") {
            return Ok(self.table.clone());
        }
        let referenced = TableMetadata::deserialize(&json).map_err(|error| error.to_string())?;
        Ok(loaded(referenced, &json, metadata_location(metadata, self.version)))
    }
}

fn metadata_location(metadata: &TableMetadata, version: u32) -> String {
    format!("{}/metadata/v{version}.metadata.json", metadata.location())
}

/// A table as an answer carries it: its references are there in JSON alone, and it is as large as a server's would be.
fn loaded(metadata: TableMetadata, json: &Value, location: String) -> LoadedTable {
    let references: Option<BTreeMap<String, SnapshotReference>> =
        json.get("refs").and_then(|references| BTreeMap::deserialize(references).ok());
    let table =
        LoadedTable::new(Arc::new(metadata), Arc::new(references.unwrap_or_default()), Some(location));
    LoadedTable { answer_bytes: length(json), ..table }
}

/// How many bytes `json` has as a text.
fn length(json: &Value) -> u64 {
    struct Counted(u64);
    impl Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, json).map_or(0, |()| counted.0)
}

impl FakeCatalog {
    /// A catalog without namespaces.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, entropy: SeededEntropy::new(0), state: Mutex::default() }
    }

    /// A catalog with this namespace, as most tests need it.
    #[must_use]
    pub fn with_namespace(clock: Arc<dyn Clock>, namespace: &str) -> Self {
        let catalog = Self::new(clock);
        catalog.state().namespaces.insert(NamespaceIdent::new(namespace.to_owned()));
        catalog
    }

    /// The table's current metadata, if it is there; no call is counted.
    #[must_use]
    pub fn peek(&self, table: &TableIdent) -> Option<Arc<TableMetadata>> {
        self.state().tables.get(table).map(|entry| Arc::clone(entry.metadata()))
    }

    /// The metadata file at this location, of the present metadata or of former ones. A table that was made again in the
    /// place of another writes over that one's.
    #[must_use]
    pub fn metadata_file(&self, location: &str) -> Option<Bytes> {
        let file = self.state().metadata_files.get(location).cloned()?;
        serde_json::to_vec(file.as_ref()).ok().map(Bytes::from)
    }

    /// All that was committed, in order; refused commits are not among them.
    #[must_use]
    pub fn commits(&self) -> Vec<(TableIdent, Commit)> {
        self.state().commits.clone()
    }

    /// Takes a table away, as an operator would; says whether it was there.
    pub fn drop_table(&self, table: &TableIdent) -> bool {
        self.state().tables.remove(table).is_some()
    }

    /// Puts `metadata` in the table's place, as a restore from a backup would.
    pub fn replace(&self, table: &TableIdent, metadata: TableMetadata) {
        let mut state = self.state();
        let version = state.tables.get(table).map_or(0, |entry| entry.version) + 1;
        state.namespaces.insert(table.namespace().clone());
        let json = serde_json::to_value(&metadata).unwrap_or_default();
        state.set(table, Entry::new((metadata, json), version));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn created(&self, table: &TableIdent, new: &NewTable) -> Result<(TableMetadata, Value), String> {
        let mut properties = new.properties.clone();
        let version = match properties.remove(FORMAT_VERSION).as_deref() {
            None | Some("2") => FormatVersion::V2,
            Some("3") => FormatVersion::V3,
            Some(other) => return Err(format!("there is no format version {other}")),
        };
        let folder = table.namespace().join("/");
        let location = new.location.clone();
        let location = location.unwrap_or_else(|| format!("s3://{BUCKET}/{folder}/{}", table.name()));
        let builder = TableMetadataBuilder::new(
            new.schema.clone(),
            new.partition_spec.clone(),
            SortOrder::unsorted_order(),
            location,
            version,
            properties.into_iter().collect(),
        );
        let built = builder.and_then(|builder| builder.assign_uuid(self.entropy.uuid()).build());
        built.map_err(text).and_then(|built| stamped(&built.metadata, self.clock.now().unix_ms_signed()))
    }

    /// The table after `commit`, or the refusal of it.
    fn committed(
        &self,
        table: &TableIdent,
        entry: &Entry,
        commit: &Commit,
    ) -> Result<Entry, Box<CommitOutcome>> {
        let reason = |message: String| refusal(Operation::Commit, table, message);
        let conflict = |message| Box::new(CommitOutcome::Conflict(reason(message)));
        let metadata = entry.metadata();
        for requirement in commit.requirements() {
            requirement.check(Some(metadata)).map_err(|error| conflict(text(error)))?;
        }
        if let Some(message) = stale_sequence_number(metadata, commit.updates()) {
            return Err(conflict(message));
        }
        let builder = metadata.as_ref().clone().into_builder(entry.table.metadata_location.clone());
        let applied =
            commit.updates().iter().cloned().try_fold(builder, |builder, update| update.apply(builder));
        let built = applied.and_then(TableMetadataBuilder::build).map_err(text);
        let updated_ms = updated_ms(metadata, commit.updates(), self.clock.now().unix_ms_signed());
        let after = built.and_then(|built| stamped(&built.metadata, updated_ms));
        let after = after.map_err(|message| Box::new(CommitOutcome::Rejected(reason(message))))?;
        Ok(Entry::new(after, entry.version + 1))
    }
}

#[async_trait]
impl Catalog for FakeCatalog {
    async fn load_table(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
    ) -> Result<LoadedTable, CatalogError> {
        let entry = self.state().tables.get(table).cloned();
        let entry = entry.ok_or_else(|| CatalogError::NotFound(no_table(Operation::LoadTable, table)))?;
        if snapshots == Snapshots::All {
            return Ok(entry.table);
        }
        if let Some(referenced) = entry.referenced.get() {
            return Ok(referenced.clone());
        }
        let referenced = entry
            .referenced()
            .map_err(|message| CatalogError::Malformed(refusal(Operation::LoadTable, table, message)))?;
        Ok(entry.referenced.get_or_init(|| referenced).clone())
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        let reason = |message: &str| refusal(Operation::CreateTable, table, message);
        let mut state = self.state();
        if !state.namespaces.contains(table.namespace()) {
            return Err(CatalogError::NotFound(reason("there is no such namespace")));
        }
        if state.tables.contains_key(table) {
            return Err(CatalogError::AlreadyExists(reason("there is such a table")));
        }
        let metadata =
            self.created(table, new).map_err(|message| CatalogError::Rejected(reason(&message)))?;
        let entry = Entry::new(metadata, 1);
        let loaded = entry.table.clone();
        state.set(table, entry);
        Ok(loaded)
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        let mut state = self.state();
        let Some(entry) = state.tables.get(table) else {
            return CommitOutcome::NotFound(no_table(Operation::Commit, table));
        };
        match self.committed(table, entry, commit) {
            Ok(entry) => {
                let loaded = entry.table.clone();
                state.set(table, entry);
                state.commits.push((table.clone(), commit.clone()));
                CommitOutcome::Committed(Box::new(loaded))
            }
            Err(refused) => *refused,
        }
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
        if self.state().namespaces.insert(namespace.clone()) {
            return Ok(());
        }
        let reason =
            Reason::new(Operation::CreateNamespace, namespace.join("."), "there is such a namespace");
        Err(CatalogError::AlreadyExists(reason))
    }

    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError> {
        if self.state().namespaces.contains(namespace) {
            return Ok(Namespace { name: namespace.clone(), properties: BTreeMap::new() });
        }
        Err(CatalogError::NotFound(no_namespace(Operation::LoadNamespace, namespace)))
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError> {
        let state = self.state();
        if !state.namespaces.contains(namespace) {
            return Err(CatalogError::NotFound(no_namespace(Operation::ListTables, namespace)));
        }
        Ok(state.tables.keys().filter(|table| table.namespace() == namespace).cloned().collect())
    }
}

fn refusal(operation: Operation, table: &TableIdent, message: impl Into<String>) -> Reason {
    Reason::new(operation, table.to_string(), message)
}

fn no_table(operation: Operation, table: &TableIdent) -> Reason {
    refusal(operation, table, "there is no such table")
}

fn no_namespace(operation: Operation, namespace: &NamespaceIdent) -> Reason {
    Reason::new(operation, namespace.join("."), "there is no such namespace")
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn text(error: iceberg::Error) -> String {
    error.to_string()
}

/// Iceberg specification, "Sequence Numbers": each new snapshot's is above the table's last. The crate's builder lets
/// snapshots without a parent through, which no catalog does. One that is known already is refused for good instead.
fn stale_sequence_number(metadata: &TableMetadata, updates: &[TableUpdate]) -> Option<String> {
    let last = metadata.last_sequence_number();
    updates.iter().find_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot }
            if snapshot.sequence_number() <= last
                && metadata.snapshot_by_id(snapshot.snapshot_id()).is_none() =>
        {
            let stale = snapshot.sequence_number();
            Some(format!("sequence number {stale} is not above the table's last, {last}"))
        }
        _ => None,
    })
}

/// Never before what the table has seen, since snapshots carry their makers' clocks.
fn updated_ms(metadata: &TableMetadata, updates: &[TableUpdate], now_ms: i64) -> i64 {
    let added = updates.iter().filter_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => Some(snapshot.timestamp_ms()),
        _ => None,
    });
    added.fold(now_ms.max(metadata.last_updated_ms()), i64::max)
}

/// `metadata` as its JSON form brings it back, and that form, updated at `updated_ms`: the builder takes the system's
/// time, for a branch that is set to an older snapshot too.
fn stamped(metadata: &TableMetadata, updated_ms: i64) -> Result<(TableMetadata, Value), String> {
    let mut json = serde_json::to_value(metadata).map_err(|error| error.to_string())?;
    if let Some(fields) = json.as_object_mut() {
        fields.insert("last-updated-ms".to_owned(), updated_ms.into());
        let log = fields.get_mut("snapshot-log").and_then(Value::as_array_mut);
        for entry in log.into_iter().flatten() {
            if let Some(time) = entry.get_mut("timestamp-ms")
                && time.as_i64().is_some_and(|time| time > updated_ms)
            {
                *time = updated_ms.into();
            }
        }
    }
    let metadata = TableMetadata::deserialize(&json).map_err(|error| error.to_string())?;
    Ok((metadata, json))
}

/// A table's JSON form with the snapshots alone that references name.
fn referenced_only(json: &Value) -> Value {
    let mut json = json.clone();
    let refs = json.get("refs").and_then(Value::as_object);
    let ids = refs.into_iter().flat_map(serde_json::Map::values).filter_map(|held| held.get("snapshot-id"));
    let referenced: Vec<Value> = ids.cloned().collect();
    if let Some(snapshots) = json.get_mut("snapshots").and_then(Value::as_array_mut) {
        snapshots.retain(|snapshot| snapshot.get("snapshot-id").is_some_and(|id| referenced.contains(id)));
    }
    json
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
    use uuid::Uuid;

    use super::*;
    use crate::{FakeClock, Habits, catalog_conformance};

    fn new_table() -> NewTable {
        let field = NestedField::optional(5, "id", Type::Primitive(PrimitiveType::Long));
        NewTable::new(Schema::builder().with_fields([Arc::new(field)]).build().expect("a schema"))
    }

    fn table() -> TableIdent {
        TableIdent::from_strs(["ns", "t"]).expect("a name")
    }

    async fn catalog() -> (Arc<FakeClock>, FakeCatalog) {
        let clock = Arc::new(FakeClock::default());
        let catalog = FakeCatalog::with_namespace(Arc::<FakeClock>::clone(&clock), "ns");
        catalog.create_table(&table(), &new_table()).await.expect("create");
        (clock, catalog)
    }

    fn property(value: &str) -> Commit {
        let updates = [("key".to_owned(), value.to_owned())].into();
        Commit::new(Vec::new(), vec![TableUpdate::SetProperties { updates }], Uuid::nil())
    }

    #[tokio::test]
    async fn the_fake_is_a_catalog() {
        let catalog = FakeCatalog::new(Arc::new(FakeClock::default()));
        let namespace = NamespaceIdent::new("conformance".to_owned());
        catalog_conformance(&catalog, &namespace, &Habits::STRICT).await;
    }

    #[tokio::test]
    async fn its_time_is_the_clocks() {
        let (clock, catalog) = catalog().await;
        let created = catalog.peek(&table()).expect("the table").last_updated_ms();
        assert_eq!(created, clock.now().unix_ms_signed());
        clock.advance(Duration::from_hours(3));
        assert_eq!(catalog.commit(&table(), &property("a")).await.name(), "committed");
        let updated = catalog.peek(&table()).expect("the table").last_updated_ms();
        assert_eq!(updated, clock.now().unix_ms_signed());
    }

    #[tokio::test]
    async fn creations_follow_the_settings() {
        let (_, catalog) = catalog().await;
        let held = catalog.peek(&table()).expect("the table");
        assert_eq!(held.location(), "s3://lake/ns/t");
        assert_eq!(held.current_schema().field_by_name("id").map(|field| field.id), Some(1), "ids are fresh");
        let third = TableIdent::from_strs(["ns", "third"]).expect("a name");
        let mut new = new_table();
        new.properties.insert("format-version".to_owned(), "3".to_owned());
        let created = catalog.create_table(&third, &new).await.expect("create").metadata;
        assert_eq!(created.format_version(), FormatVersion::V3);
        assert_ne!(created.uuid(), held.uuid());
        new.properties.insert("format-version".to_owned(), "9".to_owned());
        let fourth = TableIdent::from_strs(["ns", "fourth"]).expect("a name");
        let error = catalog.create_table(&fourth, &new).await.expect_err("there is none");
        assert!(matches!(error, CatalogError::Rejected(_)), "{error:?}");
        let elsewhere = TableIdent::from_strs(["elsewhere", "t"]).expect("a name");
        let error = catalog.create_table(&elsewhere, &new_table()).await.expect_err("no namespace");
        assert!(matches!(error, CatalogError::NotFound(_)), "{error:?}");
    }

    #[tokio::test]
    async fn what_others_do_to_a_table_shows() {
        let (_, catalog) = catalog().await;
        let old = catalog.peek(&table()).expect("the table");
        assert_eq!(catalog.commit(&table(), &property("a")).await.name(), "committed");
        catalog.replace(&table(), old.as_ref().clone());
        assert_eq!(catalog.peek(&table()), Some(old), "as restored");
        assert_eq!(catalog.commits().len(), 1);
        assert!(catalog.drop_table(&table()) && !catalog.drop_table(&table()));
        assert_eq!(catalog.commit(&table(), &property("a")).await.name(), "not found");
    }
}
