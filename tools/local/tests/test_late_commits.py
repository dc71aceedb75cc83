"""Commits that are late on their way: another one of the same table comes in first, or time is over."""

import asyncio
import time

from icefall_local.late_commits import LateCommits
from icefall_local.relay import Answer, Asked

TABLE, OTHER = "/v1/namespaces/web/tables/clicks", "/v1/namespaces/web/tables/orders"


def asked(target=TABLE, method="POST"):
    return Asked("catalog", method, target, {}, b"", b"")


def order(*requests, latest_s=20.0, is_on=True, status=200, then=None):
    """The numbers of the requests in the order in which the catalog sees them; each is sent after the one before.

    By this seed the first commit is late, and none of the next three.
    """
    seen = []

    async def running():
        late = LateCommits(5, latest_s=latest_s)
        if is_on:
            late.begin()

        async def send(number, request):
            async def forward():
                seen.append(number)
                return Answer.made_up(status)

            return await late.between(request, forward)

        tasks = []
        for number, request in enumerate(requests):
            tasks.append(asyncio.ensure_future(send(number, request)))
            await asyncio.sleep(0.02)
        if then is not None:
            then(late)
        await asyncio.gather(*tasks)

    asyncio.run(running())
    return seen


def test_a_late_commit_comes_in_after_another_one_of_its_table():
    assert order(asked(), asked()) == [1, 0]


def test_it_waits_for_no_other_table_and_for_nothing_but_a_commit_that_was_made():
    assert order(asked(), asked(OTHER), asked(method="GET"), latest_s=0.2) == [1, 2, 0]
    assert order(asked(), asked(), status=409, latest_s=0.2) == [1, 0]


def test_without_another_one_it_goes_on_when_time_is_over():
    started = time.monotonic()
    assert order(asked(), latest_s=0.1) == [0]
    assert 0.1 <= time.monotonic() - started < 5.0


def test_what_has_not_begun_and_what_was_stopped_keeps_nobody_waiting():
    assert order(asked(), asked(), is_on=False) == [0, 1]
    assert order(asked(), then=lambda late: late.stop()) == [0]
