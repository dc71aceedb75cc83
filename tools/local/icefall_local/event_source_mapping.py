"""What stands for Lambda's Kafka event source mapping: polls a topic and invokes a function with batches.

Nothing installable emulates it, and its rules are what the writer's promise rests on: a batch closes by
count, time or payload size; a partition has at most one batch in flight; a batch that fails is sent again,
the same bytes, for ever; offsets are committed only after the function succeeded. When they can't be, since
the broker is gone, the poller goes on where the stored ones say: what was delivered comes again.
Each poller owns some partitions, may mix them in one batch, and handles one batch at a time, as a poller
of the service does. https://docs.aws.amazon.com/lambda/latest/dg/with-kafka-configure.html
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from icefall_local.kafka_event import MAX_PAYLOAD, Message, Origin, PayloadBuilder, RecordEncoder

_POLL_S = 0.1


@dataclass(frozen=True)
class MappingConfig:
    """The mapping as it would be created on Lambda."""

    topic: str
    function: str
    bootstrap_servers: str
    consumer_group: str
    batch_size: int = 10_000
    """Records in a batch at most, 1 to 10,000."""
    window_s: float = 0.5
    """Maximum batching window: how long a batch that isn't full waits, from its first record."""
    max_payload: int = MAX_PAYLOAD
    pollers: int = 2
    isolation_level: str = "read_committed"
    """Kafka's `isolation.level`. Which of the two the service uses isn't documented: see `isolation_probe`."""
    arn: str | None = None
    """The MSK cluster's ARN, for events of the MSK flavour."""
    first_pause_s: float = 0.2
    longest_pause_s: float = 10.0
    chaos_seed: int | None = None
    """With one, pollers are lost now and then; see `repoll`."""

    @property
    def origin(self) -> Origin:
        return Origin(self.bootstrap_servers, self.arn)


class Source(Protocol):
    """The consumer of a poller's partitions."""

    def poll(self, at_most: int, seconds: float) -> Sequence[Message]:
        """The next messages, in offset order within each partition."""

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Stores, durably, where each partition goes on; raises `NotCommitted` when that may not have happened."""

    def rewind(self, stop: threading.Event) -> None:
        """Goes on where the stored offsets say; waits for the broker until there is one, or until `stop`."""


Invoke = Callable[[bytes], str | None]
"""Sends a payload to the function; the error's text, or None when it succeeded."""

Lost = Callable[[bool], bool]
"""Whether the poller is lost at this point: after a failed try, or else before it stores its offsets."""


class NotCommitted(Exception):
    """The offsets may not be stored; the text says why."""


class CannotDeliver(Exception):
    """A record is larger than any payload. The service could not deliver it either."""


@dataclass
class Progress:
    """Counts, for whoever watches."""

    batches: int = 0
    records: int = 0
    failures: int = 0
    rewinds: int = 0
    """How often delivered records may come again, because their offsets could not be stored."""
    repolls: int = 0
    """Batches that were given up with their poller, to be formed anew from the committed offsets."""
    largest_payload: int = 0
    committed: dict[int, int] = field(default_factory=dict)
    last_error: str = ""


class Poller:
    """One poller: a loop of collect, invoke until it succeeds, commit."""

    def __init__(
        self,
        config: MappingConfig,
        source: Source,
        invoke: Invoke,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        lost: Lost | None = None,
    ) -> None:
        self.progress = Progress()
        self._config = config
        self._source = source
        self._invoke = invoke
        self._stop = stop
        self._clock = clock
        self._lost = lost
        self._encoder = RecordEncoder(config.topic)
        self._builder = PayloadBuilder(config.origin, config.topic, config.batch_size, config.max_payload)
        self._held: deque[Message] = deque()
        """Consumed, but in no batch yet."""

    def run(self) -> None:
        """Until told to stop."""
        while not self._stop.is_set():
            self.one_batch()

    def one_batch(self) -> bool:
        """Collects and delivers one batch; false when there was nothing, or it was told to stop first."""
        self._builder.clear()
        self._collect()
        if not self._builder.count or self._stop.is_set():
            return False
        payload = self._builder.payload()
        if not self._deliver(payload) or self._is_lost(failed=False):
            return False
        if not self._commit():
            return False
        self.progress.batches += 1
        self.progress.records += self._builder.count
        self.progress.largest_payload = max(self.progress.largest_payload, len(payload))
        self.progress.committed.update(self._builder.next_offsets)
        return True

    def _collect(self) -> None:
        """Fills the batch until its size, its payload or its window is exhausted."""
        closes_at = None
        while not self._stop.is_set():
            if self._held and not self._take_held():
                return
            if self._builder.full:
                return
            now = self._clock()
            if self._builder.count and closes_at is None:
                closes_at = now + self._config.window_s
            if closes_at is not None and now >= closes_at:
                return
            wait = _POLL_S if closes_at is None else min(_POLL_S, closes_at - now)
            self._held.extend(self._source.poll(self._config.batch_size - self._builder.count, wait))

    def _take_held(self) -> bool:
        """Moves what is held into the batch; false when the batch can't take the next record."""
        encode, add = self._encoder.encode, self._builder.add
        while self._held:
            message = self._held[0]
            if not add(message.partition(), message.offset(), encode(message)):
                if not self._builder.count:
                    raise CannotDeliver(
                        f"{message.topic()}/{message.partition()}/{message.offset()} does not fit into a payload"
                    )
                return False
            self._held.popleft()
        return True

    def _deliver(self, payload: bytes) -> bool:
        """Invokes until it succeeds; false only when told to stop."""
        pause = self._config.first_pause_s
        while (error := self._invoke(payload)) is not None:
            self.progress.failures += 1
            self.progress.last_error = error
            if self._is_lost(failed=True):
                return False
            if self._stop.wait(pause):
                return False
            pause = min(pause * 2, self._config.longest_pause_s)
        return True

    def _commit(self) -> bool:
        """False when the batch may come again: then nothing that is held is newer than what will be consumed."""
        try:
            self._source.commit(self._builder.next_offsets)
        except NotCommitted as problem:
            self.progress.rewinds += 1
            self.progress.last_error = str(problem)
            self._held.clear()
            self._source.rewind(self._stop)
            return False
        return True

    def _is_lost(self, failed: bool) -> bool:
        """A lost poller takes its whole generation along: the partitions are shared out anew."""
        if self._lost is None or not self._lost(failed):
            return False
        self.progress.repolls += 1
        self._stop.set()
        return True
