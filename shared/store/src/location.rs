//! Where an object lies: bucket and key, and the scheme that its URI came with.
//!
//! Iceberg metadata names files by URI, and other engines compare those as text. So a location gives
//! back its URI letter by letter, while the store sees bucket and key alone: `s3://`, Hadoop's
//! `s3a://` and Alibaba's `oss://` all mean the same object of the endpoint that is configured.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Why a text is not a location.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum LocationError {
    /// The scheme is another one, or there is none.
    #[error("{0:?} is not an s3://, s3a:// or oss:// URI; other object stores are not supported")]
    Scheme(String),
    /// Bucket or key is missing.
    #[error("{0:?} must name a bucket and, after a slash, a key")]
    Incomplete(String),
}

/// The schemes that mean an object of the configured S3 endpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Scheme {
    S3,
    S3a,
    Oss,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::S3, Self::S3a, Self::Oss];

    const fn text(self) -> &'static str {
        match self {
            Self::S3 => "s3://",
            Self::S3a => "s3a://",
            Self::Oss => "oss://",
        }
    }
}

/// An object's place. The key is neither encoded nor normalised: it is what lies after the bucket.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Location {
    scheme: Scheme,
    bucket: String,
    key: String,
}

impl Location {
    /// `s3://bucket/key`, from parts that are known to be good.
    #[must_use]
    pub fn s3(bucket: impl Into<String>, key: impl Into<String>) -> Self {
        Self { scheme: Scheme::S3, bucket: bucket.into(), key: key.into() }
    }

    /// Reads a URI.
    pub fn parse(uri: &str) -> Result<Self, LocationError> {
        let (scheme, rest) = Scheme::ALL
            .into_iter()
            .find_map(|scheme| Some((scheme, uri.strip_prefix(scheme.text())?)))
            .ok_or_else(|| LocationError::Scheme(uri.to_owned()))?;
        match rest.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { scheme, bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => Err(LocationError::Incomplete(uri.to_owned())),
        }
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What lies at `name` below this location, one slash between them.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let key = format!("{}/{name}", self.key.trim_end_matches('/'));
        Self { scheme: self.scheme, bucket: self.bucket.clone(), key }
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(uri: &str) -> Result<Self, LocationError> {
        Self::parse(uri)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/{}", self.scheme.text(), self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_comes_back_as_it_was() {
        for uri in ["s3://lake/ns/t/data/a.parquet", "s3a://b/k", "oss://b/a//b/", "s3://b/a=%20/ü"] {
            let location = Location::parse(uri).expect("a location");
            assert_eq!(location.to_string(), uri);
        }
    }

    #[test]
    fn bucket_and_key_are_told_apart() {
        let location = Location::parse("oss://lake/ns/t").expect("a location");
        assert_eq!((location.bucket(), location.key()), ("lake", "ns/t"));
    }

    #[test]
    fn other_stores_and_halves_are_refused() {
        for uri in ["", "/tmp/x", "gs://b/k", "S3://b/k", "s3:/b/k"] {
            assert_eq!(Location::parse(uri), Err(LocationError::Scheme(uri.to_owned())));
        }
        for uri in ["s3://", "s3://b", "s3://b/", "s3:///k"] {
            assert_eq!(Location::parse(uri), Err(LocationError::Incomplete(uri.to_owned())));
        }
    }

    #[test]
    fn a_child_lies_one_slash_below() {
        for uri in ["s3://lake/t", "s3://lake/t/"] {
            let table = Location::parse(uri).expect("a location");
            assert_eq!(table.child("metadata/x.avro").to_string(), "s3://lake/t/metadata/x.avro");
        }
    }
}
