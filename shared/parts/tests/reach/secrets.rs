//! Secrets that are kept elsewhere: fetched as botocore does it, put where the settings refer to them, and
//! reported by key when they can't be.

use icefall_parts::Parts;
use icefall_settings::Environment;
use icefall_testkit::{Authority, ConnectProxy, Reply, Request, ScriptedServer};
use serde_json::{Value, json};

use crate::network::Bundle;
use crate::settings::{Part, ask, settings, signed_by};
use crate::sign_in::botocores;

/// The settings, with secrets of both kinds.
fn referring(url: &str) -> String {
    let secret = botocores("secret")["body"]["SecretId"].as_str().expect("text").to_owned();
    let pair = format!(
        "{{ access_key_id = \"AKIDKEPT\", secret_access_key = {{ secretsmanager = \"{secret}\", key = \"store\" }}, \
         session_token = {{ ssm = \"/icefall/catalog/token\" }} }}"
    );
    settings(Part::Store, url, &pair, "")
}

fn as_botocore(request: &Request, name: &str) {
    let expected = botocores(name);
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(body, expected["body"], "{name}");
    assert_eq!(request.line(), "POST / HTTP/1.1");
    assert_eq!(request.header("x-amz-target"), expected["target"].as_str(), "{name}");
    assert_eq!(request.header("content-type"), expected["content_type"].as_str(), "{name}");
    let scope = request.header("authorization").expect("it is signed");
    let service = if name == "secret" { "secretsmanager" } else { "ssm" };
    assert!(scope.contains(&format!("/eu-west-1/{service}/aws4_request")), "{scope}");
}

fn environment(text: &str, secrets: &str, parameters: &str) -> Environment {
    Environment::from_iter([
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", secrets),
        ("AWS_ENDPOINT_URL_SSM", parameters),
        ("ICEFALL_SETTINGS", text),
    ])
}

/// Runs where the default chain finds keys: see `sign_in`.
pub(crate) async fn are_fetched_with_the_functions_role() {
    let store = ScriptedServer::start([Reply::empty(404)]).await;
    let kept = json!({ "SecretString": json!({ "store": "hush-key", "other": 1 }).to_string() }).to_string();
    let busy = Reply::json(400, r#"{"__type":"ThrottlingException","message":"slow"}"#);
    let secrets = ScriptedServer::start([busy, Reply::json(200, &kept)]).await;
    let parameter = json!({ "Parameter": { "Name": "x", "Value": "kept-token" } }).to_string();
    let parameters = ScriptedServer::start([Reply::json(200, &parameter)]).await;
    let text = referring(&store.url());
    let parts =
        Parts::from_environment(&environment(&text, &secrets.url(), &parameters.url()), "tests").await;
    let parts = parts.expect("the secrets are there");
    ask(Part::Store, &parts).await;
    assert_eq!(signed_by(&store.requests()[0]), ("AKIDKEPT".to_owned(), Some("kept-token".to_owned())));
    assert!(!format!("{parts:?}").contains("hush-key"));
    assert_eq!(secrets.requests().len(), 2, "a throttled one is tried again");
    as_botocore(&secrets.requests()[1], "secret");
    as_botocore(&parameters.requests()[0], "parameter");
    assert_eq!(signed_by(&parameters.requests()[0]).0, "ASIAFUNCTION");
    cannot_be_fetched(&text).await;
}

/// By a certificate of the private authority alone, and through the proxy.
pub(crate) async fn are_fetched_as_the_network_says() {
    let authority = Authority::new();
    let bundle = Bundle::of(&authority, "kept");
    let store = ScriptedServer::start([Reply::empty(404)]).await;
    let kept = json!({ "SecretString": "hush-key" }).to_string();
    let secrets = ScriptedServer::start_tls([Reply::json(200, &kept)], &authority).await;
    let pair = r#"{ access_key_id = "AKIDKEPT", secret_access_key = { secretsmanager = "icefall/store" } }"#;
    let start = async |endpoint: &str, network: &str| {
        let text = settings(Part::Store, &store.url(), pair, network);
        Parts::from_environment(&environment(&text, endpoint, "http://127.0.0.1:1"), "tests").await
    };
    start(&secrets.url(), &bundle.section("")).await.expect("the authority is trusted");
    start(&secrets.url(), "").await.expect_err("nobody vouches for it");
    assert_eq!(secrets.requests().len(), 1);
    let proxy = ConnectProxy::start(secrets.port()).await;
    let through = bundle.section(&format!("proxy = \"http://{}\"", proxy.address()));
    start("https://secrets.icefall.test", &through).await.expect("the proxy is the only way");
    assert_eq!((proxy.asked().len(), secrets.requests().len()), (1, 2));
}

async fn cannot_be_fetched(text: &str) {
    let denied = Reply::json(
        400,
        r#"{"__type":"com.amazon#AccessDeniedException","Message":"no identity-based policy"}"#,
    );
    let secrets = ScriptedServer::start([denied]).await;
    let missing = Reply::json(400, r#"{"__type":"ParameterNotFound"}"#);
    let parameters = ScriptedServer::start([missing]).await;
    let error = Parts::from_environment(&environment(text, &secrets.url(), &parameters.url()), "tests").await;
    let error = error.expect_err("neither can be fetched").to_string();
    for says in [
        "store.credentials.secret_access_key: key \"store\" of secret \"arn:aws:secretsmanager:eu-west-1",
        "400 AccessDeniedException: no identity-based policy; the function's role needs secretsmanager:GetSecretValue",
        "store.credentials.session_token: parameter \"/icefall/catalog/token\": 400 ParameterNotFound",
    ] {
        assert!(error.contains(says), "{says} is not in {error}");
    }
    let kept = json!({ "SecretString": "{\"other\": \"hush\"}" }).to_string();
    let secrets = ScriptedServer::start([Reply::json(200, &kept)]).await;
    let parameters = ScriptedServer::start([Reply::HangUp]).await;
    let error = Parts::from_environment(&environment(text, &secrets.url(), &parameters.url()), "tests").await;
    let error = error.expect_err("neither holds the secret").to_string();
    assert!(error.contains("no JSON object with a text under that key"), "{error}");
    assert!(error.contains(&format!("no answer from {}", parameters.url())), "{error}");
    assert!(!error.contains("hush"), "{error}");
    assert_eq!(parameters.requests().len(), 3, "it may pass");
}
