//! Keys for one of the parts that Icefall talks to.
//!
//! Catalog, store, ops bucket and queue each have their own: nothing works because it happens to share
//! an environment variable with something else.

use std::path::PathBuf;

use icefall_secret::Secret;

use crate::values::HttpUrl;

/// Where the keys come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CredentialsSettings {
    /// The AWS default chain: in a function, its role.
    Default,
    /// These.
    Static(StaticCredentials),
    /// A role, lent by the token service (STS).
    Role(AssumedRole),
}

/// A key pair.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StaticCredentials {
    /// The access key's id; no secret.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: Secret,
    /// The session's token, of temporary keys.
    pub session_token: Option<Secret>,
}

/// A role, and who asks for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AssumedRole {
    /// The role.
    pub arn: String,
    /// What the session goes by in the logs of the role's account.
    pub session_name: String,
    /// What the role's owner wants to be told.
    pub external_id: Option<String>,
    /// The token service; absent: AWS's own of the part's region.
    pub sts_endpoint: Option<HttpUrl>,
    /// Who asks.
    pub source: RoleSource,
}

/// Who asks for a role.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RoleSource {
    /// The AWS default chain: in a function, its own role.
    Default,
    /// The holder of these keys.
    Static(StaticCredentials),
    /// The bearer of the token in this file, which is read anew each time.
    WebIdentity(PathBuf),
}
