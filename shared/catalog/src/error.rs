//! Failures of a catalog, told apart by what their receiver does next.
//!
//! Every failure carries a [`Reason`]: which operation on which table or namespace, the status and type of
//! the answer, its message, and the request line, none of which ever holds a secret. The messages are read by
//! operators, so each says what to do.

use std::fmt;

/// What was asked of the catalog.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// Fetching a token.
    SignIn,
    /// Reading the catalog's own configuration.
    LoadConfig,
    /// Loading a table.
    LoadTable,
    /// Asking for the credentials for a table's files.
    LoadCredentials,
    /// Creating a table.
    CreateTable,
    /// Committing to a table.
    Commit,
    /// Loading a namespace.
    LoadNamespace,
    /// Creating a namespace.
    CreateNamespace,
    /// Listing the tables of a namespace.
    ListTables,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SignIn => "fetching a token for catalog",
            Self::LoadConfig => "reading the configuration of catalog",
            Self::LoadTable => "loading table",
            Self::LoadCredentials => "asking for the credentials of table",
            Self::CreateTable => "creating table",
            Self::Commit => "committing to table",
            Self::LoadNamespace => "loading namespace",
            Self::CreateNamespace => "creating namespace",
            Self::ListTables => "listing the tables of namespace",
        })
    }
}

/// A failure of the catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no such table, namespace or warehouse.
    #[error("{0}; not found: create it, or correct its name or the warehouse in the settings")]
    NotFound(Reason),
    /// What was to be created is there already.
    #[error("{0}; it exists already: load it instead")]
    AlreadyExists(Reason),
    /// The table is not what the commit was built on.
    #[error("{0}; the table has changed: load it and build the commit again")]
    Conflict(Reason),
    /// The credentials are missing, wrong or not permitted.
    #[error("{0}; denied: {needs}", needs = .0.remedy())]
    Denied(Reason),
    /// Too many requests.
    #[error("{0}; throttled: try again later, or ask the provider for a higher rate")]
    Throttled(Reason),
    /// No connection could be made; nothing was sent.
    #[error("{0}; unreachable: check catalog.uri, name resolution and the network")]
    Unreachable(Reason),
    /// The catalog failed, or its answer was lost. What was asked may have been done.
    #[error("{0}; the catalog is failing or slow: try again, and load before assuming anything")]
    Unavailable(Reason),
    /// The catalog refuses the request for good.
    #[error("{0}; refused: the same request will be refused again")]
    Rejected(Reason),
    /// The catalog's answer is not what the Iceberg REST specification says.
    #[error("{0}; not understood: check that catalog.uri is the base of an Iceberg REST catalog")]
    Malformed(Reason),
    /// The settings can't work, so nothing was sent.
    #[error("{0}; correct the settings")]
    Misconfigured(Reason),
}

impl CatalogError {
    /// The reason it carries.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        match self {
            Self::NotFound(reason)
            | Self::AlreadyExists(reason)
            | Self::Conflict(reason)
            | Self::Denied(reason)
            | Self::Throttled(reason)
            | Self::Unreachable(reason)
            | Self::Unavailable(reason)
            | Self::Rejected(reason)
            | Self::Malformed(reason)
            | Self::Misconfigured(reason) => reason,
        }
    }
}

/// Why something failed, as far as it is known. Never holds a secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    /// What was asked.
    pub operation: Operation,
    /// Of which table, namespace or warehouse.
    pub subject: String,
    /// The answer's status, when there was an answer.
    pub status: Option<u16>,
    /// The answer's error type, such as `CommitFailedException`, when it named one.
    pub kind: Option<String>,
    /// The answer's message, or what happened in place of an answer; shortened.
    pub message: String,
    /// Method and URL without its query, when a request was made.
    pub request: Option<String>,
    /// What these credentials likely have to be permitted for this, as this catalog names it.
    pub needs: &'static [&'static str],
    /// What is worth checking when the catalog does not let us in.
    pub check: &'static str,
}

/// What to check of a signature.
pub(crate) const SIGNATURE: &str = "access key, secret, session token, signing region and the clock";

impl Reason {
    /// A reason that no answer gave.
    #[must_use]
    pub fn new(operation: Operation, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            operation,
            subject: subject.into(),
            status: None,
            kind: None,
            message: message.into(),
            request: None,
            needs: &[],
            check: SIGNATURE,
        }
    }

    /// A request that was not recognised says nothing about permissions.
    fn is_about_the_signature(&self) -> bool {
        let says = |text: &str| text.to_ascii_lowercase().contains("signature");
        says(&self.message) || self.kind.as_deref().is_some_and(says)
    }

    fn remedy(&self) -> String {
        let check = self.check;
        if self.needs.is_empty() || self.is_about_the_signature() {
            return format!("check {check}");
        }
        format!("the role likely lacks {} on it; if it has that, check {check}", self.needs.join(" and "))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.operation, self.subject)?;
        if let Some(status) = self.status {
            write!(f, "{status} ")?;
        }
        if let Some(kind) = &self.kind {
            write!(f, "{kind}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.request {
            Some(request) => write!(f, " ({request})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_the_permission_and_the_table() {
        let mut reason = Reason::new(Operation::Commit, "analytics.clicks", "not authorized");
        reason.status = Some(403);
        reason.needs = &["s3tables:PutTableData"];
        let text = CatalogError::Denied(reason).to_string();
        assert!(text.starts_with("committing to table analytics.clicks: 403 not authorized"), "{text}");
        assert!(text.contains("s3tables:PutTableData"), "{text}");
    }

    #[test]
    fn a_wrong_signature_is_no_lack_of_permissions() {
        let mut reason = Reason::new(Operation::LoadTable, "ns.t", "the signature does not match");
        reason.needs = &["s3tables:GetTableData"];
        let text = CatalogError::Denied(reason).to_string();
        assert!(text.contains("check access key") && !text.contains("GetTableData"), "{text}");
    }
}
