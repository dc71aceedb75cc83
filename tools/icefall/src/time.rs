//! Times as people read them.

use chrono::DateTime;

/// A time in milliseconds since the epoch, in UTC; the number itself where it is beyond the calendar.
pub(crate) fn text(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(|| unix_ms.to_string(), |time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}
