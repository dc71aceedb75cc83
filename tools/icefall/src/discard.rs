//! `icefall quarantine discard`.

use std::io::Write;

use icefall_store::Decided;
use serde_json::json;

use crate::{CliError, Desk};

pub(crate) async fn run(
    desk: &Desk,
    id: &str,
    because: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    if because.trim().is_empty() {
        return Err(CliError::NoWords);
    }
    let (entry, _) = desk.find_open(id).await?;
    desk.decide(&entry, Decided::Discarded, because).await?;
    if json {
        writeln!(out, "{}", json!({ "id": entry.id, "decided": "discarded", "because": because }))?;
    } else {
        writeln!(out, "{} stays out of its table; the entry stays in quarantine with your reason", entry.id)?;
    }
    Ok(())
}
