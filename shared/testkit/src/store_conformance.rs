//! What every object store must do, fake or real.

#![expect(clippy::expect_used, reason = "a conformance suite fails by panicking")]

use bytes::Bytes;
use icefall_store::{Location, ObjectStore, StoreError};

/// Runs the suite below `base`, an empty place of a bucket that is there. The names fit into a table
/// bucket's `data/` folder.
///
/// # Panics
///
/// On what a store does wrong.
pub async fn store_conformance(store: &dyn ObjectStore, base: &Location) {
    reads_what_was_put(store, base).await;
    repeats_and_replaces(store, base).await;
    reads_ranges(store, base).await;
    tells_what_is_missing(store, base).await;
    keeps_unusual_keys_apart(store, base).await;
}

async fn reads_what_was_put(store: &dyn ObjectStore, base: &Location) {
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, body) in [("one", b"x".to_vec()), ("empty", Vec::new()), ("large", large)] {
        let (place, body) = (base.child(&format!("{name}.parquet")), Bytes::from(body));
        store.put(&place, body.clone()).await.expect("put");
        assert!(store.get(&place).await.expect("get") == body, "{place} must read back equal");
        let size = store.head(&place).await.expect("head").size;
        assert_eq!(Ok(size), u64::try_from(body.len()), "size of {place}");
    }
}

async fn repeats_and_replaces(store: &dyn ObjectStore, base: &Location) {
    let place = base.child("again.parquet");
    for body in ["first", "first", "second!"] {
        store.put(&place, Bytes::from_static(body.as_bytes())).await.expect("put");
        assert_eq!(store.get(&place).await.expect("get"), body);
    }
}

async fn reads_ranges(store: &dyn ObjectStore, base: &Location) {
    let place = base.child("range.parquet");
    store.put(&place, Bytes::from_static(b"0123456789")).await.expect("put");
    for (range, expected) in [(0..10, "0123456789"), (0..1, "0"), (9..10, "9"), (3..7, "3456"), (4..4, "")] {
        assert_eq!(store.get_range(&place, range).await.expect("range"), expected);
    }
    for range in [10..11, 5..11, 100..200] {
        let error = store.get_range(&place, range.clone()).await.expect_err("past the end");
        assert!(matches!(error, StoreError::Rejected { .. }), "{range:?}: {error:?}");
    }
}

async fn tells_what_is_missing(store: &dyn ObjectStore, base: &Location) {
    let place = base.child("missing.parquet");
    let errors = [
        store.get(&place).await.err(),
        store.get_range(&place, 0..1).await.err(),
        store.head(&place).await.err(),
    ];
    for error in errors {
        let error = error.expect("nothing is there");
        assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
        assert_eq!(error.attempt().location, place);
    }
}

/// Hive-style partition folders, and characters that a URL must encode: the key is taken as it is.
async fn keeps_unusual_keys_apart(store: &dyn ObjectStore, base: &Location) {
    let names = ["h=2024-01-01-10/a.parquet", "a%20b.parquet", "a+b.parquet", "a%2Fb.parquet", "a/b.parquet"];
    for name in names {
        store.put(&base.child(name), Bytes::from_static(name.as_bytes())).await.expect("put");
    }
    for name in names {
        assert_eq!(store.get(&base.child(name)).await.expect("get"), name);
    }
}
