"""Lets committers meet: now and then a commit is late on its way, until another one of the same table has come in first.

Committers that take turns may do so for minutes, since a commit takes but a few milliseconds. A run with several of them
asks whether they can be in each other's way, so it does not leave that to chance. What is late goes on as it was, also when the
one who sent it is dead by then.
"""

from __future__ import annotations

import asyncio
import random

from icefall_local.relay import Answer, Asked, Between, Forward

_WIDEST_GAP = 4
"""Commits from one that is late to the next, at most."""
_LATEST_S = 5.0


class LateCommits:
    """Stands between the functions and the catalog, once it has begun and until it is stopped."""

    def __init__(self, seed: int, between: Between | None = None, latest_s: float = _LATEST_S) -> None:
        self._chance = random.Random(f"late commits {seed}")
        self._between = between
        self._latest_s = latest_s
        self._left = 1
        self._waiting: dict[str, asyncio.Event] = {}
        """By table, what the commit that is late waits for."""
        self._is_on = False

    def begin(self) -> None:
        self._is_on = True

    def stop(self) -> None:
        self._is_on = False
        for another in self._waiting.values():
            another.set()

    async def between(self, asked: Asked, forward: Forward) -> Answer | None:
        """Sends a request on, by way of what else stands there; a commit perhaps late."""
        is_commit = asked.call.word == "commit"
        if is_commit and self._is_late(asked.target):
            await self._another(asked.target)
        answer = await (self._between(asked, forward) if self._between is not None else forward())
        if is_commit and answer is not None and answer.succeeded and (another := self._waiting.get(asked.target)) is not None:
            another.set()
        return answer

    def _is_late(self, table: str) -> bool:
        """Of a table one at a time: two would wait for each other."""
        if not self._is_on or table in self._waiting:
            return False
        self._left -= 1
        if self._left:
            return False
        self._left = self._chance.randint(1, _WIDEST_GAP)
        return True

    async def _another(self, table: str) -> None:
        self._waiting[table] = asyncio.Event()
        try:
            await asyncio.wait_for(self._waiting[table].wait(), self._latest_s)
        except asyncio.TimeoutError:
            pass
        finally:
            del self._waiting[table]
