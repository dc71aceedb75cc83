"""Since when a snapshot is visible: what the proxy before the catalog notes, and what follows where it could not."""

import asyncio
import json
import time

from icefall_local import freshness
from icefall_local.commit_times import CommitTimes, added_snapshots
from icefall_local.relay import Answer, Asked

COMMIT = json.dumps({"updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 7}}]}).encode()
TABLE = "/v1/namespaces/web/tables/clicks"


def asked(method="POST", target=TABLE):
    return Asked("catalog", method, target, {}, b"", COMMIT)


def noted(status, request, between=None):
    async def forward():
        return Answer.made_up(status)

    times = CommitTimes(between)
    answer = asyncio.run(times.between(request, forward))
    return times.answered_ms, answer


def test_a_commit_that_succeeded_is_noted_when_it_was_answered():
    before = time.time() * 1000 - 1
    found, answer = noted(200, asked())
    assert list(found) == [7] and before <= found[7] <= time.time() * 1000
    assert answer.status == 200


def test_a_commit_that_was_refused_and_what_is_no_commit_are_not():
    assert noted(409, asked())[0] == {}
    assert noted(200, asked("GET"))[0] == {}
    assert noted(200, asked(target="/v1/namespaces/web/tables"))[0] == {}


def test_an_answer_that_is_lost_on_the_way_was_given_all_the_same():
    async def lost(_asked, forward):
        await forward()

    found, answer = noted(200, asked(), lost)
    assert list(found) == [7] and answer is None


def test_a_commit_names_the_snapshots_that_it_adds():
    updates = [{"action": "add-snapshot", "snapshot": {"snapshot-id": 7}}, {"action": "set-properties", "updates": {}}]
    assert added_snapshots(json.dumps({"requirements": [], "updates": updates}).encode()) == [7]
    assert added_snapshots(b"1c\r\n{}") == added_snapshots(b"[]") == []


def test_a_snapshot_is_visible_when_its_commit_was_answered_or_else_the_next_one():
    assert freshness.visible_ms([1, 2, 3], {1: 10, 3: 30}, 99) == {1: 10, 2: 30, 3: 30}
    assert freshness.visible_ms([1, 2], {1: 10}, 99) == {1: 10, 2: 99}
    assert freshness.visible_ms([], {}, 99) == {}
