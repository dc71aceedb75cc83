//! The port over S3's protocol.
//!
//! One object is one signed request from memory: with the real SHA-256 of its bytes, without
//! `aws-chunked` and without trailing checksums, since OSS refuses the first and table buckets allow
//! no header that they don't know. Checksums beyond that are left to when an operation demands
//! them. The SDK tries again what may pass; a body that breaks off while it is read is read again
//! here.
//!
//! An answer of success counts when it has an `ETag`, as every store's answers to puts and gets have. A
//! proxy on the way that answers by itself, with a page to sign in on perhaps, has stored nothing.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, IdentityCache, Region, RequestChecksumCalculation, ResponseChecksumValidation,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use icefall_aws::{CachedCredentials, CallLimits, Kind, SharedHttpClient, failure};

use crate::error::Source;
use crate::{Location, ObjectLister, ObjectMeta, ObjectStore, Operation, StoreError};

/// Where a store is, and who asks.
#[derive(Clone, Debug)]
pub struct S3Config {
    /// The endpoint's URL; AWS's own of the region if there is none.
    pub endpoint: Option<String>,
    /// The region, which is signed too.
    pub region: String,
    /// Whether the bucket stands in the path instead of the host name.
    pub path_style: bool,
    /// Where credentials come from.
    pub credentials: CachedCredentials,
}

/// An object store that speaks S3's protocol.
#[derive(Clone, Debug)]
pub struct S3Store {
    client: Client,
    credentials: CachedCredentials,
    limits: CallLimits,
}

impl S3Store {
    /// The store at `config`. Sends no request and asks for no credentials yet.
    #[must_use]
    pub fn new(config: S3Config, http: SharedHttpClient) -> Self {
        Self::with_limits(config, http, CallLimits::default())
    }

    /// The same with other limits of patience.
    #[must_use]
    pub fn with_limits(config: S3Config, http: SharedHttpClient, limits: CallLimits) -> Self {
        let mut sdk = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .region(Region::new(config.region))
            .credentials_provider(config.credentials.clone())
            // They are cached already, by what can also renew them.
            .identity_cache(IdentityCache::no_cache())
            .force_path_style(config.path_style)
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .retry_config(limits.retry())
            .timeout_config(limits.timeout());
        sdk.set_endpoint_url(config.endpoint);
        Self { client: Client::from_conf(sdk.build()), credentials: config.credentials, limits }
    }

    /// Makes `call`, and once more when it was denied and there are newer credentials.
    async fn signed<T, F>(&self, call: impl Fn() -> F + Send + Sync) -> Result<T, StoreError>
    where
        T: Send,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        self.credentials.retried(call, |error| matches!(error, StoreError::Denied { .. })).await
    }

    /// Reads an object or a range of it, again when its body breaks off.
    async fn read(&self, location: &Location, range: Option<String>) -> Result<Bytes, StoreError> {
        let mut tries = 1;
        loop {
            match self.signed(|| self.read_once(location, range.clone())).await? {
                Ok(body) => return Ok(body),
                Err(source) if tries >= self.limits.attempts => {
                    return Err(StoreError::new(Kind::Unreachable, Operation::Get, location, source));
                }
                Err(_) => tries += 1,
            }
        }
    }

    /// The outer error is the call's, the inner one says why its body broke off.
    async fn read_once(
        &self,
        location: &Location,
        range: Option<String>,
    ) -> Result<Result<Bytes, Source>, StoreError> {
        let request = self.client.get_object().bucket(location.bucket()).key(location.key());
        let answer = request.set_range(range).send().await.map_err(failed(Operation::Get, location))?;
        match of_a_store(answer.e_tag()) {
            Ok(()) => Ok(collect(answer.body, self.limits.attempt).await),
            Err(foreign) => Ok(Err(foreign)),
        }
    }
}

#[async_trait]
impl ObjectStore for S3Store {
    async fn put(&self, location: &Location, body: Bytes) -> Result<(), StoreError> {
        let put = || async {
            let request = self.client.put_object().bucket(location.bucket()).key(location.key());
            let sent = request.body(ByteStream::from(body.clone())).send().await;
            let answer = sent.map_err(failed(Operation::Put, location))?;
            let foreign = |source| StoreError::new(Kind::Unreachable, Operation::Put, location, source);
            of_a_store(answer.e_tag()).map_err(foreign)
        };
        self.signed(put).await
    }

    async fn get(&self, location: &Location) -> Result<Bytes, StoreError> {
        self.read(location, None).await
    }

    async fn get_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, StoreError> {
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            return Ok(Bytes::new());
        };
        let body = self.read(location, Some(format!("bytes={}-{last}", range.start))).await?;
        if u64::try_from(body.len()).is_ok_and(|length| length == range.end - range.start) {
            return Ok(body);
        }
        let source = format!("asked for bytes {}..{}, got {}", range.start, range.end, body.len());
        Err(StoreError::new(Kind::Rejected, Operation::Get, location, source))
    }

    async fn head(&self, location: &Location) -> Result<ObjectMeta, StoreError> {
        let look_up = || async {
            let request = self.client.head_object().bucket(location.bucket()).key(location.key());
            request.send().await.map_err(failed(Operation::Head, location))
        };
        let answer = self.signed(look_up).await?;
        let size = answer.content_length().and_then(|size| u64::try_from(size).ok());
        size.map(|size| ObjectMeta { size }).ok_or_else(|| {
            StoreError::new(Kind::Unreachable, Operation::Head, location, "the answer names no size")
        })
    }
}

#[async_trait]
impl ObjectLister for S3Store {
    async fn list(&self, prefix: &Location) -> Result<Vec<Location>, StoreError> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let request = self.client.list_objects_v2().bucket(prefix.bucket()).prefix(prefix.key());
            let answer = request.set_continuation_token(from).send().await;
            let answer = answer.map_err(failed(Operation::List, prefix))?;
            let keys = answer.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
            found.extend(keys.map(|key| Location::s3(prefix.bucket(), key)));
            from = answer.next_continuation_token.filter(|_| answer.is_truncated == Some(true));
            if from.is_none() {
                return Ok(found);
            }
        }
    }
}

/// Whether an answer of success is a store's.
fn of_a_store(e_tag: Option<&str>) -> Result<(), Source> {
    let foreign =
        || "the answer has no ETag, so it is no object store's: look for a proxy that answers by itself";
    e_tag.map(drop).ok_or_else(|| foreign().into())
}

/// Reads a body to its end within `limit`.
async fn collect(body: ByteStream, limit: Duration) -> Result<Bytes, Source> {
    Ok(tokio::time::timeout(limit, body.collect()).await??.into_bytes())
}

/// Turns a failed call into the port's error.
fn failed<E>(operation: Operation, location: &Location) -> impl FnOnce(SdkError<E>) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    move |error| {
        let (kind, source) = failure(error);
        StoreError::new(kind, operation, location, source)
    }
}
