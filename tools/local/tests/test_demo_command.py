"""The demo as its user runs it, with the real functions: what it prints, and how it ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from icefall_local.hostility import KINDS as KINDS_OF_LIES
from icefall_local.hostility import PARTS
from icefall_local.sabotage import KINDS

_TOOLS = Path(__file__).parents[1]
_SAID = {"drop": "missing", "double": "duplicates", "alter": "altered", "lose-dead-letter": "missing"}

_AUDIT_SAID = {
    "drop": r"icefall audit: the files of \S+ hold 1 rows fewer than its ledgers",
    "double": r"icefall audit: the files of \S+ hold 1 rows that others appended",
    "alter": r"icefall audit: the files of \S+ hold 1 rows fewer than its ledgers",
    "lose-dead-letter": r"icefall audit: letter_lost: {victim}",
}
"""Rows are counted, since the table keeps no offsets; dead letters are told by theirs."""


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "icefall_local", "demo", "--records", "4000", "--bad", "20", "--json", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(_TOOLS), "ICEFALL_REPOSITORY": str(_TOOLS.parents[1])}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def figures(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    return json.loads(done.stdout.splitlines()[-1])


def figures_where_all_stands_once(done: subprocess.CompletedProcess[str], records: int) -> dict[str, object]:
    assert done.returncode == 0, done.stdout + done.stderr
    found = figures(done)
    assert found["rows"] + found["dead_letters"] == found["produced"] == records
    assert (found["missing"], found["duplicates"], found["altered"]) == (0, 0, 0)
    assert found["audit_proved"] is True
    assert found["audited_records"] == records
    return found


def test_untouched_it_ends_well_and_its_last_line_has_every_figure():
    done = demo()
    found = figures_where_all_stands_once(done, 4000)
    names = (
        "produced rows dead_letters missing duplicates conflicts kills snapshots files bytes "
        "freshness_p50_ms freshness_p99_ms readers"
    )
    assert set(names.split()) <= found.keys()
    assert found["dead_letters"] > 0
    assert found["readers"] == ["duckdb", "pyiceberg"]


def test_on_a_network_that_lies_to_each_part_in_each_way_every_record_stands_once():
    done = demo("--hostile", "11", "--records", "30000", "--rate", "1500")
    found = figures_where_all_stands_once(done, 30_000)
    assert set(found["hostile"]) == set(PARTS)
    assert all(found["hostile"][part][kind] > 0 for part in PARTS for kind in KINDS_OF_LIES)


def test_a_network_that_did_not_lie_in_each_way_ends_with_1_and_says_what_is_missing():
    done = demo("--hostile", "--records", "1", "--bad", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the network's hostility never struck as it can (use more records): store:" in done.stdout
    assert "every record stands exactly once, but not all is as it should be" in done.stdout
    assert (figures(done)["missing"], figures(done)["duplicates"]) == (0, 0)


def test_behind_an_event_source_mapping_of_the_queue_all_is_visible_within_15_s_also_when_the_topic_goes_quiet():
    done = demo("--trigger", "queue", "--records", "6000", "--rate", "300")
    found = figures_where_all_stands_once(done, 6000)
    assert found["queue_events"] > 0 and found["queue_messages"] > 0
    assert (found["queue_failures"], found["function_errors"]) == (0, 0)
    assert 0 < found["freshness_p99_ms"] <= 15_000
    assert 0 < found["quiet_tail_ms"] <= 15_000


def test_a_mapping_of_the_queue_with_one_committer_is_refused():
    done = demo("--trigger", "queue", "--committers", "1")
    assert done.returncode == 2
    assert "--trigger queue needs --committers 2 or more" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_each_sabotage_ends_with_1_and_names_the_offset(kind):
    done = demo("--sabotage", kind)
    assert done.returncode == 1, done.stdout
    victim = re.search(rf"sabotage \({kind}\) of (\S+/\d+/\d+)", done.stderr)
    assert victim, done.stderr
    for reader in ("duckdb", "pyiceberg"):
        assert f"{reader}: {_SAID[kind]}: {victim[1]}" in done.stdout
    assert figures(done)[_SAID[kind]] == 1
    assert figures(done)["audit_proved"] is False
    assert re.search(_AUDIT_SAID[kind].format(victim=victim[1]), done.stdout), done.stdout
    assert figures(done)["ok"] is False
