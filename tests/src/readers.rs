//! The readers that nobody here wrote, asked through `icefall_local.asked`: one form of question, one form of answer.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

use crate::{Stack, WhichCatalog};

/// A row as a reader found it: values by column, in the one form that all readers' values are brought to.
pub type Row = Map<String, Value>;

/// A reader of Iceberg tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reader {
    /// DuckDB with its Iceberg extension.
    DuckDb,
    /// PyIceberg.
    PyIceberg,
    /// Apache Iceberg's own, in Java.
    Java,
}

/// What is asked of a table: the rows of which one column equals a value, or all.
#[derive(Clone, Debug)]
pub struct Question {
    /// The table.
    pub table: String,
    /// A column, and a value in Iceberg's single-value JSON.
    pub equal: Option<(String, Value)>,
    /// Whether rows are told with their `_row_id`, which a table of format 3 has and only the reader in Java gives.
    pub row_ids: bool,
}

impl Reader {
    /// The readers that this stack has: two, and three where Java is.
    #[must_use]
    pub fn all(stack: &Stack) -> Vec<Self> {
        let java = stack.has_java().then_some(Self::Java);
        [Self::DuckDb, Self::PyIceberg].into_iter().chain(java).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::PyIceberg => "pyiceberg",
            Self::Java => "java",
        }
    }

    /// The rows that answer each question.
    ///
    /// # Panics
    ///
    /// When the reader fails, with what it says.
    #[must_use]
    pub fn ask(self, stack: &Stack, questions: &[Question]) -> Vec<Vec<Row>> {
        let questions: Vec<Value> = questions.iter().map(Question::to_json).collect();
        let asked = json!({ "catalog": name(stack.which), "questions": questions });
        let answers = python("icefall_local.asked", Some(self.name()), &asked);
        let answers: Vec<Value> = serde_json::from_slice(&answers).expect("answers are JSON");
        let rows =
            answers.into_iter().map(|mut answer| answer.get_mut("rows").map(Value::take).unwrap_or_default());
        rows.map(|rows| serde_json::from_value(rows).expect("rows are objects")).collect()
    }
}

/// Lets another engine, Iceberg's own code in Java, work on a table: it deletes the row at `position` of the oldest
/// file and all rows whose `equal` column has that value, adds a bucket of the column `bucket` to the partition spec, and
/// sets properties.
///
/// # Panics
///
/// When it fails, with what it says.
pub fn other_engine(
    stack: &Stack,
    table: &str,
    position: u64,
    equal: (&str, u64),
    bucket: &str,
    properties: &Value,
) {
    let order = json!({
        "catalog": name(stack.which), "table": table, "position": position,
        "equal": { "column": equal.0, "value": equal.1 }, "bucket": bucket, "properties": properties,
    });
    python("icefall_local.other_engine", None, &order);
}

fn name(catalog: WhichCatalog) -> &'static str {
    match catalog {
        WhichCatalog::First => "first",
        WhichCatalog::Second => "second",
    }
}

/// Runs a module of the local tools on the stack that is up, and gives what it wrote.
fn python(module: &str, argument: Option<&str>, input: &Value) -> Vec<u8> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut child = Command::new(repository.join(".local/venv/bin/python"))
        .args(["-m", module])
        .arg(Stack::file())
        .args(argument)
        .env("PYTHONPATH", repository.join("tools/local"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tools are installed by `cargo xtask`");
    let mut sent = child.stdin.take().expect("it is piped");
    sent.write_all(input.to_string().as_bytes()).expect("it reads its input");
    drop(sent);
    let done = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{module} {argument:?} failed: {said}");
    done.stdout
}

impl Question {
    /// All rows of a table.
    #[must_use]
    pub fn all(table: &str) -> Self {
        Self { table: table.to_owned(), equal: None, row_ids: false }
    }

    /// The rows of which a column equals a value.
    #[must_use]
    pub fn equal(table: &str, column: &str, value: Value) -> Self {
        Self { equal: Some((column.to_owned(), value)), ..Self::all(table) }
    }

    /// Whether a row belongs to the answer.
    #[must_use]
    pub fn is_answered_by(&self, row: &Row) -> bool {
        self.equal.as_ref().is_none_or(|(column, value)| row.get(column) == Some(value))
    }

    fn to_json(&self) -> Value {
        let mut asked = json!({ "table": self.table, "row_ids": self.row_ids });
        if let (Some((column, value)), Some(asked)) = (&self.equal, asked.as_object_mut()) {
            asked.insert("where".to_owned(), json!({ "type": "eq", "term": column, "value": value }));
        }
        asked
    }
}
