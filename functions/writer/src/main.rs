//! The writer function's composition root.
fn main() {}
