//! Settings to the real adapters.
//!
//! Both functions begin the same way: find the settings' text, read it, and make of it the parts that
//! they act through. That is done once, here, so that writer and committer can't differ in how they
//! reach what they share. Each part has its own endpoint, region and credentials; all share one HTTP
//! client's connections, and none sends a request before it is first used.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use icefall_aws::{SharedHttpClient, http_client};
use icefall_catalog::{Catalog, CatalogConfig, CatalogError, Limits, RestCatalog, Signing};
use icefall_clock::{Clock, Entropy, SystemClock, SystemEntropy};
use icefall_queue::{CommitQueue, SqsConfig, SqsQueue};
use icefall_settings::{
    CatalogSettings, Environment, HttpUrl, OpsSettings, QueueSettings, Settings, SettingsError, StoreSettings,
};
use icefall_store::{ObjectLister, ObjectStore, OpsBucket, S3Config, S3Store, StoreError};
use icefall_telemetry::Metrics;
use thiserror::Error;

mod text;

/// Why a function can't start. Nothing has been done by then.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings are wrong, or so is where they are said to be.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The settings' file can't be read.
    #[error("can't read the settings at {path}; set ICEFALL_SETTINGS to where they are")]
    File {
        /// Where they were looked for.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The settings' object can't be read.
    #[error("can't read the settings; the function's role needs s3:GetObject on what ICEFALL_SETTINGS names")]
    Object(#[from] StoreError),
    /// The settings' object is not text.
    #[error("the settings at s3://{bucket}/{key} are not UTF-8 text")]
    NotText {
        /// The bucket.
        bucket: String,
        /// The object's key.
        key: String,
    },
    /// The catalog's settings can't work.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// What a function acts through.
#[derive(Clone, Debug)]
pub struct Parts {
    /// All settings.
    pub settings: Settings,
    /// The catalog of the tables.
    pub catalog: Arc<dyn Catalog>,
    /// The object store that the tables lie in.
    pub tables: Arc<dyn ObjectStore>,
    /// Icefall's own bucket.
    pub ops: OpsBucket,
    /// The queue of batch manifests.
    pub queue: Arc<dyn CommitQueue>,
    /// The machine's clock.
    pub clock: Arc<dyn Clock>,
    /// The operating system's randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What is counted for operators, by the function's name.
    pub metrics: Arc<Metrics>,
}

impl Parts {
    /// The parts that the settings of `environment` describe. Reads the settings' text, and asks nothing
    /// else of anyone. Metrics go by the name that Lambda gives the function, or by `function`.
    pub async fn from_environment(environment: &Environment, function: &str) -> Result<Self, StartError> {
        let http = http_client();
        let text = text::read(environment, &http).await?;
        let settings = Settings::parse(&text, environment)?;
        Self::of_settings(settings, &http, environment.function_name().as_deref().unwrap_or(function)).await
    }

    /// The parts that `settings` describe, on the connections of `http`.
    pub async fn of_settings(
        settings: Settings,
        http: &SharedHttpClient,
        function: &str,
    ) -> Result<Self, StartError> {
        let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
            (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let config = catalog_config(&settings.catalog, http).await;
        let catalog = RestCatalog::new(config, Arc::clone(&clock), Arc::clone(&entropy))?;
        Ok(Self {
            catalog: Arc::new(catalog),
            tables: Arc::new(store(&settings.store, http).await),
            ops: ops(&settings.ops, http).await,
            queue: Arc::new(queue(&settings.queue, http).await.hiding_for(settings.committer.hold)),
            clock,
            entropy,
            metrics: Arc::new(Metrics::new(function)),
            settings,
        })
    }
}

async fn catalog_config(catalog: &CatalogSettings, http: &SharedHttpClient) -> CatalogConfig {
    let signing = match &catalog.sign {
        None => None,
        Some(sign) => Some(Signing {
            name: sign.name.clone(),
            region: sign.region.to_string(),
            credentials: catalog.credentials.provider(&sign.region, http).await,
        }),
    };
    CatalogConfig {
        uri: catalog.uri.to_string(),
        warehouse: catalog.warehouse.clone(),
        signing,
        limits: Limits::default(),
    }
}

async fn store(store: &StoreSettings, http: &SharedHttpClient) -> S3Store {
    let config = S3Config {
        endpoint: store.endpoint.as_ref().map(HttpUrl::to_string),
        region: store.region.to_string(),
        path_style: store.path_style,
        credentials: store.credentials.provider(&store.region, http).await,
    };
    S3Store::new(config, http.clone())
}

/// What lists the ops bucket that `settings` name, for operators' tools.
pub async fn ops_lister(settings: &Settings, http: &SharedHttpClient) -> Arc<dyn ObjectLister> {
    Arc::new(store(&settings.ops.store, http).await)
}

async fn ops(bucket: &OpsSettings, http: &SharedHttpClient) -> OpsBucket {
    let store = store(&bucket.store, http).await;
    OpsBucket::new(Arc::new(store), &bucket.bucket, &bucket.prefix)
}

async fn queue(queue: &QueueSettings, http: &SharedHttpClient) -> SqsQueue {
    let config = SqsConfig {
        url: queue.url.to_string(),
        endpoint: queue.endpoint.as_ref().map(HttpUrl::to_string),
        region: queue.region.to_string(),
        credentials: queue.credentials.provider(&queue.region, http).await,
    };
    SqsQueue::new(config, http.clone())
}

#[cfg(test)]
mod tests;
