//! One Kafka batch in, durable data files and batch manifests out.
//!
//! [`Writer::write`] is the whole function: it takes an event's bytes as Lambda delivered them and
//! succeeds only when every record of it is accounted for: as a row of a stored data file that a
//! queued batch manifest names, as a dead letter likewise, or skipped by a setting that says so. It is
//! all or nothing: what is merely unavailable fails the whole batch, and the event source mapping
//! brings it again. It keeps nothing between batches but caches.

mod backpressure;
mod cluster;
mod dead_letters;
mod enqueue;
mod error;
mod event;
mod handler;
mod ports;
mod rows;
mod source;
mod tables;
mod upload;
mod writer;

pub use error::WriterError;
pub use handler::serve;
pub use ports::Ports;
pub use writer::{Report, Writer};
