//! Secrets that are kept elsewhere, fetched when a function starts.
//!
//! Two operations of two services, each one signed request: their SDKs would double a function's size. The
//! function's own role asks, in the secret's region; all secrets are fetched side by side, and what can't be
//! fetched is reported together, each with the key that it is for. A secret's text is in no error.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use icefall_aws::sign::{Scope, Signable, sign};
use icefall_aws::{CachedCredentials, Network, NetworkError};
use icefall_clock::Clock;
use icefall_settings::{Environment, HttpUrl, Secret, SecretReference, SecretStore, SettingsError};
use serde_json::{Value, json};
use thiserror::Error;

/// How often a request is tried that may pass later.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// Secrets that can't be fetched, one a line when displayed.
#[derive(Debug, Error)]
pub struct SecretsError(Vec<SecretError>);

impl fmt::Display for SecretsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secrets of the settings can't be fetched:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// A secret that can't be fetched.
#[derive(Debug, Error)]
#[error("{reference}: {problem}")]
pub struct SecretError {
    /// What was to be fetched, and for which key.
    pub reference: SecretReference,
    /// Why it isn't there, and what to do.
    #[source]
    pub problem: Problem,
}

/// Why a secret can't be fetched.
#[derive(Debug, Error)]
pub enum Problem {
    /// The settings of the function itself are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// There is no way out.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The function has no keys to sign with.
    #[error("the function has no keys to ask with: {0}")]
    Keys(String),
    /// No answer.
    #[error("no answer from {endpoint}: {cause}; check the network")]
    Unreachable {
        /// Who was asked.
        endpoint: String,
        /// How it ended.
        cause: String,
    },
    /// A refusal.
    #[error(
        "{status} {kind}: {message}; the function's role needs {needs} on it, and kms:Decrypt on its key"
    )]
    Refused {
        /// The answer's status.
        status: u16,
        /// The error's name.
        kind: String,
        /// What the service says.
        message: String,
        /// What has to be permitted.
        needs: &'static str,
    },
    /// The secret holds something else.
    #[error("it holds {0}")]
    Content(&'static str),
}

/// Fetches secrets, by the function's own role.
#[derive(Debug)]
pub(crate) struct Secrets<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) network: &'a Network,
    pub(crate) keys: CachedCredentials,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Secrets<'_> {
    /// All of them, by the keys that they are for.
    pub(crate) async fn fetch(
        &self,
        references: &[SecretReference],
    ) -> Result<BTreeMap<String, Secret>, SecretsError> {
        let fetched = join_all(references.iter().map(|reference| self.fetch_one(reference))).await;
        let (mut secrets, mut faults) = (BTreeMap::new(), Vec::new());
        for (reference, result) in references.iter().zip(fetched) {
            match result {
                Ok(secret) => drop(secrets.insert(reference.key.clone(), secret)),
                Err(problem) => faults.push(SecretError { reference: reference.clone(), problem }),
            }
        }
        if faults.is_empty() { Ok(secrets) } else { Err(SecretsError(faults)) }
    }

    async fn fetch_one(&self, reference: &SecretReference) -> Result<Secret, Problem> {
        let service = Service::of(&reference.store);
        let answer = self.ask(&service, reference.store.name()).await?;
        service.secret(&answer, &reference.store)
    }

    async fn ask(&self, service: &Service, name: &str) -> Result<Value, Problem> {
        let region = self.region(name)?;
        let endpoint = self.endpoint(service, &region)?;
        let body = (service.body)(name).to_string();
        let client = self.network.reqwest()?.http1_only().timeout(Duration::from_secs(10)).build();
        let client = client.map_err(|error| unanswered(&endpoint, error))?;
        let mut tries = 1;
        loop {
            match self.send(&client, service, (&region, &endpoint), &body).await {
                Err(problem) if tries < TRIES && problem.may_pass() => self.clock.sleep(PAUSE * tries).await,
                result => return result,
            }
            tries += 1;
        }
    }

    async fn send(
        &self,
        client: &reqwest::Client,
        service: &Service,
        (region, endpoint): (&str, &str),
        body: &str,
    ) -> Result<Value, Problem> {
        let url = format!("{endpoint}/");
        let headers = [("content-type", CONTENT_TYPE), ("x-amz-target", service.target)];
        let request = Signable { method: "POST", url: &url, headers: &headers, body: body.as_bytes() };
        let (keys, _) = self.keys.current().await.map_err(|error| Problem::Keys(causes(&error)))?;
        let scope = Scope { name: service.name, region, time: self.clock.now() };
        let signature = sign(&request, &scope, &keys).map_err(|error| Problem::Keys(causes(&error)))?;
        let request = client.post(&url).headers(signature).body(body.to_owned());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = request.send().await.map_err(|error| unanswered(endpoint, error))?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|error| unanswered(endpoint, error))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status == 200 { Ok(body) } else { Err(refused(service, status, &body)) }
    }

    /// An ARN names its region.
    fn region(&self, name: &str) -> Result<String, Problem> {
        match name.split(':').collect::<Vec<_>>().as_slice() {
            ["arn", _, _, region, ..] if !region.is_empty() => Ok((*region).to_owned()),
            _ => Ok(self.environment.default_region()?.to_string()),
        }
    }

    fn endpoint(&self, service: &Service, region: &str) -> Result<String, Problem> {
        let elsewhere = self.environment.endpoint(service.variable)?;
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let own = || format!("https://{}.{region}.{domain}", service.name);
        Ok(elsewhere.as_ref().map_or_else(own, HttpUrl::to_string))
    }
}

/// A service that keeps secrets, and its one operation.
#[derive(Debug)]
struct Service {
    /// Its name in host names and signatures.
    name: &'static str,
    /// Its part of the variable that says where it is.
    variable: &'static str,
    target: &'static str,
    needs: &'static str,
    body: fn(&str) -> Value,
    /// Where the answer holds the text.
    text: &'static str,
}

const SECRETS_MANAGER: Service = Service {
    name: "secretsmanager",
    variable: "SECRETS_MANAGER",
    target: "secretsmanager.GetSecretValue",
    needs: "secretsmanager:GetSecretValue",
    body: |name| json!({ "SecretId": name }),
    text: "/SecretString",
};

const SSM: Service = Service {
    name: "ssm",
    variable: "SSM",
    target: "AmazonSSM.GetParameter",
    needs: "ssm:GetParameter",
    body: |name| json!({ "Name": name, "WithDecryption": true }),
    text: "/Parameter/Value",
};

impl Service {
    const fn of(store: &SecretStore) -> Self {
        match store {
            SecretStore::SecretsManager { .. } => SECRETS_MANAGER,
            SecretStore::Ssm { .. } => SSM,
        }
    }

    fn secret(&self, answer: &Value, store: &SecretStore) -> Result<Secret, Problem> {
        let text = answer.pointer(self.text).and_then(Value::as_str);
        let text = text.ok_or(Problem::Content("no text; give it a text, not bytes"))?;
        let text = match store {
            SecretStore::SecretsManager { json_key: Some(key), .. } => {
                let object: Value = serde_json::from_str(text).unwrap_or_default();
                let value = object.get(key).and_then(Value::as_str).map(str::to_owned);
                value.ok_or(Problem::Content("no JSON object with a text under that key; check key"))?
            }
            _ => text.to_owned(),
        };
        if text.is_empty() {
            return Err(Problem::Content("an empty text"));
        }
        Ok(Secret::new(text))
    }
}

impl Problem {
    fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, kind, .. } => {
                *status == 429 || *status >= 500 || kind.contains("Throttl")
            }
            _ => false,
        }
    }
}

fn refused(service: &Service, status: u16, body: &Value) -> Problem {
    let text = |names: [&str; 2]| names.iter().find_map(|name| body.get(name)?.as_str()).unwrap_or_default();
    let kind = text(["__type", "code"]).rsplit('#').next().unwrap_or_default().to_owned();
    let message = text(["message", "Message"]).chars().take(300).collect();
    Problem::Refused { status, kind, message, needs: service.needs }
}

fn unanswered(endpoint: &str, error: reqwest::Error) -> Problem {
    Problem::Unreachable { endpoint: endpoint.to_owned(), cause: causes(&error.without_url()) }
}

/// An error with all that caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
