//! Single values with rules of their own: URLs, regions, spans of time, sizes.

use std::fmt;
use std::time::Duration;

use http::Uri;

/// An http or https URL without user info, query or fragment, and without a slash at its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// The URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Problems never repeat the text: what stands before an `@` may be a password.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is no URL; write it as https://host[:port][/path]")?;
        let authority = uri.authority().ok_or("has no host; write it as https://host[:port][/path]")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("must begin with http:// or https://");
        }
        if authority.as_str().contains('@') {
            return Err("must not hold a user or password; use the section's credentials");
        }
        if authority.host().is_empty() {
            return Err("has no host; write it as https://host[:port][/path]");
        }
        if uri.query().is_some() || text.contains('#') {
            return Err("must end with its path; leave out what begins with ? or #");
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A region's name, such as `eu-central-1`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Region(String);

impl Region {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn parse(text: String) -> Result<Self, &'static str> {
        if is_lower_label(&text) { Ok(Self(text)) } else { Err("is no region; write it as eu-central-1") }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `text` is 1 to 64 of lower-case letters, digits and hyphens.
pub(crate) fn is_lower_label(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&text.len()) && text.chars().all(allowed)
}

/// S3's rule for the names of ordinary buckets, as far as one can get it wrong by accident
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>).
pub(crate) fn is_bucket(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (3..=63).contains(&text.len())
        && text.chars().all(|c| edge(c) || matches!(c, '-' | '.'))
        && text.starts_with(edge)
        && text.ends_with(edge)
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ByteSize(u64);

impl ByteSize {
    /// `count` mebibytes.
    #[must_use]
    pub const fn mib(count: u32) -> Self {
        Self((count as u64) << 20)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        scaled(text, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)]).map(Self)
    }
}

/// A span of time written as `500ms`, `10s`, `5m` or `12h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    scaled(text, &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]).map(Duration::from_millis)
}

/// A whole number and a unit, by that unit's factor.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// `text` as a name that catalogs take: lower-case letters, digits and single underscores, with a letter
/// or digit at both ends. The suggestion that goes with a refused name; `None` if nothing is left.
pub(crate) fn plain_name(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("_").to_ascii_lowercase();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_http_with_a_host_and_nothing_hidden() {
        let url = HttpUrl::parse("http://127.0.0.1:21181/iceberg/").expect("a URL");
        assert_eq!(url.as_str(), "http://127.0.0.1:21181/iceberg");
        for bad in [
            "",
            "catalog",
            "s3://lake",
            "ftp://host",
            "http://",
            "https://user:hush@host",
            "http://h/?a=b",
            "http://h/#a",
            "http://h h/",
        ] {
            let problem = HttpUrl::parse(bad).expect_err(bad);
            assert!(!problem.contains("hush"));
        }
    }

    #[test]
    fn spans_of_time_and_sizes_need_their_unit() {
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("10s"), Some(Duration::from_secs(10)));
        assert_eq!(duration("12h"), Some(Duration::from_hours(12)));
        assert_eq!(ByteSize::parse("64 MiB"), Some(ByteSize::mib(64)));
        assert_eq!(ByteSize::parse("1KiB").map(ByteSize::bytes), Some(1024));
        for bad in [
            "",
            "10",
            "s",
            "-1s",
            "1.5s",
            "1m30s",
            "10 sec",
            "18446744073709551615h",
            "99999999999999999999s",
        ] {
            assert_eq!(duration(bad), None, "{bad:?}");
        }
        assert_eq!(ByteSize::parse("64 MB"), None);
    }

    #[test]
    fn names_are_made_plain_by_rule() {
        assert_eq!(plain_name("Orders.EU-West").as_deref(), Some("orders_eu_west"));
        assert_eq!(plain_name("__a--b__").as_deref(), Some("a_b"));
        assert_eq!(plain_name("-.-"), None);
    }

    #[test]
    fn buckets_and_regions_follow_the_rules() {
        assert!(is_bucket("icefall-ops") && !is_bucket("Icefall") && !is_bucket("ab") && !is_bucket("-abc"));
        assert!(
            Region::parse("us-east-1".to_owned()).is_ok() && Region::parse("US East".to_owned()).is_err()
        );
    }
}
