//! The way out: which certificates are trusted, and whether a proxy stands in between.
//!
//! Icefall speaks HTTP through two clients, the AWS SDK's and the catalog's, on one TLS stack (rustls with
//! ring). A private certificate authority or a proxy concerns every part alike, so both clients are made of
//! one [`Network`], and neither looks at the process's environment by itself.

use std::fmt;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use icefall_secret::Secret;
use thiserror::Error;

/// A proxy that HTTPS connections go through by CONNECT. Plain HTTP never does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Proxy {
    /// Its URL, `http://[user:password@]host[:port]`.
    pub url: Secret,
    /// Hosts that are reached directly: names, domains, addresses and networks, separated by commas.
    pub no_proxy: String,
}

/// What stands between a client and a server.
#[derive(Clone, Default)]
pub struct Network {
    ca_bundle: Option<Vec<u8>>,
    proxy: Option<Proxy>,
}

/// Why no client can be made for a network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The certificates can't be read.
    #[error(
        "network.ca_bundle holds no certificates that can be used; give certificate authorities as PEM: {0}"
    )]
    CaBundle(String),
    /// The proxy's URL can't be used. It isn't repeated, since it may hold a password.
    #[error("network.proxy is no URL of a proxy; write it as http://host:port")]
    Proxy,
}

impl Network {
    /// The network with these certificate authorities (PEM) besides the public ones, through `proxy`.
    pub fn new(ca_bundle: Option<Vec<u8>>, proxy: Option<Proxy>) -> Result<Self, NetworkError> {
        let network = Self { ca_bundle, proxy };
        network.certificates()?;
        network.sdk_proxy()?;
        // Only building a client shows whether each certificate can be read.
        let client = network.reqwest()?.build();
        client.map_err(|error| NetworkError::CaBundle(causes(&error)))?;
        Ok(network)
    }

    /// The SDK's client. It holds the pool of connections: make one per process and hand its clones to
    /// every adapter. Sends nothing by itself.
    pub fn http_client(&self) -> Result<SharedHttpClient, NetworkError> {
        let (trusted, proxy) = (self.trusted()?, self.sdk_proxy()?);
        Ok(Builder::new().build_with_connector_fn(move |settings, components| {
            let mut connector = Connector::builder()
                .tls_provider(Provider::Rustls(CryptoMode::Ring))
                .tls_context(trusted.clone());
            connector.set_connector_settings(settings.cloned());
            connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
            connector.set_proxy_config(proxy.clone());
            connector.build()
        }))
    }

    /// The beginning of a `reqwest` client; what it does with requests is its owner's.
    pub fn reqwest(&self) -> Result<reqwest::ClientBuilder, NetworkError> {
        let mut client = reqwest::Client::builder().no_proxy();
        for certificate in self.certificates()? {
            client = client.add_root_certificate(certificate);
        }
        if let Some(Proxy { url, no_proxy }) = &self.proxy {
            let proxy = reqwest::Proxy::https(url.expose()).map_err(|_| NetworkError::Proxy)?;
            client = client.proxy(proxy.no_proxy(reqwest::NoProxy::from_string(no_proxy)));
        }
        Ok(client)
    }

    fn certificates(&self) -> Result<Vec<reqwest::Certificate>, NetworkError> {
        let Some(pem) = &self.ca_bundle else { return Ok(Vec::new()) };
        let certificates = reqwest::Certificate::from_pem_bundle(pem)
            .map_err(|error| NetworkError::CaBundle(causes(&error)))?;
        if certificates.is_empty() {
            return Err(NetworkError::CaBundle("there is none in it".to_owned()));
        }
        Ok(certificates)
    }

    fn trusted(&self) -> Result<TlsContext, NetworkError> {
        let mut roots = TrustStore::default();
        if let Some(pem) = &self.ca_bundle {
            roots.add_pem_certificate(pem.as_slice());
        }
        let context = TlsContext::builder().with_trust_store(roots).build();
        context.map_err(|error| NetworkError::CaBundle(causes(&error)))
    }

    fn sdk_proxy(&self) -> Result<Option<ProxyConfig>, NetworkError> {
        let Some(Proxy { url, no_proxy }) = &self.proxy else { return Ok(None) };
        let proxy = ProxyConfig::https(url.expose()).map_err(|_| NetworkError::Proxy)?;
        Ok(Some(proxy.no_proxy(no_proxy)))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("ca_bundle", &self.ca_bundle.is_some())
            .field("proxy", &self.proxy)
            .finish()
    }
}

/// The client of a network with nothing in between.
///
/// # Panics
///
/// Never: without certificates and proxy there is nothing to refuse.
#[must_use]
#[expect(clippy::expect_used, reason = "nothing is given that could be wrong")]
pub fn http_client() -> SharedHttpClient {
    Network::default().http_client().expect("nothing is given that could be wrong")
}

/// An error with all that caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str) -> Proxy {
        Proxy { url: Secret::new(url.to_owned()), no_proxy: String::new() }
    }

    #[test]
    fn what_is_no_certificate_or_proxy_is_refused_with_its_key() {
        for pem in ["", "hello", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"] {
            let error = Network::new(Some(pem.into()), None).expect_err(pem).to_string();
            assert!(error.starts_with("network.ca_bundle holds no certificates"), "{error}");
        }
        for url in ["", "socks5://me:hush@proxy:1080", "http://"] {
            let error = Network::new(None, Some(proxy(url))).expect_err(url).to_string();
            assert!(error.starts_with("network.proxy is no URL") && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_proxys_password_does_not_print() {
        let network = Network::new(None, Some(proxy("http://me:hush@proxy:3128"))).expect("a proxy");
        assert!(!format!("{network:?}").contains("hush"));
    }
}
