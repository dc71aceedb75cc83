//! Settings about being let in: what is meant, what contradicts itself, and where secrets are kept.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tests::{LEAST, fault, parse};
use crate::*;

const ROLE: &str = "arn:aws:iam::123456789012:role/tables";

fn catalog(keys: &str) -> String {
    LEAST.replace("warehouse = \"lake\"", &format!("warehouse = \"lake\"\n{keys}"))
}

fn store(credentials: &str) -> String {
    format!("{LEAST}[store]\ncredentials = {{ {credentials} }}\n")
}

fn keys_of(text: &str) -> Vec<String> {
    let error = parse(text).expect_err("faults");
    error.faults().iter().map(|fault| fault.key.clone()).collect()
}

#[test]
fn the_catalog_is_told_who_asks_in_one_way() {
    let sign_in = |keys: &str| parse(&catalog(keys)).expect("sound settings").catalog.sign_in;
    assert_eq!(sign_in(""), SignInSettings::Unsigned);
    assert!(matches!(sign_in("sign = { name = 'glue' }"), SignInSettings::SigV4(..)));
    assert_eq!(sign_in("token = 'hush'"), SignInSettings::Bearer(Secret::new("hush".to_owned())));
    let SignInSettings::OAuth2(client) = sign_in("oauth2 = { client_id = 'me', client_secret = 'hush' }")
    else {
        panic!("OAuth 2.0")
    };
    assert_eq!(
        (client.client_id.as_str(), client.scope.as_str(), client.token_endpoint),
        ("me", "catalog", None)
    );
    let two =
        "sign = { name = 'glue' }\ntoken = 'hush'\noauth2 = { client_id = 'me', client_secret = 'hush' }";
    assert_eq!(keys_of(&catalog(two)), ["catalog.oauth2", "catalog.token"]);
    let halves = "oauth2 = { token_endpoint = 'x', client_id = '' }";
    let expected =
        ["catalog.oauth2.client_id", "catalog.oauth2.client_secret", "catalog.oauth2.token_endpoint"];
    assert_eq!(keys_of(&catalog(halves)), expected);
    let line = fault(&catalog("token = ''"));
    assert_eq!(line, "catalog.token: is empty; give the token");
}

#[test]
fn a_role_is_assumed_by_the_function_by_a_pair_or_by_a_web_identity() {
    let credentials = |text: &str| parse(&store(text)).expect("sound settings").store.credentials;
    let role = |text: &str| match credentials(&format!("assume_role_arn = '{ROLE}', {text}")) {
        CredentialsSettings::Role(role) => role,
        other => panic!("{other:?} is no role"),
    };
    let own = role("external_id = 'a:b'");
    assert_eq!(
        (own.arn.as_str(), own.session_name.as_str(), own.source),
        (ROLE, "icefall", RoleSource::Default)
    );
    assert_eq!(own.external_id.as_deref(), Some("a:b"));
    let pair = role("access_key_id = 'A', secret_access_key = 'hush', session_name = 'me@here'");
    assert!(matches!(pair.source, RoleSource::Static(_)) && pair.session_name == "me@here");
    let identity =
        role("web_identity_token_file = '/var/run/token', sts_endpoint = 'https://sts.example.com'");
    assert_eq!(identity.source, RoleSource::WebIdentity(Path::new("/var/run/token").to_owned()));
    assert!(identity.sts_endpoint.is_some());
}

#[test]
fn credentials_that_contradict_themselves_are_refused_with_each_key() {
    for (credentials, key) in [
        ("", "store.credentials"),
        ("session_token = 'x'", "store.credentials.access_key_id"),
        ("external_id = 'abc'", "store.credentials.assume_role_arn"),
        ("web_identity_token_file = '/t'", "store.credentials.assume_role_arn"),
        ("assume_role_arn = 'tables'", "store.credentials.assume_role_arn"),
        ("assume_role_arn = 'arn:aws:iam::1:user/me'", "store.credentials.assume_role_arn"),
        ("assume_role_arn = 'arn:aws:iam::1:role/r', session_name = 'a b'", "store.credentials.session_name"),
        ("assume_role_arn = 'arn:aws:iam::1:role/r', external_id = 'a'", "store.credentials.external_id"),
        ("assume_role_arn = 'arn:aws:iam::1:role/r', sts_endpoint = 'sts'", "store.credentials.sts_endpoint"),
        (
            "assume_role_arn = 'arn:aws:iam::1:role/r', web_identity_token_file = '/t', external_id = 'abc'",
            "store.credentials.web_identity_token_file",
        ),
        (
            "assume_role_arn = 'arn:aws:iam::1:role/r', web_identity_token_file = '/t', access_key_id = 'a', secret_access_key = 'b'",
            "store.credentials.web_identity_token_file",
        ),
    ] {
        assert_eq!(keys_of(&store(credentials)).first().map(String::as_str), Some(key), "{credentials}");
    }
}

#[test]
fn the_ops_bucket_has_no_credentials_of_a_table() {
    let vended = format!("{LEAST}[store]\nvended_credentials = true\n");
    let settings = parse(&vended).expect("sound settings");
    assert!(settings.store.vended_credentials && !settings.ops.store.vended_credentials);
    let line = fault(&LEAST.replace("[queue]", "vended_credentials = true\n[queue]"));
    assert!(line.starts_with("ops.vended_credentials: there is no such key"), "{line}");
}

#[test]
fn the_network_is_the_settings_and_else_the_environments() {
    let network = |text: &str, variables: &[(&str, &str)]| {
        let variables = variables.iter().copied().chain([("AWS_REGION", "eu-central-1")]);
        Settings::parse(text, &variables.collect()).map(|settings| settings.network)
    };
    let variables =
        [("HTTPS_PROXY", "me:hush@proxy:3128"), ("NO_PROXY", "a,b"), ("AWS_CA_BUNDLE", "/etc/ca.pem")];
    let found = network(LEAST, &variables).expect("sound settings");
    assert_eq!(found.proxy.as_ref().map(Secret::expose), Some("http://me:hush@proxy:3128"));
    assert_eq!(
        (found.no_proxy.as_str(), found.ca_bundle.as_deref()),
        ("a,b", Some(Path::new("/etc/ca.pem")))
    );
    assert!(!format!("{found:?}").contains("hush"));
    let own = format!("{LEAST}[network]\nproxy = ''\nca_bundle = 'ca.pem'\nno_proxy = 'c'\n");
    let found = network(&own, &variables).expect("sound settings");
    assert_eq!((found.proxy, found.no_proxy.as_str()), (None, "c"));
    assert_eq!(found.ca_bundle.as_deref(), Some(Path::new("ca.pem")));
    let error =
        network(LEAST, &[("https_proxy", "socks5://me:hush@proxy")]).expect_err("no such proxy").to_string();
    assert!(error.contains("https_proxy: is no URL of an HTTP proxy") && !error.contains("hush"), "{error}");
    let wrong = format!("{LEAST}[network]\nproxy = 'http://'\n");
    assert!(fault(&wrong).starts_with("network.proxy: is no URL"), "{}", fault(&wrong));
    // It would have to be fetched through itself.
    let kept = format!("{LEAST}[network]\nproxy = {{ ssm = '/proxy' }}\n");
    assert_eq!(fault(&kept), "network.proxy: must be a string, and is a table");
}

const REFERRING: &str = "access_key_id = 'A', secret_access_key = { secretsmanager = 'icefall/store', key = 'k' }, \
                         session_token = { ssm = '/icefall/token' }";

#[test]
fn secrets_are_referred_to_and_put_in_their_places() {
    let environment = Environment::from_iter([
        ("AWS_REGION", "eu-central-1"),
        ("ICEFALL__CATALOG__TOKEN__SSM", "/icefall/catalog"),
    ]);
    let draft = Settings::draft(&store(REFERRING), &environment).expect("sound settings");
    let told: Vec<_> = draft.references().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "catalog.token: parameter \"/icefall/catalog\"",
            "store.credentials.secret_access_key: key \"k\" of secret \"icefall/store\"",
            "store.credentials.session_token: parameter \"/icefall/token\"",
        ]
    );
    let secrets = draft
        .references()
        .iter()
        .map(|reference| (reference.key.clone(), Secret::new(format!("hush-{}", reference.key))));
    let secrets: BTreeMap<String, Secret> = secrets.collect();
    let settings = draft.resolve(secrets).expect("all are there");
    let CredentialsSettings::Static(pair) = settings.store.credentials else { panic!("a pair") };
    assert_eq!(pair.secret_access_key.expose(), "hush-store.credentials.secret_access_key");
    assert_eq!(
        settings.catalog.sign_in,
        SignInSettings::Bearer(Secret::new("hush-catalog.token".to_owned()))
    );
}

#[test]
fn a_reference_is_a_fault_where_nobody_follows_it_or_where_it_names_nothing() {
    let line = parse(&store(REFERRING)).expect_err("not followed").to_string();
    assert!(line.contains("key \"k\" of secret \"icefall/store\" was not fetched"), "{line}");
    for reference in
        ["{}", "{ key = 'k' }", "{ ssm = 'a', key = 'k' }", "{ ssm = 'a', secretsmanager = 'b' }"]
    {
        let line = fault(&catalog(&format!("token = {reference}")));
        assert!(
            line.starts_with("catalog.token: names no one secret; give the secret itself, { secretsmanager"),
            "{line}"
        );
    }
    assert_eq!(
        fault(&catalog("token = { ssm = ' ' }")),
        "catalog.token.ssm: is empty; name what holds the secret"
    );
    assert!(
        fault(&catalog("token = { vault = 'a' }")).starts_with("catalog.token.vault: there is no such key")
    );
    // Everything else is checked before anybody is asked for a secret.
    let faulty = store(REFERRING).replace("pipeline = \"demo\"", "pipeline = \"De Mo\"");
    assert_eq!(keys_of(&faulty), ["pipeline"]);
}
