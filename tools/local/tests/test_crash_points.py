"""The shipped functions, killed or frozen at every request that has an effect, on Apache Kafka and the other real parts.

Each row of infra/CRASH_POINTS.md is one test. They are played side by side: most of a row's time is waiting for
messages that a dead committer had hidden.
"""

import json
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from crash_bench import play
from crash_points import CRASH_POINTS

from icefall_local.launch import Running
from icefall_local.supervisor import Options
from icefall_local.workspace import Workspace

LANES = 3 * (os.cpu_count() or 1)


@pytest.fixture(scope="module")
def stack():
    with Running(Workspace.here(), Options(kafka="apache", main_job=False, fail_points=True), print) as running:
        yield running.stack


@pytest.fixture(scope="module")
def played(request, stack):
    """What comes of the rows that are asked for, by id, once all were played: pytest changes the environment from test to
    test, and a reader that looks through it in another thread meanwhile may fail of that.
    """
    asked = (item.callspec.params.get("point") for item in request.session.items if hasattr(item, "callspec"))
    wanted = {point.id for point in asked if point is not None}
    with ThreadPoolExecutor(LANES) as lanes:
        rows = {point.id: lanes.submit(play, stack, point) for point in CRASH_POINTS if point.id in wanted}
        wait(rows.values())
        yield rows


@pytest.mark.parametrize("point", CRASH_POINTS, ids=lambda point: point.id)
def test_wherever_a_function_dies_or_freezes_every_record_stands_once(point, played):
    found = played[point.id].result()
    assert found.struck.startswith(f"{point.call} ") and point.about in found.struck
    if point.act == "kill":
        assert "signal: SIGKILL" in found.ended
    else:
        assert found.ended == "it went on, and ended well"
    assert {name: getattr(found.left, name) for name in point.left} == point.left
    assert found.reading.right, found.reading
    assert (found.settled.snapshots, found.settled.letter_snapshots) == point.snapshots
    assert found.conflicts >= point.conflicts, "its commit was to be refused"
    assert found.quarantined_offsets == found.asked_to_quarantine
    if point.unnamed is not None:
        assert found.settled.unnamed_files == point.unnamed
    assert found.complaints == [], "what was left behind made a function fail"


def test_no_request_of_the_functions_changes_anything_without_being_a_crash_point(stack, played):
    """What the functions really asked, in all of the rows: a request that is new has to become a row."""
    for row in played.values():
        row.result()
    with urllib.request.urlopen(f"{stack.lambda_endpoint}/local/fail-points", timeout=30) as answer:
        calls = json.load(answer)
    asked = {(function.partition("-")[2], word) for function, word, has_effect, _ in calls if has_effect}
    assert len(asked) > 15, asked
    for moment in ("before", "after"):
        driven = {(point.function, point.call) for point in CRASH_POINTS if point.moment == moment}
        assert asked - driven == set(), f"not struck {moment} it"
