//! Writer and committer as they are shipped, over parts that fail in every way that is known, from one seed.
//!
//! A schedule lets up to three writers and three committers run at once on simulated time. Every call that they make
//! through their ports can be late, lost, done without an answer, refused, or the last one before its process dies.
//! Kafka delivers batches again with other boundaries; the queue delivers late, twice and in any order; others compact,
//! expire, clean up, roll back, alter and drop the tables; operators give the commands that are shipped. One of the tables
//! is of either version of the format, and its records go to its main branch or to another one. At the end faults cease,
//! all is drained, and every record that was produced must be found where it belongs, once, by value. A schedule follows
//! from its seed alone.

mod account;
mod astray;
mod avro;
mod calm;
mod evolution;
mod gate;
mod kafka;
mod lie;
mod messages;
#[cfg(feature = "mutations")]
mod mutated;
mod objects;
mod operator;
mod others;
mod past;
mod ports;
mod post;
mod process;
mod readers;
mod record;
mod reported;
mod rng;
mod schedule;
mod sim;
mod tally;
mod threads;
mod trace;
mod verdict;
mod watch;
mod weather;
mod world;

/// A schedule is thousands of small pieces of memory: in the system's allocator they took a quarter of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use calm::Calm;
pub use lie::Lie;
#[cfg(feature = "mutations")]
pub use mutated::{Caught, catch, noted};
pub use schedule::{Outcome, run, run_with};
pub use tally::{CallKind, CrashPoint, Fault, Tally};
pub use threads::{cores, in_order};
