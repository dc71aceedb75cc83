//! Merged manifests as another engine's own reader sees them: which deletes apply to a file, and which ids its rows have,
//! rests on numbers that every entry has to keep.

use icefall_tests::{Pipeline, Question, Reader, Row, click, event, manifests, other_engine};
use serde_json::{Value, json};

/// Records of an append.
const RECORDS: u64 = 3;
/// Appends before the other engine comes, and all of them.
const ROUNDS: [u64; 2] = [4, 16];

fn declared(version: u32) -> String {
    format!(
        "[[table]]\nname = \"NAMESPACE.clicks\"\n\
         properties = {{ \"format-version\" = \"{version}\", \"commit.manifest.min-count-to-merge\" = \"100\" }}\n\
         columns = [{{ name = \"event_id\", type = \"string\" }}, {{ name = \"user_id\", type = \"long\" }}]\n\
         [[route]]\ntopic = \"clicks\"\ntable = \"NAMESPACE.clicks\"\n"
    )
}

async fn append(pipeline: &Pipeline, rounds: std::ops::Range<u64>) {
    for round in rounds {
        let first = round * RECORDS;
        let values: Vec<_> = (first..first + RECORDS).map(click).collect();
        pipeline.write(&event(0, first, &values)).await.expect("it is taken in");
        pipeline.drain().await.expect("it is settled");
    }
}

/// The table's rows by user id, with their row ids where they have some.
fn rows(pipeline: &Pipeline, row_ids: bool) -> Vec<Row> {
    let table = format!("{}.clicks", pipeline.namespace().to_url_string());
    let mut rows =
        Reader::Java.ask(pipeline.stack(), &[Question { row_ids, ..Question::all(&table) }]).concat();
    rows.sort_unstable_by_key(user);
    rows
}

fn user(row: &Row) -> Option<u64> {
    row.get("user_id").and_then(Value::as_u64)
}

/// A table of two specs, of which another engine has deleted rows by position (in format 3 by a deletion vector) and by
/// equality: it reads equal before and after its manifests were merged, row ids included.
#[tokio::test]
async fn rows_deletes_and_row_ids_are_the_same_after_manifests_were_merged() {
    for version in [2, 3] {
        let pipeline = super::pipeline(&format!("second-merging-{version}")).await;
        let pipeline = pipeline.declaring(&declared(version));
        pipeline.drain().await.expect("the tables are made");
        let [few, all] = ROUNDS;
        append(&pipeline, 0..few).await;
        let table = format!("{}.clicks", pipeline.namespace().to_url_string());
        let merging = json!({ "commit.manifest.min-count-to-merge": "4" });
        other_engine(pipeline.stack(), &table, 1, ("user_id", 5), "user_id", &merging);

        let before = rows(&pipeline, version == 3);
        let users: Vec<_> = before.iter().filter_map(user).collect();
        assert_eq!(users, [0, 2, 3, 4, 6, 7, 8, 9, 10, 11], "format {version}");
        assert!(version == 2 || before.iter().all(|row| row.get("_row_id").is_some_and(Value::is_u64)));
        append(&pipeline, few..all).await;
        let after = rows(&pipeline, version == 3);
        assert_eq!(after.get(..before.len()), Some(before.as_slice()), "format {version}");
        let users: Vec<_> = after.iter().skip(before.len()).filter_map(user).collect();
        assert_eq!(users, (few * RECORDS..all * RECORDS).collect::<Vec<_>>(), "format {version}");

        let manifests = manifests(&pipeline.parts().await, &pipeline.table()).await;
        let merged = manifests.iter().filter(|one| one.existing_files_count > Some(0));
        let specs: std::collections::HashSet<_> = manifests.iter().map(|one| one.partition_spec_id).collect();
        assert!(merged.count() > 0 && specs.len() == 2, "format {version}: {manifests:?}");
    }
}
