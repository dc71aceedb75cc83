//! The commit queue port and its SQS adapter.
