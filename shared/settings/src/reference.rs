//! Secrets that are kept elsewhere.
//!
//! A secret's key may hold a table in place of a text: the name of a secret or a parameter of AWS, which
//! is fetched when a function starts. Wherever a [`Secret`] is read, a reference is understood, so no key has
//! to know about it. Until the reference is resolved a stand-in takes the secret's place, so that everything
//! else about the settings is checked before anyone is asked anything.

use std::collections::BTreeMap;
use std::fmt;

use icefall_secret::Secret;

use crate::fault::{Faults, Key};
use crate::node::Node;
use crate::read::{Read, refuse_unknown, table};

/// A secret that is kept elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretReference {
    /// The key of the settings that it is for.
    pub key: String,
    /// Where it is kept.
    pub store: SecretStore,
}

/// Where a secret is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SecretStore {
    /// AWS Secrets Manager.
    SecretsManager {
        /// The secret's name or ARN.
        id: String,
        /// The key of the JSON object that it holds; absent: the whole text.
        json_key: Option<String>,
    },
    /// A parameter of AWS Systems Manager.
    Ssm {
        /// The parameter's name or ARN.
        name: String,
    },
}

impl SecretStore {
    /// The name or ARN of what holds the secret.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::SecretsManager { id, .. } => id,
            Self::Ssm { name } => name,
        }
    }
}

impl fmt::Display for SecretStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretsManager { id, json_key: None } => write!(f, "secret {id:?}"),
            Self::SecretsManager { id, json_key: Some(key) } => write!(f, "key {key:?} of secret {id:?}"),
            Self::Ssm { name } => write!(f, "parameter {name:?}"),
        }
    }
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.store)
    }
}

/// The references met so far, and what is known of them.
#[derive(Debug, Default)]
pub(crate) struct References {
    pub(crate) found: Vec<SecretReference>,
    pub(crate) resolved: BTreeMap<String, Secret>,
}

impl References {
    /// The secret that `reference` means, or a stand-in.
    fn follow(&mut self, reference: SecretReference) -> Secret {
        let known = self.resolved.get(&reference.key).cloned();
        self.found.push(reference);
        known.unwrap_or_else(|| Secret::new("unresolved".to_owned()))
    }
}

impl Read for Secret {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        if !matches!(node, Node::Table(_)) {
            return String::read(node, key, faults).map(Self::new);
        }
        let store = SecretStore::read(node, key, faults)?;
        Some(faults.references.follow(SecretReference { key: key.to_string(), store }))
    }
}

impl Read for SecretStore {
    fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
        let mut entries = table(node, key, faults)?;
        let before = faults.count();
        let mut take = |name: &str| {
            let node = entries.remove(name)?;
            let text = String::read(node, &key.child(name), faults)?;
            if text.trim().is_empty() {
                faults.add(&key.child(name), "is empty; name what holds the secret");
                return None;
            }
            Some(text)
        };
        let (id, json_key, name) = (take("secretsmanager"), take("key"), take("ssm"));
        let known = ["secretsmanager", "key", "ssm"];
        refuse_unknown(entries, &known, key, faults);
        match (id, json_key, name) {
            (Some(id), json_key, None) => Some(Self::SecretsManager { id, json_key }),
            (None, None, Some(name)) => Some(Self::Ssm { name }),
            _ => {
                if faults.count() == before {
                    faults.add(key, format_args!("names no one secret; {FORMS}"));
                }
                None
            }
        }
    }
}

const FORMS: &str = "give the secret itself, { secretsmanager = \"name or ARN\", key = \"JSON key\" } (key only if the \
                     secret is a JSON object), or { ssm = \"parameter's name\" }";
