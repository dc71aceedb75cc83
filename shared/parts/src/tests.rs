use super::*;

const SETTINGS: &str = r#"inline:
    pipeline = "demo"
    catalog = { uri = "http://127.0.0.1:1", warehouse = "lake" }
    ops = { bucket = "icefall-ops", prefix = "a" }
    queue = { url = "http://127.0.0.1:1/0/icefall-commits" }
    route = [{ topic = "orders", table = "shop.orders" }]
"#;

fn environment(settings: &str) -> Environment {
    Environment::from_iter([("AWS_REGION", "eu-central-1"), ("ICEFALL_SETTINGS", settings)])
}

#[tokio::test]
async fn parts_are_made_without_asking_anyone() {
    let parts = Parts::from_environment(&environment(SETTINGS), "writer").await.expect("good settings");
    assert_eq!(parts.settings.pipeline.as_str(), "demo");
    assert_eq!(parts.ops.location("k").to_string(), "s3://icefall-ops/a/k");
}

#[tokio::test]
async fn wrong_settings_are_said_as_they_are() {
    let error = Parts::from_environment(&environment("inline:"), "writer").await.expect_err("nothing set");
    assert!(matches!(&error, StartError::Settings(_)) && error.to_string().contains("pipeline"), "{error}");
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let error = Parts::from_environment(&environment("/nowhere/icefall.toml"), "writer").await;
    let error = error.expect_err("there is no such file");
    assert!(error.to_string().contains("/nowhere/icefall.toml"), "{error}");
}

#[tokio::test]
async fn an_object_without_a_region_is_refused_before_it_is_asked_for() {
    let environment = Environment::from_iter([("ICEFALL_SETTINGS", "s3://bucket/key")]);
    let error = Parts::from_environment(&environment, "writer").await.expect_err("no region");
    assert!(matches!(&error, StartError::Settings(_)) && error.to_string().contains("AWS_REGION"), "{error}");
}
