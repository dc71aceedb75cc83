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
        let catalog = if stack.which == WhichCatalog::First { "first" } else { "second" };
        let questions: Vec<Value> = questions.iter().map(Question::to_json).collect();
        let answers = self.run(&json!({ "catalog": catalog, "questions": questions }));
        let rows =
            answers.into_iter().map(|mut answer| answer.get_mut("rows").map(Value::take).unwrap_or_default());
        rows.map(|rows| serde_json::from_value(rows).expect("rows are objects")).collect()
    }

    fn run(self, asked: &Value) -> Vec<Value> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut child = Command::new(repository.join(".local/venv/bin/python"))
            .args(["-m", "icefall_local.asked"])
            .arg(Stack::file())
            .arg(self.name())
            .env("PYTHONPATH", repository.join("tools/local"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the readers are installed by `cargo xtask`");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(asked.to_string().as_bytes()).expect("it reads the questions");
        drop(input);
        let done = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{self:?} failed: {said}");
        serde_json::from_slice(&done.stdout).expect("answers are JSON")
    }
}

impl Question {
    /// All rows of a table.
    #[must_use]
    pub fn all(table: &str) -> Self {
        Self { table: table.to_owned(), equal: None }
    }

    /// Whether a row belongs to the answer.
    #[must_use]
    pub fn is_answered_by(&self, row: &Row) -> bool {
        self.equal.as_ref().is_none_or(|(column, value)| row.get(column) == Some(value))
    }

    fn to_json(&self) -> Value {
        match &self.equal {
            None => json!({ "table": self.table }),
            Some((column, value)) => {
                json!({ "table": self.table, "where": { "type": "eq", "term": column, "value": value } })
            }
        }
    }
}
