//! Every part by every kind of keys: a pair, a role that is assumed, a web identity, the function's own role.

use std::collections::BTreeMap;
use std::process::Command;

use icefall_testkit::{Reply, Request, ScriptedServer};
use serde_json::Value;

use crate::settings::{Part, ask, parts, settings, signed_by};

pub(crate) const ROLE: &str = "arn:aws:iam::123456789012:role/icefall-tables";
const PAIR: &str = r#"access_key_id = "AKIDPAIR", secret_access_key = "hush", session_token = "pair-token""#;

/// What botocore sends (`../fixtures/make_requests.py`).
pub(crate) fn botocores(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("../fixtures/requests.json")).expect("JSON");
    all[name].clone()
}

/// A token service that lends the role to everybody.
async fn token_service() -> ScriptedServer {
    ScriptedServer::deciding(|request| {
        let is_role = form(request)["Action"] == "AssumeRole";
        lent_role(if is_role { "AssumeRole" } else { "AssumeRoleWithWebIdentity" })
    })
    .await
}

/// How a token service lends the role.
pub(crate) fn lent_role(action: &str) -> Reply {
    let body = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>\
         <Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>lent</SecretAccessKey>\
         <SessionToken>role-token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>\
         <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/icefall-tables/icefall</Arn>\
         <AssumedRoleId>AROA:icefall</AssumedRoleId></AssumedRoleUser></{action}Result></{action}Response>"
    );
    Reply::xml(200, &body)
}

fn form(request: &Request) -> BTreeMap<String, String> {
    let body = String::from_utf8(request.body.clone()).expect("text");
    let url = format!("http://form/?{body}");
    let url: reqwest::Url = url.parse().expect("a form");
    url.query_pairs().into_owned().collect()
}

/// The request is botocore's, but for the order of its parameters.
fn assert_as_botocore(request: &Request, name: &str) {
    let expected = botocores(name);
    let body: BTreeMap<String, String> = serde_json::from_value(expected["body"].clone()).expect("a form");
    assert_eq!(form(request), body, "{name}");
    assert_eq!(request.line(), "POST / HTTP/1.1", "{name}");
    let kind = request.header("content-type").expect("a content type");
    assert!(expected["content_type"].as_str().expect("text").starts_with(kind), "{name}: {kind}");
    assert_eq!(request.header("authorization").is_some(), expected["signed"] == true, "{name}");
}

/// Asks `part` twice with these credentials, and gives whom it was signed by.
async fn signer(part: Part, credentials: &str) -> (String, Option<String>) {
    let server = ScriptedServer::start([Reply::empty(404)]).await;
    let parts = parts(&settings(part, &server.url(), credentials, ""), &[]).await;
    for _ in 0..2 {
        ask(part, &parts).await;
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "{part:?}");
    assert_eq!(signed_by(&requests[0]), signed_by(&requests[1]), "{part:?}");
    assert!(!format!("{parts:?}").contains("hush"), "a secret prints");
    signed_by(&requests[0])
}

fn pair() -> (String, Option<String>) {
    ("AKIDPAIR".to_owned(), Some("pair-token".to_owned()))
}

fn role() -> (String, Option<String>) {
    ("ASIAROLE".to_owned(), Some("role-token".to_owned()))
}

#[tokio::test]
async fn each_part_signs_with_its_own_pair() {
    for part in Part::ALL {
        assert_eq!(signer(part, &format!("{{ {PAIR} }}")).await, pair(), "{part:?}");
    }
}

#[tokio::test]
async fn each_part_assumes_its_own_role() {
    for part in Part::ALL {
        let sts = token_service().await;
        let role_of = format!(
            "{{ {PAIR}, assume_role_arn = \"{ROLE}\", external_id = \"a/b:c+d\", sts_endpoint = \"{}\" }}",
            sts.url()
        );
        assert_eq!(signer(part, &role_of).await, role(), "{part:?}");
        let asked = sts.requests();
        assert_eq!(asked.len(), 1, "{part:?}: it is kept between requests");
        assert_as_botocore(&asked[0], "assume-role");
        assert_eq!(signed_by(&asked[0]), pair());
        let scope = asked[0].header("authorization").expect("it is signed");
        assert!(scope.contains("/eu-west-1/sts/aws4_request"), "{scope}");
    }
}

#[tokio::test]
async fn each_part_takes_a_web_identity() {
    let file = std::env::temp_dir().join(format!("icefall-web-identity-{}", std::process::id()));
    let token = botocores("web-identity")["body"]["WebIdentityToken"].as_str().expect("text").to_owned();
    std::fs::write(&file, format!("{token}\n")).expect("a file");
    for part in Part::ALL {
        let sts = token_service().await;
        let identity = format!(
            "{{ assume_role_arn = \"{ROLE}\", web_identity_token_file = \"{}\", sts_endpoint = \"{}\" }}",
            file.display(),
            sts.url()
        );
        assert_eq!(signer(part, &identity).await, role(), "{part:?}");
        assert_eq!(sts.requests().len(), 1, "{part:?}");
        assert_as_botocore(&sts.requests()[0], "web-identity");
    }
    std::fs::remove_file(&file).expect("it is there");
    let gone =
        format!("{{ assume_role_arn = \"{ROLE}\", web_identity_token_file = \"{}\" }}", file.display());
    let server = ScriptedServer::start([Reply::empty(404)]).await;
    let parts = parts(&settings(Part::Catalog, &server.url(), &gone, ""), &[]).await;
    let error = ask(Part::Catalog, &parts).await;
    assert!(
        error.contains("can't read the web identity's token in") && error.contains("icefall-web"),
        "{error}"
    );
}

#[tokio::test]
async fn a_role_that_is_not_lent_is_a_denial_that_says_why() {
    let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                   <Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>";
    for part in Part::ALL {
        let sts = ScriptedServer::start([Reply::xml(403, refusal)]).await;
        let server = ScriptedServer::start([Reply::empty(404)]).await;
        let role = format!("{{ {PAIR}, assume_role_arn = \"{ROLE}\", sts_endpoint = \"{}\" }}", sts.url());
        let parts = parts(&settings(part, &server.url(), &role, ""), &[]).await;
        let error = ask(part, &parts).await;
        assert!(error.contains("denied"), "{part:?}: {error}");
        assert!(server.requests().is_empty(), "{part:?}");
        if part == Part::Catalog {
            assert!(error.contains("sts:AssumeRole"), "{error}");
        }
    }
}

/// Says to this test that it runs in the process that it has started.
const CHILD: &str = "ICEFALL_TESTS_CHILD";

/// The default chain reads the process's own environment, so this starts a process with one.
#[tokio::test]
async fn each_part_signs_as_the_functions_own_role() {
    if std::env::var_os(CHILD).is_some() {
        return in_the_functions_environment().await;
    }
    let child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "sign_in::each_part_signs_as_the_functions_own_role"])
        .envs([(CHILD, "1"), ("AWS_ACCESS_KEY_ID", "ASIAFUNCTION"), ("AWS_SECRET_ACCESS_KEY", "own")])
        .env("AWS_SESSION_TOKEN", "function-token")
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

async fn in_the_functions_environment() {
    let function = ("ASIAFUNCTION".to_owned(), Some("function-token".to_owned()));
    for part in Part::ALL {
        assert_eq!(signer(part, "").await, function, "{part:?}");
        let sts = token_service().await;
        let role_of = format!("{{ assume_role_arn = \"{ROLE}\", sts_endpoint = \"{}\" }}", sts.url());
        assert_eq!(signer(part, &role_of).await, role(), "{part:?}");
        assert_eq!(signed_by(&sts.requests()[0]), function, "{part:?}");
    }
    crate::secrets::are_fetched_with_the_functions_role().await;
    crate::secrets::are_fetched_as_the_network_says().await;
}
