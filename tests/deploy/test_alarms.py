"""Which alarms are raised, in states that a pipeline can be in: those that tell of it, and no other."""

from __future__ import annotations

import pytest
from alarm_math import evaluated, is_raised
from cloudformation import Stack, source, transformed
from promises import SCENARIOS

STACK = Stack(transformed(source()), SCENARIOS["MSK by IAM into S3 Tables"])
ALARMS = {name: one["Properties"] for name, one in STACK.of_type("AWS::CloudWatch::Alarm").items()}
WRITER, COMMITTER, QUEUE = "<Writer>", "<Committer>", "<CommitQueue.QueueName>"
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000

HEALTHY = {
    ("Invocations", WRITER): [600],
    ("Errors", WRITER): [0],
    ("Throttles", WRITER): [0],
    ("OffsetLag", WRITER): [1_200],
    ("Invocations", COMMITTER): [5],
    ("Errors", COMMITTER): [0],
    ("ApproximateAgeOfOldestMessage", QUEUE): [40],
    ("BatchesReceived", COMMITTER): [300, 40],
    ("BatchesCommitted", COMMITTER): [299, 40],
    ("DuplicateBatches", COMMITTER): [1],
    ("OldestBatchManifestAge", COMMITTER): [70 * SECOND_MS, 50 * SECOND_MS],
    ("LastSnapshotAge", COMMITTER): [MINUTE_MS, 3 * MINUTE_MS],
    ("TableMetadataSize", COMMITTER): [90_000, 2_000],
    ("OutboxEntriesWaiting", COMMITTER): [2, 0],
}
"""Of two tables: counters and ages come from each by itself. What did not happen was not measured."""

NOTHING_COMMITTED = {("BatchesCommitted", COMMITTER): [], ("DuplicateBatches", COMMITTER): []}

STATES = {
    "healthy": ({}, set()),
    "no records come": ({**NOTHING_COMMITTED, ("BatchesReceived", COMMITTER): [], ("OldestBatchManifestAge", COMMITTER): []}, set()),
    "each batch manifest is a duplicate": (
        {**NOTHING_COMMITTED, ("DuplicateBatches", COMMITTER): [300, 40]},
        {"AllSkippedAlarm"},
    ),
    "one table has nothing but duplicates, another one goes on": (
        {("BatchesCommitted", COMMITTER): [40], ("DuplicateBatches", COMMITTER): [300]},
        set(),
    ),
    "the catalog answers 403 for half an hour": (
        {**NOTHING_COMMITTED, ("TableFailures", COMMITTER): [30], ("Errors", COMMITTER): [5]},
        {"TableFailuresAlarm", "CommitterErrorsAlarm"},
    ),
    "the catalog answers 403, and before it did all were duplicates": (
        {**NOTHING_COMMITTED, ("DuplicateBatches", COMMITTER): [12], ("TableFailures", COMMITTER): [30], ("Errors", COMMITTER): [5]},
        {"TableFailuresAlarm", "CommitterErrorsAlarm"},
    ),
    "a source stands still": ({**NOTHING_COMMITTED, ("SourcesStopped", COMMITTER): [30]}, {"SourcesStoppedAlarm"}),
    "a source stands still, and what else comes are duplicates": (
        {**NOTHING_COMMITTED, ("DuplicateBatches", COMMITTER): [40], ("SourcesStopped", COMMITTER): [30]},
        {"SourcesStoppedAlarm"},
    ),
    "batch manifests wait for long": (
        {("OldestBatchManifestAge", COMMITTER): [31 * MINUTE_MS, 5 * SECOND_MS]},
        {"OldestMessageAlarm"},
    ),
    "messages wait for long, and no committer tells of them": (
        {("ApproximateAgeOfOldestMessage", QUEUE): [31 * 60], ("OldestBatchManifestAge", COMMITTER): [], ("Invocations", COMMITTER): []},
        {"OldestMessageAlarm", "CommitterSilentAlarm"},
    ),
    "no table gets a snapshot": ({("LastSnapshotAge", COMMITTER): [7 * HOUR_MS, 8 * HOUR_MS]}, {"SnapshotAgeAlarm"}),
    "one table gets no snapshot beside a busy one": (
        {("LastSnapshotAge", COMMITTER): [MINUTE_MS, 25 * HOUR_MS]},
        {"TableSnapshotAgeAlarm"},
    ),
    "the writer puts something in quarantine": ({("QuarantinedMessages", WRITER): [1]}, {"QuarantineAlarm"}),
    "the committer puts something in quarantine": ({("QuarantinedMessages", COMMITTER): [2]}, {"QuarantineAlarm"}),
}


@pytest.mark.parametrize("state", STATES)
def test_in_each_state_the_alarms_that_tell_of_it_are_raised_and_no_other(state: str):
    change, expected = STATES[state]
    measured = {**HEALTHY, **change}
    assert {name for name, alarm in ALARMS.items() if is_raised(alarm, measured)} == expected


def test_each_alarm_with_an_expression_is_raised_in_some_state():
    with_expression = {name for name, alarm in ALARMS.items() if "Metrics" in alarm}
    assert with_expression <= set().union(*(expected for _, expected in STATES.values()))


def test_what_was_not_measured_has_no_value_unless_it_is_given_one():
    assert evaluated("a / 2", {"a": None}) is None
    assert evaluated("IF(a > 0 AND b == 0, 1, 0)", {"a": 3.0, "b": None}) is None
    assert evaluated("IF(a > 0 AND FILL(b, 0) == 0, 1, 0)", {"a": 3.0, "b": None}) == 1.0
    assert evaluated("MAX([a, b / 2])", {"a": 3.0, "b": 8.0}) == 4.0
    assert evaluated("FILL(a, 0) + b", {"a": None, "b": 2.0}) == 2.0
    with pytest.raises(NotImplementedError):
        evaluated("SEARCH(a)", {"a": 1.0})
