//! From the raw settings to the validated ones: everything about being let in, and the way there.

use std::path::PathBuf;

use http::Uri;
use icefall_secret::Secret;

use crate::credentials::{AssumedRole, CredentialsSettings, RoleSource, StaticCredentials};
use crate::environment::Environment;
use crate::fault::{Faults, Key};
use crate::raw::{RawCatalog, RawCredentials, RawNetwork, RawOAuth2, RawSigning};
use crate::settings::{NetworkSettings, OAuth2Settings, SignInSettings, Signing};
use crate::validate::Check;
use crate::values::is_lower_label;

const NO_PAIR: &str =
    "give both halves of the key pair, or leave the credentials out to use the function's role";

/// What stands between. What the settings leave out, the environment may say.
pub(crate) fn network(
    raw: RawNetwork,
    environment: &Environment,
    faults: &mut Faults,
) -> Option<NetworkSettings> {
    let key = Key::named("network");
    let ca_bundle = raw.ca_bundle.or_else(|| environment.first(&["AWS_CA_BUNDLE"]).map(|(_, path)| path));
    let ca_bundle = ca_bundle.filter(|path| !path.is_empty()).map(|path| environment.home().join(path));
    let (proxy_key, proxy) = match raw.proxy {
        Some(proxy) => (key.child("proxy"), Some(Secret::new(proxy))),
        None => match environment.first(&["HTTPS_PROXY", "https_proxy"]) {
            Some((name, url)) => (Key::named(name), Some(Secret::new(url))),
            None => (key, None),
        },
    };
    let proxy = match proxy.filter(|proxy| !proxy.expose().is_empty()) {
        None => None,
        Some(proxy) => Some(proxy_url(&proxy).map_err(|problem| faults.add(&proxy_key, problem)).ok()?),
    };
    let no_proxy =
        raw.no_proxy.or_else(|| environment.first(&["NO_PROXY", "no_proxy"]).map(|(_, list)| list));
    Some(NetworkSettings { ca_bundle, proxy, no_proxy: no_proxy.unwrap_or_default() })
}

/// A proxy may stand there without its scheme. The URL is never repeated: it may hold a password.
fn proxy_url(proxy: &Secret) -> Result<Secret, &'static str> {
    let text = proxy.expose();
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = url.parse().map_err(|_| "is no URL; write it as http://host:port")?;
    let (scheme, host) = (uri.scheme_str(), uri.host().unwrap_or_default());
    if !matches!(scheme, Some("http" | "https")) || host.is_empty() {
        return Err("is no URL of an HTTP proxy; write it as http://host:port");
    }
    Ok(Secret::new(url))
}

impl Check<'_> {
    pub(crate) fn sign_in(&mut self, raw: &mut RawCatalog, key: &Key) -> Option<SignInSettings> {
        let (sign, token, oauth2) = (raw.sign.take(), raw.token.take(), raw.oauth2.take());
        let given = [("sign", sign.is_some()), ("token", token.is_some()), ("oauth2", oauth2.is_some())];
        let given: Vec<_> = given.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
        for name in given.iter().skip(1) {
            let first = given.first().unwrap_or(&"sign");
            let problem = format!(
                "the catalog is told who asks by {first} already; give one of sign, token and oauth2"
            );
            self.faults.add(&key.child(name), problem);
        }
        let has_credentials = raw.credentials.is_some();
        // First: what is wrong in them is not named once they themselves are at fault.
        let credentials = self.credentials(raw.credentials.take(), &key.child("credentials"));
        if sign.is_none() && has_credentials {
            let problem =
                "are used only to sign; add sign = { name = \"...\", region = \"...\" }, or leave them out";
            self.faults.add(&key.child("credentials"), problem);
        }
        let signing = sign.map(|sign| self.signing(sign, &key.child("sign")));
        let token = token.map(|token| self.secret(Some(token), &key.child("token"), "give the token"));
        let oauth2 = oauth2.map(|oauth2| self.oauth2(oauth2, &key.child("oauth2")));
        match (signing, token, oauth2) {
            (Some(signing), ..) => Some(SignInSettings::SigV4(signing?, credentials?)),
            (None, Some(token), _) => token.map(SignInSettings::Bearer),
            (None, None, Some(oauth2)) => oauth2.map(SignInSettings::OAuth2),
            (None, None, None) => Some(SignInSettings::Unsigned),
        }
    }

    fn signing(&mut self, raw: RawSigning, key: &Key) -> Option<Signing> {
        let remedy = "give the signing name, such as s3tables or glue";
        let name = self.required(raw.name, &key.child("name"), remedy);
        let name = self.parsed(name, &key.child("name"), |name| {
            if is_lower_label(&name) {
                Ok(name)
            } else {
                Err(format!("{name:?} is no signing name; {remedy}"))
            }
        });
        let region = self.region(raw.region, &key.child("region"));
        Some(Signing { name: name?, region: region? })
    }

    fn oauth2(&mut self, raw: RawOAuth2, key: &Key) -> Option<OAuth2Settings> {
        let token_endpoint = self.url(raw.token_endpoint, &key.child("token_endpoint"));
        let client_id = self.filled(raw.client_id, &key.child("client_id"), "give the client's id");
        let client_secret =
            self.secret(raw.client_secret, &key.child("client_secret"), "give the client's secret");
        let scope = raw.scope.unwrap_or_else(|| "catalog".to_owned());
        let (client_id, client_secret) = (client_id?, client_secret?);
        Some(OAuth2Settings { token_endpoint, client_id, client_secret, scope, audience: raw.audience })
    }

    /// A secret that must not be empty.
    fn secret(&mut self, raw: Option<Secret>, key: &Key, remedy: &str) -> Option<Secret> {
        let secret = self.required(raw, key, remedy);
        self.parsed(secret, key, |secret| {
            if secret.expose().is_empty() { Err(format!("is empty; {remedy}")) } else { Ok(secret) }
        })
    }

    pub(crate) fn credentials(
        &mut self,
        raw: Option<RawCredentials>,
        key: &Key,
    ) -> Option<CredentialsSettings> {
        let Some(mut raw) = raw else { return Some(CredentialsSettings::Default) };
        let has_pair =
            raw.access_key_id.is_some() || raw.secret_access_key.is_some() || raw.session_token.is_some();
        if !has_pair && raw.assume_role_arn.is_none() && !names_a_role(&raw) {
            let problem =
                "is empty; give a key pair or assume_role_arn, or leave it out to use the function's role";
            self.faults.add(key, problem);
            return None;
        }
        let names_a_role = raw.assume_role_arn.is_some() || names_a_role(&raw);
        let source = if has_pair {
            self.pair(&mut raw, key).map(RoleSource::Static)
        } else {
            Some(RoleSource::Default)
        };
        if names_a_role {
            return self.role(raw, source, key).map(CredentialsSettings::Role);
        }
        match source? {
            RoleSource::Static(pair) => Some(CredentialsSettings::Static(pair)),
            RoleSource::Default | RoleSource::WebIdentity(_) => None,
        }
    }

    fn pair(&mut self, raw: &mut RawCredentials, key: &Key) -> Option<StaticCredentials> {
        let access_key_id = self.filled(raw.access_key_id.take(), &key.child("access_key_id"), NO_PAIR);
        let secret_key = key.child("secret_access_key");
        let secret_access_key = self.secret(raw.secret_access_key.take(), &secret_key, NO_PAIR);
        let session_token = raw.session_token.take().filter(|token| !token.expose().is_empty());
        Some(StaticCredentials {
            access_key_id: access_key_id?,
            secret_access_key: secret_access_key?,
            session_token,
        })
    }

    /// The role that is assumed, by `source` unless a web identity is named; `None` is a key pair with faults.
    fn role(&mut self, raw: RawCredentials, source: Option<RoleSource>, key: &Key) -> Option<AssumedRole> {
        let remedy =
            "name the role; session_name, external_id, web_identity_token_file and sts_endpoint are for it";
        let arn = self.required(raw.assume_role_arn, &key.child("assume_role_arn"), remedy);
        let arn = self.parsed(arn, &key.child("assume_role_arn"), role_arn);
        let session_name = raw.session_name.unwrap_or_else(|| "icefall".to_owned());
        let session_name = self.parsed(Some(session_name), &key.child("session_name"), session_name_of);
        let sts_endpoint = self.url(raw.sts_endpoint, &key.child("sts_endpoint"));
        let token_file = raw.web_identity_token_file.map(PathBuf::from);
        if token_file.is_some() {
            let key = key.child("web_identity_token_file");
            if !matches!(source, Some(RoleSource::Default)) {
                self.faults.add(&key, "needs no key pair; leave out one of the two");
            }
            if raw.external_id.is_some() {
                self.faults.add(&key, "can't be used with external_id; leave out one of the two");
            }
        }
        let external_id = raw.external_id.clone();
        let external_id = self.parsed(external_id, &key.child("external_id"), external_id_of);
        let source = token_file.map(RoleSource::WebIdentity).or(source);
        let (arn, session_name, source) = (arn?, session_name?, source?);
        Some(AssumedRole { arn, session_name, external_id, sts_endpoint, source })
    }
}

/// Whether something stands there that is only for a role.
fn names_a_role(raw: &RawCredentials) -> bool {
    [&raw.external_id, &raw.session_name, &raw.web_identity_token_file, &raw.sts_endpoint]
        .into_iter()
        .any(Option::is_some)
}

fn role_arn(arn: String) -> Result<String, String> {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    match parts.as_slice() {
        ["arn", _, "iam", _, account, role] if !account.is_empty() && role.starts_with("role/") => Ok(arn),
        _ => Err(format!("{arn:?} is no role; write it as arn:aws:iam::<account>:role/<name>")),
    }
}

/// STS's rule, as for the session's name.
fn external_id_of(id: String) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_+=,.@:/-".contains(c);
    if (2..=1224).contains(&id.len()) && id.chars().all(allowed) {
        return Ok(id);
    }
    Err(format!("{id:?} must be 2 to 1224 letters, digits or any of _+=,.@:/-"))
}

/// STS's rule (<https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html>).
fn session_name_of(name: String) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_=,.@-".contains(c);
    if (2..=64).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(name);
    }
    Err(format!("{name:?} must be 2 to 64 letters, digits or any of _=,.@-"))
}
