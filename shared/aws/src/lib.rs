//! What the adapters of AWS services share.
//!
//! The object store and the commit queue speak to different services with different credentials, but
//! over one HTTP client, with the same limits of patience, and their callers ask the same of a
//! failure: is it to be fixed, to be waited for, or is its outcome unknown? This crate owns those
//! three, so that both adapters answer alike.

mod failure;
mod http;
mod limits;

pub use aws_smithy_runtime_api::client::http::SharedHttpClient;
pub use failure::{Kind, entry_failure, failure};
pub use http::http_client;
pub use limits::CallLimits;
