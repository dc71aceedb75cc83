//! The signed Iceberg REST client and its outcomes.
//!
//! A catalog is the one place where a commit becomes true, so this crate is exact about what an answer
//! proves. [`Catalog`] is the port that the functions see; [`RestCatalog`] speaks the Iceberg REST
//! protocol to any catalog, signed with AWS Signature Version 4, with a token, or with neither. A commit ends in a
//! [`CommitOutcome`]: only an answer whose metadata holds what was committed counts as committed, a
//! clear refusal is told apart by what its receiver does next, and all else is unknown and has to be
//! settled by loading the table. A commit is never sent twice by this crate once it may have arrived.

mod answer;
mod client;
mod commit;
mod config;
mod dialect;
mod error;
mod port;
mod retry;
mod route;
mod sign_in;
mod token;
mod transport;
mod wire;

pub use client::RestCatalog;
pub use commit::{Commit, CommitOutcome};
pub use config::{CatalogConfig, ClientCredentials, Limits, SignIn, Signing};
pub use error::{CatalogError, Operation, Reason};
pub use icefall_aws::sign;
pub use port::{ACCESS_KEY_ID, Catalog, LoadedTable, Namespace, NewTable, Snapshots, StorageCredentials};
