//! What a function logs, for tests of what operators get to read.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Collects what this thread logs from its making on, warnings and worse.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Runs `work` on this thread and gives what it logged.
    pub async fn of<T>(work: impl Future<Output = T>) -> (T, String) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        let guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
        let result = work.await;
        drop(guard);
        let bytes = log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (result, String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
