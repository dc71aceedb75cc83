//! How each part is reached: by every way of signing in, through a private certificate authority, and
//! through a proxy. Servers answer from scripts, and show what reached them.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod network;
mod secrets;
mod settings;
mod sign_in;
