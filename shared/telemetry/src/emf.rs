//! CloudWatch's embedded metric format: metrics as log lines.
//!
//! A function that has to call a metrics service pays for it in every invocation and can fail by it; a
//! line on standard output costs nothing. One line holds the metrics of one set of dimensions
//! (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>).

use icefall_clock::Timestamp;
use serde_json::{Map, Value, json};

use crate::metrics::Metric;

/// The namespace that all metrics are in.
pub(crate) const NAMESPACE: &str = "Icefall";

/// One line, newline included, of what `function` measured (of `table`, when given).
///
/// A table's metrics are also given by function alone, so that one alarm covers all tables.
pub(crate) fn line(function: &str, table: Option<&str>, values: &[(Metric, u64)], now: Timestamp) -> String {
    let dimensions =
        if table.is_some() { json!([["Function"], ["Function", "Table"]]) } else { json!([["Function"]]) };
    let metrics: Vec<_> = values.iter().map(|(metric, _)| declaration(*metric)).collect();
    let directive = json!({ "Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": metrics });
    let mut root = Map::new();
    root.insert("_aws".to_owned(), json!({ "Timestamp": now.unix_ms(), "CloudWatchMetrics": [directive] }));
    root.insert("Function".to_owned(), function.into());
    root.extend(table.map(|table| ("Table".to_owned(), table.into())));
    root.extend(values.iter().map(|(metric, value)| (metric.name(), Value::from(*value))));
    format!("{}\n", Value::Object(root))
}

fn declaration(metric: Metric) -> Value {
    json!({ "Name": metric.name(), "Unit": metric.unit().to_string() })
}
