//! The parts of one schedule, and what is known of its tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use iceberg::spec::{MAIN_BRANCH, SnapshotRef, TableMetadata};
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::Commit;
use icefall_clock::Clock;
use icefall_settings::{Environment, Settings};
use icefall_testkit::{FakeCatalog, FakeQueue, FakeStore, SeededEntropy};

use crate::kafka::Kafka;
use crate::lie::Lie;
use crate::ports::now;
use crate::post::Post;
use crate::process::{GivenUp, Processes};
use crate::readers::Readers;
use crate::record::RecordNo;
use crate::sim::Sim;

pub(crate) const DEAD_LETTERS: &str = "icefall.dead_letters";
/// The table that has its [`Style`].
const ORDERS: &str = "lake.orders";
const VISIBILITY: Duration = Duration::from_mins(5);

/// Everything in one schedule.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) sim: Arc<Sim>,
    pub(crate) kafka: Kafka,
    pub(crate) parts: Parts,
    pub(crate) processes: Processes,
    pub(crate) tables: Vec<Table>,
    pub(crate) settings: SettingsChoice,
    pub(crate) readers: Readers,
    /// What a table's clean-up took away, for the account at the end.
    pub(crate) removed: BTreeMap<String, Bytes>,
    /// How many messages were put in that are no batch manifest.
    pub(crate) foreign_messages: usize,
    /// Whether records are delivered by way of a schema registry.
    pub(crate) registry: bool,
    pub(crate) ever_switched: bool,
    /// Batches that the mapping gave up, until somebody replays them.
    pub(crate) given_up: Vec<GivenUp>,
    /// Tables whose ledgers an operator has to mend, by index.
    pub(crate) broken: BTreeMap<usize, Broken>,
}

/// What somebody did to a table's ledgers.
#[derive(Clone, Debug)]
pub(crate) enum Broken {
    /// A ledger's property was unset.
    Unset { name: String, value: String },
    /// The table was made with the properties of the one before.
    Copied,
    /// An old value of a ledger's property was put back, or one of a newer format.
    OldValue { name: String, old: String, newest: String },
    /// The branch was set to where the ledgers don't stand, and was at `head` before.
    Astray { head: i64 },
}

/// The parts that processes reach through their ports.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) catalog: Arc<FakeCatalog>,
    pub(crate) lake: Arc<FakeStore>,
    pub(crate) ops: Arc<FakeStore>,
    pub(crate) queue: Arc<FakeQueue>,
    pub(crate) post: Arc<Post>,
    pub(crate) entropy: Arc<SeededEntropy>,
    /// When each file of the lake was stored.
    pub(crate) born: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// A table that records go to, and what was done to it by others.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// When it got its further column, if the present table has it.
    pub(crate) grown_ms: Option<u64>,
    /// When `q` became a long, if it is one in the present table.
    pub(crate) widened_ms: Option<u64>,
    pub(crate) ever_widened: bool,
    pub(crate) drops: usize,
    /// Records whose rows an operator rolled back: they must not be seen again.
    pub(crate) rolled_back: BTreeSet<RecordNo>,
    /// Records that went with a dropped table, or whose rolled-back rows an operator set free: they may be missing, and
    /// may come anew. Once a writer that was begun at that time or later answers for one, it is missed again.
    pub(crate) excused: BTreeMap<RecordNo, u64>,
    /// Records whose rolled-back rows a rewind set free at any time: of those that were dead letters before, the row has to
    /// be asked for again.
    pub(crate) rewound: BTreeSet<RecordNo>,
    /// How many more records than one may stand at an offset of a topic, since an operator said so.
    pub(crate) beside: BTreeMap<String, usize>,
    /// Whether an operator may have said that records of it are copies.
    pub(crate) discards: bool,
}

/// The name that the cluster has as long as nobody renames it.
pub(crate) const CLUSTER: &str = "local";

/// The settings that new environments get.
#[derive(Clone, Debug)]
pub(crate) struct SettingsChoice {
    pub(crate) ever_skipped: bool,
    pub(crate) ever_kept: bool,
    pub(crate) ever_renamed: bool,
    pub(crate) text: SettingsText,
    pub(crate) parsed: Settings,
}

/// What differs between settings.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct SettingsText {
    pub(crate) tombstones_skipped: bool,
    pub(crate) max_messages: u64,
    pub(crate) commit_interval_s: u64,
    pub(crate) cluster: &'static str,
    pub(crate) orders: Style,
}

/// What the one of the two tables is that is not the same in all schedules.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Style {
    /// The branch that its records are committed to.
    pub(crate) branch: &'static str,
    /// The version of its format.
    pub(crate) version: u8,
}

impl Style {
    fn new(sim: &Sim) -> Self {
        let branch = if sim.rng.chance(250) { "ingest" } else { MAIN_BRANCH };
        Self { branch, version: if sim.rng.chance(250) { 3 } else { 2 } }
    }
}

impl SettingsChoice {
    fn new(sim: &Sim) -> Self {
        let tombstones_skipped = sim.rng.chance(500);
        let text = SettingsText {
            tombstones_skipped,
            // With one message a round, rounds follow each other in one invocation.
            max_messages: if sim.rng.chance(250) { 1 } else { 1000 },
            commit_interval_s: sim.rng.within(0..3),
            cluster: CLUSTER,
            orders: Style::new(sim),
        };
        let (ever_skipped, ever_kept) = (tombstones_skipped, !tombstones_skipped);
        Self { ever_skipped, ever_kept, ever_renamed: false, text, parsed: text.parsed() }
    }

    /// Other settings from now on.
    pub(crate) fn change(&mut self, text: SettingsText) {
        self.ever_skipped |= text.tombstones_skipped;
        self.ever_kept |= !text.tombstones_skipped;
        self.ever_renamed |= text.cluster != CLUSTER;
        (self.text, self.parsed) = (text, text.parsed());
    }
}

impl SettingsText {
    /// Whether a writer may make something else of a record than under `former`.
    pub(crate) fn is_other_for_writers(self, former: Self) -> bool {
        (self.tombstones_skipped, self.cluster) != (former.tombstones_skipped, former.cluster)
    }

    /// What the settings file says, read once for all schedules.
    #[expect(clippy::expect_used, reason = "settings that don't parse are a fault of the simulation")]
    fn parsed(self) -> Settings {
        static READ: Mutex<BTreeMap<SettingsText, Settings>> = Mutex::new(BTreeMap::new());
        let read = || Settings::parse(&self.file(), &Environment::default()).expect("the settings are good");
        READ.lock().unwrap_or_else(PoisonError::into_inner).entry(self).or_insert_with(read).clone()
    }

    fn file(self) -> String {
        let Self { tombstones_skipped, max_messages, commit_interval_s, cluster, orders } = self;
        let Style { branch, version } = orders;
        let tombstones = if tombstones_skipped { "skip" } else { "dead-letter" };
        let columns = r#"{ name = "id", type = "long", required = true },
        { name = "p", type = "int", required = true }, { name = "o", type = "long", required = true },
        { name = "n", type = "long" }, { name = "s", type = "string" }, { name = "q", type = "int" }"#;
        let properties = r#""commit.manifest.min-count-to-merge" = "5""#;
        format!(
            r#"
pipeline = "sim"
catalog = {{ uri = "http://127.0.0.1:1", warehouse = "lake" }}
store = {{ region = "us-east-1" }}
ops = {{ bucket = "ops", region = "us-east-1" }}
queue = {{ url = "http://127.0.0.1:1/0/q", region = "us-east-1" }}
kafka = {{ cluster = "{cluster}" }}
committer = {{ linger = "1s", commit_interval = "{commit_interval_s}s", max_messages = {max_messages} }}
table = [
    {{ name = "lake.clicks", columns = [{columns}], properties = {{ {properties} }} }},
    {{ name = "{ORDERS}", columns = [{columns}], properties = {{ {properties}, "format-version" = "{version}" }},
       branch = "{branch}", partition_by = ["p"] }},
]
route = [
    {{ topic = "clicks", table = "lake.clicks" }},
    {{ topic = "views", table = "lake.clicks" }},
    {{ topic = "orders", table = "{ORDERS}", tombstones = "{tombstones}" }},
]
"#
        )
    }
}

impl World {
    pub(crate) fn new(seed: u64, lie: Option<Lie>) -> Self {
        let sim = Sim::new(seed, lie);
        let queue = Arc::new(FakeQueue::new(Arc::clone(&sim.clock), VISIBILITY));
        let lake = Arc::new(FakeStore::new());
        let parts = Parts {
            catalog: Arc::new(FakeCatalog::new(Arc::clone(&sim.clock) as Arc<dyn Clock>)),
            lake: Arc::clone(&lake),
            ops: Arc::new(FakeStore::new()),
            post: Post::new(Arc::clone(&sim), Arc::clone(&queue)),
            queue,
            entropy: Arc::new(SeededEntropy::new(seed ^ 0x5eed)),
            born: Arc::default(),
        };
        let table = |name| Table {
            name,
            grown_ms: None,
            widened_ms: None,
            ever_widened: false,
            drops: 0,
            rolled_back: BTreeSet::new(),
            rewound: BTreeSet::new(),
            excused: BTreeMap::new(),
            beside: BTreeMap::new(),
            discards: false,
        };
        Self {
            kafka: Kafka::new(&sim.rng, &[("clicks", 0), ("views", 0), ("orders", 1)]),
            settings: SettingsChoice::new(&sim),
            sim,
            parts,
            processes: Processes::default(),
            tables: ["lake.clicks", ORDERS].map(table).into(),
            readers: Readers::new(lake),
            removed: BTreeMap::new(),
            foreign_messages: 0,
            registry: false,
            ever_switched: false,
            given_up: Vec::new(),
            broken: BTreeMap::new(),
        }
    }

    /// The table's metadata, if it is there.
    pub(crate) fn metadata(&self, table: &str) -> Option<Arc<TableMetadata>> {
        self.parts.catalog.peek(&ident(table))
    }

    /// The branch of a table that records are committed to.
    pub(crate) fn branch(&self, table: &str) -> &'static str {
        if table == ORDERS { self.settings.text.orders.branch } else { MAIN_BRANCH }
    }

    /// The newest snapshot of that branch.
    pub(crate) fn head(&self, table: &str, metadata: &TableMetadata) -> Option<SnapshotRef> {
        metadata.snapshot_for_ref(self.branch(table)).cloned()
    }

    /// Commits as an operator or another writer; says whether it was done.
    pub(crate) fn commit(&self, table: &str, commit: &Commit) -> bool {
        let outcome =
            now(icefall_catalog::Catalog::commit(self.parts.catalog.as_ref(), &ident(table), commit));
        if outcome.name() != "committed" {
            self.sim.detail(&format!("{table}: {} {:?}", outcome.name(), outcome.reason()));
        }
        outcome.name() == "committed"
    }
}

/// A table's identifier.
pub(crate) fn ident(table: &str) -> TableIdent {
    let (namespace, name) = table.split_once('.').unwrap_or(("", table));
    TableIdent::new(NamespaceIdent::new(namespace.to_owned()), name.to_owned())
}
