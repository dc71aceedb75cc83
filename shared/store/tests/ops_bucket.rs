//! The ops bucket over a store in memory: where its objects lie, in which order they are put, and
//! what becomes of damaged ones.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use icefall_clock::Timestamp;
use icefall_manifest::{Branch, Source, TableUuid};
use icefall_store::{
    Heartbeat, Location, ObjectStore, Operation, OpsBucket, QuarantineEntry, StoreError, Suspect,
};
use icefall_testkit::{Call, Failure, FakeStore, Faults, FaultyStore, Moment};
use serde_json::json;
use uuid::Uuid;

/// SHA-256 of `segment`, as `printf segment | sha256sum` gives it.
const SEGMENT_SHA256: &str = "03e71c6d7dc6bd4e89ceaf32f6488ca0aa69b0de784b706cac5818d680e9d97f";

fn ops(prefix: &str) -> (Arc<FakeStore>, OpsBucket) {
    let store = Arc::new(FakeStore::new());
    let port: Arc<dyn ObjectStore> = Arc::<FakeStore>::clone(&store);
    (store, OpsBucket::new(port, "ops", prefix))
}

fn source() -> Source {
    Source {
        pipeline: "demo".try_into().expect("a pipeline id"),
        cluster: "local".try_into().expect("a cluster name"),
        topic: "clicks.v1".try_into().expect("a topic"),
    }
}

fn entry(raw: &'static [u8]) -> QuarantineEntry<'static> {
    QuarantineEntry {
        reason: "malformed",
        id: "m/1",
        when: Timestamp::from_unix_ms(1_704_067_200_000),
        raw: Bytes::from_static(raw),
        details: json!({ "rule": "why" }),
    }
}

#[tokio::test]
async fn a_ledger_object_is_checked_against_its_name() {
    let (store, ops) = ops("");
    ops.put_ledger_object(SEGMENT_SHA256, Bytes::from_static(b"segment")).await.expect("it stores");
    assert_eq!(ops.ledger_object(SEGMENT_SHA256).await.expect("it reads"), "segment");

    let place = Location::s3("ops", format!("segments/{SEGMENT_SHA256}"));
    store.put(&place, Bytes::from_static(b"damaged")).await.expect("it stores");
    let error = ops.ledger_object(SEGMENT_SHA256).await.expect_err("it is damaged");
    assert!(matches!(error, StoreError::Malformed { .. }), "{error:?}");
    assert_eq!(error.attempt().location, place);
}

#[tokio::test]
async fn keys_are_returned_without_the_prefix_and_read_with_it() {
    for (prefix, expected) in [("", ""), ("/", ""), ("a/b", "a/b/"), ("/a/b/", "a/b/")] {
        let (store, ops) = ops(prefix);
        let (table, id) = (TableUuid(Uuid::from_u128(1)), Uuid::from_u128(2));
        let letters = ops.put_dead_letters(table, id, Bytes::from_static(b"l")).await.expect("it stores");
        let spill = ops.put_spill(id, Bytes::from_static(b"s")).await.expect("it stores");
        assert_eq!(letters, format!("dead-letters/{table}/{id}.jsonl.zst"));
        assert_eq!(spill, format!("spill/{id}.json"));
        assert_eq!(ops.read(&letters).await.expect("it reads"), "l");
        assert_eq!(ops.read(&spill).await.expect("it reads"), "s");
        assert_eq!(store.keys("ops", ""), [format!("{expected}{letters}"), format!("{expected}{spill}")]);
    }
}

#[tokio::test]
async fn an_entry_of_the_quarantine_never_lacks_its_raw_bytes() {
    let (store, faults) = (Arc::new(FakeStore::new()), Faults::new());
    let port: Arc<dyn ObjectStore> = Arc::<FakeStore>::clone(&store);
    let ops = OpsBucket::new(Arc::new(FaultyStore::new(port, Arc::clone(&faults))), "ops", "");

    faults.lose(Call::Put, 1, Moment::Before);
    ops.quarantine(&entry(b"\xff\0raw")).await.expect_err("the raw bytes could not be put");
    assert_eq!(store.keys("ops", ""), [""; 0]);

    let copy = ops
        .quarantine_copy(
            &entry(b""),
            0,
            &Location::s3("lake", "t/data/a.parquet"),
            Bytes::from_static(b"PAR1"),
        )
        .await
        .expect("it copies");
    let key = ops.quarantine(&entry(b"\xff\0raw")).await.expect("it is put aside");
    assert_eq!(key, "quarantine/2024-01-01/malformed/m_2f1.json");
    assert_eq!(copy, "quarantine/2024-01-01/malformed/m_2f1/0-a.parquet");
    let written: serde_json::Value =
        serde_json::from_slice(&ops.read(&key).await.expect("it reads")).expect("JSON");
    assert_eq!((&written["id"], &written["details"]["rule"]), (&json!("m/1"), &json!("why")));
    let raw = ops.read(written["raw"].as_str().expect("a key")).await.expect("it reads");
    assert_eq!(raw, Bytes::from_static(b"\xff\0raw"));
}

#[tokio::test]
async fn the_heartbeat_reads_back_and_is_none_before_the_first() {
    let (store, ops) = ops("");
    let pipeline = source().pipeline;
    assert_eq!(ops.heartbeat(&pipeline).await.expect("it reads"), None);
    let suspect = Suspect { crowd: 1, alone: [Uuid::from_u128(6)].into(), since_ms: 4 };
    let mut beat = Heartbeat {
        round: Uuid::from_u128(7),
        started_ms: 5,
        ends_by_ms: 9,
        holds: vec!["m".to_owned()],
        ended: false,
        suspects: [("m".to_owned(), suspect)].into(),
    };
    for ended in [false, true] {
        beat.ended = ended;
        ops.put_heartbeat(&pipeline, 0, &beat).await.expect("it stores");
        assert_eq!(ops.heartbeat(&pipeline).await.expect("it reads"), Some(beat.clone()));
    }
    assert_eq!(store.keys("ops", ""), ["heartbeat/demo.json"]);
    let newer = Heartbeat { started_ms: 6, ..beat.clone() };
    ops.put_heartbeat(&pipeline, 2, &newer).await.expect("it stores");
    assert_eq!(
        ops.heartbeat(&pipeline).await.expect("it reads"),
        Some(newer),
        "the newest of all committers"
    );
    assert_eq!(store.keys("ops", ""), ["heartbeat/demo.2.json", "heartbeat/demo.json"]);

    let before =
        br#"{"round":"00000000-0000-0000-0000-000000000007","started_ms":5,"holds":[],"ended":true}"#;
    let place = Location::s3("ops", "heartbeat/demo.2.json");
    store.put(&place, Bytes::from_static(before)).await.expect("it stores");
    assert!(ops.heartbeat(&pipeline).await.is_ok(), "a version before this one wrote it");

    let place = Location::s3("ops", "heartbeat/demo.json");
    store.put(&place, Bytes::from_static(b"{}")).await.expect("it stores");
    assert!(matches!(ops.heartbeat(&pipeline).await, Err(StoreError::Malformed { .. })));
}

#[tokio::test]
async fn the_register_keeps_its_first_entry() {
    let (store, ops) = ops("");
    let (table, branch, source) = (TableUuid(Uuid::from_u128(1)), Branch::main(), source());
    assert_eq!(ops.register(table, &branch, &source).await.expect("it reads"), None);
    for n in 1..=2 {
        ops.ensure_register(table, &branch, &source, &json!({ "n": n })).await.expect("it stores");
        let found = ops.register(table, &branch, &source).await.expect("it reads");
        assert_eq!(found, Some(json!({ "n": 1 })));
    }
    let keys = [
        format!("clusters/{table}/main/demo/clicks.v1.json"),
        format!("register/{table}/main/demo/local/clicks.v1.json"),
    ];
    assert_eq!(store.keys("ops", ""), keys);
    assert_eq!(store.count(Operation::Put), 2);
}

#[tokio::test]
async fn the_register_tells_under_which_names_of_clusters_it_holds_a_topic() {
    let (_, ops) = ops("");
    let (table, branch, source) = (TableUuid(Uuid::from_u128(1)), Branch::main(), source());
    assert_eq!(ops.clusters(table, &branch, &source).await.expect("it reads"), []);
    let renamed = Source { cluster: "renamed".try_into().expect("a name"), ..source.clone() };
    for source in [&source, &renamed] {
        ops.ensure_register(table, &branch, source, &json!({})).await.expect("it stores");
    }
    let clusters = [source.cluster.clone(), renamed.cluster.clone()];
    assert_eq!(ops.clusters(table, &branch, &source).await.expect("it reads"), clusters);
}

#[tokio::test]
async fn a_store_that_fails_is_not_an_empty_one() {
    let faults = Faults::new();
    let port = FaultyStore::new(Arc::new(FakeStore::new()), Arc::clone(&faults));
    let ops = OpsBucket::new(Arc::new(port), "ops", "");
    for failure in [Failure::Denied, Failure::Throttled, Failure::Unreachable, Failure::Rejected] {
        faults.clear();
        faults.outage(Call::Get, failure);
        assert!(ops.heartbeat(&source().pipeline).await.is_err(), "{failure:?}");
        assert!(
            ops.register(TableUuid(Uuid::nil()), &Branch::main(), &source()).await.is_err(),
            "{failure:?}"
        );
    }
}
