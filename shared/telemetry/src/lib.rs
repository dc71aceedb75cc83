//! Tracing set-up and the one table of metrics.
//!
//! What an operator sees of Icefall goes through here. Logs follow Lambda's own logging controls
//! ([`start_logging`]); a line of level error is only for what a person must act on, since alarms are
//! set on them: what is retried or merely refused is a warning, what went as planned is info or less.
//! Metrics are declared in one table ([`Metric`]), which the documentation mirrors ([`reference()`]);
//! callers say what happened ([`Metrics`]) and know neither names nor units.
//!
//! Nothing is read from the environment and no clock is asked: both come in as values.

mod emf;
mod logging;
mod metrics;
mod recorder;

pub use logging::start_logging;
pub use metrics::{Dimension, Kind, Metric, Unit, reference};
pub use recorder::Metrics;
