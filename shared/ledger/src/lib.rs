//! What is settled in a table, and the decision about a batch manifest.
