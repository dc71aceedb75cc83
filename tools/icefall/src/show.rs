//! `icefall quarantine show`.

use std::io::Write;

use serde_json::{Value, json};

use crate::{CliError, Desk};

pub(crate) async fn run(
    desk: &Desk,
    id: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let (entry, text) = desk.find(id).await?;
    let decision = desk.ops.decision(&entry).await?;
    if json {
        let all = json!({ "entry": text, "decision": decision });
        serde_json::to_writer_pretty(&mut *out, &all)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "{} since {}, for {}", entry.id, entry.day, entry.reason)?;
    for (name, value) in text.get("details").and_then(Value::as_object).into_iter().flatten() {
        writeln!(out, "  {name}: {}", plain(value))?;
    }
    writeln!(out, "  as it came: {}", desk.ops.location(&entry.raw_key()))?;
    match decision {
        None => writeln!(out, "nothing was decided about it: `icefall quarantine release` or `discard`")?,
        Some(decision) => writeln!(out, "{}", serde_json::to_string(&decision)?)?,
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.len() > 10 => {
            let first: Vec<_> = items.iter().take(10).map(ToString::to_string).collect();
            format!("[{}, and {} more]", first.join(", "), items.len() - 10)
        }
        other => other.to_string(),
    }
}
