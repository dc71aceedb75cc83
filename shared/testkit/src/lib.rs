//! Fakes, k-th-call failures and conformance suites.

mod authority;
mod catalog_conformance;
mod clock;
pub mod errors;
mod fake_catalog;
mod fake_queue;
mod fake_store;
mod faults;
mod faulty_catalog;
mod proxy;
mod queue_conformance;
mod scripted_server;
mod store_conformance;

pub use authority::Authority;
pub use catalog_conformance::{Habits, catalog_conformance};
pub use clock::{FakeClock, SeededEntropy};
pub use fake_catalog::FakeCatalog;
pub use fake_queue::FakeQueue;
pub use fake_store::FakeStore;
pub use faults::{Call, Failure, Faults, FaultyQueue, FaultyStore, Moment};
pub use faulty_catalog::FaultyCatalog;
pub use proxy::ConnectProxy;
pub use queue_conformance::queue_conformance;
pub use scripted_server::{Reply, Request, ScriptedServer};
pub use store_conformance::store_conformance;
