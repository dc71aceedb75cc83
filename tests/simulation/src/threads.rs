//! Work on all cores, with results in the order in which it was numbered.
//!
//! A schedule follows from its seed alone, so schedules run side by side. What is reported must not depend on how many
//! run at once: the first seed that fails is the same one on any machine.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// As many threads as this machine has cores.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does the pieces of `work` from 0 to `count` on so many threads, and hands each result to `each` in that order, until
/// it breaks off.
pub fn in_order<T: Send, B>(
    threads: usize,
    count: u64,
    work: impl Fn(u64) -> T + Sync,
    mut each: impl FnMut(u64, T) -> ControlFlow<B>,
) -> Option<B> {
    let next = AtomicU64::new(0);
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (done, next, work) = (done.clone(), &next, &work);
            scope.spawn(move || {
                // When nobody waits for results any more, sending fails.
                loop {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= count || done.send((piece, work(piece))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (piece, result) in results {
            early.insert(piece, result);
            while let Some(result) = early.remove(&due) {
                if let ControlFlow::Break(end) = each(due, result) {
                    return Some(end);
                }
                due += 1;
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        // The first pieces take longest.
        let work = |piece: u64| {
            thread::sleep(std::time::Duration::from_millis(40 / (piece + 1)));
            piece * piece
        };
        for threads in [1, 2, 7] {
            let mut seen = Vec::new();
            let end = in_order(threads, 20, work, |piece, result| {
                seen.push((piece, result));
                ControlFlow::<()>::Continue(())
            });
            assert_eq!(end, None);
            assert_eq!(seen, (0..20).map(|piece| (piece, piece * piece)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_that_breaks_off_is_the_first_in_order() {
        let first = |piece: u64, result: u64| {
            if result % 5 == 4 { ControlFlow::Break(piece) } else { ControlFlow::Continue(()) }
        };
        for threads in [1, 3, 8] {
            assert_eq!(in_order(threads, 1000, |piece| piece, first), Some(4));
        }
    }
}
