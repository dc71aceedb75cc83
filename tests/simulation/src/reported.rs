//! What processes say by their metrics, and what is not said because they died before they could.
//!
//! Alarms rest on metrics. A function writes its own after each round and at the end of an invocation, as its handler
//! does; what one has counted that is killed in between is never seen by anybody.

use std::collections::BTreeSet;

use icefall_clock::Timestamp;
use icefall_telemetry::Metrics;
use serde_json::Value;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Messages that went to quarantine.
    pub(crate) quarantined: u64,
    /// Tables in which a source stands still.
    pub(crate) stopped: BTreeSet<String>,
}

/// All that processes have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reported {
    /// By processes that lived to say so.
    pub(crate) told: Counted,
    /// By processes that died before.
    pub(crate) untold: Counted,
    /// Entries of quarantine that may be there, though their processes were told that they are not, or died before they were
    /// told anything, and no other put them: the messages stayed queued, and the invocations failed.
    pub(crate) unsure: BTreeSet<String>,
    /// Those whose processes know that they are there.
    pub(crate) sure: BTreeSet<String>,
}

impl Reported {
    /// The put of an entry begins.
    pub(crate) fn begin(&mut self, key: &str) {
        if !self.sure.contains(key) {
            self.unsure.insert(key.to_owned());
        }
    }

    /// It is known to be done.
    pub(crate) fn done(&mut self, key: &str) {
        self.unsure.remove(key);
        self.sure.insert(key.to_owned());
    }
}

impl Counted {
    /// Adds what was measured since the last time.
    pub(crate) fn take(&mut self, metrics: &Metrics) {
        let mut lines = Vec::new();
        // Writing to a vector can't fail.
        let _ = metrics.flush(Timestamp::from_unix_ms(0), &mut lines);
        let lines = String::from_utf8(lines).unwrap_or_default();
        let counted =
            |line: &&str| ["QuarantinedMessages", "SourcesStopped"].iter().any(|name| line.contains(name));
        lines.lines().filter(counted).for_each(|line| self.add(line));
    }

    fn add(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let count = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or_default();
        self.quarantined += count("QuarantinedMessages");
        if count("SourcesStopped") > 0 {
            self.stopped.extend(line.get("Table").and_then(Value::as_str).map(str::to_owned));
        }
    }
}
