//! Raw settings to one validated struct.
//!
//! Everything that an operator can set comes through here: a TOML text, with single keys overridden
//! by environment variables. Two steps keep what was written apart from what it means: the raw
//! settings are as close to the file as possible, and [`Settings`], made of them once at a cold start,
//! is all that the rest of Icefall sees. Whatever is wrong is reported together, each fault with its
//! key and what to write instead; keys that nobody knows are faults, since a misspelt one would be
//! ignored.
//!
//! A secret can be given as a reference to where it is kept. Fetching those is the caller's as well:
//! [`Settings::draft`] names them, and [`Draft::resolve`] takes what they hold.
//!
//! Nothing else reads the environment, and [`Environment::of_process`] is the one function here that
//! does. Fetching the text is the caller's: [`Environment::location`] says from where.
//!
//! ```
//! use icefall_settings::{Environment, Settings};
//!
//! let environment = Environment::from_iter([("AWS_REGION", "eu-central-1"), ("ICEFALL__PIPELINE", "shop")]);
//! let text = r#"
//!     catalog = { uri = "https://catalog.example.com", warehouse = "lake" }
//!     ops = { bucket = "icefall-ops" }
//!     queue = { url = "https://sqs.eu-central-1.amazonaws.com/000000000000/icefall-commits" }
//!     route = [{ topic = "orders", table = "shop.orders" }]
//! "#;
//! let settings = Settings::parse(text, &environment)?;
//! assert_eq!(settings.pipeline.as_str(), "shop");
//! # Ok::<(), icefall_settings::SettingsError>(())
//! ```

mod audit;
mod credentials;
mod environment;
mod fault;
mod node;
mod partition;
mod raw;
mod read;
mod reference;
mod settings;
mod sign_in;
mod table;
mod types;
mod validate;
mod values;

#[cfg(test)]
mod sign_in_tests;
#[cfg(test)]
mod tests;

pub use credentials::{AssumedRole, CredentialsSettings, RoleSource, StaticCredentials};
pub use environment::{Environment, Location, LogSettings};
pub use fault::{Fault, SettingsError};
pub use icefall_secret::Secret;
pub use partition::PartitionField;
pub use raw::reference;
pub use reference::{SecretReference, SecretStore};
pub use settings::{
    AuditSettings, CatalogSettings, CommitterSettings, Draft, KafkaSignIn, NetworkSettings, OAuth2Settings,
    OpsSettings, PasswordMechanism, QueueSettings, Route, Settings, SignInSettings, Signing, StoreSettings,
    TableSettings, Tombstones,
};
pub use types::{Column, ColumnType};
pub use values::{ByteSize, HttpUrl, Region};
