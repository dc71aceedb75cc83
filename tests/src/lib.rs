//! What the tests on real parts share: the stack that is up, a pipeline of one's own on it, and Kafka events.
//!
//! Everything here goes the way that the functions go: settings as text with overrides, the composition root's
//! adapters, the functions' own entry points. So a test differs from production in where the parts are, and in
//! nothing else. Each test takes a namespace, a queue and a prefix of its own, so tests run side by side.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod event;
pub mod fuzz;
mod lake;
mod log;
mod pipeline;
mod readers;
mod stack;
mod topic;
mod watched;

pub use event::{OTHER_TOPIC, TOPIC, click, event, event_of};
pub use lake::{DeadLetterRow, dead_letter_rows, dead_letters, event_ids, manifests, metadata};
pub use log::Log;
pub use pipeline::{Pipeline, SECRETS, closed_port, reasons};
pub use readers::{Question, Reader, Row, other_engine};
pub use stack::{Service, Stack, WhichCatalog};
pub use topic::TopicOnBroker;
pub use watched::{Watched, WatchedCatalog};
