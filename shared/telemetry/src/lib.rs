//! Tracing set-up and the one table of metrics.
