//! The committer function's composition root.
fn main() {}
