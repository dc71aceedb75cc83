//! The HTTP client: HTTP/1.1 or 2 over rustls with ring, connections kept open between calls.

use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::SharedHttpClient;

/// Builds the client. It holds the pool of connections: build one per process and hand its clones
/// to every adapter. Sends nothing by itself.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}
