//! Rows of partitioned tables.

use std::collections::BTreeMap;

use iceberg::spec::Transform;
use icefall_catalog::{Catalog, NewTable};
use icefall_settings::{Environment, Settings};

use crate::bench::{Bench, SETTINGS, event, ident, record};

fn settings(columns: &str) -> String {
    let table = format!(
        r#"table = [{{ name = "shop.days", partition_by = ["day(ts)", "bucket(4, n)"], columns = [{columns}] }}]"#
    );
    SETTINGS
        .replace("route = [", &format!("{table}\nroute = [ {{ topic = \"days\", table = \"shop.days\" }},"))
}

/// Case T40: a table partitioned by `day(ts)`, a record without `ts`, one whose `ts` is a number of
/// milliseconds. The partitioning is never dropped, and no record lands in a wrong day.
#[tokio::test]
async fn t40_a_declared_partitioning_is_honoured_or_refused() {
    let n = r#"{ name = "n", type = "long", required = true }"#;
    let refused = Settings::parse(&settings(n), &Environment::default()).expect_err("there is no ts");
    assert!(refused.to_string().contains("\"ts\" is no declared column"), "{refused}");

    let settings = settings(&format!(r#"{n}, {{ name = "ts", type = "timestamptz" }}"#));
    let declared =
        Settings::parse(&settings, &Environment::default()).expect("good settings").tables.remove(0);
    let bench = Bench::with(&settings).await;
    let table = NewTable {
        schema: declared.schema().expect("columns").clone(),
        partition_spec: declared.partition_spec().expect("columns").clone(),
        properties: BTreeMap::new(),
        location: None,
    };
    bench.catalog.create_table(&ident("days"), &table).await.expect("a table");
    let metadata = bench.catalog.peek(&ident("days")).expect("the table");
    let transforms: Vec<_> =
        metadata.default_partition_spec().fields().iter().map(|field| field.transform).collect();
    assert_eq!(transforms, [Transform::Day, Transform::Bucket(4)]);

    let records = [
        record("days", 0, 1, Some(r#"{"n":34}"#)),
        record("days", 0, 2, Some(r#"{"n":34,"ts":"2024-05-01T23:59:59.999999Z"}"#)),
        record("days", 0, 3, Some(r#"{"n":34,"ts":1714558830000}"#)),
        record("days", 0, 4, Some(r#"{"n":34,"ts":"1969-12-30T23:59:59.5Z"}"#)),
        record("days", 0, 5, Some(r#"{"n":34,"ts":null}"#)),
    ];
    let report = bench.write(&event(&records)).await.expect("all is well");
    assert_eq!((report.rows, report.dead_letters, report.files), (4, 1, 3));
    let manifests = bench.manifests();
    let [manifest] = manifests.as_slice() else { panic!("one batch manifest") };
    assert_eq!(manifest.spec_id.0, metadata.default_partition_spec_id());
    let folders: Vec<_> = manifest
        .files
        .iter()
        .map(|file| {
            let offsets: Vec<_> = file.records.iter().map(|record| record.offset.position()).collect();
            let day = file.data_file.partition.first().cloned().flatten().map(|day| day.0);
            let folder = file.data_file.path.split("/data/").nth(1).and_then(|path| path.rsplit_once('/'));
            (folder.map(|(folder, _)| folder), day, offsets)
        })
        .collect();
    // The bucket is that of the specification's example: the hash of 34 is 2017239379.
    let day = |day: i32| Some(day.to_le_bytes().to_vec());
    let expected = [
        (Some("ts_day=null/n_bucket=3"), None, vec![1, 5]),
        (Some("ts_day=2024-05-01/n_bucket=3"), day(19_844), vec![2]),
        (Some("ts_day=1969-12-30/n_bucket=3"), day(-2), vec![4]),
    ];
    assert_eq!(folders, expected);
    let letters = bench.dead_letters(manifest);
    let classes: Vec<_> =
        letters.iter().map(|letter| (letter.offset.position(), letter.error_class.as_str())).collect();
    assert_eq!(classes, [(3, "wrong-type")]);
}
