//! The bodies of answers, read with as much tolerance as their meaning allows.
//!
//! Catalogs leave out what the specification calls required, write null where it says nothing may be, and name the
//! next page in two ways. All of that is accepted here, once; nothing is accepted whose meaning would have to be
//! guessed, such as metadata without its partition specs.

use std::collections::BTreeMap;
use std::sync::Arc;

use iceberg::spec::{SnapshotReference, TableMetadata};
use iceberg::{NamespaceIdent, TableIdent};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{LoadedTable, Namespace, StorageCredentials};

/// Why a body can't be read, for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the body is not the JSON it should be: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the body holds no table metadata")]
    NoMetadata,
    #[error("the table metadata is not valid: {0}")]
    Metadata(serde_json::Error),
    #[error("the body holds no valid name")]
    Name,
}

/// `LoadTableResult` and `CommitTableResponse` of the REST specification.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct TableBody<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(default)]
    metadata_location: Option<String>,
    #[serde(default)]
    config: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    storage_credentials: Option<Vec<CredentialsBody>>,
}

#[derive(Deserialize)]
struct CredentialsBody {
    prefix: String,
    #[serde(default)]
    config: Option<BTreeMap<String, Value>>,
}

/// A table from the answer to a load, a creation or a commit.
pub(crate) fn table(body: &[u8]) -> Result<LoadedTable, WireError> {
    let answer_bytes = body.len() as u64;
    let body: TableBody<'_> = serde_json::from_slice(body)?;
    let metadata = body.metadata.filter(|raw| raw.get() != "null").ok_or(WireError::NoMetadata)?;
    Ok(LoadedTable {
        references: Arc::new(references_in(metadata.get())?),
        metadata: Arc::new(metadata_of(metadata.get())?),
        metadata_location: body.metadata_location.filter(|location| !location.is_empty()),
        answer_bytes,
        config: strings(body.config),
        storage_credentials: storage_credentials(body.storage_credentials.unwrap_or_default()),
    })
}

/// The metadata's branches and tags.
fn references_in(metadata: &str) -> Result<BTreeMap<String, SnapshotReference>, WireError> {
    #[derive(Deserialize)]
    struct References {
        #[serde(default)]
        refs: Option<BTreeMap<String, SnapshotReference>>,
    }
    let read: References = serde_json::from_str(metadata).map_err(WireError::Metadata)?;
    Ok(read.refs.unwrap_or_default())
}

/// `LoadCredentialsResponse` of the REST specification.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct CredentialsAnswer {
    storage_credentials: Vec<CredentialsBody>,
}

/// The credentials for a table's files.
pub(crate) fn credentials(body: &[u8]) -> Result<Vec<StorageCredentials>, WireError> {
    let body: CredentialsAnswer = serde_json::from_slice(body)?;
    Ok(storage_credentials(body.storage_credentials))
}

fn storage_credentials(parts: Vec<CredentialsBody>) -> Vec<StorageCredentials> {
    let part =
        |part: CredentialsBody| StorageCredentials { prefix: part.prefix, config: strings(part.config) };
    parts.into_iter().map(part).collect()
}

/// Parses metadata, and once more with the specification's defaults in place of what is missing.
fn metadata_of(json: &str) -> Result<TableMetadata, WireError> {
    serde_json::from_str(json).or_else(|strict| {
        let mut value: Value = serde_json::from_str(json)?;
        fill_in(&mut value);
        serde_json::from_value(value).map_err(|_| WireError::Metadata(strict))
    })
}

/// Null is the same as absent, and a table without sort orders is unsorted.
fn fill_in(metadata: &mut Value) {
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.entry("default-sort-order-id").or_insert_with(|| 0.into());
        fields.entry("sort-orders").or_insert_with(|| Value::Array(Vec::new()));
    }
}

fn strings(values: Option<BTreeMap<String, Value>>) -> BTreeMap<String, String> {
    let text = |value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    values.unwrap_or_default().into_iter().filter_map(|(key, value)| Some((key, text(value)?))).collect()
}

#[derive(Deserialize)]
struct NamespaceBody {
    #[serde(default)]
    namespace: Option<Vec<String>>,
    #[serde(default)]
    properties: Option<BTreeMap<String, Value>>,
}

/// A namespace from the answer to a load. One that leaves out its name is the one that was asked for.
pub(crate) fn namespace(body: &[u8], asked: &NamespaceIdent) -> Result<Namespace, WireError> {
    let body: NamespaceBody = serde_json::from_slice(body)?;
    let name = match body.namespace {
        Some(levels) => NamespaceIdent::from_vec(levels).map_err(|_| WireError::Name)?,
        None => asked.clone(),
    };
    Ok(Namespace { name, properties: strings(body.properties) })
}

/// One page of a namespace's tables.
#[derive(Debug, Deserialize)]
pub(crate) struct TablesPage {
    #[serde(default)]
    pub(crate) identifiers: Vec<TableIdent>,
    #[serde(default, rename = "next-page-token")]
    next_page_token: Option<String>,
    /// As OSS Tables writes it, besides the specification's form.
    #[serde(default, rename = "nextPageToken")]
    next_page_token_in_camel_case: Option<String>,
}

impl TablesPage {
    pub(crate) fn read(body: &[u8]) -> Result<Self, WireError> {
        Ok(serde_json::from_slice(body)?)
    }

    /// The token that asks for the next page; `None` on the last.
    pub(crate) fn next(self) -> Option<String> {
        let token = self.next_page_token.or(self.next_page_token_in_camel_case);
        token.filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use iceberg::spec::SnapshotRetention;

    use super::*;

    fn metadata() -> Value {
        serde_json::json!({
            "format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "s3://lake/ns/t",
            "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 1, "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": false, "type": "long"}]}],
            "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0, "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0,
        })
    }

    fn read(body: &Value) -> Result<LoadedTable, WireError> {
        table(&serde_json::to_vec(body).unwrap())
    }

    #[test]
    fn the_least_answer_is_a_table() {
        let loaded = read(&serde_json::json!({ "metadata": metadata() })).unwrap();
        assert_eq!(loaded.metadata.location(), "s3://lake/ns/t");
        assert_eq!(loaded.metadata_location, None);
        assert!(loaded.config.is_empty() && loaded.references.is_empty());
    }

    #[test]
    fn branches_and_tags_come_with_their_retention() {
        let mut referenced = metadata();
        referenced["current-snapshot-id"] = 7.into();
        referenced["snapshots"] = serde_json::json!([{
            "snapshot-id": 7, "sequence-number": 0, "timestamp-ms": 1, "manifest-list": "s3://lake/l",
            "summary": {"operation": "append"}
        }]);
        referenced["refs"] = serde_json::json!({
            "main": {"type": "branch", "snapshot-id": 7, "min-snapshots-to-keep": 3},
            "old": {"type": "tag", "snapshot-id": 7}
        });
        let loaded = read(&serde_json::json!({ "metadata": referenced })).unwrap();
        let kept = SnapshotRetention::branch(Some(3), None, None);
        assert_eq!(loaded.references["main"], SnapshotReference::new(7, kept));
        assert!(!loaded.references["old"].is_branch());
    }

    #[test]
    fn nulls_and_missing_sort_orders_are_tolerated() {
        let mut odd = metadata();
        odd["statistics"] = Value::Null;
        odd["current-snapshot-id"] = (-1).into();
        odd.as_object_mut().unwrap().remove("sort-orders");
        odd.as_object_mut().unwrap().remove("default-sort-order-id");
        let body = serde_json::json!({
            "metadata": odd, "metadata-location": null, "config": null, "storage-credentials": null
        });
        assert_eq!(read(&body).unwrap().metadata.current_snapshot_id(), None);
    }

    #[test]
    fn metadata_that_would_have_to_be_guessed_is_refused() {
        let mut odd = metadata();
        odd.as_object_mut().unwrap().remove("partition-specs");
        assert!(matches!(read(&serde_json::json!({ "metadata": odd })), Err(WireError::Metadata(_))));
        assert!(matches!(read(&serde_json::json!({ "metadata": null })), Err(WireError::NoMetadata)));
        assert!(matches!(read(&serde_json::json!({})), Err(WireError::NoMetadata)));
        assert!(matches!(table(b"<html>"), Err(WireError::Json(_))));
    }

    #[test]
    fn handed_out_credentials_are_kept_and_not_printed() {
        let body = serde_json::json!({
            "metadata": metadata(), "config": {"s3.secret-access-key": "hush-1", "n": 5, "x": null},
            "storage-credentials": [{"prefix": "s3://lake/ns/t", "config": {"s3.session-token": "hush-2"}}]
        });
        let loaded = read(&body).unwrap();
        assert_eq!(loaded.config["n"], "5");
        assert_eq!(loaded.storage_credentials[0].config["s3.session-token"], "hush-2");
        assert!(!format!("{loaded:?}").contains("hush"));
    }

    #[test]
    fn pages_name_the_next_in_either_way() {
        let next = |body: &str| TablesPage::read(body.as_bytes()).unwrap().next();
        assert_eq!(
            next(r#"{"identifiers":[],"next-page-token":"a","nextPageToken":"a"}"#).as_deref(),
            Some("a")
        );
        assert_eq!(next(r#"{"identifiers":[],"nextPageToken":"b"}"#).as_deref(), Some("b"));
        assert_eq!(next(r#"{"identifiers":[],"next-page-token":""}"#), None);
        assert_eq!(next("{}"), None);
    }

    #[test]
    fn a_namespace_may_come_without_name_and_properties() {
        let asked = NamespaceIdent::new("ns".to_owned());
        assert_eq!(namespace(b"{}", &asked).unwrap().name, asked);
    }
}
