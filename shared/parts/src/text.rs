//! Where the settings' text comes from.
//!
//! It is read with the function's own credentials and region: the settings can't say how to read
//! themselves.

use icefall_aws::SharedHttpClient;
use icefall_settings::{CredentialsSettings, Environment, Location, Region};
use icefall_store::{Location as ObjectLocation, ObjectStore, S3Config, S3Store};

use crate::StartError;

/// The text that `environment` points to.
pub(crate) async fn read(environment: &Environment, http: &SharedHttpClient) -> Result<String, StartError> {
    match environment.location()? {
        Location::Inline(text) => Ok(text),
        Location::Path(path) => {
            std::fs::read_to_string(&path).map_err(|source| StartError::File { path, source })
        }
        Location::S3 { bucket, key } => object(bucket, key, &environment.default_region()?, http).await,
    }
}

async fn object(
    bucket: String,
    key: String,
    region: &Region,
    http: &SharedHttpClient,
) -> Result<String, StartError> {
    let config = S3Config {
        endpoint: None,
        region: region.to_string(),
        path_style: false,
        credentials: CredentialsSettings::Default.provider(region, http).await,
    };
    let body = S3Store::new(config, http.clone()).get(&ObjectLocation::s3(&bucket, &key)).await?;
    String::from_utf8(body.into()).map_err(|_| StartError::NotText { bucket, key })
}
