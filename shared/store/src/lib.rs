//! The object store port and its S3 adapter.
