//! Batch manifests in, one snapshot per table out.
