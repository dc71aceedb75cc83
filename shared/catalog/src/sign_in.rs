//! What a request carries so that the catalog knows who asks.
//!
//! A signature or a token, made or fetched before every try. When the catalog refuses one, the reason may be
//! with us: keys or a token that have ended, or a clock that is wrong. Each can be put right once, and the same
//! request sent again; a refusal has changed nothing, so that holds for commits as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use icefall_aws::sign::{Scope, Signable, sign};
use icefall_aws::{Generation, Renewing};
use icefall_clock::{Clock, Timestamp};
use icefall_secret::Secret;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tracing::warn;

use crate::answer::Answer;
use crate::config::{SignIn, Signing};
use crate::dialect::Dialect;
use crate::error::{CatalogError, SIGNATURE};
use crate::route::{Base, RouteError};
use crate::token::TokenEndpoint;
use crate::transport::{Request, sources};

/// Clocks that differ by less are not why a signature is refused.
const TOLERATED: Duration = Duration::from_mins(1);

/// Makes what requests carry.
#[derive(Debug)]
pub(crate) enum Authorizer {
    Nobody,
    SigV4(Box<Signer>),
    Bearer(Secret),
    OAuth2(Box<Renewing<TokenEndpoint>>),
}

#[derive(Debug)]
pub(crate) struct Signer {
    signing: Signing,
    clock: Arc<dyn Clock>,
    /// By how many milliseconds the server's clock is ahead of ours.
    ahead_ms: AtomicI64,
}

/// What one request carries.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    pub(crate) headers: HeaderMap,
    /// What must not be repeated from an answer that echoes it.
    pub(crate) secrets: Vec<Secret>,
    generation: Generation,
}

/// What is known of a refusal that may be put right.
#[derive(Debug)]
pub(crate) struct Refused {
    generation: Generation,
    date: Option<Timestamp>,
}

impl Refused {
    pub(crate) fn new(proof: &Proof, answer: &Answer) -> Self {
        Self { generation: proof.generation, date: answer.date }
    }
}

impl Authorizer {
    pub(crate) fn new(
        sign_in: SignIn,
        base: &Base,
        http: &reqwest::Client,
        subject: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, RouteError> {
        Ok(match sign_in {
            SignIn::Unsigned => Self::Nobody,
            SignIn::SigV4(signing) => {
                Self::SigV4(Box::new(Signer { signing, clock, ahead_ms: AtomicI64::new(0) }))
            }
            SignIn::Bearer(token) => Self::Bearer(token),
            SignIn::OAuth2(client) => {
                let url = match &client.token_endpoint {
                    Some(endpoint) => endpoint.parse().map_err(|_| RouteError::Name(endpoint.clone()))?,
                    None => base.tokens()?,
                };
                let (http, subject) = (http.clone(), subject.to_owned());
                let endpoint = TokenEndpoint { http, url, client, clock: Arc::clone(&clock), subject };
                Self::OAuth2(Box::new(Renewing::new(endpoint, clock)))
            }
        })
    }

    /// The catalog's kind follows from what is signed for.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        match self {
            Self::SigV4(signer) => Dialect::of_signing_name(Some(&signer.signing.name)),
            _ => Dialect::of_signing_name(None),
        }
    }

    /// What is worth checking when it is refused.
    pub(crate) fn check(&self) -> &'static str {
        match self {
            Self::Nobody => {
                "whether the catalog wants requests signed (catalog.sign) or with a token (catalog.token, catalog.oauth2)"
            }
            Self::SigV4(_) => SIGNATURE,
            Self::Bearer(_) => "catalog.token, and what its holder may do",
            Self::OAuth2(_) => "catalog.oauth2: its client, and what that may do in this scope",
        }
    }

    /// What `request`, with these headers, carries.
    pub(crate) async fn prove(&self, request: &Request, headers: &HeaderMap) -> Result<Proof, CatalogError> {
        match self {
            Self::Nobody => Ok(Proof::default()),
            Self::SigV4(signer) => signer.prove(request, headers).await,
            Self::Bearer(token) => bearer(request, token.clone(), Generation::default()),
            Self::OAuth2(tokens) => {
                let (token, generation) = tokens.current().await?;
                bearer(request, token, generation)
            }
        }
    }

    /// Puts right what may have been wrong with a refused request; `false`: there is nothing to try again with.
    pub(crate) async fn correct(&self, refused: &Refused) -> bool {
        match self {
            Self::Nobody | Self::Bearer(_) => false,
            Self::OAuth2(tokens) => tokens.renew(refused.generation).await,
            Self::SigV4(signer) => {
                signer.set_clock(refused.date) || signer.signing.credentials.renew(refused.generation).await
            }
        }
    }
}

fn bearer(request: &Request, token: Secret, generation: Generation) -> Result<Proof, CatalogError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).map_err(|_| {
        CatalogError::Misconfigured(request.reason("the token holds characters that a header can't"))
    })?;
    value.set_sensitive(true);
    let headers = [(AUTHORIZATION, value)].into_iter().collect();
    Ok(Proof { headers, secrets: vec![token], generation })
}

impl Signer {
    async fn prove(&self, request: &Request, headers: &HeaderMap) -> Result<Proof, CatalogError> {
        let (credentials, generation) = self.signing.credentials.current().await.map_err(|error| {
            let message = format!("no credentials to sign with: {}", sources(&error));
            CatalogError::Denied(request.reason(message))
        })?;
        let headers = self.signature(request, headers, &credentials)?;
        Ok(Proof { headers, secrets: secrets(&credentials), generation })
    }

    fn signature(
        &self,
        request: &Request,
        headers: &HeaderMap,
        credentials: &Credentials,
    ) -> Result<HeaderMap, CatalogError> {
        let headers: Vec<(&str, &str)> =
            headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
        let signable = Signable {
            method: request.method.as_str(),
            url: request.url.as_str(),
            headers: &headers,
            body: request.bytes(),
        };
        let scope = Scope { name: &self.signing.name, region: &self.signing.region, time: self.now() };
        sign(&signable, &scope, credentials)
            .map_err(|error| CatalogError::Misconfigured(request.reason(error.to_string())))
    }

    /// The server's time, as far as it is known.
    fn now(&self) -> Timestamp {
        let ms = self.clock.now().unix_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed));
        Timestamp::from_unix_ms(ms)
    }

    /// Takes over the server's time when ours is another; `false`: it isn't.
    fn set_clock(&self, date: Option<Timestamp>) -> bool {
        let Some(date) = date else { return false };
        let (ours, now) = (self.now(), self.clock.now());
        if ours.since(date).max(date.since(ours)) < TOLERATED {
            return false;
        }
        let ahead_ms = date.unix_ms_signed().saturating_sub(now.unix_ms_signed());
        warn!(ahead_ms, "the catalog's clock differs from ours; its time is signed from now on");
        self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
        true
    }
}

fn secrets(credentials: &Credentials) -> Vec<Secret> {
    let texts = [Some(credentials.secret_access_key()), credentials.session_token()];
    texts.into_iter().flatten().map(|text| Secret::new(text.to_owned())).collect()
}
