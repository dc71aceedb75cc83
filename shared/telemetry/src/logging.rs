//! Log lines, as Lambda's logging controls ask for them.
//!
//! CloudWatch adds the time to every line, so none is written. Our own crates log at the level asked
//! for; others at most warnings, whatever is asked: what HTTP and AWS clients write at finer levels holds
//! signed requests. Controls:
//! <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-advanced.html>.

use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::prelude::*;

/// The crates whose lines are ours: the libraries by their prefix, and the two binaries.
const OURS: [&str; 3] = ["icefall", "writer", "committer"];
/// Its spans carry the request's id.
const RUNTIME: &str = "lambda_runtime";

/// Starts logging to standard output, at `AWS_LAMBDA_LOG_LEVEL`'s value (info when absent) and in
/// `AWS_LAMBDA_LOG_FORMAT`'s (text when absent). Once a process: a later call changes nothing.
pub fn start_logging(level: Option<&str>, format: Option<&str>) {
    let dispatch = dispatch(level, format, std::io::stdout);
    if tracing::dispatcher::set_global_default(dispatch).is_ok() {
        warn_of_unknown(level, format);
    }
}

fn warn_of_unknown(level: Option<&str>, format: Option<&str>) {
    if let Some(level) = level.filter(|level| parsed_level(level).is_none()) {
        tracing::warn!(
            level,
            "AWS_LAMBDA_LOG_LEVEL is none of TRACE, DEBUG, INFO, WARN, ERROR, FATAL; logging at INFO"
        );
    }
    if let Some(format) = format.filter(|format| parsed_format(format).is_none()) {
        tracing::warn!(format, "AWS_LAMBDA_LOG_FORMAT is neither JSON nor Text; logging as text");
    }
}

fn dispatch<W>(level: Option<&str>, format: Option<&str>, writer: W) -> Dispatch
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let registry = tracing_subscriber::registry();
    let targets = targets(level.and_then(parsed_level).unwrap_or(LevelFilter::INFO));
    let layer = layer().without_time().with_ansi(false).with_writer(writer);
    match format.and_then(parsed_format).unwrap_or(Format::Text) {
        Format::Text => registry.with(layer.with_filter(targets)).into(),
        Format::Json => {
            let json = layer.json().flatten_event(true).with_current_span(true).with_span_list(false);
            registry.with(json.with_filter(targets)).into()
        }
    }
}

fn targets(level: LevelFilter) -> Targets {
    let others = level.min(LevelFilter::WARN);
    let ours = OURS.map(|target| (target, level));
    Targets::new().with_default(others).with_targets(ours).with_target(RUNTIME, level.min(LevelFilter::INFO))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Text,
    Json,
}

fn parsed_format(text: &str) -> Option<Format> {
    match text.to_ascii_lowercase().as_str() {
        "text" => Some(Format::Text),
        "json" => Some(Format::Json),
        _ => None,
    }
}

/// Lambda knows a level more than tracing: FATAL, which only the platform writes.
fn parsed_level(text: &str) -> Option<LevelFilter> {
    match text.to_ascii_lowercase().as_str() {
        "trace" => Some(LevelFilter::TRACE),
        "debug" => Some(LevelFilter::DEBUG),
        "info" => Some(LevelFilter::INFO),
        "warn" => Some(LevelFilter::WARN),
        "error" | "fatal" => Some(LevelFilter::ERROR),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Standard output, for tests.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: Option<&str>, format: Option<&str>, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        tracing::dispatcher::with_default(&dispatch(level, format, move || writer.clone()), log);
        let bytes = lines.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn json_lines_have_level_and_message_at_the_top_and_no_time() {
        let line = logged(None, Some("JSON"), || {
            let span = tracing::info_span!(target: "icefall_writer", "batch", topic = "orders");
            span.in_scope(|| tracing::info!(target: "icefall_writer", records = 7, "written"));
        });
        let line: serde_json::Value = serde_json::from_str(&line).expect("one JSON line");
        assert_eq!((&line["level"], &line["message"]), (&"INFO".into(), &"written".into()));
        assert_eq!((&line["records"], &line["span"]["topic"]), (&7.into(), &"orders".into()));
        assert!(line.get("timestamp").is_none(), "{line}");
    }

    #[test]
    fn text_lines_have_no_time_and_no_colour() {
        let line = logged(Some("INFO"), Some("Text"), || tracing::info!(target: "icefall_writer", "written"));
        assert_eq!(line, " INFO icefall_writer: written\n");
    }

    #[test]
    fn the_level_is_honoured_and_info_without_one_or_with_one_unknown() {
        let log = || {
            tracing::debug!(target: "icefall_writer", "fine");
            tracing::info!(target: "icefall_writer", "plain");
            tracing::warn!(target: "icefall_writer", "odd");
        };
        let count = |level| logged(level, None, log).lines().count();
        assert_eq!(
            [count(Some("DEBUG")), count(None), count(Some("loud")), count(Some("WARN"))],
            [3, 2, 2, 1]
        );
        assert_eq!(count(Some("FATAL")), 0);
    }

    #[test]
    fn what_is_unknown_is_said() {
        let lines = logged(None, None, || warn_of_unknown(Some("loud"), Some("XML")));
        assert!(lines.contains("loud") && lines.contains("XML"), "{lines}");
        assert_eq!(logged(None, None, || warn_of_unknown(Some("warn"), None)), "");
    }

    #[test]
    fn other_crates_never_log_below_warnings() {
        let lines = logged(Some("TRACE"), None, || {
            tracing::trace!(target: "aws_sigv4::http_request", "canonical request");
            tracing::info!(target: "hyper_util", "connected");
            tracing::warn!(target: "hyper_util", "reset");
        });
        assert_eq!(lines, " WARN hyper_util: reset\n");
    }
}
