//! The settings as a whole: the full file, overrides, and what is refused.

use std::time::Duration;

use iceberg::spec::Transform;
use icefall_manifest::{ClusterName, TableName, Topic};

use super::*;

const FULL: &str = r#"
pipeline = "demo"

[kafka]
cluster = "local"
known_clusters = ["left", "b.eu"]

[catalog]
uri = "http://127.0.0.1:21181"
warehouse = "s3://lake"
sign = { name = "s3tables", region = "us-east-1" }
credentials = { access_key_id = "CATALOG", secret_access_key = "hush-catalog", session_token = "hush-token" }

[store]
endpoint = "http://127.0.0.1:21433"
region = "us-east-1"
path_style = true
credentials = { access_key_id = "STORE", secret_access_key = "hush-store" }

[ops]
bucket = "icefall-ops"
prefix = "demo"
endpoint = "http://127.0.0.1:21434"
region = "us-east-2"
path_style = true
credentials = { access_key_id = "OPS", secret_access_key = "hush-ops" }

[queue]
url = "http://127.0.0.1:14566/000000000000/icefall-commits"
endpoint = "http://127.0.0.1:14566"
region = "us-east-1"
credentials = { access_key_id = "QUEUE", secret_access_key = "hush-queue" }

[committer]
commit_interval = "20s"
linger = "500ms"
hold = "5s"
max_messages = 10
max_bytes = "1 MiB"

[[table]]
name = "analytics.clickstream"
partition_by = ["hour(event_time)", "event_type"]
properties = { "write.parquet.compression-codec" = "zstd" }
columns = [
  { name = "event_id", type = "string", required = true },
  { name = "event_type", type = "string", required = true },
  { name = "event_time", type = "timestamptz", required = true },
  { name = "tags", type = "map<string, struct<a: long, b?: string>>" },
]

[[table]]
name = "lake.orders"
branch = "staging"

[[route]]
topic = "clickstream"
table = "analytics.clickstream"

[[route]]
topic = "Orders.EU-West"
table = "lake.orders"
tombstones = "skip"
"#;

/// The least that can be used.
pub(crate) const LEAST: &str = r#"
pipeline = "demo"
[catalog]
uri = "https://catalog.example.com"
warehouse = "lake"
[ops]
bucket = "icefall-ops"
[queue]
url = "https://sqs.eu-central-1.amazonaws.com/000000000000/icefall-commits"
[[route]]
topic = "orders"
table = "shop.orders"
"#;

pub(crate) fn parse(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse(text, &Environment::from_iter([("AWS_REGION", "eu-central-1")]))
}

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::parse(text, &variables.iter().copied().chain([("AWS_REGION", "eu-central-1")]).collect())
}

/// The one fault that `text` has, as a line.
pub(crate) fn fault(text: &str) -> String {
    let error = parse(text).expect_err("a fault");
    assert_eq!(error.faults().len(), 1, "{error}");
    error.faults()[0].to_string()
}

#[test]
fn the_full_file_means_what_it_says() {
    let settings = Settings::parse(FULL, &Environment::default()).expect("sound settings");
    assert_eq!(settings.cluster.as_ref().map(ClusterName::as_str), Some("local"));
    assert_eq!(settings.known_clusters.iter().map(ClusterName::as_str).collect::<Vec<_>>(), ["left", "b.eu"]);
    assert_eq!(settings.catalog.uri.as_str(), "http://127.0.0.1:21181");
    let SignInSettings::SigV4(sign, _) = &settings.catalog.sign_in else { panic!("it signs") };
    assert_eq!(sign.name, "s3tables");
    assert!(settings.store.path_style);
    assert_eq!((settings.ops.prefix.as_str(), settings.ops.store.region.as_str()), ("demo", "us-east-2"));
    assert_eq!(settings.committer.commit_interval, Duration::from_secs(20));
    assert_eq!(settings.committer.linger, Duration::from_millis(500));
    assert_eq!(settings.committer.hold, Duration::from_secs(5));
    assert_eq!(settings.committer.max_messages.get(), 10);
    assert_eq!(settings.committer.max_bytes.bytes(), 1 << 20);
    assert_eq!(settings.dead_letters.to_string(), "icefall.dead_letters");
}

#[test]
fn each_part_has_its_own_keys() {
    let settings = Settings::parse(FULL, &Environment::default()).expect("sound settings");
    let SignInSettings::SigV4(_, catalog) = settings.catalog.sign_in else { panic!("it signs") };
    let ids =
        [catalog, settings.store.credentials, settings.ops.store.credentials, settings.queue.credentials]
            .map(|credentials| match credentials {
                CredentialsSettings::Static(keys) => keys.access_key_id,
                _ => String::new(),
            });
    assert_eq!(ids, ["CATALOG", "STORE", "OPS", "QUEUE"]);
}

#[test]
fn routes_and_tables_are_found_by_name() {
    let settings = Settings::parse(FULL, &Environment::default()).expect("sound settings");
    let route = settings.route(&Topic::try_from("Orders.EU-West").expect("a topic")).expect("routed");
    assert_eq!((route.table.to_string().as_str(), route.tombstones), ("lake.orders", Tombstones::Skip));
    assert_eq!(settings.branch(&route.table).as_str(), "staging");
    assert!(settings.table(&route.table).expect("declared").schema().is_none());
    assert!(settings.route(&Topic::try_from("other").expect("a topic")).is_none());
    let other = TableName::try_from("lake.other").expect("a table");
    assert!(settings.table(&other).is_none());
    assert_eq!(settings.branch(&other).as_str(), "main");
}

#[test]
fn a_declared_table_has_a_schema_and_a_partition_spec() {
    let settings = Settings::parse(FULL, &Environment::default()).expect("sound settings");
    let table = &settings.tables[0];
    let schema = table.schema().expect("columns are declared");
    assert_eq!(schema.field_id_by_name("event_id"), Some(1));
    assert_eq!(schema.field_id_by_name("tags"), Some(4));
    assert_eq!(schema.field_id_by_name("tags.value.b"), Some(8));
    assert!(schema.field_by_name("event_id").expect("a column").required);
    assert!(!schema.field_by_name("tags").expect("a column").required);
    let spec = table.partition_spec().expect("columns are declared");
    let fields: Vec<_> =
        spec.fields().iter().map(|field| (field.source_id, field.name.as_str(), field.transform)).collect();
    assert_eq!(fields, [(3, "event_time_hour", Transform::Hour), (2, "event_type", Transform::Identity)]);
}

#[test]
fn the_least_file_has_the_defaults() {
    let settings = parse(LEAST).expect("sound settings");
    assert_eq!(settings.catalog.sign_in, SignInSettings::Unsigned);
    assert_eq!(settings.store.credentials, CredentialsSettings::Default);
    assert_eq!(settings.network, NetworkSettings::default());
    assert_eq!(settings.store.region.as_str(), "eu-central-1");
    assert_eq!(settings.committer.commit_interval, Duration::from_secs(10));
    assert_eq!(settings.committer.max_bytes, ByteSize::mib(64));
    assert_eq!(settings.routes[0].tombstones, Tombstones::DeadLetter);
    assert!(settings.cluster.is_none() && settings.tables.is_empty());
}

#[test]
fn secrets_do_not_print() {
    let settings = Settings::parse(FULL, &Environment::default()).expect("sound settings");
    let printed = format!("{settings:?}{settings:#?}");
    assert!(printed.contains("STORE") && !printed.contains("hush"), "{printed}");
}

#[test]
fn secrets_are_in_no_fault() {
    let text = FULL.replace("\"hush-store\"", "[\"hush-store\"]").replace("127.0.0.1:21181", "me:hush@host");
    let error = parse(&text).expect_err("two faults");
    assert_eq!(error.faults().len(), 2, "{error}");
    assert!(!error.to_string().contains("hush"), "{error}");
}

#[test]
fn every_scalar_can_be_overridden_and_is_read_as_its_key_expects() {
    let settings = parse_with(
        FULL,
        &[
            ("ICEFALL__CATALOG__URI", "https://other.example.com"),
            ("ICEFALL__STORE__PATH_STYLE", "false"),
            ("ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY", "12345"),
            ("ICEFALL__COMMITTER__MAX_MESSAGES", "7"),
            ("ICEFALL__ROUTE__1__TABLE", "lake.clickstream"),
            ("ICEFALL__TABLE__0__COLUMNS__0__REQUIRED", "false"),
            ("ICEFALL__TABLE__0__PARTITION_BY__1", "event_id"),
            ("ICEFALL__DEAD_LETTERS__TABLE", "lake.letters"),
        ],
    )
    .expect("sound settings");
    assert_eq!(settings.catalog.uri.as_str(), "https://other.example.com");
    assert!(!settings.store.path_style);
    assert_eq!(settings.committer.max_messages.get(), 7);
    assert_eq!(settings.routes[1].table.to_string(), "lake.clickstream");
    assert_eq!(settings.tables[0].partition_by[1].column, "event_id");
    assert_eq!(settings.dead_letters.to_string(), "lake.letters");
    let CredentialsSettings::Static(keys) = settings.store.credentials else { panic!("static keys") };
    assert_eq!((keys.access_key_id.as_str(), keys.secret_access_key.expose()), ("STORE", "12345"));
}

#[test]
fn overrides_that_fit_nowhere_or_are_of_the_wrong_type_are_faults_naming_the_variable() {
    let variables = [
        ("ICEFALL__CATALOG__URL", "https://catalog.example.com"),
        ("ICEFALL__COMMITTER__MAX_MESSAGES", "many"),
        ("ICEFALL__ROUTE__7__TABLE", "a.b"),
        ("ICEFALL__STORE__PATH_STYLE", "yes"),
        ("ICEFALL_SOMETHING_ELSE", "is none of ours"),
    ];
    let error = parse_with(LEAST, &variables).expect_err("four faults");
    let keys: Vec<_> = error.faults().iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["catalog.url", "committer.max_messages", "route[7].table", "store.path_style"]);
    for (variable, _) in &variables[..4] {
        assert!(error.to_string().contains(&format!("(set by {variable})")), "{error}");
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let text = r#"
        pipelines = "demo"
        [catalog]
        uri = "catalog"
        credentials = { access_key_id = "A" }
        [committer]
        linger = "5"
        hold = "1s"
        max_bytes = "64 MB"
        [[route]]
        topic = "a b"
        tombstones = "drop"
    "#;
    let error = Settings::parse(text, &Environment::default()).expect_err("many faults");
    let keys: Vec<_> = error.faults().iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "catalog.credentials",
            "catalog.credentials.secret_access_key",
            "catalog.uri",
            "catalog.warehouse",
            "committer.hold",
            "committer.linger",
            "committer.max_bytes",
            "ops.bucket",
            "ops.region",
            "pipeline",
            "pipelines",
            "queue.region",
            "queue.url",
            "route[0].table",
            "route[0].tombstones",
            "route[0].topic",
            "store.region",
        ],
        "{error}"
    );
    assert!(
        error.to_string().starts_with("the settings have 17 faults:\n  catalog.credentials: "),
        "{error}"
    );
}

#[test]
fn names_with_hyphens_are_refused_with_a_suggestion() {
    let line = fault(&LEAST.replace("shop.orders", "Orders.EU-West"));
    assert!(line.starts_with("route[0].table: "), "{line}");
    assert!(line.ends_with("write orders.eu_west, or <namespace>.orders_eu_west"), "{line}");
    let line =
        fault(&LEAST.replace("table = \"shop.orders\"", "").replace("\"orders\"", "\"Orders.EU-West\""));
    assert!(line.ends_with("missing; name the topic's table, such as <namespace>.orders_eu_west"), "{line}");
}

#[test]
fn a_topic_goes_to_one_table_and_a_table_may_take_several_topics() {
    let second = "[[route]]\ntopic = 'TOPIC'\ntable = 'shop.orders'\n";
    assert!(parse(&format!("{LEAST}{}", second.replace("TOPIC", "returns"))).is_ok());
    let line = fault(&format!("{LEAST}{}", second.replace("TOPIC", "orders")));
    assert_eq!(line, "route[1].topic: orders is routed by route[0].topic already; a topic goes to one table");
}

#[test]
fn names_are_held_against_each_other_whatever_else_is_wrong() {
    let text = format!("{LEAST}[[route]]\ntopic = 'orders'\ntable = 'shop.orders'\ntombstones = 'drop'\n");
    let error = parse(&text).expect_err("two faults");
    let keys: Vec<_> = error.faults().iter().map(|fault| fault.key.as_str()).collect();
    assert_eq!(keys, ["route[1].tombstones", "route[1].topic"]);
    let error = parse(&partitioned("'hour(ts)', 'hour(when)', 'l'")).expect_err("three faults");
    assert_eq!(error.faults().len(), 3, "{error}");
}

#[test]
fn tables_are_declared_once_and_dead_letters_stay_apart() {
    let table = "[[table]]\nname = 'shop.orders'\n";
    assert_eq!(
        fault(&format!("{LEAST}{table}{table}")),
        "table[1].name: shop.orders is declared by table[0].name already; declare it once"
    );
    let line = fault(&LEAST.replace("shop.orders", "icefall.dead_letters"));
    assert!(line.starts_with("route[0].table: icefall.dead_letters is the table of dead letters"), "{line}");
    let line = fault(&format!("{LEAST}[dead_letters]\ntable = 'Dead-Letters'\n"));
    assert!(
        line.starts_with("dead_letters.table: ") && line.ends_with("write <namespace>.dead_letters"),
        "{line}"
    );
}

fn partitioned(by: &str) -> String {
    format!(
        "{LEAST}[[table]]\nname = 'shop.orders'\npartition_by = [{by}]\n\
         columns = [{{ name = 'ts', type = 'long' }}, {{ name = 'at', type = 'timestamp' }}, {{ name = 'l', type = 'list<long>' }}, {{ name = 's', type = 'struct<n: int, d: date, in: struct<b: binary>>' }}]\n"
    )
}

#[test]
fn a_partition_field_that_cannot_be_honoured_refuses_the_settings() {
    assert!(parse(&partitioned("'hour(at)', 'ts'")).is_ok());
    let all = "'year(at)', 'void(at)', 'bucket(16, ts)', 'truncate(10, ts)', 's.n', 'day(s.d)', 'bucket(4, s.in.b)'";
    let settings = parse(&partitioned(all)).expect("all of them");
    let spec = settings.tables[0].partition_spec().expect("columns are declared");
    let fields: Vec<_> = spec.fields().iter().map(|field| (field.source_id, field.name.as_str())).collect();
    let expected = [
        (2, "at_year"),
        (2, "at_null"),
        (1, "ts_bucket"),
        (1, "ts_trunc"),
        (6, "s.n"),
        (7, "s.d_day"),
        (9, "s.in.b_bucket"),
    ];
    assert_eq!(fields, expected);
    for (by, problem) in [
        ("'hour(ts)'", "table[0].partition_by[0]: hour(ts) needs a column of type timestamp or timestamptz"),
        (
            "'day(ts)'",
            "table[0].partition_by[0]: day(ts) needs a column of type date, timestamp or timestamptz",
        ),
        ("'weekday(at)'", "table[0].partition_by[0]: \"weekday(at)\" is no partition field"),
        ("'l.element'", "table[0].partition_by[0]: \"l.element\" is no declared column"),
        ("'s'", "table[0].partition_by[0]: s is no column of a primitive type"),
        ("'hour(when)'", "table[0].partition_by[0]: \"when\" is no declared column; there are ts, at, l, s"),
        ("'l'", "table[0].partition_by[0]: l is no column of a primitive type"),
        ("'hour(at'", "table[0].partition_by[0]: \"hour(at\" lacks its closing bracket"),
        ("'hour(at)', 'hour(at)'", "table[0].partition_by[1]: "),
    ] {
        let line = fault(&partitioned(by));
        assert!(line.starts_with(problem), "{line}");
    }
}

#[test]
fn what_would_be_ignored_is_refused() {
    let line = fault(&format!("{LEAST}[[table]]\nname = 'a.b'\npartition_by = ['c']\n"));
    assert!(line.starts_with("table[0].partition_by: is used only when Icefall makes the table"), "{line}");
    let line = fault(&format!("{LEAST}[[table]]\nname = 'a.b'\nproperties = {{ 'a.b' = 'c' }}\n"));
    assert!(line.starts_with("table[0].properties: is used only when"), "{line}");
    let line = fault(
        &LEAST.replace("[ops]", "credentials = { access_key_id = 'A', secret_access_key = 'B' }\n[ops]"),
    );
    assert!(line.starts_with("catalog.credentials: are used only to sign"), "{line}");
}

fn declared(columns: &str, properties: &str) -> String {
    format!("{LEAST}[[table]]\nname = 'a.b'\ncolumns = [{columns}]\nproperties = {{ {properties} }}\n")
}

#[test]
fn columns_are_checked() {
    for (columns, problem) in [
        ("", "table[0].columns: is empty"),
        ("{ name = 'a', type = 'int' }, { name = 'A', type = 'int' }", "table[0].columns: has \"A\" twice"),
        ("{ name = 'a.b', type = 'int' }", "table[0].columns[0].name: holds a dot"),
        ("{ name = 'a', type = 'integer' }", "table[0].columns[0].type: \"integer\" is no type"),
        ("{ name = 'a' }", "table[0].columns[0].type: missing; say what the column holds"),
        (
            "{ name = 'a', type = 'timestamp_ns' }",
            "table[0].columns[0].type: timestamp_ns needs format version 3",
        ),
    ] {
        let line = fault(&declared(columns, ""));
        assert!(line.starts_with(problem), "{line}");
    }
    assert!(parse(&declared("{ name = 'a', type = 'list<timestamp_ns>' }", "format-version = '3'")).is_ok());
}

#[test]
fn properties_are_strings_and_not_icefalls_own() {
    let column = "{ name = 'a', type = 'int' }";
    for (properties, problem) in [
        ("format-version = '1'", "table[0].properties.format-version: must be \"2\" or \"3\""),
        ("write.x = 'y'", "table[0].properties.write: must be a string, and is a table"),
        ("'icefall.ledger.main' = 'x'", "table[0].properties.icefall.ledger.main: is Icefall's own"),
    ] {
        let line = fault(&declared(column, properties));
        assert!(line.starts_with(problem), "{line}");
    }
}
