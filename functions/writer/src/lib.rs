//! The writer: one Kafka batch in, durable data files and batch manifests out.
//!
//! An invocation takes the records that the event source mapping polled, converts each by its table's
//! current schema, writes a data file per partition into the table's own location, and enqueues one
//! batch manifest per table. It is all or nothing: it succeeds only when the queue has accepted every
//! batch manifest. What it can't convert becomes a dead letter and travels with the rest; what it can't
//! reach fails the batch, and the records come again from Kafka.
//!
//! Every attempt writes files under new names. What a failed one leaves is unreferenced and harmless.

mod backpressure;
mod cluster;
mod convert;
mod deliver;
mod error;
mod handler;
mod tables;
mod writer;

pub use error::WriterError;
pub use handler::handle;
pub use writer::{Report, Writer};
