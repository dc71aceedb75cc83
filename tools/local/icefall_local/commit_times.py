"""When the catalog answered each commit: from then on readers find what it added.

A snapshot's own timestamp is older than that: the committer sets it before it sends the commit. So the proxy before the
catalog notes when an answer came that says a commit succeeded, and which snapshots that commit added.
"""

from __future__ import annotations

import json
import time

from icefall_local.relay import Answer, Asked, Between, Forward


class CommitTimes:
    """Stands between the functions and the catalog; before what else may stand there, so that it sees true answers."""

    def __init__(self, between: Between | None = None) -> None:
        self.answered_ms: dict[int, int] = {}
        """By the snapshot's id, in milliseconds since 1970."""
        self._between = between

    async def between(self, asked: Asked, forward: Forward) -> Answer | None:
        """Sends a request on, by way of what else stands there, and notes what became of it."""

        async def noted() -> Answer:
            answer = await forward()
            if answer.succeeded and asked.call.word == "commit":
                self._note(asked)
            return answer

        return await (self._between(asked, noted) if self._between is not None else noted())

    def _note(self, asked: Asked) -> None:
        now = time.time_ns() // 1_000_000
        for snapshot in added_snapshots(asked.body):
            self.answered_ms.setdefault(snapshot, now)


def added_snapshots(commit: bytes) -> list[int]:
    """The ids of the snapshots that a commit's body adds. A body that can't be read adds none that is known of."""
    try:
        updates = json.loads(commit)["updates"]
        return [update["snapshot"]["snapshot-id"] for update in updates if update["action"] == "add-snapshot"]
    except (ValueError, KeyError, TypeError):
        return []
