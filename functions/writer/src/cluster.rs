//! The name that a Kafka cluster goes by.
//!
//! The settings name it. For MSK the ARN's cluster id is the default: it stays when brokers, endpoints
//! and even the cluster's display name change.

use icefall_manifest::ClusterName;
use icefall_records::KafkaEvent;

use crate::WriterError;

/// The cluster of `event`.
pub(crate) fn name(
    setting: Option<&ClusterName>,
    event: &KafkaEvent<'_>,
) -> Result<ClusterName, WriterError> {
    if let Some(name) = setting {
        return Ok(name.clone());
    }
    let id = event.source_arn.as_deref().and_then(cluster_id).ok_or(WriterError::NoCluster)?;
    Ok(id.try_into()?)
}

/// The last part of `arn:aws:kafka:<region>:<account>:cluster/<name>/<id>`.
fn cluster_id(arn: &str) -> Option<&str> {
    let resource = arn.splitn(6, ':').nth(5)?;
    let mut parts = resource.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("cluster"), Some(_), Some(id), None) if !id.is_empty() => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_tells_the_clusters_id() {
        let arn = "arn:aws:kafka:us-east-1:123456789012:cluster/vpc-x/abcd1234-5678-14";
        assert_eq!(cluster_id(arn), Some("abcd1234-5678-14"));
        for odd in ["", "arn:aws:kafka:us-east-1:1:topic/a/b", "arn:aws:kafka:us-east-1:1:cluster/a"] {
            assert_eq!(cluster_id(odd), None, "{odd}");
        }
    }
}
