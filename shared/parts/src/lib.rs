//! Settings to the real adapters.
//!
//! Both functions begin the same way: find the settings' text, read it, and make of it the parts that
//! they act through. That is done once, here, so that writer and committer can't differ in how they
//! reach what they share. Each part has its own endpoint, region and credentials; all share one network,
//! and none sends a request before it is first used. Only secrets that the settings refer to are fetched at once.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use icefall_aws::{CachedCredentials, Network, NetworkError, Proxy};
use icefall_catalog::{
    Catalog, CatalogConfig, CatalogError, ClientCredentials, Limits, RestCatalog, SignIn, Signing,
};
use icefall_clock::{Clock, Entropy, SystemClock, SystemEntropy};
use icefall_queue::{CommitQueue, SqsConfig, SqsQueue};
use icefall_settings::{
    CredentialsSettings, Draft, Environment, HttpUrl, KafkaSignIn, NetworkSettings, OAuth2Settings,
    OpsSettings, QueueSettings, Secret, Settings, SettingsError, SignInSettings, StoreSettings,
};
use icefall_store::{ObjectLister, ObjectStore, OpsBucket, S3Config, S3Store, StoreError};
use icefall_telemetry::Metrics;
use icefall_vended::vended;
use thiserror::Error;

mod keys;
mod secrets;
mod text;

use keys::Fetching;
use secrets::Secrets;
pub use secrets::{Problem, SecretError, SecretsError};

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
    /// The certificate authorities can't be read.
    #[error("network.ca_bundle: can't read {path}; give the path of a PEM file in the function's bundle")]
    CaBundle {
        /// Where they were looked for.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// What stands between can't be used.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Secrets that are kept elsewhere can't be fetched.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
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
    /// The parts that the settings of `environment` describe. Reads the settings' text and the secrets that
    /// it refers to, and asks nothing else of anyone. Metrics go by the name that Lambda gives the function, or
    /// by `function`.
    pub async fn from_environment(environment: &Environment, function: &str) -> Result<Self, StartError> {
        let text = text::read(environment).await?;
        let draft = Settings::draft(&text, environment)?;
        let secrets = secrets_of(&draft, environment).await?;
        let settings = draft.resolve(secrets)?;
        Self::of_settings(settings, environment.function_name().as_deref().unwrap_or(function)).await
    }

    /// The parts that `settings` describe.
    pub async fn of_settings(settings: Settings, function: &str) -> Result<Self, StartError> {
        let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
            (Arc::new(SystemClock), Arc::new(SystemEntropy));
        let network = network(&settings.network)?;
        let fetching = Fetching { http: network.http_client()?, clock: Arc::clone(&clock) };
        let config = catalog_config(&settings, network, &fetching).await;
        let catalog = RestCatalog::new(config, Arc::clone(&clock), Arc::clone(&entropy))?;
        let (catalog, tables) = tables(Arc::new(catalog), &settings.store, &fetching).await;
        Ok(Self {
            catalog,
            tables,
            ops: ops(&settings.ops, &fetching).await,
            queue: Arc::new(queue(&settings.queue, &fetching).await.hiding_for(settings.committer.hold)),
            clock,
            entropy,
            metrics: Arc::new(Metrics::new(function)),
            settings,
        })
    }
}

/// The way out that `settings` describe.
pub(crate) fn network(settings: &NetworkSettings) -> Result<Network, StartError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|source| StartError::CaBundle { path: path.clone(), source })
    };
    let ca_bundle = settings.ca_bundle.as_ref().map(read).transpose()?;
    let proxy = settings.proxy.clone().map(|url| Proxy { url, no_proxy: settings.no_proxy.clone() });
    Ok(Network::new(ca_bundle, proxy)?)
}

/// What the secrets hold that the settings refer to, fetched with the function's own role.
async fn secrets_of(
    draft: &Draft,
    environment: &Environment,
) -> Result<BTreeMap<String, Secret>, StartError> {
    if draft.references().is_empty() {
        return Ok(BTreeMap::new());
    }
    let (network, clock): (Network, Arc<dyn Clock>) = (network(draft.network())?, Arc::new(SystemClock));
    let fetching = Fetching { http: network.http_client()?, clock: Arc::clone(&clock) };
    let keys = fetching.keys(&CredentialsSettings::Default, &environment.default_region()?).await;
    let secrets = Secrets { environment, network: &network, keys, clock };
    Ok(secrets.fetch(draft.references()).await?)
}

async fn catalog_config(settings: &Settings, network: Network, fetching: &Fetching) -> CatalogConfig {
    let sign_in = match &settings.catalog.sign_in {
        SignInSettings::Unsigned => SignIn::Unsigned,
        SignInSettings::SigV4(sign, credentials) => SignIn::SigV4(Signing {
            name: sign.name.clone(),
            region: sign.region.to_string(),
            credentials: fetching.keys(credentials, &sign.region).await,
        }),
        SignInSettings::Bearer(token) => SignIn::Bearer(token.clone()),
        SignInSettings::OAuth2(client) => SignIn::OAuth2(client_credentials(client)),
    };
    CatalogConfig {
        uri: settings.catalog.uri.to_string(),
        warehouse: settings.catalog.warehouse.clone(),
        sign_in,
        vended_credentials: settings.store.vended_credentials,
        network,
        limits: Limits::default(),
    }
}

fn client_credentials(client: &OAuth2Settings) -> ClientCredentials {
    ClientCredentials {
        token_endpoint: client.token_endpoint.as_ref().map(HttpUrl::to_string),
        client_id: client.client_id.clone(),
        client_secret: client.client_secret.clone(),
        scope: client.scope.clone(),
        audience: client.audience.clone(),
    }
}

/// The catalog, and the store that its tables lie in: bound together when the catalog lends the store's keys.
async fn tables(
    catalog: Arc<dyn Catalog>,
    settings: &StoreSettings,
    fetching: &Fetching,
) -> (Arc<dyn Catalog>, Arc<dyn ObjectStore>) {
    let own: Arc<dyn ObjectStore> = Arc::new(store(settings, fetching).await);
    if !settings.vended_credentials {
        return (catalog, own);
    }
    let (settings, http, clock) = (settings.clone(), fetching.http.clone(), Arc::clone(&fetching.clock));
    let make = move |credentials| {
        Arc::new(S3Store::new(s3_config(&settings, credentials), http.clone())) as Arc<dyn ObjectStore>
    };
    let (catalog, tables) = vended(catalog, own, Box::new(make), clock);
    (Arc::new(catalog), Arc::new(tables))
}

fn s3_config(store: &StoreSettings, credentials: CachedCredentials) -> S3Config {
    S3Config {
        endpoint: store.endpoint.as_ref().map(HttpUrl::to_string),
        region: store.region.to_string(),
        path_style: store.path_style,
        credentials,
    }
}

/// What lists the ops bucket that `settings` name, for operators' tools.
pub async fn ops_lister(settings: &Settings) -> Result<Arc<dyn ObjectLister>, StartError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let fetching = Fetching { http: network(&settings.network)?.http_client()?, clock };
    Ok(Arc::new(store(&settings.ops.store, &fetching).await))
}

/// The keys that a Kafka cluster of MSK is signed in to with, for the operator's tool; `None` where none are asked for.
pub async fn kafka_keys(settings: &Settings) -> Result<Option<CachedCredentials>, StartError> {
    let KafkaSignIn::MskIam(region, credentials) = &settings.audit.sign_in else { return Ok(None) };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let fetching = Fetching { http: network(&settings.network)?.http_client()?, clock };
    Ok(Some(fetching.keys(credentials, region).await))
}

async fn store(store: &StoreSettings, fetching: &Fetching) -> S3Store {
    let credentials = fetching.keys(&store.credentials, &store.region).await;
    S3Store::new(s3_config(store, credentials), fetching.http.clone())
}

async fn ops(bucket: &OpsSettings, fetching: &Fetching) -> OpsBucket {
    let store = store(&bucket.store, fetching).await;
    OpsBucket::new(Arc::new(store), &bucket.bucket, &bucket.prefix)
}

async fn queue(queue: &QueueSettings, fetching: &Fetching) -> SqsQueue {
    let config = SqsConfig {
        url: queue.url.to_string(),
        endpoint: queue.endpoint.as_ref().map(HttpUrl::to_string),
        region: queue.region.to_string(),
        credentials: fetching.keys(&queue.credentials, &queue.region).await,
    };
    SqsQueue::new(config, fetching.http.clone())
}

#[cfg(test)]
mod tests;
