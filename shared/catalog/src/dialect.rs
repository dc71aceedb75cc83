//! What differs from catalog to catalog, as data.
//!
//! Catalogs agree on the protocol and disagree on details: how a refusal is phrased, whether a new table needs
//! a location, which permission an operation takes. All of that stands in the tables of this module and nowhere
//! else, so that supporting another catalog is a row here. Sources: the Iceberg REST specification (responses of
//! `updateTable`); Amazon S3 Tables and AWS Glue user guides on their Iceberg REST endpoints; for each rule, its
//! own comment.

use crate::answer::Refusal;
use crate::error::Operation;

/// What an answer that is no success means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Meaning {
    /// The thing is not what the request assumed.
    Conflict,
    /// There is no such thing.
    NotFound,
    /// Credentials missing, wrong or not permitted.
    Denied,
    /// Later.
    Throttled,
    /// Never.
    Rejected,
    /// Nothing is proven.
    Unclear,
}

/// One kind of catalog.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Whether a new table has to be given its location.
    pub(crate) requires_location: bool,
    /// Whether `snapshots=refs` may be asked for.
    pub(crate) loads_refs: bool,
    permissions: &'static [(Operation, &'static [&'static str])],
}

impl Dialect {
    /// The dialect of the catalog that is signed for by this name; the plain one for all others.
    pub(crate) fn of_signing_name(name: Option<&str>) -> &'static Self {
        match name {
            Some("s3tables") => &S3_TABLES,
            Some("osstables") => &OSS_TABLES,
            Some("glue") => &GLUE,
            _ => &PLAIN,
        }
    }

    /// What has to be permitted for `operation`.
    pub(crate) fn permissions(&self, operation: Operation) -> &'static [&'static str] {
        self.permissions.iter().find(|(named, _)| *named == operation).map_or(&[], |(_, actions)| actions)
    }
}

static PLAIN: Dialect = Dialect { requires_location: false, loads_refs: true, permissions: &[] };

static S3_TABLES: Dialect = Dialect {
    requires_location: false,
    loads_refs: true,
    permissions: &[
        (Operation::LoadConfig, &["s3tables:GetTableBucket"]),
        (Operation::LoadTable, &["s3tables:GetTableMetadataLocation", "s3tables:GetTableData"]),
        (Operation::CreateTable, &["s3tables:CreateTable", "s3tables:PutTableData"]),
        (
            Operation::Commit,
            &["s3tables:UpdateTableMetadataLocation", "s3tables:PutTableData", "s3tables:GetTableData"],
        ),
        (Operation::LoadNamespace, &["s3tables:GetNamespace"]),
        (Operation::CreateNamespace, &["s3tables:CreateNamespace"]),
        (Operation::ListTables, &["s3tables:ListTables"]),
    ],
};

static OSS_TABLES: Dialect = Dialect {
    requires_location: false,
    loads_refs: true,
    permissions: &[
        (Operation::CreateTable, &["oss:CreateTable", "oss:PutTableData"]),
        (Operation::Commit, &["oss:PutTableData"]),
    ],
};

/// Glue loads with `snapshots=all` only, and answers "Cannot parse missing string: location" to a creation without.
static GLUE: Dialect = Dialect {
    requires_location: true,
    loads_refs: false,
    permissions: &[
        (Operation::LoadConfig, &["glue:GetCatalog"]),
        (Operation::LoadTable, &["glue:GetTable"]),
        (Operation::CreateTable, &["glue:CreateTable"]),
        (Operation::Commit, &["glue:UpdateTable"]),
        (Operation::LoadNamespace, &["glue:GetDatabase"]),
        (Operation::CreateNamespace, &["glue:CreateDatabase"]),
        (Operation::ListTables, &["glue:GetTables"]),
    ],
};

/// A refusal whose meaning its status alone doesn't tell.
struct Rule {
    /// Applies to this status.
    status: u16,
    /// The error type has this ending; any type when empty.
    kind: &'static str,
    /// The message holds this, in any case; any message when empty.
    text: &'static str,
    meaning: Meaning,
}

const fn kind(kind: &'static str, meaning: Meaning) -> Rule {
    Rule { status: 400, kind, text: "", meaning }
}

const fn text(text: &'static str, meaning: Meaning) -> Rule {
    Rule { status: 400, kind: "", text, meaning }
}

/// Rules before the statuses' own meaning. They overlap nowhere, so they hold for every catalog.
static RULES: &[Rule] = &[
    // A sequence number that is not above the table's last: somebody committed in between, or rolled back to
    // the snapshot this was built on. SeaweedFS and Iceberg's Java catalog before 1.11 say 400, later ones 409.
    text("sequence number", Meaning::Conflict),
    // Databricks Unity Catalog: https://github.com/apache/iceberg/pull/16644.
    text("commit validation failed", Meaning::Conflict),
    kind("CommitFailedException", Meaning::Conflict),
    kind("ConflictException", Meaning::Conflict),
    kind("AlreadyExistsException", Meaning::Conflict),
    // AWS services' common errors come with 400 as well:
    // https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html.
    kind("TooManyRequestsException", Meaning::Throttled),
    kind("ThrottlingException", Meaning::Throttled),
    kind("RequestLimitExceeded", Meaning::Throttled),
    kind("SlowDown", Meaning::Throttled),
    kind("AccessDeniedException", Meaning::Denied),
    kind("ExpiredTokenException", Meaning::Denied),
    kind("ExpiredToken", Meaning::Denied),
    kind("IncompleteSignature", Meaning::Denied),
    kind("InvalidClientTokenId", Meaning::Denied),
    kind("InvalidSignatureException", Meaning::Denied),
    kind("MissingAuthenticationToken", Meaning::Denied),
    kind("RequestExpired", Meaning::Denied),
    kind("RequestTimeTooSkewed", Meaning::Denied),
    kind("UnrecognizedClientException", Meaning::Denied),
    kind("NoSuchTableException", Meaning::NotFound),
    kind("NoSuchNamespaceException", Meaning::NotFound),
];

impl Rule {
    fn matches(&self, status: u16, refusal: &Refusal) -> bool {
        let kind = refusal.kind.as_deref().unwrap_or_default();
        status == self.status
            && kind.ends_with(self.kind)
            && refusal.message.to_ascii_lowercase().contains(self.text)
    }
}

/// What a status other than success means, together with what its body says.
pub(crate) fn meaning(status: u16, refusal: &Refusal) -> Meaning {
    if let Some(rule) = RULES.iter().find(|rule| rule.matches(status, refusal)) {
        return rule.meaning;
    }
    match status {
        401 | 403 | 419 => Meaning::Denied,
        404 => Meaning::NotFound,
        409 => Meaning::Conflict,
        429 => Meaning::Throttled,
        // Timed out, and hung up on by a proxy: the server may be at work still.
        408 | 499 => Meaning::Unclear,
        400..=498 => Meaning::Rejected,
        _ => Meaning::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: &str, message: &str) -> Refusal {
        Refusal { kind: Some(kind.to_owned()), message: message.to_owned() }
    }

    #[test]
    fn stale_sequence_numbers_are_conflicts_whatever_the_status() {
        let java =
            refusal("ValidationException", "Cannot add snapshot with sequence number 3 older than last");
        let seaweed = refusal("BadRequestException", "Sequence Number 3 <= last 4");
        for (status, refusal) in [(400, &java), (409, &java), (400, &seaweed)] {
            assert_eq!(meaning(status, refusal), Meaning::Conflict, "{status} {refusal:?}");
        }
    }

    #[test]
    fn a_status_alone_means_what_the_specification_says() {
        let bare = refusal("", "");
        let expected = [
            (302, Meaning::Unclear),
            (400, Meaning::Rejected),
            (401, Meaning::Denied),
            (403, Meaning::Denied),
            (404, Meaning::NotFound),
            (408, Meaning::Unclear),
            (409, Meaning::Conflict),
            (413, Meaning::Rejected),
            (419, Meaning::Denied),
            (422, Meaning::Rejected),
            (429, Meaning::Throttled),
            (500, Meaning::Unclear),
            (502, Meaning::Unclear),
            (503, Meaning::Unclear),
            (504, Meaning::Unclear),
        ];
        for (status, meaning_of_it) in expected {
            assert_eq!(meaning(status, &bare), meaning_of_it, "{status}");
        }
    }

    #[test]
    fn wording_never_turns_a_server_failure_into_a_refusal() {
        let failure = refusal("CommitFailedException", "sequence number, commit validation failed");
        assert_eq!(meaning(500, &failure), Meaning::Unclear);
    }

    #[test]
    fn each_signing_name_has_its_dialect() {
        assert!(Dialect::of_signing_name(Some("glue")).requires_location);
        let s3_tables = Dialect::of_signing_name(Some("s3tables"));
        assert_eq!(s3_tables.permissions(Operation::LoadConfig), ["s3tables:GetTableBucket"]);
        assert!(Dialect::of_signing_name(Some("execute-api")).permissions(Operation::Commit).is_empty());
        assert!(Dialect::of_signing_name(None).loads_refs);
    }
}
