"""The two triggers of the committer, and what a run sets to suit each.

A schedule starts committers that drain the queue by themselves; `scheduler` stands for it. An event source
mapping of the commit queue invokes them with its messages; `queue_mapping` stands for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefall_local.queue_mapping import LEAST_CONCURRENCY


@dataclass(frozen=True)
class Trigger:
    """What belongs to one of them."""

    visibility_s: int
    """The commit queue's own visibility time-out. What a mapping has received is hidden for it until the committer first
    renews its hold: if it was killed before, its messages wait so long. Committers that receive by themselves say their own."""
    committer_timeout_s: float
    """A mapping's function may run no longer than the queue hides messages."""
    kill_pause_s: tuple[float, float]
    """Between two kills of a run with chaos. A schedule's committers are mostly at work on an empty queue. Behind a mapping each
    invocation has messages in hand, and a kill waits for one: as many would let hardly any end."""
    kill_patience_s: float
    """How long that is: longer than two of Kafka's batching windows, or a writer of few records is never met at work."""
    stall_s: float
    """How long nothing may move before a demo gives up: longer than a message waits that is hidden several times in a row."""
    pace: Mapping[str, Any] = field(default_factory=dict)
    """Options of a stack that differ from the usual: what the trigger's promise of freshness is made for."""


TRIGGERS = {
    "schedule": Trigger(visibility_s=120, committer_timeout_s=60.0, kill_pause_s=(2.0, 6.0), kill_patience_s=3.0, stall_s=90.0),
    "queue": Trigger(
        visibility_s=30,
        committer_timeout_s=30.0,
        kill_pause_s=(6.0, 14.0),
        kill_patience_s=12.0,
        stall_s=240.0,
        pace={"window_s": 5.0, "commit_interval": "5s", "committers": LEAST_CONCURRENCY},
    ),
}
