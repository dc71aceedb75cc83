//! What happened, line by line, for whoever has to understand a failure; and its hash, by which two runs are compared.

use std::fmt::Write as _;

/// A schedule's record of itself.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: Vec<String>,
    events: usize,
    hash: u64,
    start_ms: u64,
}

impl Trace {
    pub(crate) const fn new(start_ms: u64) -> Self {
        Self { lines: Vec::new(), events: 0, hash: 0xcbf2_9ce4_8422_2325, start_ms }
    }

    /// A numbered event of the schedule.
    pub(crate) fn event(&mut self, now_ms: u64, text: &str) {
        self.events += 1;
        let line = format!("#{:<3} {}  {text}", self.events, self.time(now_ms));
        self.push(line);
    }

    /// Something that followed from it.
    pub(crate) fn detail(&mut self, now_ms: u64, text: &str) {
        let line = format!("     {}    {text}", self.time(now_ms));
        self.push(line);
    }

    /// What came until now is the past, and none of the schedule's events.
    pub(crate) const fn begin(&mut self) {
        self.events = 0;
    }

    pub(crate) const fn events(&self) -> usize {
        self.events
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_text(self) -> String {
        self.lines.join("\n")
    }

    fn push(&mut self, line: String) {
        // FNV-1a: nobody attacks a trace.
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines.push(line);
    }

    /// Days and time since the beginning.
    fn time(&self, now_ms: u64) -> String {
        let ms = now_ms.saturating_sub(self.start_ms);
        let (days, seconds) = (ms / 86_400_000, ms / 1000 % 86_400);
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "{days:>3}d {:02}:{:02}:{:02}.{:03}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            ms % 1000
        );
        text
    }
}
