//! Where each part's keys come from: a pair, the function's role, a role that is assumed.
//!
//! Nothing is asked of anyone before a part first needs keys. Keys that end are cached and renewed ahead
//! of it by [`CachedCredentials`], one cache for each part.

use std::path::PathBuf;
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, Result, SharedCredentialsProvider, future};
use aws_sdk_sts::config::{BehaviorVersion, IdentityCache};
use aws_sdk_sts::types::Credentials as Lent;
use aws_smithy_async::rt::sleep::default_async_sleep;
use aws_smithy_async::time::SharedTimeSource;
use icefall_aws::{CachedCredentials, CallLimits, SharedHttpClient};
use icefall_clock::Clock;
use icefall_settings::{AssumedRole, CredentialsSettings, HttpUrl, Region, RoleSource, StaticCredentials};

/// How keys are fetched: by whom, through what, and by which clock they end.
#[derive(Clone, Debug)]
pub(crate) struct Fetching {
    pub(crate) http: SharedHttpClient,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Fetching {
    /// The keys that `settings` mean, for a part in `region`.
    pub(crate) async fn keys(&self, settings: &CredentialsSettings, region: &Region) -> CachedCredentials {
        let provider = match settings {
            CredentialsSettings::Default => self.default_chain(region).await,
            CredentialsSettings::Static(pair) => SharedCredentialsProvider::new(pair_of(pair)),
            CredentialsSettings::Role(role) => self.role(role, region).await,
        };
        CachedCredentials::new(provider, Arc::clone(&self.clock))
    }

    async fn default_chain(&self, region: &Region) -> SharedCredentialsProvider {
        let region = aws_config::Region::new(region.as_str().to_owned());
        let config = ProviderConfig::without_region().with_http_client(self.http.clone());
        let chain = DefaultCredentialsChain::builder().configure(config).region(region).build().await;
        SharedCredentialsProvider::new(chain)
    }

    async fn role(&self, role: &AssumedRole, region: &Region) -> SharedCredentialsProvider {
        let source = match &role.source {
            RoleSource::Default => self.default_chain(region).await,
            RoleSource::Static(pair) => SharedCredentialsProvider::new(pair_of(pair)),
            RoleSource::WebIdentity(file) => {
                let sts = aws_sdk_sts::Client::new(&self.token_service(role, region));
                return SharedCredentialsProvider::new(WebIdentity {
                    sts,
                    role: role.clone(),
                    file: file.clone(),
                });
            }
        };
        let mut assume = AssumeRoleProvider::builder(&role.arn)
            .session_name(&role.session_name)
            .configure(&self.token_service(role, region));
        if let Some(external_id) = &role.external_id {
            assume = assume.external_id(external_id);
        }
        SharedCredentialsProvider::new(assume.build_from_provider(source).await)
    }

    fn token_service(&self, role: &AssumedRole, region: &Region) -> SdkConfig {
        let limits = CallLimits::default();
        let mut config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(self.http.clone())
            .identity_cache(IdentityCache::no_cache())
            .region(aws_config::Region::new(region.as_str().to_owned()))
            .time_source(SharedTimeSource::default())
            .retry_config(limits.retry())
            .timeout_config(limits.timeout());
        config.set_sleep_impl(default_async_sleep());
        config.set_endpoint_url(role.sts_endpoint.as_ref().map(HttpUrl::to_string));
        config.build()
    }
}

fn pair_of(pair: &StaticCredentials) -> Credentials {
    let token = pair.session_token.as_ref().map(|token| token.expose().to_owned());
    let secret = pair.secret_access_key.expose();
    Credentials::new(&pair.access_key_id, secret, token, None, "icefall settings")
}

/// A role for the bearer of a web identity's token: a request that no keys sign.
#[derive(Debug)]
struct WebIdentity {
    sts: aws_sdk_sts::Client,
    role: AssumedRole,
    file: PathBuf,
}

impl WebIdentity {
    /// The file is read each time: whoever writes it replaces the token before it ends.
    async fn assume(&self) -> Result {
        let token = std::fs::read_to_string(&self.file).map_err(|error| {
            let path = self.file.display();
            CredentialsError::provider_error(format!(
                "can't read the web identity's token in {path}: {error}"
            ))
        })?;
        let request = self.sts.assume_role_with_web_identity().role_arn(&self.role.arn);
        let request = request.role_session_name(&self.role.session_name).web_identity_token(token.trim());
        let answer = request.send().await.map_err(CredentialsError::provider_error)?;
        answer.credentials.and_then(keys_of).ok_or_else(|| {
            CredentialsError::unhandled(
                "STS answered without keys, or without a time of expiry that can be read",
            )
        })
    }
}

fn keys_of(lent: Lent) -> Option<Credentials> {
    let expires = Some(lent.expiration.try_into().ok()?);
    let token = Some(lent.session_token);
    Some(Credentials::new(lent.access_key_id, lent.secret_access_key, token, expires, "web identity"))
}

impl ProvideCredentials for WebIdentity {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.assume())
    }
}
