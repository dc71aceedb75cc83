//! What the tests on real parts share: the stack that is up, a pipeline of one's own on it, and Kafka events.
//!
//! Everything here goes the way that the functions go: settings as text with overrides, the composition root's
//! adapters, the functions' own entry points. So a test differs from production in where the parts are, and in
//! nothing else. Each test takes a namespace, a queue and a prefix of its own, so tests run side by side.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod event;
mod lake;
mod log;
mod pipeline;
mod stack;

pub use event::{TOPIC, click, event};
pub use lake::{dead_letters, event_ids, metadata};
pub use log::Log;
pub use pipeline::{Pipeline, SECRETS, closed_port, reasons};
pub use stack::{Service, Stack};
