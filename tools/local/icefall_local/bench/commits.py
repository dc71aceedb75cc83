"""The committer's CPU for a round, as the table's snapshots grow.

A snapshot costs the catalog's reply and the committer's reading of it some 600 bytes of JSON for as long as
it is kept, so a round's cost rises with them: this says by how much.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from icefall_local.bench.events import Events
from icefall_local.bench.function import MeasuredFunction
from icefall_local.bench.single_file import SingleFileQueue
from icefall_local.scheduler import scheduled_event
from icefall_local.workspace import Unusable

SIZES = (10, 100, 1_000)
_SAMPLES = 7
"""Rounds around each size; their median counts."""
_RECORDS = 10
"""In a small batch."""


class Rounds:
    """Grows a table snapshot by snapshot. Writer and committer both use `queue`."""

    def __init__(
        self, writer: MeasuredFunction, committer: MeasuredFunction, queue: SingleFileQueue, events: Events, snapshots: int
    ) -> None:
        self.snapshots = snapshots
        self._writer = writer
        self._committer = committer
        self._queue = queue
        self._events = events

    async def measure(self, say: Callable[[str], None]) -> dict[str, float]:
        """Milliseconds of CPU for an invocation with one batch manifest, by the table's snapshots."""
        costs: dict[str, float] = {}
        for size in SIZES:
            await self._grow_to(size - _SAMPLES // 2 - 1, say)
            costs[str(size)] = round(statistics.median([await self._one() for _ in range(_SAMPLES)]), 1)
            say(f"{self.snapshots} snapshots: {costs[str(size)]} ms of CPU a commit")
        return costs

    async def _grow_to(self, size: int, say: Callable[[str], None]) -> None:
        while self.snapshots < size:
            await self._add(min(50, size - self.snapshots))
            say(f"{self.snapshots} snapshots")

    async def _one(self) -> float:
        return await self._add(1) / 1e6

    async def _add(self, count: int) -> int:
        """Adds `count` snapshots by one invocation; its CPU time in nanoseconds."""
        for _ in range(count):
            await self._writer.invoke(self._events.of(_RECORDS).payload)
        report, used = await self._committer.invoke_measured(scheduled_event("us-west-2"))
        if report["snapshots"] != count or len(self._queue):
            raise Unusable(f"the committer made of {count} batch manifests: {report}, {len(self._queue)} left")
        self.snapshots += count
        return used
