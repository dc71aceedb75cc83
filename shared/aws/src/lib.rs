//! What the adapters of remote services share.
//!
//! Object store, commit queue and catalog speak to different services with different credentials, but
//! through one network, with the same limits of patience, and their callers ask the same of a failure: is
//! it to be fixed, to be waited for, or is its outcome unknown? This crate owns those, and what it takes
//! to be let in: signatures, and keys and tokens that are renewed ahead of their end.

mod credentials;
mod failure;
mod limits;
mod network;
mod renewing;
pub mod sign;

pub use aws_smithy_runtime_api::client::http::SharedHttpClient;
pub use credentials::CachedCredentials;
pub use failure::{Kind, entry_failure, failure};
pub use limits::CallLimits;
pub use network::{Network, NetworkError, Proxy, http_client};
pub use renewing::{Generation, Issuer, Lent, Renewing};
