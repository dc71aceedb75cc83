//! The parts as a process reaches them: the testkit's fakes behind the gate.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Operation, Snapshots,
};
use icefall_queue::{CommitQueue, QueueError, Receipt, Received};
use icefall_store::{Heartbeat, Location, ObjectLister, ObjectMeta, ObjectStore, StoreError};
use icefall_testkit::{Failure, FakeCatalog, FakeQueue, FakeStore, errors};

use crate::gate::{Call, Gate, Role};
use crate::lie::{Lie, unchecked};
use crate::objects;
use crate::post::Post;
use crate::sim::Sim;
use crate::tally::Fault;
use crate::watch::{self, Watched};
use crate::weather::Part;

/// The answer of a fake, which never makes anybody wait.
#[expect(clippy::expect_used, reason = "a fake that waits is a fault of the simulation")]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("fakes answer at once")
}

const CODEC_KEY: &str = "write.parquet.compression-codec";

/// The catalog as one process reaches it.
#[derive(Debug)]
pub(crate) struct SimCatalog {
    pub(crate) gate: Arc<Gate>,
    pub(crate) inner: Arc<FakeCatalog>,
}

impl SimCatalog {
    /// Now and then others commit while a commit is on its way.
    fn tempt(&self, table: &str) {
        let sim = &self.gate.sim;
        let is_calm = sim.state().weather.is_calm();
        if !is_calm && sim.rng.chance(60) {
            sim.state().interference = Some(table.to_owned());
        }
    }

    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        operation: Operation,
        subject: String,
        effect: impl FnOnce(&FakeCatalog) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let inner = Arc::clone(&self.inner);
        let object = objects::of_catalog(&subject);
        let call = Call { part: Part::Catalog, name, subject: &subject, object };
        let error = errors::catalog_error(operation, subject.clone());
        self.gate.call(call, move |_| effect(&inner), error).await
    }
}

#[async_trait]
impl Catalog for SimCatalog {
    async fn load_table(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
    ) -> Result<LoadedTable, CatalogError> {
        let ident = table.clone();
        let effect = move |inner: &FakeCatalog| now(inner.load_table(&ident, snapshots));
        self.call("load-table", Operation::LoadTable, table.to_string(), effect).await
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        let (ident, mut new, sim) = (table.clone(), new.clone(), Arc::clone(&self.gate.sim));
        // What a catalog gives to tables that don't say otherwise. Compression costs much of a schedule's time and
        // plays no part in what is promised.
        new.properties.entry(CODEC_KEY.to_owned()).or_insert_with(|| "uncompressed".to_owned());
        let effect = move |inner: &FakeCatalog| {
            let made = now(inner.create_table(&ident, &new));
            if made.is_ok() {
                let now_ms = sim.now_ms();
                sim.state().made_ms.insert(ident.to_string(), now_ms);
            }
            made
        };
        self.call("create-table", Operation::CreateTable, table.to_string(), effect).await
    }

    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        let (inner, sim) = (Arc::clone(&self.inner), Arc::clone(&self.gate.sim));
        let (ident, commit, name) = (table.clone(), commit.clone(), table.to_string());
        self.tempt(&name);
        let object = objects::of_catalog(&name);
        let call = Call { part: Part::Catalog, name: "commit", subject: &name, object };
        let effect = move |_: bool| {
            let before = inner.peek(&ident);
            let commit = match (sim.lie, &before) {
                (Some(Lie::NoCompareAndSwap), Some(metadata)) => unchecked(&commit, metadata),
                _ => commit,
            };
            let outcome = now(inner.commit(&ident, &commit));
            if let (Some(before), CommitOutcome::Committed(after)) = (before, &outcome) {
                let fault = sim.state().watched.fault(&ident, &before, &after.metadata, &commit);
                if let Some(fault) = fault {
                    sim.violate(fault);
                }
                let letters = inner.peek(&crate::world::ident(crate::world::DEAD_LETTERS));
                let early = letters
                    .and_then(|letters| Watched::left_early(&ident, &before, &after.metadata, &letters));
                if let Some(fault) = early {
                    sim.violate(fault);
                }
                let rewound = watch::rewound(&ident, &before, &after.metadata);
                sim.state().rewound.extend(rewound);
            }
            sim.detail(&format!("  the catalog on {ident}: {}", outcome.name()));
            if matches!(outcome, CommitOutcome::Conflict(_)) {
                sim.strike(Fault::RealConflict);
            }
            Ok(outcome)
        };
        let error = |failure: Failure| errors::commit_outcome(failure, table.to_string());
        self.gate.call(call, effect, error).await.unwrap_or_else(|outcome| outcome)
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
        let name = namespace.clone();
        let effect = move |inner: &FakeCatalog| now(inner.create_namespace(&name));
        self.call("create-namespace", Operation::CreateNamespace, namespace.join("."), effect).await
    }

    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError> {
        let name = namespace.clone();
        let effect = move |inner: &FakeCatalog| now(inner.load_namespace(&name));
        self.call("load-namespace", Operation::LoadNamespace, namespace.join("."), effect).await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError> {
        let name = namespace.clone();
        let effect = move |inner: &FakeCatalog| now(inner.list_tables(&name));
        self.call("list-tables", Operation::ListTables, namespace.join("."), effect).await
    }
}

/// A store as one process reaches it.
#[derive(Debug)]
pub(crate) struct SimStore {
    pub(crate) gate: Arc<Gate>,
    pub(crate) inner: Arc<FakeStore>,
    pub(crate) part: Part,
    /// When each file was stored.
    pub(crate) born: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Whose metadata files lie in the tables' store.
    pub(crate) catalog: Arc<FakeCatalog>,
}

impl SimStore {
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        operation: icefall_store::Operation,
        (location, object): (&Location, &'static str),
        effect: impl FnOnce(&FakeStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (inner, subject) = (Arc::clone(&self.inner), location.to_string());
        let call = Call { part: self.part, name, subject: &subject, object };
        let error = errors::store_error(operation, location);
        self.gate.call(call, move |_| effect(&inner), error).await
    }

    /// The place with the kind of what lies there, as far as its name tells.
    fn named<'a>(&self, location: &'a Location) -> (&'a Location, &'static str) {
        (location, objects::of_store(self.part, location.key(), None))
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        let place = location.clone();
        let (born, sim) = (Arc::clone(&self.born), Arc::clone(&self.gate.sim));
        let deadly = self.names_poison(location, &body);
        self.watch_letters(location, &body);
        let object = objects::of_store(self.part, location.key(), Some(body.as_ref()));
        let effect = move |inner: &FakeStore| {
            if is_heartbeat(&place) {
                let now_ms = sim.now_ms();
                sim.state().heartbeat_ms = Some(now_ms);
            }
            let mut born = born.lock().unwrap_or_else(PoisonError::into_inner);
            born.insert(place.to_string(), sim.now_ms());
            match object {
                objects::NODE => sim.strike_unless_calm(Fault::NodeSealed),
                objects::SPILL => sim.strike_unless_calm(Fault::Spilled),
                _ => {}
            }
            if is_lost(&sim, &place) { Ok(()) } else { now(inner.put(&place, body)) }
        };
        if object == objects::ENTRY {
            self.gate.sim.state().reported.begin(location.key());
        }
        let put = self.call("put", icefall_store::Operation::Put, (location, object), effect).await;
        if put.is_ok() && object == objects::ENTRY {
            self.gate.sim.state().reported.done(location.key());
        }
        if deadly {
            self.gate.doom();
        }
        put
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        let place = location.clone();
        let (catalog, part, sim) = (Arc::clone(&self.catalog), self.part, Arc::clone(&self.gate.sim));
        let gone = errors::store_error(icefall_store::Operation::Get, location);
        let effect = move |inner: &FakeStore| {
            if part == Part::Lake && place.key().ends_with(".metadata.json") {
                let file = catalog.metadata_file(&place.to_string());
                return file.ok_or_else(|| gone(Failure::NotFound));
            }
            let got = now(inner.get(&place));
            if got.as_ref().is_ok_and(|body| objects::is_node(body)) {
                sim.strike_unless_calm(Fault::NodeRead);
            }
            got
        };
        self.call("get", icefall_store::Operation::Get, self.named(location), effect).await
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        let place = location.clone();
        let effect = move |inner: &FakeStore| now(inner.get_range(&place, range));
        self.call("get", icefall_store::Operation::Get, self.named(location), effect).await
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        let place = location.clone();
        let effect = move |inner: &FakeStore| now(inner.head(&place));
        self.call("head", icefall_store::Operation::Head, self.named(location), effect).await
    }
}

#[async_trait]
impl ObjectLister for SimStore {
    async fn list(&self, prefix: &Location) -> Result<Vec<Location>, StoreError> {
        let place = prefix.clone();
        let effect = move |inner: &FakeStore| now(inner.list(&place));
        self.call("list", icefall_store::Operation::List, self.named(prefix), effect).await
    }
}

impl SimStore {
    /// Looks at the dead letters that a writer puts.
    fn watch_letters(&self, location: &Location, body: &[u8]) {
        let sim = &self.gate.sim;
        if self.gate.role != Role::Writer || !location.key().starts_with("dead-letters/") {
            return;
        }
        let wide_since = sim.state().wide_since.clone();
        if !wide_since.is_empty()
            && let Some(fault) = watch::needless_letter(body, self.gate.begun_ms(), &wide_since)
        {
            sim.violate(fault);
        }
    }

    /// Whether this says that a round holds a message which its process will die of.
    fn names_poison(&self, location: &Location, body: &[u8]) -> bool {
        let poison = self.gate.sim.state().poison.clone();
        if poison.is_empty() || !is_heartbeat(location) {
            return false;
        }
        let heartbeat: Option<Heartbeat> = serde_json::from_slice(body).ok();
        heartbeat.is_some_and(|heartbeat| heartbeat.holds.iter().any(|id| poison.contains(id)))
    }
}

fn is_heartbeat(location: &Location) -> bool {
    location.key().starts_with("heartbeat")
}

/// Whether a store that lies keeps this to itself.
fn is_lost(sim: &Sim, place: &Location) -> bool {
    let part = match sim.lie {
        Some(Lie::LostDataFiles) => "/data/",
        Some(Lie::LostDeadLetters) => "dead-letters/",
        _ => return false,
    };
    place.key().contains(part) && sim.rng.chance(300)
}

/// The queue as one process reaches it.
#[derive(Debug)]
pub(crate) struct SimQueue {
    pub(crate) gate: Arc<Gate>,
    pub(crate) inner: Arc<FakeQueue>,
    pub(crate) post: Arc<Post>,
}

impl SimQueue {
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        operation: icefall_queue::Operation,
        subject: &str,
        effect: impl FnOnce(bool) -> Result<T, QueueError> + Send + 'static,
    ) -> Result<T, QueueError> {
        let object = if name == "retention" { "the queue" } else { "messages" };
        let call = Call { part: Part::Queue, name, subject, object };
        self.gate.call(call, effect, errors::queue_error(operation)).await
    }

    /// Receives what is there.
    async fn receive_now(&self, max: usize) -> Result<Vec<Received>, QueueError> {
        let inner = Arc::clone(&self.inner);
        let sim = Arc::clone(&self.gate.sim);
        let effect = move |_: bool| {
            let got = now(inner.receive(max, Duration::ZERO))?;
            if sim.lie == Some(Lie::DeletedOnReceipt) {
                let receipts: Vec<_> = got.iter().map(|message| message.receipt.clone()).collect();
                now(inner.delete(&receipts))?;
            }
            Ok(got)
        };
        self.call("receive", icefall_queue::Operation::Receive, "", effect).await
    }
}

/// All of `items`, or the first half of them.
fn share<T: Clone>(items: &[T], in_part: bool) -> Vec<T> {
    let count = if in_part { items.len() / 2 } else { items.len() };
    items.iter().take(count).cloned().collect()
}

#[async_trait]
impl CommitQueue for SimQueue {
    async fn send(&self, bodies: &[String]) -> Result<(), QueueError> {
        let (post, bodies) = (Arc::clone(&self.post), bodies.to_vec());
        let subject = format!("{} messages", bodies.len());
        let effect = move |in_part: bool| post.accept(&share(&bodies, in_part));
        self.call("send", icefall_queue::Operation::Send, &subject, effect).await
    }

    /// A long poll that finds nothing at first finds what has come by its end.
    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Received>, QueueError> {
        let got = self.receive_now(max).await?;
        if !got.is_empty() || wait.is_zero() {
            return Ok(got);
        }
        let wait = u64::try_from(wait.as_millis()).unwrap_or_default();
        self.gate.sim.sleep(self.gate.process, wait).await;
        self.receive_now(max).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let (inner, receipts) = (Arc::clone(&self.inner), receipts.to_vec());
        let subject = format!("{} messages", receipts.len());
        let effect = move |in_part: bool| now(inner.delete(&share(&receipts, in_part)));
        self.call("delete", icefall_queue::Operation::Delete, &subject, effect).await
    }

    async fn hide(&self, receipts: &[Receipt], visibility: Duration) -> Result<(), QueueError> {
        let (inner, receipts) = (Arc::clone(&self.inner), receipts.to_vec());
        let subject = format!("{} messages", receipts.len());
        let effect = move |_: bool| now(inner.hide(&receipts, visibility));
        self.call("hide", icefall_queue::Operation::Hide, &subject, effect).await
    }

    /// Asked once an invocation; a queue that does not answer is taken for one of the default.
    async fn retention(&self) -> Result<Duration, QueueError> {
        let inner = Arc::clone(&self.inner);
        let effect = move |_: bool| now(inner.retention());
        self.call("retention", icefall_queue::Operation::Describe, "", effect).await
    }
}
