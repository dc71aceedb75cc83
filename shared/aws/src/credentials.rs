//! Keys to sign with, cached for one part and renewed ahead of their end.
//!
//! A provider (the default chain, an assumed role, a catalog that hands out keys) is asked through
//! [`CachedCredentials`] and nowhere else, so that no part asks it for every request, and so that each has
//! the same answer to a denial: newer keys, if there are any, and one more try.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use icefall_clock::{Clock, Timestamp};

use crate::renewing::{Generation, Issuer, Lent, Renewing};

/// The keys of one part. Clones share them.
#[derive(Clone)]
pub struct CachedCredentials(Arc<Renewing<Provider>>);

#[derive(Debug)]
struct Provider(SharedCredentialsProvider);

#[async_trait]
impl Issuer for Provider {
    type Value = Credentials;
    type Error = CredentialsError;

    async fn issue(&self) -> Result<Lent<Credentials>, CredentialsError> {
        self.0.provide_credentials().await.map(lent)
    }
}

fn lent(value: Credentials) -> Lent<Credentials> {
    let expires = value.expiry().map(Timestamp::from);
    Lent { value, expires }
}

impl CachedCredentials {
    /// The keys that `provider` gives. It is asked at the first use.
    #[must_use]
    pub fn new(provider: impl ProvideCredentials + 'static, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Renewing::new(Provider(SharedCredentialsProvider::new(provider)), clock)))
    }

    /// What is good now, and its generation, to name should it be refused.
    pub async fn current(&self) -> Result<(Credentials, Generation), CredentialsError> {
        self.0.current().await
    }

    /// Makes `call`, and once more when it comes to a denial and there are other keys by then.
    pub async fn retried<T, E, F>(
        &self,
        call: impl Fn() -> F + Send + Sync,
        is_denial: fn(&E) -> bool,
    ) -> Result<T, E>
    where
        T: Send,
        E: Send + Sync,
        F: Future<Output = Result<T, E>> + Send,
    {
        // Named before the call: those who are denied together are all tried again with what one of them renews.
        let used = self.current().await.map(|(_, generation)| generation).ok();
        let error = match (call().await, used) {
            (Err(error), Some(_)) if is_denial(&error) => error,
            (result, _) => return result,
        };
        match used {
            Some(used) if self.renew(used).await => call().await,
            _ => Err(error),
        }
    }

    /// A service refused `refused`. Whether there are other keys now, with which to try once more.
    pub async fn renew(&self, refused: Generation) -> bool {
        self.0.renew(refused).await
    }

    /// Takes keys that came without asking.
    pub fn offer(&self, credentials: Credentials) {
        self.0.offer(lent(credentials));
    }
}

impl ProvideCredentials for CachedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async { self.current().await.map(|(credentials, _)| credentials) })
    }
}

impl fmt::Debug for CachedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
