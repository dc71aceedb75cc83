//! Tests against a model.
