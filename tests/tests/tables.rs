//! Tables of every shape, read by `PyIceberg` and `DuckDB`: what others see is what was produced.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use icefall_tests::{Pipeline, ask, event};
use serde_json::{Value, json};

const COLUMNS: &str = r#"columns = [
  { name = "id", type = "long", required = true },
  { name = "at", type = "timestamptz" },
  { name = "local", type = "timestamp" },
  { name = "d", type = "date" },
  { name = "t", type = "time" },
  { name = "name", type = "string" },
  { name = "price", type = "decimal(12, 2)" },
  { name = "key", type = "uuid" },
  { name = "raw", type = "binary" },
  { name = "fix", type = "fixed(3)" },
  { name = "x", type = "double" },
  { name = "yes", type = "boolean" },
  { name = "page url", type = "string" },
  { name = "meta", type = "struct<k?: int, at?: timestamptz>" },
]"#;

/// Row `n`, around the epoch and below zero.
fn row(n: i64) -> Value {
    // The local store takes no other characters in the folders of a table bucket.
    let names = ["Sao-Paulo", "a.b_c", "Rome", "", "x1y2z3"];
    let moments = [
        "1969-12-30T23:59:59.5",
        "1969-12-31T00:00:00",
        "1970-01-01T00:00:00.000001",
        "1600-02-29T12:00:00",
        "2024-02-29T23:59:59.999999",
    ];
    let pick = |texts: [&'static str; 5], n: i64| texts[usize::try_from(n.rem_euclid(5)).expect("small")];
    if n % 7 == 6 {
        return json!({ "id": n });
    }
    json!({
        "id": n - 10,
        "at": format!("{}Z", pick(moments, n)),
        "local": pick(moments, n + 1),
        "d": &pick(moments, n + 2)[..10],
        "t": "22:31:08",
        "name": pick(names, n),
        "price": format!("{}.{:02}", n - 10, n),
        "key": format!("f79c3e09-677c-4bbd-a479-3f349cb785{n:02x}"),
        "raw": "AAEC",
        "fix": "AP8B",
        "x": 1.5,
        "yes": n % 2 == 0,
        "page url": pick(names, n + 1),
        "meta": if n % 3 == 0 { Value::Null } else { json!({ "k": n - 10, "at": format!("{}Z", pick(moments, n)) }) },
    })
}

fn id(row: &Value) -> i64 {
    row.get("id").and_then(Value::as_i64).expect("an id")
}

/// The ids of `rows` that hold, sorted.
fn ids(rows: &[Value], holds: impl Fn(&Value) -> bool) -> Vec<i64> {
    let mut ids: Vec<i64> = rows.iter().filter(|row| holds(row)).map(id).collect();
    ids.sort_unstable();
    ids
}

fn text<'a>(row: &'a Value, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str)
}

/// Partitioned in every way; readers that skip files by their partitions find each row.
#[tokio::test]
async fn partitions_of_every_kind_are_read_by_others() {
    let rows: Vec<Value> = (0..21).map(row).collect();
    let values: Vec<String> = rows.iter().map(Value::to_string).collect();
    let filters = [
        ("at < '1970-01-01T00:00:00+00:00'", ids(&rows, |row| text(row, "at").is_some_and(|at| at < "197"))),
        (
            "at >= '1969-12-31T00:00:00+00:00'",
            ids(&rows, |row| text(row, "at").is_some_and(|at| at >= "1969-12-31")),
        ),
        ("d = '1969-12-30'", ids(&rows, |row| text(row, "d") == Some("1969-12-30"))),
        ("name = 'Sao-Paulo'", ids(&rows, |row| text(row, "name") == Some("Sao-Paulo"))),
        ("id = -3", ids(&rows, |row| id(row) == -3)),
        ("name is null", ids(&rows, |row| text(row, "name").is_none())),
    ];
    for (case, partition_by) in [
        r#"["day(at)", "bucket(4, id)", "truncate(2, name)", "month(d)", "meta.k"]"#,
        r#"["year(at)", "truncate(10, id)", "price", "name", "bucket(3, key)"]"#,
        r#"["hour(at)", "raw", "fix", "t", "x", "yes", "truncate(1, raw)"]"#,
        r#"["at", "local", "d", "bucket(5, raw)", "bucket(5, price)", "day(meta.at)", "void(name)"]"#,
        r#"["truncate(5, price)", "month(local)", "bucket(7, name)", "bucket(7, at)", "year(d)"]"#,
    ]
    .into_iter()
    .enumerate()
    {
        let pipeline = Pipeline::new(&format!("parts{case}"), 30).await;
        let pipeline = pipeline.with_columns(&format!("partition_by = {partition_by}\n{COLUMNS}"));
        pipeline.drain().await.expect("the table is made");
        let report = pipeline.write(&event(0, 0, &values)).await.expect("it is written");
        assert_eq!((report.rows, report.dead_letters), (21, 0));
        pipeline.drain().await.expect("it is committed");
        let asked: Vec<&str> = filters.iter().map(|(filter, _)| *filter).collect();
        for (reader, answers) in ask(&pipeline.table(), "id", &asked, None) {
            let expected: Vec<_> = std::iter::once(ids(&rows, |_| true))
                .chain(filters.iter().map(|(_, ids)| ids.clone()))
                .collect();
            assert_eq!(answers, expected, "{reader} of {partition_by}");
        }
    }
}

/// Another engine deletes rows between our appends, whose manifests are merged: each reader sees what is
/// left of each append, before and after.
#[tokio::test]
async fn merged_manifests_and_deletes_of_another_engine_are_read_by_others() {
    let pipeline = Pipeline::new("merged", 30).await;
    let pipeline = pipeline.with_columns(
        r#"properties = { "commit.manifest.min-count-to-merge" = "3", "write.delete.mode" = "merge-on-read" }
columns = [{ name = "id", type = "long", required = true }, { name = "name", type = "string" }]"#,
    );
    pipeline.drain().await.expect("the table is made");
    let mut expected: Vec<i64> = Vec::new();
    for append in 0..9_i64 {
        let values: Vec<String> =
            (0..4).map(|n| json!({ "id": append * 4 + n, "name": "x" }).to_string()).collect();
        let first = u64::try_from(append * 4).expect("small");
        pipeline.write(&event(0, first, &values)).await.expect("it is written");
        pipeline.drain().await.expect("it is committed");
        expected.extend(append * 4..append * 4 + 4);
        let table = pipeline.table();
        let delete = (append == 2 || append == 5).then(|| {
            format!("DELETE FROM lake.{}.{} WHERE id % 4 = 1", table.namespace().join("."), table.name())
        });
        if delete.is_some() {
            expected.retain(|id| id % 4 != 1);
        }
        for (reader, answers) in ask(&table, "id", &[], delete.as_deref()) {
            assert_eq!(answers, [expected.clone()], "{reader} after append {append}");
        }
    }
}
