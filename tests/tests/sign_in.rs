//! Ways of signing in, on the parts that know them: the catalog's tokens, roles that the store's own token service
//! lends, credentials that the catalog hands out, secrets that are kept elsewhere.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::process::Command;

use icefall_catalog::Snapshots;
use icefall_parts::Parts;
use icefall_settings::Environment;
use icefall_store::Location;
use icefall_tests::{Pipeline, Service, click, event};
use serde_json::json;

const RECORDS: u64 = 20;
/// What the local stack's object store lends, to any of its keys.
const STORE_ROLE: &str = "arn:aws:iam::000000000000:role/IcefallStore";

/// A batch goes all the way, and stands in the table once.
async fn lands(pipeline: &Pipeline) {
    pipeline.drain().await.unwrap();
    let records: Vec<_> = (0..RECORDS).map(click).collect();
    for _ in 0..2 {
        assert_eq!(pipeline.write(&event(0, 100, &records)).await.unwrap().rows as u64, RECORDS);
    }
    pipeline.drain().await.unwrap();
    let table = pipeline.parts().await.catalog.load_table(&pipeline.table(), Snapshots::All).await.unwrap();
    let snapshot = table.metadata.current_snapshot().unwrap();
    assert_eq!(snapshot.summary().additional_properties["total-records"], RECORDS.to_string());
}

/// Keys that may not touch a single object.
fn keys_of_the_catalog(pipeline: &Pipeline) -> String {
    let Service { access_key_id, secret_access_key, .. } = &pipeline.stack().catalog;
    format!("access_key_id = \"{access_key_id}\", secret_access_key = \"{secret_access_key}\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_takes_tokens_that_it_issues() {
    let pipeline = Pipeline::new("sign-in-oauth2", 30).await;
    let Service { access_key_id, secret_access_key, .. } = &pipeline.stack().catalog;
    let oauth2 =
        format!("oauth2 = {{ client_id = \"{access_key_id}\", client_secret = \"{secret_access_key}\" }}");
    lands(&pipeline.with_catalog_sign_in(oauth2)).await;
    let wrong = format!("oauth2 = {{ client_id = \"{access_key_id}\", client_secret = \"wrong\" }}");
    let wrong = pipeline.with_catalog_sign_in(wrong).parts().await;
    let error = wrong.catalog.load_table(&pipeline.table(), Snapshots::All).await.unwrap_err().to_string();
    assert!(error.contains("fetching a token") && error.contains("check catalog.oauth2"), "{error}");
    let garbage = pipeline.with_catalog_sign_in("token = \"garbage\"").parts().await;
    let error = garbage.catalog.load_table(&pipeline.table(), Snapshots::All).await.unwrap_err().to_string();
    assert!(error.contains("401") && error.contains("check catalog.token"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_takes_a_role_that_is_lent() {
    let pipeline = Pipeline::new("sign-in-role", 30).await;
    let (keys, sts) = (keys_of_the_catalog(&pipeline), &pipeline.stack().store.endpoint);
    let role =
        format!("credentials = {{ {keys}, assume_role_arn = \"{STORE_ROLE}\", sts_endpoint = \"{sts}\" }}");
    lands(&pipeline.with_store_keys(role)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_takes_credentials_that_the_catalog_hands_out() {
    let pipeline = Pipeline::new("sign-in-vended", 30).await;
    let keys = keys_of_the_catalog(&pipeline);
    let vended = pipeline.with_store_keys(format!("vended_credentials = true\ncredentials = {{ {keys} }}"));
    lands(&vended).await;
    let parts = vended.parts().await;
    let table = parts.catalog.load_table(&pipeline.table(), Snapshots::All).await.unwrap();
    let own = Location::parse(&format!("{}/data/own.parquet", table.metadata.location())).unwrap();
    parts.tables.put(&own, "PAR1".into()).await.unwrap();
    assert_eq!(parts.tables.get(&own).await.unwrap(), "PAR1");
    let other = Location::s3(own.bucket(), "elsewhere/data/other.parquet");
    parts.tables.put(&other, "PAR1".into()).await.unwrap_err();
}

/// Says to this test that it runs in the process that it has started.
const CHILD: &str = "ICEFALL_TESTS_CHILD";

/// Secrets are fetched with the function's own role, which the default chain finds in the environment.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_where_they_are_kept() {
    if std::env::var_os(CHILD).is_some() {
        return are_fetched().await;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "secrets_are_where_they_are_kept"])
        .envs([(CHILD, "1"), ("AWS_ACCESS_KEY_ID", "ASIAFUNCTION"), ("AWS_SECRET_ACCESS_KEY", "own")])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

async fn are_fetched() {
    let pipeline = Pipeline::new("sign-in-secrets", 30).await;
    let Service { access_key_id, secret_access_key, .. } = &pipeline.stack().store;
    let (endpoint, name) = (&pipeline.stack().queue.endpoint, pipeline.namespace().to_url_string());
    let kept = json!({ "store": secret_access_key }).to_string();
    keep(endpoint, "secretsmanager.CreateSecret", &json!({ "Name": name, "SecretString": kept })).await;
    let parameter = format!("/{name}/store");
    let value = json!({ "Name": parameter, "Value": secret_access_key, "Type": "SecureString" });
    keep(endpoint, "AmazonSSM.PutParameter", &value).await;
    for reference in [
        format!("{{ secretsmanager = \"{name}\", key = \"store\" }}"),
        format!("{{ ssm = \"{parameter}\" }}"),
    ] {
        let keys = format!(
            "credentials = {{ access_key_id = \"{access_key_id}\", secret_access_key = {reference} }}"
        );
        let text = pipeline.with_store_keys(keys).settings();
        let parts = Parts::from_environment(&environment(endpoint, &text), "tests").await.unwrap();
        let location = Location::s3(&pipeline.stack().table_bucket, format!("{name}/t/data/a.parquet"));
        parts.tables.put(&location, "PAR1".into()).await.unwrap();
    }
    let keys =
        "credentials = { access_key_id = \"A\", secret_access_key = { ssm = \"/no/such/parameter\" } }";
    let text = pipeline.with_store_keys(keys).settings();
    let error =
        Parts::from_environment(&environment(endpoint, &text), "tests").await.unwrap_err().to_string();
    assert!(
        error.contains("store.credentials.secret_access_key: parameter \"/no/such/parameter\""),
        "{error}"
    );
    assert!(error.contains("ParameterNotFound"), "{error}");
}

fn environment(endpoint: &str, text: &str) -> Environment {
    Environment::from_iter([
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", endpoint),
        ("AWS_ENDPOINT_URL_SSM", endpoint),
        ("ICEFALL_SETTINGS", text),
    ])
}

/// Puts a secret where it is kept, as its owner would; this server believes every signature.
async fn keep(endpoint: &str, target: &str, body: &serde_json::Value) {
    let service = if target.starts_with("secretsmanager") { "secretsmanager" } else { "ssm" };
    let scope = format!("AKIDOWNER/20260830/us-east-1/{service}/aws4_request");
    let answer = reqwest::Client::new()
        .post(endpoint)
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", target)
        .header(
            "authorization",
            format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"),
        )
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
}
