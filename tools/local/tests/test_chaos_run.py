"""The built functions under chaos, and on a topic that goes quiet: short runs of the whole job."""

import sys

import pytest
from brokers import EVERYTHING

from icefall_local.clickstream import TABLE
from icefall_local.demo import DemoOptions, Job
from icefall_local.launch import Running
from icefall_local.supervisor import Options
from icefall_local.terminal import Terminal
from icefall_local.trigger import TRIGGERS
from icefall_local.watch import Watcher
from icefall_local.workspace import Workspace

PROMISED_UNDER_KILLS_MS = 60_000
"""Of freshness while a process dies every few seconds; of the last records when no others follow, too."""
PARTS = (("embedded", "seaweedfs"), *((("apache", "seaweedfs"), ("embedded", "iceberg")) if EVERYTHING else ()))
"""Brokers and catalogs that functions die beside. All but the first need Java."""


def run(options):
    with Running(Workspace.here(), options.stack, print) as running:
        return Job(running.stack, options, Terminal(sys.stderr)).run()


@pytest.mark.parametrize(("kafka", "catalog"), PARTS)
def test_while_functions_die_and_all_comes_twice_every_record_stands_once_and_soon(kafka, catalog):
    stack = Options(kafka=kafka, catalog=catalog, committers=2, kill_writers=True, kill_committers=True)
    result = run(DemoOptions(24_000, rate=2_000.0, bad_permille=20, transactions=kafka == "apache", stack=stack))
    assert result.right, result.summary()
    found = result.as_json()
    assert found["rows"] + found["dead_letters"] == found["produced"] == 24_000
    assert (found["missing"], found["duplicates"], found["altered"]) == (0, 0, 0)
    for what in ("kills", "kills_in_flight", "repolls", "copies_sent", "duplicates_skipped", "trims", "conflicts"):
        assert found[what] > 0, (what, found)
    assert found["function_errors"] > 0
    assert 0 < found["freshness_p99_ms"] <= PROMISED_UNDER_KILLS_MS, found
    assert 0 < found["quiet_tail_ms"] <= PROMISED_UNDER_KILLS_MS, found
    assert (found["aborted_records"] if kafka == "apache" else 1) > 0
    assert found["access_keys"] == (4 if catalog == "seaweedfs" else 3)


def test_behind_an_event_source_mapping_of_the_queue_what_a_dead_committer_had_comes_again():
    queue = TRIGGERS["queue"]
    stack = Options(trigger="queue", kill_committers=True, **queue.pace)
    result = run(DemoOptions(records=20_000, rate=1_000.0, bad_permille=20, stall_s=queue.stall_s, stack=stack))
    assert result.right, result.summary()
    found = result.as_json()
    assert found["rows"] + found["dead_letters"] == found["produced"] == 20_000
    for what in ("kills_in_flight", "queue_failures", "copies_sent", "duplicates_skipped"):
        assert found[what] > 0, (what, found)


def test_the_last_records_of_a_topic_that_goes_quiet_become_visible():
    stack = Options()
    with Running(Workspace.here(), stack, print) as running:
        result = Job(running.stack, DemoOptions(records=2_000, rate=1_000.0, stack=stack), Terminal(sys.stderr)).run()
        watcher = Watcher(running.stack)
        snapshots = {snapshot.snapshot_id for snapshot in watcher.table(TABLE).metadata.snapshots}
        assert snapshots and snapshots <= watcher.commits_answered_ms().keys(), "freshness rests on when each was answered"
    assert result.right, result.summary()
    found = result.as_json()
    interval_s = float(stack.commit_interval.removesuffix("s"))
    promised_s = stack.window_s + interval_s + 60.0
    assert 0 < found["quiet_tail_ms"] <= promised_s * 1_000
    assert 0 < found["freshness_p99_ms"] <= promised_s * 1_000
    assert (found["kills"], found["repolls"], found["copies_sent"]) == (0, 0, 0)
