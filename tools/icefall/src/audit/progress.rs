//! How far an audit is, on standard error: a line now and then, with the rate and what remains.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(5);

/// How much is done, counted by all who do it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone(Arc<AtomicU64>);

impl Gone {
    pub(crate) fn add(&self, positions: u64) {
        self.0.fetch_add(positions, Ordering::Relaxed);
    }

    fn positions(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Prints a line every few seconds until it is dropped.
pub(crate) struct Progress(tokio::task::JoinHandle<()>);

impl Progress {
    pub(crate) fn start(gone: Gone, total: u64, what: &'static str) -> Self {
        Self(tokio::spawn(async move {
            let started = Instant::now();
            loop {
                tokio::time::sleep(EVERY).await;
                eprintln!("{}", line(gone.positions(), total, what, started.elapsed()));
            }
        }))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is said after `elapsed`.
fn line(gone: u64, total: u64, what: &str, elapsed: Duration) -> String {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = gone.saturating_mul(1000) / millis;
    let percent = gone.saturating_mul(100).checked_div(total).unwrap_or(100);
    let left = total.saturating_sub(gone).checked_div(rate);
    let left = left.map_or_else(|| "no end in sight yet".to_owned(), |seconds| format!("{seconds} s left"));
    format!(
        "audit: {} of {} {what} ({percent} %), {} a second, {left}",
        grouped(gone),
        grouped(total),
        grouped(rate)
    )
}

/// A number as people read it: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_remainder() {
        let said = line(2_500_000, 10_000_000, "offsets", Duration::from_secs(2));
        assert_eq!(said, "audit: 2,500,000 of 10,000,000 offsets (25 %), 1,250,000 a second, 6 s left");
        assert!(line(0, 7, "offsets", Duration::ZERO).contains("no end in sight yet"));
        assert!(line(0, 0, "offsets", Duration::from_secs(1)).contains("(100 %)"));
    }
}
