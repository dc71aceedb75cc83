//! A private certificate authority and a proxy, for every part.

use std::path::PathBuf;

use icefall_parts::{Parts, StartError};
use icefall_settings::{Environment, Settings};
use icefall_testkit::{Authority, ConnectProxy, Reply, ScriptedServer};

use crate::settings::{Part, ask, parts, settings};
use crate::sign_in::{ROLE, lent_role};

const PAIR: &str = r#"{ access_key_id = "AKIDPAIR", secret_access_key = "s" }"#;

/// The authority's certificate in a file that ends with the test.
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    pub(crate) fn of(authority: &Authority, name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("icefall-{name}-{}.pem", std::process::id()));
        std::fs::write(&path, authority.pem()).expect("a file");
        Self(path)
    }

    pub(crate) fn section(&self, more: &str) -> String {
        format!("[network]\nca_bundle = \"{}\"\n{more}\n", self.0.display())
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // It lies in the folder for temporary files.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn each_part_trusts_a_private_authority_when_it_is_told_to() {
    let authority = Authority::new();
    let bundle = Bundle::of(&authority, "trusted");
    for part in Part::ALL {
        let server = ScriptedServer::start_tls([Reply::empty(404)], &authority).await;
        let trusting = parts(&settings(part, &server.url(), PAIR, &bundle.section("")), &[]).await;
        ask(part, &trusting).await;
        assert_eq!(server.requests().len(), 1, "{part:?}");
        let path = bundle.0.to_str().expect("a path");
        let by_variable = parts(&settings(part, &server.url(), PAIR, ""), &[("AWS_CA_BUNDLE", path)]).await;
        ask(part, &by_variable).await;
        assert_eq!(server.requests().len(), 2, "{part:?}");
        let doubting = parts(&settings(part, &server.url(), PAIR, ""), &[]).await;
        ask(part, &doubting).await;
        assert_eq!(server.requests().len(), 2, "{part:?} trusts whomever it meets");
    }
}

#[tokio::test]
async fn each_part_goes_through_the_proxy_and_where_it_is_told_past_it() {
    let authority = Authority::new();
    let bundle = Bundle::of(&authority, "proxied");
    for part in Part::ALL {
        let server = ScriptedServer::start_tls([Reply::empty(404)], &authority).await;
        let proxy = ConnectProxy::start(server.port()).await;
        let url = format!("http://me:hush@{}", proxy.address());
        let by_setting =
            bundle.section(&format!("proxy = \"{url}\"\nno_proxy = \"direct.icefall.test,localhost\""));
        // A name that nobody resolves: the proxy is the only way.
        let through = parts(&settings(part, "https://parts.icefall.test", PAIR, &by_setting), &[]).await;
        ask(part, &through).await;
        let asked = proxy.asked();
        assert_eq!(asked.len(), 1, "{part:?}");
        assert_eq!(asked[0].line(), "CONNECT parts.icefall.test:443 HTTP/1.1", "{part:?}");
        assert_eq!(asked[0].header("proxy-authorization"), Some("Basic bWU6aHVzaA=="), "{part:?}");
        assert_eq!(server.requests()[0].header("proxy-authorization"), None, "{part:?}: not for the server");
        assert!(!format!("{through:?}").contains("hush"), "{part:?}");

        let by_variable = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", "other.test")];
        let text = settings(part, "https://parts.icefall.test", PAIR, &bundle.section(""));
        ask(part, &parts(&text, &by_variable).await).await;
        assert_eq!((proxy.asked().len(), server.requests().len()), (2, 2), "{part:?}");

        let past = format!("https://localhost:{}", server.port());
        ask(part, &parts(&settings(part, &past, PAIR, &by_setting), &[]).await).await;
        assert_eq!((proxy.asked().len(), server.requests().len()), (2, 3), "{part:?}: past the proxy");
    }
}

/// What is asked on the way to a part: the service that lends a role, and the one that issues the catalog's tokens.
#[tokio::test]
async fn whoever_lends_keys_and_tokens_is_reached_as_the_parts_are() {
    type Text = fn(&str, &str, &str) -> String;
    let token = Reply::json(200, r#"{"access_token":"t","token_type":"bearer","expires_in":3600}"#);
    let lenders: [(Part, Reply, Text); 2] =
        [(Part::Store, lent_role("AssumeRole"), with_role), (Part::Catalog, token, with_token)];
    let authority = Authority::new();
    let bundle = Bundle::of(&authority, "lenders");
    for (part, reply, text) in lenders {
        let server = ScriptedServer::start([Reply::empty(404)]).await;
        let lender = ScriptedServer::start_tls([reply], &authority).await;
        let reached = || (lender.requests().len(), server.requests().len());
        let ask_with = async |lender: &str, network: &str| {
            ask(part, &parts(&text(&server.url(), lender, network), &[]).await).await;
        };
        ask_with(&lender.url(), &bundle.section("")).await;
        assert_eq!(reached(), (1, 1), "{part:?}");
        ask_with(&lender.url(), "").await;
        assert_eq!(reached(), (1, 1), "{part:?} trusts whomever it meets");
        let proxy = ConnectProxy::start(lender.port()).await;
        let through = bundle.section(&format!("proxy = \"http://{}\"", proxy.address()));
        ask_with("https://lender.icefall.test", &through).await;
        assert_eq!((proxy.asked().len(), reached()), (1, (2, 2)), "{part:?}");
        assert_eq!(proxy.asked()[0].line(), "CONNECT lender.icefall.test:443 HTTP/1.1", "{part:?}");
    }
}

fn with_role(part: &str, lender: &str, network: &str) -> String {
    let role = format!(
        r#"{{ access_key_id = "AKIDPAIR", secret_access_key = "s", assume_role_arn = "{ROLE}", sts_endpoint = "{lender}" }}"#
    );
    settings(Part::Store, part, &role, network)
}

fn with_token(part: &str, lender: &str, network: &str) -> String {
    let client =
        format!(r#"oauth2 = {{ client_id = "c", client_secret = "s", token_endpoint = "{lender}/token" }}"#);
    settings(Part::Catalog, part, "", network).replace(r#"sign = { name = "s3tables" }"#, &client)
}

#[tokio::test]
async fn a_bundle_that_is_missing_or_none_is_said_at_the_start() {
    let start = |path: &str| {
        let text = settings(
            Part::Store,
            "https://localhost:1",
            PAIR,
            &format!("[network]\nca_bundle = \"{path}\"\n"),
        );
        let environment = Environment::from_iter([("AWS_REGION", "eu-west-1")]);
        Settings::parse(&text, &environment).expect("good settings")
    };
    let missing = Parts::of_settings(start("/nowhere/ca.pem"), "tests").await.expect_err("no file");
    assert!(matches!(missing, StartError::CaBundle { .. }), "{missing:?}");
    assert!(missing.to_string().contains("network.ca_bundle: can't read /nowhere/ca.pem"), "{missing}");
    let this = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let none = Parts::of_settings(start(this), "tests").await.expect_err("no certificates");
    assert!(none.to_string().starts_with("network.ca_bundle holds no certificates"), "{none}");
}
