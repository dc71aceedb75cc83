//! Credentials that a catalog hands out, through the real adapters: a catalog that lends keys for a quarter of
//! an hour, and a store that knows which are good. Both go by the test's clock.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_credential_types::Credentials;
use bytes::Bytes;
use iceberg::TableIdent;
use icefall_aws::{CachedCredentials, CallLimits, Network, http_client};
use icefall_catalog::{Catalog, CatalogConfig, Limits, RestCatalog, SignIn, Snapshots};
use icefall_clock::{Clock, Timestamp};
use icefall_store::{Location, ObjectStore, S3Config, S3Store, StoreError};
use icefall_testkit::{FakeClock, Reply, Request, ScriptedServer, SeededEntropy};
use icefall_vended::{VendedCatalog, VendedStore, vended};
use serde_json::{Value, json};

const QUARTER_HOUR: Duration = Duration::from_mins(15);
const LIMITS: CallLimits = CallLimits {
    attempts: 2,
    backoff: Duration::from_millis(1),
    connect: Duration::from_millis(500),
    attempt: Duration::from_millis(500),
};

/// The keys that were lent, and until when they are good.
#[derive(Debug, Default)]
struct Lender {
    keys: BTreeMap<String, Timestamp>,
    /// The catalog answers nothing.
    is_away: bool,
    /// Another prefix than the table's location.
    prefix: Option<&'static str>,
}

struct World {
    clock: Arc<FakeClock>,
    lender: Arc<Mutex<Lender>>,
    catalog_server: ScriptedServer,
    store_server: ScriptedServer,
    catalog: VendedCatalog,
    store: VendedStore,
}

fn metadata(name: &str) -> Value {
    json!({
        "format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": format!("s3://lake/shop/{name}"), "last-sequence-number": 0,
        "last-updated-ms": 1_704_067_200_000_i64, "last-column-id": 1, "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]}],
        "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0, "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0, "properties": {},
    })
}

/// Lends a new key with every table.
fn lend(request: &Request, lender: &Mutex<Lender>, clock: &FakeClock) -> Reply {
    let path = request.line().split(' ').nth(1).expect("a path").split('?').next().expect("a path");
    if path.ends_with("/v1/config") {
        return Reply::json(200, "{}");
    }
    let mut lender = lender.lock().expect("the test goes on");
    if lender.is_away {
        return Reply::json(404, r#"{"error":{"message":"away","type":"NoSuchTableException","code":404}}"#);
    }
    let name = path.rsplit('/').next().expect("a table");
    let (key, end) = (format!("ASIA{}{name}", lender.keys.len()), clock.now().plus(QUARTER_HOUR));
    lender.keys.insert(key.clone(), end);
    let config = json!({
        "s3.access-key-id": key, "s3.secret-access-key": "lent", "s3.session-token": "token",
        "s3.session-token-expires-at-ms": end.unix_ms().to_string(),
    });
    let prefix = lender.prefix.map_or_else(|| format!("s3://lake/shop/{name}"), str::to_owned);
    let body =
        json!({"metadata": metadata(name), "storage-credentials": [{"prefix": prefix, "config": config}]});
    Reply::json(200, &body.to_string())
}

/// Takes lent keys while they are good, and the store's own always.
fn admit(request: &Request, lender: &Mutex<Lender>, clock: &FakeClock) -> Reply {
    let error = |status, code: &str| Reply::xml(status, &format!("<Error><Code>{code}</Code></Error>"));
    match (key_of(request).as_str(), lender.lock().expect("the test goes on")) {
        ("AKIDOWN", _) => Reply::empty(200),
        (key, lender) => match lender.keys.get(key) {
            None => error(403, "InvalidAccessKeyId"),
            Some(end) if clock.now() < *end => Reply::empty(200),
            Some(_) => error(400, "ExpiredToken"),
        },
    }
}

fn key_of(request: &Request) -> String {
    let authorization = request.header("authorization").expect("it is signed");
    let scope = authorization.split("Credential=").nth(1).expect("a credential");
    scope.split('/').next().expect("a key").to_owned()
}

impl World {
    async fn new() -> Self {
        let (clock, lender) = (Arc::new(FakeClock::default()), Arc::<Mutex<Lender>>::default());
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        let (lends, admits) =
            ((Arc::clone(&lender), Arc::clone(&clock)), (Arc::clone(&lender), Arc::clone(&clock)));
        let catalog_server = ScriptedServer::deciding(move |request| lend(request, &lends.0, &lends.1)).await;
        let store_server =
            ScriptedServer::deciding(move |request| admit(request, &admits.0, &admits.1)).await;
        let config = CatalogConfig {
            uri: catalog_server.url(),
            warehouse: "lake".to_owned(),
            sign_in: SignIn::Unsigned,
            vended_credentials: true,
            network: Network::default(),
            limits: Limits::default(),
        };
        let catalog = RestCatalog::new(config, Arc::clone(&time), Arc::new(SeededEntropy::new(1)));
        let http = http_client();
        let endpoint = store_server.url();
        let make = move |credentials| {
            let config = S3Config {
                endpoint: Some(endpoint.clone()),
                region: "us-east-1".to_owned(),
                path_style: true,
                credentials,
            };
            Arc::new(S3Store::with_limits(config, http.clone(), LIMITS)) as Arc<dyn ObjectStore>
        };
        let own = Credentials::new("AKIDOWN", "own", None, None, "test");
        let own = make(CachedCredentials::new(own, Arc::clone(&time)));
        let (catalog, store) = vended(Arc::new(catalog.expect("a catalog")), own, Box::new(make), time);
        Self { clock, lender, catalog_server, store_server, catalog, store }
    }

    async fn load(&self, name: &str) {
        let table = TableIdent::from_strs(["shop", name]).expect("a name");
        self.catalog.load_table(&table, Snapshots::Refs).await.expect("it is there");
    }

    async fn put(&self, uri: &str) -> Result<(), StoreError> {
        self.store.put(&Location::parse(uri).expect("a location"), Bytes::from_static(b"PAR1")).await
    }

    /// The keys that reached the store, in order.
    fn keys(&self) -> Vec<String> {
        self.store_server.requests().iter().map(key_of).collect()
    }

    /// How often the catalog was asked for a table.
    fn loads(&self) -> usize {
        let requests = self.catalog_server.requests();
        requests.iter().filter(|request| request.line().contains("/tables/")).count()
    }
}

const FILE: &str = "s3://lake/shop/orders/data/a.parquet";

/// Cases T17 and S20: keys are good for 15 minutes, an upload starts at minute 14:50, the process lives 2 h.
#[tokio::test]
async fn t17_s20_keys_are_renewed_ahead_and_no_upload_fails() {
    let world = World::new().await;
    world.load("orders").await;
    let began = world.clock.now();
    world.put(FILE).await.expect("fresh keys");
    world.clock.advance(Duration::from_secs(14 * 60 + 50));
    world.put(FILE).await.expect("at minute 14:50");
    assert_eq!(world.keys(), ["ASIA0orders", "ASIA1orders"], "renewed ahead, not after a refusal");
    while world.clock.now().since(began) < Duration::from_hours(2) {
        world.put(FILE).await.expect("all the time");
        world.clock.advance(Duration::from_secs(70));
    }
    let good = world.store_server.requests().len();
    assert!(good > 90 && world.loads() <= 14, "{good} uploads, {} loads", world.loads());
}

/// Case T17: keys that end on the way, before their time.
#[tokio::test]
async fn t17_a_refused_key_is_replaced_once() {
    let world = World::new().await;
    world.load("orders").await;
    world.put(FILE).await.expect("fresh keys");
    world.clock.advance(Duration::from_mins(2));
    world.lender.lock().expect("the test goes on").keys.insert("ASIA0orders".to_owned(), world.clock.now());
    world.put(FILE).await.expect("with newer keys");
    assert_eq!(world.keys(), ["ASIA0orders", "ASIA0orders", "ASIA1orders"]);

    world.clock.advance(Duration::from_mins(2));
    let lender = Arc::clone(&world.lender);
    lender.lock().expect("the test goes on").keys.clear();
    lender.lock().expect("the test goes on").is_away = true;
    let denied = world.put(FILE).await.expect_err("nobody lends another");
    assert!(matches!(denied, StoreError::Denied { .. }), "{denied:?}");
    assert_eq!(world.keys().len(), 4, "not tried again with the same");
}

#[tokio::test]
async fn keys_that_come_with_a_load_save_asking() {
    let world = World::new().await;
    for _ in 0..12 {
        world.load("orders").await;
        world.put(FILE).await.expect("fresh keys");
        world.clock.advance(Duration::from_mins(9));
    }
    assert_eq!(world.loads(), 12);
}

#[tokio::test]
async fn each_object_is_signed_for_with_the_keys_of_its_table() {
    let world = World::new().await;
    for name in ["orders", "orders_eu"] {
        world.load(name).await;
    }
    for uri in [
        FILE,
        "s3://lake/shop/orders_eu/metadata/m.avro",
        "s3://lake/shop/others/data/a.parquet",
        "s3a://lake/shop/orders/data/a.parquet",
    ] {
        world.put(uri).await.expect("admitted");
    }
    assert_eq!(world.keys(), ["ASIA0orders", "ASIA1orders_eu", "AKIDOWN", "AKIDOWN"]);
    // Keys for all of S3, as some catalogs hand them out, are still those of one table.
    let wide = World::new().await;
    wide.lender.lock().expect("the test goes on").prefix = Some("s3");
    for name in ["orders", "orders_eu"] {
        wide.load(name).await;
        wide.put(&format!("s3://lake/shop/{name}/data/a.parquet")).await.expect("admitted");
    }
    wide.put(FILE).await.expect("admitted");
    assert_eq!(wide.keys(), ["ASIA0orders", "ASIA1orders_eu", "ASIA0orders"]);
}

#[tokio::test]
async fn nothing_of_the_keys_prints() {
    let world = World::new().await;
    world.load("orders").await;
    let printed = format!("{:?} {:?}", world.catalog, world.store);
    assert!(
        printed.contains("orders") && !printed.contains("lent") && !printed.contains("ASIA"),
        "{printed}"
    );
}
