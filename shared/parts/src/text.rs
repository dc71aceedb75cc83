//! Where the settings' text comes from.
//!
//! It is read with the function's own credentials and region: the settings can't say how to read
//! themselves.

use std::sync::Arc;

use icefall_clock::SystemClock;
use icefall_settings::{CredentialsSettings, Environment, Location};
use icefall_store::{Location as ObjectLocation, ObjectStore, S3Config, S3Store};

use crate::keys::Fetching;
use crate::{StartError, network};

/// The text that `environment` points to.
pub(crate) async fn read(environment: &Environment) -> Result<String, StartError> {
    match environment.location()? {
        Location::Inline(text) => Ok(text),
        Location::Path(path) => {
            std::fs::read_to_string(&path).map_err(|source| StartError::File { path, source })
        }
        Location::S3 { bucket, key } => object(bucket, key, environment).await,
    }
}

async fn object(bucket: String, key: String, environment: &Environment) -> Result<String, StartError> {
    let region = environment.default_region()?;
    let http = network(&environment.network()?)?.http_client()?;
    let fetching = Fetching { http: http.clone(), clock: Arc::new(SystemClock) };
    let credentials = fetching.keys(&CredentialsSettings::Default, &region).await;
    let config = S3Config { endpoint: None, region: region.to_string(), path_style: false, credentials };
    let body = S3Store::new(config, http).get(&ObjectLocation::s3(&bucket, &key)).await?;
    String::from_utf8(body.into()).map_err(|_| StartError::NotText { bucket, key })
}
