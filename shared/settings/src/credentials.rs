//! Keys for one of the parts that Icefall talks to.
//!
//! Catalog, store, ops bucket and queue each have their own: nothing works because it happens to share
//! an environment variable with something else.

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use crate::secret::Secret;
use crate::values::Region;

/// Where the keys come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CredentialsSettings {
    /// The AWS default chain: in a function, its role.
    Default,
    /// These.
    Static(StaticCredentials),
}

/// A key pair.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StaticCredentials {
    /// The access key's id; no secret.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: Secret,
    /// The session's token, of temporary keys.
    pub session_token: Option<Secret>,
}

impl CredentialsSettings {
    /// A provider of these keys for the AWS clients. Nothing is fetched before it is first asked. The
    /// default chain uses `http` (where it has to ask a service) and `region` (for the token service).
    pub async fn provider(&self, region: &Region, http: &SharedHttpClient) -> SharedCredentialsProvider {
        match self {
            Self::Default => SharedCredentialsProvider::new(default_chain(region, http).await),
            Self::Static(keys) => SharedCredentialsProvider::new(keys.to_aws()),
        }
    }
}

async fn default_chain(region: &Region, http: &SharedHttpClient) -> DefaultCredentialsChain {
    let region = aws_config::Region::new(region.as_str().to_owned());
    let config = ProviderConfig::without_region().with_http_client(http.clone());
    DefaultCredentialsChain::builder().configure(config).region(region).build().await
}

impl StaticCredentials {
    /// The same as the SDK's type.
    #[must_use]
    pub fn to_aws(&self) -> Credentials {
        let token = self.session_token.as_ref().map(|token| token.expose().to_owned());
        Credentials::new(
            &self.access_key_id,
            self.secret_access_key.expose(),
            token,
            None,
            "icefall settings",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_keys_reach_the_sdk_whole_and_print_nowhere() {
        let keys = StaticCredentials {
            access_key_id: "AKID".to_owned(),
            secret_access_key: Secret::new("hush".to_owned()),
            session_token: Some(Secret::new("quiet".to_owned())),
        };
        let aws = keys.to_aws();
        assert_eq!((aws.access_key_id(), aws.secret_access_key()), ("AKID", "hush"));
        assert_eq!(aws.session_token(), Some("quiet"));
        let printed = format!("{keys:?} {aws:?}");
        assert!(!printed.contains("hush") && !printed.contains("quiet"), "{printed}");
    }
}
