//! What readers that nobody here wrote find in our tables: DuckDB and PyIceberg, and Iceberg's own in Java where the
//! stack has it. The rows come the whole way, as JSON records through both functions.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

#[path = "readers/columns.rs"]
mod columns;
#[path = "readers/partitions.rs"]
mod partitions;

use futures::future::join_all;
use icefall_tests::{Pipeline, Question, Reader, Row, Stack, WhichCatalog, click, event, metadata};
use serde_json::{Value, json};

use columns::{COLUMNS, Column};

const VISIBILITY_S: u32 = 30;
/// Three row groups of a hundred.
const ROWS: i64 = 300;
const ROW_GROUP: i64 = 100;
/// Enough for each value of a partitioned table to come several times.
const PARTITIONED_ROWS: i64 = 24;
/// Values that are asked for of a column; none but the rows' own has more.
const MOST_ASKED: usize = 3;
/// The rows at both ends of the file and of each row group, where bounds are sharp, and some between.
const ASKED: [i64; 9] = [0, 1, 99, 100, 150, 199, 200, 298, 299];

/// A pipeline whose table has `columns`, with these rows committed to it as one file.
async fn with_rows(name: &str, columns: &[Column], rows: &[Value]) -> Pipeline {
    with_partitioned_rows(name, columns, "", rows).await
}

/// The same, with one file for each partition.
async fn with_partitioned_rows(
    name: &str,
    columns: &[Column],
    partition_by: &str,
    rows: &[Value],
) -> Pipeline {
    let columns = columns
        .iter()
        .map(|column| format!("  {{ name = \"{}\", type = \"{}\" }},\n", column.name, column.data_type))
        .collect::<Vec<_>>()
        .concat();
    let declared = format!(
        "[[table]]\nname = \"NAMESPACE.clicks\"\n\
         properties = {{ \"write.parquet.row-group-limit\" = \"{ROW_GROUP}\" }}\n\
         partition_by = [{partition_by}]\n\
         columns = [\n{columns}]\n\n[[route]]\ntopic = \"clicks\"\ntable = \"NAMESPACE.clicks\"\n"
    );
    let pipeline = Pipeline::new(name, VISIBILITY_S).await.declaring(&declared);
    pipeline.drain().await.expect("the tables are made");
    let values: Vec<_> = rows.iter().map(Value::to_string).collect();
    let report = pipeline.write(&event(0, 0, &values)).await.expect("it is taken in");
    assert_eq!((report.rows, report.dead_letters), (rows.len(), 0), "every value fits its column");
    pipeline.drain().await.expect("it is settled");
    pipeline
}

fn name_of(pipeline: &Pipeline) -> String {
    format!("{}.clicks", pipeline.namespace().to_url_string())
}

/// The row of number `n`: as the record gives it, and as readers must find it.
fn row(columns: &[Column], n: i64) -> (Value, Row) {
    let written = columns.iter().map(|column| (column.name.to_owned(), (column.value)(n).written));
    let read = columns.iter().map(|column| (column.name.to_owned(), (column.value)(n).read));
    (Value::Object(written.collect()), read.collect())
}

/// Asks `reader` for single rows of a file by each column, and for values beyond both ends of the column.
fn assert_every_point_is_found(reader: Reader, pipeline: &Pipeline, columns: &[Column]) {
    let table = name_of(pipeline);
    let question = |column: &Column, n| Question::equal(&table, column.name, (column.value)(n).read);
    let asked: Vec<(&Column, i64)> = columns
        .iter()
        .flat_map(|column| ASKED.into_iter().chain([-1, ROWS]).map(move |n| (column, n)))
        .collect();
    let questions: Vec<_> = asked.iter().map(|(column, n)| question(column, *n)).collect();
    let answers = reader.ask(pipeline.stack(), &questions);
    assert_eq!(answers.len(), asked.len());
    for ((column, n), found) in asked.into_iter().zip(answers) {
        let expected = if (0..ROWS).contains(&n) { vec![row(columns, n).1] } else { Vec::new() };
        assert_eq!(found, expected, "{reader:?} asked for {} of row {n}", column.name);
    }
}

/// T02: wrong bounds or statistics make readers skip rows. One file of three row groups with a column of each type;
/// every reader finds a row by every column.
#[tokio::test]
async fn t02_a_point_query_by_any_column_finds_its_row() {
    let rows: Vec<_> = (0..ROWS).map(|n| row(&COLUMNS, n).0).collect();
    let pipeline = with_rows("t02", &COLUMNS, &rows).await;
    for reader in Reader::all(pipeline.stack()) {
        assert_every_point_is_found(reader, &pipeline, &COLUMNS);
    }
}

/// Every type, nested ones and nulls among them, is read back as it was sent.
#[tokio::test]
async fn every_type_is_read_back_by_value() {
    let all: Vec<Column> = COLUMNS.into_iter().chain(columns::NESTED).collect();
    let nulls: Row = all.iter().map(|column| (column.name.to_owned(), Value::Null)).collect();
    let (records, mut expected): (Vec<_>, Vec<_>) = (0..3).map(|n| row(&all, n)).unzip();
    let records = [records, vec![json!({})]].concat();
    expected.push(nulls);
    let pipeline = with_rows("every-type", &all, &records).await;
    for reader in Reader::all(pipeline.stack()) {
        let found = reader.ask(pipeline.stack(), &[Question::all(&name_of(&pipeline))]);
        assert_eq!(found, std::slice::from_ref(&expected), "{reader:?}");
    }
}

/// "Rows are split by the table's partition spec as it is when they are written, whatever transforms it has."
#[tokio::test]
async fn rows_of_any_partitioning_are_found_where_readers_look_for_them() {
    let stack = Stack::from_env();
    let columns = partitions::columns();
    let (records, rows): (Vec<_>, Vec<_>) = (0..PARTITIONED_ROWS).map(|n| row(&columns, n)).unzip();
    // Folders with percent signs are for ordinary buckets alone.
    let encoded = partitions::ENCODED.into_iter().filter(|_| stack.which == WhichCatalog::Second);
    let all = partitions::NOT_FOR_DUCKDB.into_iter().chain(partitions::PARTITIONINGS).chain(encoded);
    let tables = join_all(all.map(async |partition_by| {
        let pipeline = with_partitioned_rows("partitioned", &columns, partition_by, &records).await;
        (partition_by, name_of(&pipeline))
    }));
    let tables = tables.await;
    for reader in Reader::all(&stack) {
        let is_for_it = |by: &str| reader != Reader::DuckDb || !partitions::NOT_FOR_DUCKDB.contains(&by);
        let asked: Vec<_> = tables
            .iter()
            .filter(|(partition_by, _)| is_for_it(partition_by))
            .flat_map(|(partition_by, table)| {
                questions(table, &columns, &rows).into_iter().map(move |question| (partition_by, question))
            })
            .collect();
        let questions: Vec<_> = asked.iter().map(|(_, question)| question.clone()).collect();
        for ((partition_by, question), mut found) in asked.iter().zip(reader.ask(&stack, &questions)) {
            found.sort_unstable_by_key(|row| row[partitions::ROW.name].as_i64());
            let answer = rows.iter().filter(|row| question.is_answered_by(row));
            let expected: Vec<Row> = answer.cloned().collect();
            assert_eq!(found, expected, "{reader:?} asked {question:?}, partitioned by {partition_by}");
        }
    }
}

/// All rows, and those of each value of each column.
fn questions(table: &str, columns: &[Column], rows: &[Row]) -> Vec<Question> {
    let mut asked = vec![Question::all(table)];
    for column in columns {
        let mut values: Vec<Value> = Vec::new();
        for value in rows.iter().map(|row| &row[column.name]).filter(|value| !value.is_null()) {
            if !values.contains(value) && values.len() < MOST_ASKED {
                values.push(value.clone());
            }
        }
        asked.extend(values.into_iter().map(|value| Question::equal(table, column.name, value)));
    }
    asked
}

/// T23: tables that engines can't read, since their metadata lacks what engines rely on. A table that we made without
/// a partition, three appends: all readers count the same, and the metadata is in order.
#[tokio::test]
async fn t23_all_readers_agree_on_a_table_that_we_made() {
    let declared = "[[table]]\nname = \"NAMESPACE.clicks\"\ncolumns = [\
        { name = \"event_id\", type = \"string\", required = true }, { name = \"user_id\", type = \"long\" }]\n\
        [[route]]\ntopic = \"clicks\"\ntable = \"NAMESPACE.clicks\"\n";
    let pipeline = Pipeline::new("t23", VISIBILITY_S).await.declaring(declared);
    pipeline.drain().await.expect("the tables are made");
    for from in [0, 10, 20] {
        let values: Vec<_> = (from..from + 10).map(click).collect();
        pipeline.write(&event(0, from, &values)).await.expect("it is taken in");
        pipeline.drain().await.expect("it is settled");
    }
    let expected: Vec<String> = (0..30).map(|n| format!("e-{n}")).collect();
    for reader in Reader::all(pipeline.stack()) {
        let rows = reader.ask(pipeline.stack(), &[Question::all(&name_of(&pipeline))]).concat();
        let mut found: Vec<_> =
            rows.iter().filter_map(|row| row["event_id"].as_str().map(str::to_owned)).collect();
        found.sort_unstable_by_key(|id| (id.len(), id.clone()));
        assert_eq!(found, expected, "{reader:?}");
    }
    let metadata = metadata(&pipeline.parts().await, &pipeline.table()).await;
    let mut snapshots: Vec<_> = metadata.snapshots().collect();
    snapshots.sort_unstable_by_key(|snapshot| snapshot.sequence_number());
    assert_eq!(snapshots.iter().map(|snapshot| snapshot.sequence_number()).collect::<Vec<_>>(), [1, 2, 3]);
    for pair in snapshots.windows(2) {
        assert_eq!(pair[1].parent_snapshot_id(), Some(pair[0].snapshot_id()));
    }
    assert_eq!(metadata.partition_specs_iter().count(), 1, "the empty spec is there");
    assert!(metadata.default_partition_spec().is_unpartitioned());
}
