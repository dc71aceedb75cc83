//! What the Kafka cluster is called in ledgers.
//!
//! The name is part of every record's identity, so it comes from the settings. MSK's events name
//! their cluster by an ARN whose last part is the cluster's id, which never changes and serves when
//! nothing is set. Events of self-managed Kafka name only brokers, which do change.

use icefall_manifest::ClusterName;

use crate::WriterError;

/// The cluster's name: as `set`, or MSK's id of it.
pub(crate) fn name(set: Option<&ClusterName>, arn: Option<&str>) -> Result<ClusterName, WriterError> {
    match (set, arn) {
        (Some(name), _) => Ok(name.clone()),
        (None, Some(arn)) => of_arn(arn).ok_or_else(|| {
            WriterError::NoCluster(format!("the event's ARN {arn} is none of an MSK cluster"))
        }),
        (None, None) => Err(WriterError::NoCluster("the event does not name its Kafka cluster".to_owned())),
    }
}

/// The id at the end of `arn:aws:kafka:region:account:cluster/name/id`
/// (<https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonmanagedstreamingforapachekafka.html>).
fn of_arn(arn: &str) -> Option<ClusterName> {
    let (_, resource) = arn.split_once(":cluster/").filter(|(head, _)| head.contains(":kafka:"))?;
    let (_, id) = resource.split_once('/')?;
    ClusterName::try_from(id).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:kafka:us-east-1:123456789012:cluster/vpc-x/abcd1234-0000-14";

    #[test]
    fn the_setting_comes_first_and_the_arn_serves_without_it() {
        let set = ClusterName::try_from("main").expect("a name");
        assert_eq!(name(Some(&set), Some(ARN)).expect("it is set"), set);
        assert_eq!(name(None, Some(ARN)).expect("an MSK cluster").as_str(), "abcd1234-0000-14");
    }

    #[test]
    fn without_either_the_key_to_set_is_named() {
        for arn in [None, Some(""), Some("arn:aws:kafka:r:1:cluster/x"), Some("arn:aws:s3:r:1:cluster/x/y")] {
            let error = name(None, arn).expect_err("no cluster is named");
            assert!(error.to_string().contains("kafka.cluster"), "{error}");
        }
    }
}
