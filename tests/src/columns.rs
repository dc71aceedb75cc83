//! What readers that nobody here wrote see in a table.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use iceberg::TableIdent;

/// Per reader, the values of a column in the whole table, and by each filter.
pub type Answers = BTreeMap<String, Vec<Vec<i64>>>;

/// Asks `PyIceberg` and `DuckDB` for a column of numbers, after `DuckDB` has run `statement`, if any.
///
/// # Panics
///
/// When one of them can't read the table.
#[must_use]
pub fn ask(table: &TableIdent, column: &str, filters: &[&str], statement: Option<&str>) -> Answers {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(repository.join(".local/venv/bin/python"));
    command.env("PYTHONPATH", repository.join("tools/local")).args(["-m", "icefall_local.ask"]);
    if let Some(statement) = statement {
        command.args(["--run", statement]);
    }
    let name = format!("{}.{}", table.namespace().join("."), table.name());
    let output = command.args([&name, column]).args(filters).output().expect("the local tools are installed");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "a reader failed: {problem}");
    serde_json::from_slice(&output.stdout).expect("the readers' answers")
}
