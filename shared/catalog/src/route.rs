//! The URLs of a catalog's resources, byte for byte as they are sent and signed.
//!
//! Signatures cover the URL's bytes, and every catalog decodes a segment once, so each segment is
//! percent-encoded exactly once here and nowhere touched again. Only the unreserved characters of RFC 3986 stay
//! as they are, which is also what AWS Signature Version 4 asks of query strings.

use iceberg::{NamespaceIdent, TableIdent};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use reqwest::Url;

use crate::config::ServerConfig;

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Why a URL can't be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RouteError {
    #[error("catalog.uri {0:?} is not the base of an http or https API without user, query and fragment")]
    Base(String),
    #[error("the name {0:?} can't be part of a URL's path")]
    Name(String),
}

/// The base of the API, checked.
#[derive(Clone, Debug)]
pub(crate) struct Base(String);

impl Base {
    pub(crate) fn parse(uri: &str) -> Result<Self, RouteError> {
        let fault = || RouteError::Base(without_user(uri));
        let url = Url::parse(uri.trim()).map_err(|_| fault())?;
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !plain || !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(fault());
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Where the catalog tells about itself.
    pub(crate) fn config(&self, warehouse: &str) -> Result<Url, RouteError> {
        let query = if warehouse.is_empty() { String::new() } else { query(&[("warehouse", warehouse)]) };
        self.url(&format!("v1/config{query}"))
    }

    /// Where the catalog itself issues tokens, if it does.
    pub(crate) fn tokens(&self) -> Result<Url, RouteError> {
        self.url("v1/oauth/tokens")
    }

    fn url(&self, path: &str) -> Result<Url, RouteError> {
        let url = format!("{}/{path}", self.0);
        let parsed = Url::parse(&url).map_err(|_| RouteError::Name(path.to_owned()))?;
        // The parser would resolve a segment of dots; what is sent has to be what was asked for.
        if parsed.as_str() == url { Ok(parsed) } else { Err(RouteError::Name(path.to_owned())) }
    }
}

/// User and password are the caller's secrets.
fn without_user(uri: &str) -> String {
    match uri.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => uri.to_owned(),
    }
}

/// The URLs below the prefix that the catalog asks for.
#[derive(Debug)]
pub(crate) struct Routes {
    base: Base,
    root: String,
    separator: String,
}

impl Routes {
    pub(crate) fn new(base: Base, server: &ServerConfig) -> Self {
        Self { base, root: root(server.prefix()), separator: separator(server.namespace_separator()) }
    }

    pub(crate) fn namespaces(&self) -> Result<Url, RouteError> {
        self.below("")
    }

    pub(crate) fn namespace(&self, namespace: &NamespaceIdent) -> Result<Url, RouteError> {
        self.below(&format!("/{}", self.namespace_segment(namespace)?))
    }

    /// The tables of a namespace; `query` as name and value, not encoded.
    pub(crate) fn tables(
        &self,
        namespace: &NamespaceIdent,
        parameters: &[(&str, &str)],
    ) -> Result<Url, RouteError> {
        self.below(&format!("/{}/tables{}", self.namespace_segment(namespace)?, query(parameters)))
    }

    pub(crate) fn table(&self, table: &TableIdent, parameters: &[(&str, &str)]) -> Result<Url, RouteError> {
        let namespace = self.namespace_segment(table.namespace())?;
        let name = segment(table.name())?;
        self.below(&format!("/{namespace}/tables/{name}{}", query(parameters)))
    }

    /// The credentials for a table's files.
    pub(crate) fn credentials(&self, table: &TableIdent) -> Result<Url, RouteError> {
        let namespace = self.namespace_segment(table.namespace())?;
        self.below(&format!("/{namespace}/tables/{}/credentials", segment(table.name())?))
    }

    fn below(&self, path: &str) -> Result<Url, RouteError> {
        self.base.url(&format!("{}namespaces{path}", self.root))
    }

    fn namespace_segment(&self, namespace: &NamespaceIdent) -> Result<String, RouteError> {
        let levels: Vec<String> = namespace.iter().map(|level| segment(level)).collect::<Result<_, _>>()?;
        Ok(levels.join(&self.separator))
    }
}

/// `v1/` and the prefix, which may come encoded or not, and whose slashes are slashes (Glue: `catalogs/123`).
fn root(prefix: &str) -> String {
    let segments = prefix.split('/').filter(|segment| !segment.is_empty());
    segments.fold("v1/".to_owned(), |root, segment| root + &once_encoded(segment) + "/")
}

/// Text that may come percent-encoded, encoded exactly once.
fn once_encoded(text: &str) -> String {
    encode(&percent_decode_str(text).collect::<Vec<u8>>())
}

/// Sent as the catalog wrote it: `%2E` decoded and encoded again would be a dot, as it stands in names.
fn separator(text: &str) -> String {
    if text.contains('%') { text.to_owned() } else { encode(text.as_bytes()) }
}

/// A name as one segment of a path.
fn segment(name: &str) -> Result<String, RouteError> {
    if matches!(name, "" | "." | "..") {
        return Err(RouteError::Name(name.to_owned()));
    }
    Ok(encode(name.as_bytes()))
}

fn query(parameters: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name.as_bytes()), encode(value.as_bytes())))
        .collect();
    pairs.sort();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_path(prefix: &str, namespace: &[&str], name: &str) -> String {
        let config = serde_json::json!({ "overrides": { "prefix": prefix } });
        let server: ServerConfig = serde_json::from_value(config).unwrap();
        let routes = Routes::new(Base::parse("http://host:1/iceberg/").unwrap(), &server);
        let namespace = NamespaceIdent::from_strs(namespace).unwrap();
        let url = routes.table(&TableIdent::new(namespace, name.to_owned()), &[]).unwrap();
        url.path().to_owned()
    }

    #[test]
    fn a_prefix_is_sent_encoded_once_however_it_comes() {
        let encoded = "arn%3Aaws%3As3tables%3Aus-east-1%3A1%3Abucket%2Fb";
        let path = table_path(encoded, &["ns"], "t");
        assert_eq!(path, format!("/iceberg/v1/{encoded}/namespaces/ns/tables/t"));
        assert_eq!(table_path("a:b", &["ns"], "t"), "/iceberg/v1/a%3Ab/namespaces/ns/tables/t");
        assert_eq!(table_path("a%3ab", &["ns"], "t"), "/iceberg/v1/a%3Ab/namespaces/ns/tables/t");
    }

    #[test]
    fn slashes_of_a_prefix_stay_slashes() {
        let glue = "/iceberg/v1/catalogs/123/namespaces/ns/tables/t";
        assert_eq!(table_path("catalogs/123", &["ns"], "t"), glue);
        assert_eq!(table_path("/catalogs/123/", &["ns"], "t"), glue);
        assert_eq!(table_path("", &["ns"], "t"), "/iceberg/v1/namespaces/ns/tables/t");
    }

    #[test]
    fn names_are_encoded_once_and_levels_joined_by_the_unit_separator() {
        let path = table_path("p", &["a b", "c/d"], "x%y=z'+ä");
        assert_eq!(path, "/iceberg/v1/p/namespaces/a%20b%1Fc%2Fd/tables/x%25y%3Dz%27%2B%C3%A4");
    }

    #[test]
    fn the_catalogs_own_separator_is_sent_as_it_came() {
        let config = serde_json::json!({ "defaults": { "namespace-separator": "%2E" } });
        let server: ServerConfig = serde_json::from_value(config).unwrap();
        let routes = Routes::new(Base::parse("http://host").unwrap(), &server);
        let namespace = NamespaceIdent::from_strs(["a", "b"]).unwrap();
        assert_eq!(routes.namespace(&namespace).unwrap().path(), "/v1/namespaces/a%2Eb");
    }

    #[test]
    fn queries_are_encoded_and_sorted() {
        let base = Base::parse("http://host").unwrap();
        let url = base.config("arn:aws:s3tables:us-east-1:1:bucket/a b").unwrap();
        assert_eq!(url.query(), Some("warehouse=arn%3Aaws%3As3tables%3Aus-east-1%3A1%3Abucket%2Fa%20b"));
        assert_eq!(query(&[("b", "="), ("a", "+")]), "?a=%2B&b=%3D");
        assert_eq!(base.config("").unwrap().as_str(), "http://host/v1/config");
    }

    #[test]
    fn names_that_a_path_can_not_hold_are_refused() {
        let routes = Routes::new(Base::parse("http://host").unwrap(), &ServerConfig::default());
        for name in ["", ".", ".."] {
            let table = TableIdent::new(NamespaceIdent::new("ns".to_owned()), name.to_owned());
            assert!(matches!(routes.table(&table, &[]), Err(RouteError::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn bases_that_can_not_be_one_are_refused_without_their_password() {
        for uri in ["", "host:1", "ftp://host", "http://host?x=1", "http://host#x", "http://me:pw@host"] {
            let error = Base::parse(uri).unwrap_err().to_string();
            assert!(error.contains("catalog.uri") && !error.contains("pw"), "{error}");
        }
    }
}
