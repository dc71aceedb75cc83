"""Promises on logs, alarms and the dashboard: each rests on something that is measured, by whom it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import code_of_functions as code
from cloudformation import Stack

NAMESPACE = "Icefall"
AWS_METRICS = {
    ("AWS/Lambda", "Invocations"): "FunctionName",
    ("AWS/Lambda", "Errors"): "FunctionName",
    ("AWS/Lambda", "Throttles"): "FunctionName",
    ("AWS/Lambda", "OffsetLag"): "FunctionName",
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"): "QueueName",
}
"""AWS's own metrics that are used, with the dimension that they have
(https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html)."""

ALSO_ALARMED = {
    ("AWS/SQS", "ApproximateAgeOfOldestMessage", "<CommitQueue.QueueName>"),
    ("AWS/Lambda", "Errors", "<Committer>"),
    ("AWS/Lambda", "Invocations", "<Committer>"),
    ("AWS/Lambda", "Errors", "<Writer>"),
    ("AWS/Lambda", "Throttles", "<Writer>"),
    ("AWS/Lambda", "OffsetLag", "<Writer>"),
    (NAMESPACE, "OldestBatchManifestAge", "<Committer>"),
    (NAMESPACE, "BatchesReceived", "<Committer>"),
    (NAMESPACE, "DuplicateBatches", "<Committer>"),
}

ALSO_ALARMED_BY_QUEUE = {("AWS/Lambda", "Throttles", "<Committer>")}
"""By schedule a throttle is a start that found the committer running, and nothing to be told of."""

MEASURED_WHEN_MESSAGES_COME = {
    ("AWS/Lambda", "Errors", "<Committer>"),
    (NAMESPACE, "TableFailures", "<Committer>"),
    (NAMESPACE, "RoundsUnended", "<Committer>"),
}
"""By queue, messages that stay may come again only when the queue no longer hides them, and so do these."""

Used = tuple[str, str, Mapping[str, str]]
"""A metric: namespace, name, dimensions."""


def logs_are_json_and_kept_for_a_while(stack: Stack) -> Iterator[str]:
    """Each function logs into a group of its own, at a level at which Lambda lets metrics through."""
    for function in ("Writer", "Committer"):
        logging = stack.properties(function).get("LoggingConfig", {})
        if (logging.get("LogFormat"), logging.get("LogGroup")) != ("JSON", f"<{function}Log>"):
            yield f"{function} logs as {logging}"
        if not int(stack.properties(f"{function}Log").get("RetentionInDays", 0)):
            yield f"{function}Log is kept for ever"
    # Lambda takes lines without a time, such as metrics, for INFO, and drops them above it.
    if above := set(stack.template["Parameters"]["LogLevel"]["AllowedValues"]) - {"INFO", "DEBUG", "TRACE"}:
        yield f"at the log level {above} the metrics are dropped"


def alarms_rest_on_metrics_that_somebody_measures(stack: Stack) -> Iterator[str]:
    """Name, dimensions and the function that measures it are right, and the period is one that alarms take."""
    for name, alarm in _alarms(stack).items():
        for used in _used(alarm):
            yield from (f"{name}: {fault}" for fault in _metric_faults(used))
        for period in [one["MetricStat"]["Period"] for one in alarm.get("Metrics", []) if "MetricStat" in one] or [alarm.get("Period")]:
            if not period or int(period) % 60 or int(period) * int(alarm["EvaluationPeriods"]) > 86_400:
                yield f"{name}: a period of {period} s"


def alarms_tell_somebody_what_to_do(stack: Stack) -> Iterator[str]:
    """Each says what to do and goes to a topic; it says what no data means."""
    for name, alarm in _alarms(stack).items():
        if len(alarm.get("AlarmDescription", "")) < 120:
            yield f"{name} does not say what to do"
        if len(alarm.get("AlarmDescription", "")) > 1024:
            yield f"{name} says more than CloudWatch takes"
        own = stack.parameter("AlarmTopicArn") or "<AlarmTopic>"
        if alarm.get("AlarmActions") != [own] or alarm.get("TreatMissingData") not in ("breaching", "notBreaching"):
            yield f"{name} tells {alarm.get('AlarmActions')}, and without data {alarm.get('TreatMissingData')}"


def what_calls_for_an_alarm_has_one(stack: Stack) -> Iterator[str]:
    """Every metric whose description asks for an alarm, and what AWS measures of the functions and the queue."""
    used = [metric for alarm in _alarms(stack).values() for metric in _used(alarm)]
    alarmed = {(namespace, name, *dimensions.values()) for namespace, name, dimensions in used}
    wanted = ALSO_ALARMED | (ALSO_ALARMED_BY_QUEUE if stack.parameter("CommitterTrigger") == "queue" else set())
    for metric in code.metrics_that_call_for_an_alarm():
        wanted |= {(NAMESPACE, metric, f"<{function.capitalize()}>") for function in code.emitters()[metric]}
    yield from (f"no alarm on {' '.join(one)}" for one in sorted(wanted - alarmed))


def alarms_look_back_to_when_messages_came_last(stack: Stack) -> Iterator[str]:
    """By queue a table that fails each time its messages come must reach an alarm, however long they are hidden."""
    if stack.parameter("CommitterTrigger") != "queue":
        return
    hidden = int(stack.properties("CommitQueue")["VisibilityTimeout"])
    for name, alarm in _alarms(stack).items():
        keys = {(namespace, metric, *dimensions.values()) for namespace, metric, dimensions in _used(alarm)}
        looks_back = int(alarm.get("Period", 0)) * int(alarm["EvaluationPeriods"])
        if keys & MEASURED_WHEN_MESSAGES_COME and looks_back < int(alarm["DatapointsToAlarm"]) * hidden:
            yield f"{name} looks back for {looks_back} s, and messages come every {hidden} s"


def the_dashboard_shows_metrics_that_somebody_measures(stack: Stack) -> Iterator[str]:
    """The same care as with alarms; a misspelt metric is an empty graph."""
    (dashboard,) = stack.of_type("AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["Properties"]["DashboardBody"])["widgets"]
    if len(widgets) < 4:
        yield "the dashboard is empty"
    for widget in widgets:
        for namespace, name, dimension, value, *_ in widget["properties"]["metrics"]:
            for fault in _metric_faults((namespace, name, {dimension: value})):
                yield f"{widget['properties']['title']}: {fault}"


def _alarms(stack: Stack) -> dict[str, Any]:
    return {name: one["Properties"] for name, one in stack.of_type("AWS::CloudWatch::Alarm").items()}


def _used(alarm: Mapping[str, Any]) -> Iterator[Used]:
    several = [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", []) if "MetricStat" in one]
    for metric in several or [alarm]:
        dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
        yield metric["Namespace"], metric["MetricName"], dimensions


def _metric_faults(used: Used) -> Iterator[str]:
    namespace, name, dimensions = used
    if namespace != NAMESPACE:
        dimension = AWS_METRICS.get((namespace, name))
        names = {"<CommitQueue.QueueName>"} if dimension == "QueueName" else {"<Writer>", "<Committer>"}
        if list(dimensions) != [dimension] or not set(dimensions.values()) <= names:
            yield f"{namespace} {name} is not known by {dict(dimensions)}"
        return
    if name not in code.metrics():
        yield f"{name} is not in METRICS.md"
        return
    by = {"Function": "function", "Table": "table"}
    if "Function" not in dimensions or not {by.get(one) for one in dimensions} <= set(code.metrics()[name]):
        yield f"{name} is told apart by {code.metrics()[name]}, not {list(dimensions)}"
    if dimensions.get("Function") not in {f"<{one.capitalize()}>" for one in code.emitters()[name]}:
        yield f"{dimensions.get('Function')} does not measure {name}"
