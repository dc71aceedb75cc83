//! Names of partitions in files' paths.
//!
//! Readers take partition values from manifests, never from paths, so a path only has to be unique
//! enough, plain enough for every store (table buckets take plain ASCII segments alone), and readable.

/// The longest that a value's text may be in a path.
const MAX_CHARS: usize = 60;

/// `name=value` as one path segment. A value that can't stand there as it is gets its odd characters
/// replaced and a checksum added.
pub(crate) fn segment(name: &str, value: &str) -> String {
    format!("{}={}", plain(name), plain(value))
}

fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !text.is_empty() && text.len() <= MAX_CHARS && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_CHARS).map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("{head}-{:08x}", checksum(text))
}

/// FNV-1a, 32 bits.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_stand_as_they_are() {
        assert_eq!(segment("event_time_hour", "2024-05-01-10"), "event_time_hour=2024-05-01-10");
    }

    #[test]
    fn odd_values_become_plain_and_stay_apart() {
        let (one, other) = (segment("city", "São Paulo/x"), segment("city", "São Paulo?x"));
        assert_ne!(one, other);
        for path in [one, other, segment("a", ""), segment("a", &"x".repeat(500)), segment("a", "..")] {
            assert!(path.len() < 100, "{path}");
            assert!(path.chars().all(|c| c.is_ascii_alphanumeric() || "-_=".contains(c)), "{path}");
        }
    }
}
