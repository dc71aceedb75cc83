//! One Kafka batch in, durable data files and batch manifests out.
