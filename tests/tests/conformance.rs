//! The suites that the fakes pass, on the real parts and through the real adapters.

use icefall_store::Location;
use icefall_testkit::{Habits, catalog_conformance, queue_conformance, store_conformance};
use icefall_tests::{Pipeline, WhichCatalog};

#[tokio::test(flavor = "multi_thread")]
async fn the_table_bucket_is_a_store() {
    let pipeline = Pipeline::new("conform-tables", 30).await;
    let folder = format!("{}/t/data", pipeline.namespace().to_url_string());
    let base = Location::s3(&pipeline.stack().table_bucket, folder);
    store_conformance(&*pipeline.parts().await.tables, &base).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ops_bucket_is_a_store() {
    let pipeline = Pipeline::new("conform-ops", 30).await;
    let ops = pipeline.stack().ops.clone();
    let base = Location::s3(&pipeline.stack().ops_bucket, pipeline.namespace().to_url_string());
    let with_its_key = pipeline
        .with("ICEFALL__STORE__ENDPOINT", ops.endpoint)
        .with("ICEFALL__STORE__REGION", ops.region)
        .with("ICEFALL__STORE__CREDENTIALS__ACCESS_KEY_ID", ops.access_key_id)
        .with("ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY", ops.secret_access_key);
    store_conformance(&*with_its_key.parts().await.tables, &base).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_a_commit_queue() {
    // What is received stays hidden for as long as the suite takes to drain the queue.
    let pipeline = Pipeline::new("conform-queue", 30).await.with("ICEFALL__COMMITTER__HOLD", "30s");
    queue_conformance(&*pipeline.parts().await.queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalog_is_a_catalog() {
    let pipeline = Pipeline::new("conform-catalog", 30).await;
    let habits = match pipeline.stack().which {
        WhichCatalog::First => Habits::SEAWEEDFS,
        WhichCatalog::Second => Habits::ICEBERG,
    };
    catalog_conformance(&*pipeline.parts().await.catalog, &pipeline.namespace(), &habits).await;
}
