//! What every catalog must do, fake or real, for the ledger's compare-and-swap to hold.
//!
//! The suite makes snapshots without files: a catalog doesn't read them, and what is tested is metadata. Where real
//! catalogs differ and Icefall allows for it, the difference is one of [`Habits`], stated for each catalog that the
//! suite runs on, and checked: a catalog that changes its habits is noticed.

#![expect(clippy::expect_used, reason = "a conformance suite fails by panicking")]

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use iceberg::spec::{
    MAIN_BRANCH, NestedField, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference,
    SnapshotRetention, Summary, TableMetadata, Transform, Type, UnboundPartitionSpec,
};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement, TableUpdate};
use icefall_catalog::{Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, NewTable, Snapshots};
use icefall_clock::{Entropy, SystemEntropy};

/// A property of the size that a ledger reaches with many partitions.
const LARGE: usize = 200_000;
/// How many commits race for one place.
const RACERS: usize = 8;

/// What some catalogs do and others don't, and Icefall allows for either way.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Habits {
    /// Creating a table that is there is refused; else the answer is the old table.
    pub refuses_to_create_twice: bool,
    /// Of creations that race one succeeds and the others are refused; else several are told that they did, each with
    /// a table of its own, and some get a server error, which says nothing of what became of theirs.
    pub one_racing_creation_wins: bool,
    /// Asked for referenced snapshots alone, it leaves the others out; else it answers with all.
    pub leaves_out_unreferenced_snapshots: bool,
    /// A commit that changes nothing writes new metadata; else the old stays where it is.
    pub an_empty_commit_writes_metadata: bool,
}

impl Habits {
    /// Of a catalog that takes the specification at its word.
    pub const STRICT: Self = Self {
        refuses_to_create_twice: true,
        one_racing_creation_wins: true,
        leaves_out_unreferenced_snapshots: true,
        an_empty_commit_writes_metadata: true,
    };
    /// Of SeaweedFS 4.48.
    pub const SEAWEEDFS: Self =
        Self { refuses_to_create_twice: false, one_racing_creation_wins: false, ..Self::STRICT };
    /// Of Apache Iceberg's own REST catalog, 1.11.
    pub const ICEBERG: Self = Self { an_empty_commit_writes_metadata: false, ..Self::STRICT };
}

/// Runs the suite in `namespace`, which must not exist yet and belongs to the suite. Its tables are left there.
///
/// # Panics
///
/// On what a catalog does wrong, and on what it does against its `habits`.
pub async fn catalog_conformance(catalog: &dyn Catalog, namespace: &NamespaceIdent, habits: &Habits) {
    namespaces_are_created_once(catalog, namespace).await;
    tells_what_is_missing(catalog, namespace).await;
    let suite = Suite { catalog, namespace, habits };
    suite.creates_what_it_was_told().await;
    suite.creations_that_race_make_one_table().await;
    suite.commits_on_what_was_loaded().await;
    suite.refuses_what_was_not_loaded().await;
    suite.a_refused_commit_leaves_nothing().await;
    suite.a_rollback_in_between_is_a_conflict().await;
    suite.a_snapshot_is_added_once().await;
    suite.one_of_those_that_race_wins().await;
    suite.keeps_large_properties().await;
    suite.removes_properties().await;
    suite.lists_referenced_snapshots().await;
    suite.an_empty_commit_changes_nothing().await;
    suite.evolves_schemas().await;
}

async fn namespaces_are_created_once(catalog: &dyn Catalog, namespace: &NamespaceIdent) {
    assert!(
        !catalog.namespace_exists(namespace).await.expect("exists"),
        "the namespace must be the suite's own"
    );
    let missing = catalog.load_namespace(namespace).await.expect_err("it isn't there");
    assert!(matches!(missing, CatalogError::NotFound(_)), "{missing:?}");
    catalog.create_namespace(namespace).await.expect("create");
    let again = catalog.create_namespace(namespace).await.expect_err("it is there");
    assert!(matches!(again, CatalogError::AlreadyExists(_)), "{again:?}");
    assert_eq!(&catalog.load_namespace(namespace).await.expect("load").name, namespace);
    assert_eq!(catalog.list_tables(namespace).await.expect("list"), []);
}

async fn tells_what_is_missing(catalog: &dyn Catalog, namespace: &NamespaceIdent) {
    let table = TableIdent::new(namespace.clone(), "missing".to_owned());
    for snapshots in [Snapshots::All, Snapshots::Refs] {
        let error = catalog.load_table(&table, snapshots).await.expect_err("it isn't there");
        assert!(matches!(error, CatalogError::NotFound(_)), "{error:?}");
        assert!(error.to_string().contains(&table.to_string()), "it names the table: {error}");
    }
    let outcome = catalog.commit(&table, &commit(Vec::new(), vec![property("a", "b")])).await;
    assert!(matches!(outcome, CommitOutcome::NotFound(_)), "{outcome:?}");
}

#[derive(Clone, Copy, Debug)]
struct Suite<'a> {
    catalog: &'a dyn Catalog,
    namespace: &'a NamespaceIdent,
    habits: &'a Habits,
}

impl Suite<'_> {
    fn ident(&self, name: &str) -> TableIdent {
        TableIdent::new(self.namespace.clone(), name.to_owned())
    }

    async fn new_table(&self, name: &str) -> (TableIdent, Arc<TableMetadata>) {
        let table = self.ident(name);
        let created = self.catalog.create_table(&table, &new_table()).await.expect("create");
        (table, created.metadata)
    }

    async fn load(&self, table: &TableIdent) -> Arc<TableMetadata> {
        self.catalog.load_table(table, Snapshots::All).await.expect("load").metadata
    }

    /// Commits what must be accepted, and loads what came of it.
    async fn committed(&self, table: &TableIdent, commit: &Commit) -> Arc<TableMetadata> {
        match self.catalog.commit(table, commit).await {
            CommitOutcome::Committed(answered) => {
                let loaded = self.load(table).await;
                assert_eq!(answered.metadata.current_snapshot_id(), loaded.current_snapshot_id());
                assert_eq!(answered.metadata.properties(), loaded.properties());
                loaded
            }
            refused => fail(&format!("it must be committed: {refused:?}")),
        }
    }

    async fn conflicts(&self, table: &TableIdent, commit: &Commit, why: &str) {
        let before = self.load(table).await;
        let outcome = self.catalog.commit(table, commit).await;
        assert!(matches!(outcome, CommitOutcome::Conflict(_)), "{why} must be a conflict: {outcome:?}");
        assert_eq!(before, self.load(table).await, "{why}: a refused commit changes nothing");
    }

    async fn creates_what_it_was_told(&self) {
        let (table, created) = self.new_table("created").await;
        let loaded = self.load(&table).await;
        assert_eq!(created.uuid(), loaded.uuid(), "created and loaded are one table");
        assert_eq!(created.current_schema(), loaded.current_schema());
        assert_eq!(created.default_partition_spec(), loaded.default_partition_spec());
        let wanted = new_table();
        let names = |schema: &Schema| -> Vec<String> {
            schema
                .as_struct()
                .fields()
                .iter()
                .map(|field| format!("{}: {}", field.name, field.field_type))
                .collect()
        };
        assert_eq!(names(loaded.current_schema()), names(&wanted.schema));
        let hours = loaded.default_partition_spec().fields().first().cloned().expect("it is partitioned");
        let source = loaded.current_schema().field_by_id(hours.source_id).expect("its column is there");
        assert_eq!((source.name.as_str(), hours.transform), ("event_time", Transform::Hour));
        assert_eq!(loaded.properties().get("owner").map(String::as_str), Some("conformance"));
        assert!(loaded.location().contains("://"), "{}", loaded.location());
        assert_eq!(loaded.snapshots().count(), 0);
        assert_eq!(loaded.current_snapshot_id(), None);
        let listed = self.catalog.list_tables(self.namespace).await.expect("list");
        assert_eq!(listed, std::slice::from_ref(&table));
        match self.catalog.create_table(&table, &wanted).await {
            Err(CatalogError::AlreadyExists(_)) => assert!(self.habits.refuses_to_create_twice),
            Ok(again) => {
                assert!(!self.habits.refuses_to_create_twice);
                assert_eq!(again.metadata.uuid(), loaded.uuid(), "the old table stays");
            }
            Err(error) => fail(&format!("creating twice: {error:?}")),
        }
    }

    /// Whoever was told what: afterwards there is one table, and it stays.
    async fn creations_that_race_make_one_table(&self) {
        let (table, wanted) = (self.ident("created_at_once"), new_table());
        let answers = join_all((0..RACERS).map(|_| self.catalog.create_table(&table, &wanted))).await;
        let won = answers.iter().filter(|answer| answer.is_ok()).count();
        let refused = answers.iter().filter(|answer| self.is_a_racers_refusal(answer)).count();
        assert!(won > 0 && won + refused == RACERS, "{answers:?}");
        if self.habits.one_racing_creation_wins {
            assert_eq!(won, 1, "{answers:?}");
        }
        let loaded = self.load(&table).await;
        let of_a_winner = answers.iter().flatten().any(|answer| answer.metadata.uuid() == loaded.uuid());
        let unknown = answers.iter().any(|answer| matches!(answer, Err(CatalogError::Unavailable(_))));
        assert!(of_a_winner || unknown, "the table is of nobody who was told so: {answers:?}");
        assert_eq!(loaded, self.load(&table).await);
    }

    /// A catalog that lets racing creations trip over each other answers some of them with a server error.
    fn is_a_racers_refusal(&self, answer: &Result<LoadedTable, CatalogError>) -> bool {
        match answer {
            Err(CatalogError::AlreadyExists(_)) => true,
            Err(CatalogError::Unavailable(_)) => !self.habits.one_racing_creation_wins,
            _ => false,
        }
    }

    async fn commits_on_what_was_loaded(&self) {
        let (table, mut metadata) = self.new_table("commits").await;
        for round in 1..=3_i64 {
            let (id, previous) = (snapshot_id(), metadata.current_snapshot_id());
            let updates = [append(&metadata, id), vec![property("round", &round.to_string())]].concat();
            metadata = self.committed(&table, &commit(assertions(&metadata), updates)).await;
            assert_eq!(metadata.current_snapshot_id(), Some(id));
            assert_eq!(metadata.last_sequence_number(), round);
            assert_eq!(metadata.properties().get("round"), Some(&round.to_string()));
            let snapshot = metadata.snapshot_by_id(id).expect("it is there");
            assert_eq!(snapshot.parent_snapshot_id(), previous);
            let summary = &snapshot.summary().additional_properties;
            assert_eq!(summary.get("added-records").map(String::as_str), Some("0"), "{summary:?}");
        }
    }

    async fn refuses_what_was_not_loaded(&self) {
        let (table, empty) = self.new_table("refuses").await;
        let first = self.append_once(&table, &empty).await;
        let refused = |requirement| commit(vec![requirement], append(&first, snapshot_id()));
        let reference =
            |snapshot_id| TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id };
        self.conflicts(&table, &refused(reference(None)), "a branch that is there").await;
        self.conflicts(&table, &refused(reference(Some(1))), "another snapshot").await;
        let gone = TableRequirement::RefSnapshotIdMatch { r#ref: "gone".to_owned(), snapshot_id: Some(1) };
        self.conflicts(&table, &refused(gone), "a branch that isn't there").await;
        let uuid = SystemEntropy.uuid();
        self.conflicts(&table, &refused(TableRequirement::UuidMatch { uuid }), "another table").await;
        self.conflicts(&table, &refused(TableRequirement::NotExist), "a table that is there").await;
        let stale = commit(assertions(&empty), append(&empty, snapshot_id()));
        self.conflicts(&table, &stale, "a commit built before another one").await;
    }

    async fn a_refused_commit_leaves_nothing(&self) {
        let (table, empty) = self.new_table("atomic").await;
        let first = self.append_once(&table, &empty).await;
        let updates = [vec![property("leak", "1")], append(&empty, snapshot_id())].concat();
        self.conflicts(&table, &commit(assertions(&empty), updates), "a commit with a property").await;
        assert_eq!(self.load(&table).await.properties().get("leak"), None);
        let unknown = TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference: branch(1) };
        let wrong = commit(assertions(&first), vec![property("leak", "2"), unknown]);
        let outcome = self.catalog.commit(&table, &wrong).await;
        assert!(matches!(outcome, CommitOutcome::Rejected(_) | CommitOutcome::Conflict(_)), "{outcome:?}");
        assert_eq!(first, self.load(&table).await);
    }

    /// The branch shows the very snapshot that was loaded, and yet the table is not what it was.
    async fn a_rollback_in_between_is_a_conflict(&self) {
        let (table, empty) = self.new_table("rollback").await;
        let loaded = self.append_once(&table, &empty).await;
        let passed = self.append_once(&table, &loaded).await;
        let back = loaded.current_snapshot_id().expect("it has a snapshot");
        let to_it = TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference: branch(back) };
        let rolled_back = self.committed(&table, &commit(assertions(&passed), vec![to_it])).await;
        assert_eq!(rolled_back.current_snapshot_id(), Some(back));
        let stale = commit(assertions(&loaded), append(&loaded, snapshot_id()));
        self.conflicts(&table, &stale, "a sequence number that was used").await;
        self.append_once(&table, &rolled_back).await;
    }

    async fn a_snapshot_is_added_once(&self) {
        let (table, empty) = self.new_table("once").await;
        let same = commit(assertions(&empty), append(&empty, snapshot_id()));
        self.committed(&table, &same).await;
        self.conflicts(&table, &same, "the same commit again").await;
    }

    async fn one_of_those_that_race_wins(&self) {
        let (table, empty) = self.new_table("race").await;
        let mut metadata = self.append_once(&table, &empty).await;
        for _ in 0..3 {
            let commits: Vec<Commit> = (0..RACERS)
                .map(|_| commit(assertions(&metadata), append(&metadata, snapshot_id())))
                .collect();
            let outcomes = join_all(commits.iter().map(|commit| self.catalog.commit(&table, commit))).await;
            let won =
                outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Committed(_))).count();
            let lost =
                outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Conflict(_))).count();
            assert_eq!((won, lost), (1, RACERS - 1), "{outcomes:?}");
            let after = self.load(&table).await;
            assert_eq!(after.snapshots().count(), metadata.snapshots().count() + 1);
            metadata = after;
        }
    }

    async fn keeps_large_properties(&self) {
        let (table, empty) = self.new_table("large").await;
        let value: String = "{\"a\":\"é\\n/+=\"}".chars().cycle().take(LARGE).collect();
        let updates =
            [vec![property("icefall.ledger.main.a/b/c", &value)], append(&empty, snapshot_id())].concat();
        let loaded = self.committed(&table, &commit(assertions(&empty), updates)).await;
        assert!(
            loaded.properties().get("icefall.ledger.main.a/b/c") == Some(&value),
            "it must read back equal"
        );
    }

    async fn removes_properties(&self) {
        let (table, empty) = self.new_table("removes").await;
        let removal = TableUpdate::RemoveProperties { removals: vec!["owner".to_owned()] };
        let updates = [vec![removal, property("kept", "")], append(&empty, snapshot_id())].concat();
        let loaded = self.committed(&table, &commit(assertions(&empty), updates)).await;
        assert_eq!(loaded.properties().get("owner"), None);
        assert_eq!(loaded.properties().get("kept").map(String::as_str), Some(""));
    }

    async fn lists_referenced_snapshots(&self) {
        let (table, mut metadata) = self.new_table("refs").await;
        for _ in 0..3 {
            metadata = self.append_once(&table, &metadata).await;
        }
        assert_eq!(metadata.snapshots().count(), 3);
        let referenced = self.catalog.load_table(&table, Snapshots::Refs).await.expect("load").metadata;
        assert_eq!(referenced.current_snapshot(), metadata.current_snapshot(), "main's snapshot is listed");
        let listed = if self.habits.leaves_out_unreferenced_snapshots { 1 } else { 3 };
        assert_eq!(referenced.snapshots().count(), listed);
        assert_eq!(
            (referenced.uuid(), referenced.last_sequence_number(), referenced.properties()),
            (metadata.uuid(), metadata.last_sequence_number(), metadata.properties())
        );
        self.append_once(&table, &referenced).await;
        assert_eq!(self.load(&table).await.snapshots().count(), 4, "none of the others is lost by that");
    }

    async fn an_empty_commit_changes_nothing(&self) {
        let (table, _) = self.new_table("unchanged").await;
        let load = || self.catalog.load_table(&table, Snapshots::All);
        let before = load().await.expect("load");
        let nothing = commit(assertions(&before.metadata), Vec::new());
        let outcome = self.catalog.commit(&table, &nothing).await;
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        let after = load().await.expect("load");
        assert_eq!(before.metadata.current_snapshot_id(), after.metadata.current_snapshot_id());
        assert_eq!(before.metadata.properties(), after.metadata.properties());
        let written = before.metadata_location != after.metadata_location;
        assert_eq!(written, self.habits.an_empty_commit_writes_metadata);
    }

    async fn evolves_schemas(&self) {
        let (table, before) = self.new_table("evolves").await;
        let evolved = commit(schema_assertions(&before), with_column(&before, "added"));
        let after = self.committed(&table, &evolved).await;
        let field = after.current_schema().field_by_name("added").cloned().expect("the column is there");
        assert_eq!(field.id, before.last_column_id() + 1);
        assert_eq!(after.last_column_id(), field.id);
        assert!(after.schema_by_id(before.current_schema_id()).is_some(), "old schemas stay");
        let stale = commit(schema_assertions(&before), with_column(&before, "other"));
        self.conflicts(&table, &stale, "a schema built before another one").await;
    }

    async fn append_once(&self, table: &TableIdent, metadata: &TableMetadata) -> Arc<TableMetadata> {
        self.committed(table, &commit(assertions(metadata), append(metadata, snapshot_id()))).await
    }
}

#[expect(clippy::panic, reason = "a conformance suite fails by panicking")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}

/// Its field ids are not those that a catalog would assign.
fn new_table() -> NewTable {
    let columns = [
        NestedField::required(11, "event_id", Type::Primitive(PrimitiveType::String)),
        NestedField::optional(7, "user_id", Type::Primitive(PrimitiveType::Long)),
        NestedField::required(9, "event_time", Type::Primitive(PrimitiveType::Timestamptz)),
    ];
    let schema = Schema::builder().with_fields(columns.map(Arc::new)).build().expect("a schema");
    let spec = UnboundPartitionSpec::builder()
        .add_partition_field(9, "event_time_hour", Transform::Hour)
        .expect("a partition field")
        .build();
    let properties = [("owner".to_owned(), "conformance".to_owned())].into();
    NewTable { partition_spec: spec, properties, ..NewTable::new(schema) }
}

/// Random, as the committer's are: 63 bits, which must survive JSON.
fn snapshot_id() -> i64 {
    i64::try_from(SystemEntropy.bits() >> 1).expect("63 bits")
}

/// A commit with a key of its own.
fn commit(requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>) -> Commit {
    Commit::new(requirements, updates, SystemEntropy.uuid())
}

/// The compare-and-swap of the ledger.
fn assertions(metadata: &TableMetadata) -> Vec<TableRequirement> {
    let snapshot_id = metadata.current_snapshot_id();
    vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id },
    ]
}

fn schema_assertions(metadata: &TableMetadata) -> Vec<TableRequirement> {
    vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: metadata.current_schema_id() },
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: metadata.last_column_id() },
        TableRequirement::DefaultSpecIdMatch { default_spec_id: metadata.default_partition_spec_id() },
    ]
}

fn with_column(metadata: &TableMetadata, name: &str) -> Vec<TableUpdate> {
    let id = metadata.last_column_id() + 1;
    let column = NestedField::optional(id, name, Type::Primitive(PrimitiveType::Double));
    let fields = metadata.current_schema().as_struct().fields().iter().cloned().chain([Arc::new(column)]);
    let schema = Schema::builder().with_fields(fields).build().expect("a schema");
    vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]
}

fn property(key: &str, value: &str) -> TableUpdate {
    TableUpdate::SetProperties { updates: HashMap::from([(key.to_owned(), value.to_owned())]) }
}

fn branch(snapshot_id: i64) -> SnapshotReference {
    SnapshotReference { snapshot_id, retention: SnapshotRetention::branch(None, None, None) }
}

/// An empty append to main, on `metadata`.
fn append(metadata: &TableMetadata, id: i64) -> Vec<TableUpdate> {
    let additional_properties = HashMap::from([("added-records".to_owned(), "0".to_owned())]);
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(metadata.current_snapshot_id())
        .with_sequence_number(metadata.last_sequence_number() + 1)
        .with_timestamp_ms(metadata.last_updated_ms())
        .with_manifest_list(format!("{}/metadata/snap-{id}.avro", metadata.location()))
        .with_summary(Summary { operation: Operation::Append, additional_properties })
        .with_schema_id(metadata.current_schema_id())
        .build();
    let ref_name = MAIN_BRANCH.to_owned();
    vec![
        TableUpdate::AddSnapshot { snapshot },
        TableUpdate::SetSnapshotRef { ref_name, reference: branch(id) },
    ]
}
