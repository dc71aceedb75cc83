"""Re-polling: what a batch becomes when the poller that formed it is lost.

Lambda sends a failed batch again as it was, as long as its poller lives. Pollers come and go: the service
scales them, moves them, replaces a host. What a lost poller had in hand is polled again from the committed
offsets by whichever gets its partitions, in batches of other sizes and with other partitions beside each
other, be it that the function had failed, or that it had succeeded and the offsets were not stored yet. So
the writer's promise must not rest on batch boundaries, and a run with chaos draws new ones time and again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass

_SHARES_OF_BATCH_SIZE = (1, 2, 3, 5)
_LOST_WHEN_FAILED = 0.5
"""How often a failed try takes its poller along."""


@dataclass(frozen=True)
class Generation:
    """The pollers between two losses."""

    shares: tuple[tuple[int, ...], ...]
    """The partitions of each poller."""
    batch_size: int
    successes: int
    """After so many of all pollers together, one is lost before it stores its offsets."""


class Rebalancing:
    """Draws generations, and says when one ends. Pollers of several threads ask."""

    def __init__(self, partitions: Sequence[int], batch_size: int, chance: random.Random) -> None:
        self._partitions = tuple(partitions)
        self._batch_size = batch_size
        self._chance = chance
        self._lock = threading.Lock()
        self._first = True
        self._left = 0

    def generation(self) -> Generation:
        """The next one. The first is short, so that a run of a few batches has its loss as well."""
        with self._lock:
            chance, partitions = self._chance, list(self._partitions)
            chance.shuffle(partitions)
            pollers = chance.randint(1, len(partitions))
            shares = tuple(tuple(sorted(partitions[first::pollers])) for first in range(pollers))
            size = max(1, self._batch_size // chance.choice(_SHARES_OF_BATCH_SIZE))
            if self._left <= 0:  # Where tries fail often, generations end by that before so many succeed: the count goes on.
                self._left = chance.randint(1, 3) if self._first else chance.randint(4, 16)
            self._first = False
            return Generation(shares, size, self._left)

    def lost(self, failed: bool) -> bool:
        """Whether the poller that asks is lost now: after a failed try, or before it stores its offsets."""
        with self._lock:
            if failed:
                return self._chance.random() < _LOST_WHEN_FAILED
            self._left -= 1
            return self._left == 0
