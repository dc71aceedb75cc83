//! The environment, read in one place.
//!
//! Everything that Icefall takes from the process's environment is in here: where the settings are,
//! the overrides of single keys, the function's region and Lambda's own logging controls. The
//! variables come in as pairs, so all of it is pure; [`Environment::of_process`] alone reads the real
//! ones. (The AWS SDK's default credentials chain reads its own variables itself.)

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::fault::{Faults, SettingsError};
use crate::raw::RawNetwork;
use crate::settings::NetworkSettings;
use crate::sign_in::network;
use crate::values::{HttpUrl, Region};

const SETTINGS: &str = "ICEFALL_SETTINGS";
const OVERRIDE: &str = "ICEFALL__";
const DEFAULT_FILE: &str = "icefall.toml";

/// The environment variables of a process, and the folder that its binary is in.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    home: PathBuf,
}

impl Environment {
    /// The variables of this very process.
    #[must_use]
    pub fn of_process() -> Self {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let binary = std::env::current_exe().unwrap_or_default();
        let home = binary.parent().map(PathBuf::from).unwrap_or_default();
        Self { variables: variables.collect(), home }
    }

    /// The same with the settings where `place` says, as `ICEFALL_SETTINGS` would.
    #[must_use]
    pub fn with_settings(mut self, place: OsString) -> Self {
        self.variables.insert(SETTINGS.to_owned(), place);
        self
    }

    /// Where the settings are: what `ICEFALL_SETTINGS` says, or `icefall.toml` beside the binary.
    pub fn location(&self) -> Result<Location, SettingsError> {
        match self.variables.get(SETTINGS) {
            None => Ok(Location::Path(self.home.join(DEFAULT_FILE))),
            Some(value) => Location::parse(value),
        }
    }

    /// What Lambda's logging controls ask for.
    #[must_use]
    pub fn log(&self) -> LogSettings {
        LogSettings { level: self.text("AWS_LAMBDA_LOG_LEVEL"), format: self.text("AWS_LAMBDA_LOG_FORMAT") }
    }

    /// The function's name, by which its metrics go.
    #[must_use]
    pub fn function_name(&self) -> Option<String> {
        self.text("AWS_LAMBDA_FUNCTION_NAME")
    }

    /// The region that the function runs in.
    pub fn default_region(&self) -> Result<Region, SettingsError> {
        let region = self.region().and_then(|name| Region::parse(name).ok());
        region.ok_or_else(|| {
            SettingsError::one(
                "AWS_REGION",
                "is not set to a region; settings and secrets that are kept elsewhere are read there",
            )
        })
    }

    /// How the settings' own text is reached, before it says how the rest is.
    pub fn network(&self) -> Result<NetworkSettings, SettingsError> {
        let mut faults = Faults::default();
        let network = network(RawNetwork::default(), self, &mut faults);
        faults.into_result(network)
    }

    /// The URL of a service of AWS that is said to be elsewhere, as the AWS SDKs have it.
    pub fn endpoint(&self, service: &str) -> Result<Option<HttpUrl>, SettingsError> {
        let own = format!("AWS_ENDPOINT_URL_{service}");
        let named =
            [own.as_str(), "AWS_ENDPOINT_URL"].into_iter().find_map(|name| Some((name, self.text(name)?)));
        let Some((name, text)) = named else { return Ok(None) };
        HttpUrl::parse(&text).map(Some).map_err(|problem| SettingsError::one(name, problem))
    }

    /// The folder that the binary is in.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The first of these that is set.
    pub(crate) fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.text(name)?)))
    }

    pub(crate) fn region(&self) -> Option<String> {
        self.text("AWS_REGION").or_else(|| self.text("AWS_DEFAULT_REGION"))
    }

    /// The overrides: variable, path of the key, value if it is text.
    pub(crate) fn overrides(&self) -> impl Iterator<Item = (&str, Vec<String>, Option<&str>)> {
        self.variables.iter().filter_map(|(name, value)| {
            let path = name.strip_prefix(OVERRIDE)?;
            let path = path.split("__").map(str::to_ascii_lowercase).collect();
            Some((name.as_str(), path, value.to_str()))
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.variables.get(name)?.to_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

impl<K: Into<String>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, home: PathBuf::new() }
    }
}

impl fmt::Debug for Environment {
    /// Names only: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Where the text of the settings is. Fetching it is the caller's.
#[derive(Clone, Eq, PartialEq)]
pub enum Location {
    /// A file. A relative path counts from the working directory.
    Path(PathBuf),
    /// An object, read with the function's own credentials.
    S3 {
        /// The bucket.
        bucket: String,
        /// The object's key.
        key: String,
    },
    /// The TOML text itself.
    Inline(String),
}

impl Location {
    fn parse(value: &OsStr) -> Result<Self, SettingsError> {
        let Some(text) = value.to_str() else { return Ok(Self::Path(value.into())) };
        if let Some(inline) = text.strip_prefix("inline:") {
            return Ok(Self::Inline(inline.to_owned()));
        }
        if text.contains('\n') {
            return Ok(Self::Inline(text.to_owned()));
        }
        match text.strip_prefix("s3://") {
            Some(object) => Self::object(object),
            None if text.is_empty() => Err(SettingsError::one(SETTINGS, WHAT_IT_MAY_BE)),
            None => Ok(Self::Path(text.into())),
        }
    }

    fn object(object: &str) -> Result<Self, SettingsError> {
        match object.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => Err(SettingsError::one(SETTINGS, "names no object; write s3://bucket/key")),
        }
    }
}

const WHAT_IT_MAY_BE: &str =
    "is empty; give a path, s3://bucket/key, or the TOML text itself after \"inline:\"";

impl fmt::Debug for Location {
    /// The inline text is left out: it may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::S3 { bucket, key } => {
                f.debug_struct("S3").field("bucket", bucket).field("key", key).finish()
            }
            Self::Inline(_) => f.write_str("Inline(..)"),
        }
    }
}

impl fmt::Display for Location {
    /// For error messages: where to look.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
            Self::Inline(_) => f.write_str("the text in ICEFALL_SETTINGS"),
        }
    }
}

/// What Lambda's logging controls ask for, as given
/// (<https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-advanced.html>).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogSettings {
    /// `AWS_LAMBDA_LOG_LEVEL`: TRACE to FATAL.
    pub level: Option<String>,
    /// `AWS_LAMBDA_LOG_FORMAT`: JSON or Text.
    pub format: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(value: &str) -> Result<Location, SettingsError> {
        Environment::from_iter([(SETTINGS, value)]).location()
    }

    #[test]
    fn settings_are_a_path_an_object_or_the_text_itself() {
        assert_eq!(located("conf/icefall.toml"), Ok(Location::Path("conf/icefall.toml".into())));
        let object = Location::S3 { bucket: "b".to_owned(), key: "a/icefall.toml".to_owned() };
        assert_eq!(located("s3://b/a/icefall.toml"), Ok(object));
        assert_eq!(located("inline:a = 1"), Ok(Location::Inline("a = 1".to_owned())));
        assert_eq!(located("a = 1\nb = 2"), Ok(Location::Inline("a = 1\nb = 2".to_owned())));
    }

    #[test]
    fn a_location_that_names_nothing_is_refused() {
        for nothing in ["", "s3://", "s3://bucket", "s3://bucket/", "s3:///key"] {
            let error = located(nothing).expect_err("names nothing");
            assert_eq!(error.faults()[0].key, SETTINGS, "{nothing:?}");
        }
    }

    #[test]
    fn the_default_is_a_file_beside_the_binary() {
        let environment = Environment { home: "/var/task".into(), ..Environment::default() };
        assert_eq!(environment.location(), Ok(Location::Path("/var/task/icefall.toml".into())));
    }

    #[test]
    fn values_do_not_print() {
        let environment =
            Environment::from_iter([("ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY", "hush")]);
        assert!(!format!("{environment:?}").contains("hush"));
        assert!(!format!("{:?}", located("inline:secret = 'hush'")).contains("hush"));
    }

    #[test]
    fn logging_controls_are_read_as_given() {
        let environment =
            Environment::from_iter([("AWS_LAMBDA_LOG_LEVEL", "WARN"), ("AWS_LAMBDA_LOG_FORMAT", "")]);
        assert_eq!(environment.log(), LogSettings { level: Some("WARN".to_owned()), format: None });
    }
}
