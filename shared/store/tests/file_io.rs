//! `iceberg`'s `FileIO` over the store port.

use std::sync::Arc;

use bytes::Bytes;
use icefall_store::{Location, ObjectStore, StoreError, file_io};
use icefall_testkit::{Call, Failure, FakeStore, Faults, FaultyStore, Moment};

const PATH: &str = "s3a://lake/t/metadata/snap.avro";

#[tokio::test]
async fn files_are_written_read_and_found() {
    let store = Arc::new(FakeStore::new());
    let io = file_io(Arc::<FakeStore>::clone(&store));
    assert!(!io.exists(PATH).await.expect("it looks"));
    io.new_output(PATH)
        .expect("an output")
        .write(Bytes::from_static(b"0123456789"))
        .await
        .expect("it writes");
    assert!(io.exists(PATH).await.expect("it looks"));

    let input = io.new_input(PATH).expect("an input");
    assert_eq!(input.location(), PATH);
    assert_eq!(input.metadata().await.expect("it looks").size, 10);
    assert_eq!(input.read().await.expect("it reads"), "0123456789");
    let reader = input.reader().await.expect("a reader");
    assert_eq!(reader.read(2..5).await.expect("it reads"), "234");
    assert!(
        store.peek(&Location::s3("lake", "t/metadata/snap.avro")).is_some(),
        "one object under any scheme"
    );
}

#[tokio::test]
async fn a_file_appears_when_it_is_closed_and_only_then() {
    let store = Arc::new(FakeStore::new());
    let io = file_io(Arc::<FakeStore>::clone(&store));
    let mut writer = io.new_output(PATH).expect("an output").writer().await.expect("a writer");
    for part in ["ab", "cd"] {
        writer.write(Bytes::from_static(part.as_bytes())).await.expect("it writes");
    }
    assert!(store.keys("lake", "").is_empty());
    writer.close().await.expect("it closes");
    assert_eq!(store.peek(&Location::s3("lake", "t/metadata/snap.avro")).expect("it is there"), "abcd");
    assert!(writer.write(Bytes::new()).await.is_err() && writer.close().await.is_err());
}

#[tokio::test]
async fn nothing_is_ever_deleted() {
    let store = Arc::new(FakeStore::new());
    let io = file_io(Arc::<FakeStore>::clone(&store));
    io.new_output(PATH).expect("an output").write(Bytes::new()).await.expect("it writes");
    assert!(io.delete(PATH).await.is_err());
    assert!(io.delete_prefix("s3://lake/t").await.is_err());
    assert!(io.delete_stream(futures::stream::iter([PATH.to_owned()])).await.is_err());
    assert_eq!(store.keys("lake", "").len(), 1);
}

#[tokio::test]
async fn the_stores_error_is_found_behind_icebergs() {
    let faults = Faults::new();
    let io = file_io(Arc::new(FaultyStore::new(Arc::new(FakeStore::new()), Arc::clone(&faults))));
    let input = io.new_input(PATH).expect("an input");
    let missing = input.read().await.expect_err("nothing is there");
    assert!(matches!(StoreError::behind(&missing), Some(StoreError::NotFound { .. })));
    faults.fail(Call::Head, 1..2, Moment::Before, Failure::Denied);
    let denied = io.exists(PATH).await.expect_err("denied is not absent");
    assert!(matches!(StoreError::behind(&denied), Some(StoreError::Denied { .. })));
    let elsewhere = io.new_input("gs://b/k").expect("an input").read().await.expect_err("another store");
    assert!(StoreError::behind(&elsewhere).is_none());
}

#[tokio::test]
async fn one_store_serves_both_sides() {
    let store: Arc<dyn ObjectStore> = Arc::new(FakeStore::new());
    store.put(&Location::s3("lake", "a"), Bytes::from_static(b"x")).await.expect("it stores");
    let io = file_io(Arc::clone(&store));
    assert_eq!(io.new_input("oss://lake/a").expect("an input").read().await.expect("it reads"), "x");
}
