//! Keys as catalogs write them, and the way to newer ones.

use std::fmt;
use std::sync::Arc;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, Result, future};
use iceberg::TableIdent;
use icefall_catalog::{ACCESS_KEY_ID, Catalog, StorageCredentials};
use icefall_clock::Timestamp;

const SECRET_ACCESS_KEY: &str = "s3.secret-access-key";
const SESSION_TOKEN: &str = "s3.session-token";
const EXPIRES_AT_MS: &str = "s3.session-token-expires-at-ms";

/// Keys for what begins with a prefix.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) prefix: String,
    pub(crate) credentials: Credentials,
}

/// The keys for S3 in what a catalog handed out.
pub(crate) fn keys_of(part: &StorageCredentials) -> Option<Keys> {
    let text = |name: &str| part.config.get(name).filter(|text| !text.is_empty());
    let expires = text(EXPIRES_AT_MS).and_then(|ms| ms.parse().ok()).map(Timestamp::from_unix_ms);
    let credentials = Credentials::new(
        text(ACCESS_KEY_ID)?,
        text(SECRET_ACCESS_KEY)?,
        text(SESSION_TOKEN).cloned(),
        expires.map(Timestamp::to_system_time),
        "catalog",
    );
    Some(Keys { prefix: part.prefix.clone(), credentials })
}

/// Asks the catalog for newer keys.
pub(crate) struct Source {
    catalog: Arc<dyn Catalog>,
    table: TableIdent,
    prefix: String,
}

impl Source {
    pub(crate) fn new(catalog: Arc<dyn Catalog>, table: TableIdent, prefix: String) -> Self {
        Self { catalog, table, prefix }
    }

    async fn ask(&self) -> Result {
        let parts = self.catalog.storage_credentials(&self.table).await;
        let parts = parts.map_err(CredentialsError::provider_error)?;
        let mut keys = parts.iter().filter_map(keys_of).filter(|keys| self.prefix.starts_with(&keys.prefix));
        let first = keys.next();
        let longest = keys.fold(first, |longest, keys| match longest {
            Some(longest) if longest.prefix.len() >= keys.prefix.len() => Some(longest),
            _ => Some(keys),
        });
        longest.map(|keys| keys.credentials).ok_or_else(|| {
            let message =
                format!("the catalog no longer hands out keys for {} of {}", self.prefix, self.table);
            CredentialsError::not_loaded(message)
        })
    }
}

impl ProvideCredentials for Source {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.ask())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("table", &self.table)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn keys_are_read_with_their_end() {
        let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let config = [
            entry(ACCESS_KEY_ID, "ASIA1"),
            entry(SECRET_ACCESS_KEY, "hush"),
            entry(SESSION_TOKEN, "quiet"),
            entry(EXPIRES_AT_MS, "1704068100000"),
        ];
        let part = StorageCredentials { prefix: "s3://lake/ns/t".to_owned(), config: config.into() };
        let keys = keys_of(&part).expect("keys");
        assert_eq!(keys.credentials.session_token(), Some("quiet"));
        let end = keys.credentials.expiry().map(Timestamp::from);
        assert_eq!(end, Some(Timestamp::from_unix_ms(1_704_067_200_000).plus(Duration::from_mins(15))));
        let other = StorageCredentials { config: [entry("gcs.oauth2.token", "x")].into(), ..part };
        assert!(keys_of(&other).is_none());
    }
}
