"""Produces the click stream to Kafka, at full speed or at a steady rate, and says what must come of it.

The topic is fresh and the producer idempotent, so a record's offset is its place among those produced to
its partition; the broker's end offsets are checked against that at the end, lest an expectation be wrong.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from icefall_local.clickstream import HEADER_VARIANTS, Clickstream, Record
from icefall_local.expectation import Expectation, ExpectationBuilder

_CHUNK = 20_000
_STEADY_CHUNKS_PER_S = 20
_HELD_BACK_CHUNKS_PER_S = 4

PRODUCER = {
    "enable.idempotence": True,
    "linger.ms": 10,
    "batch.size": 500_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 200_000,
    "reconnect.backoff.max.ms": 1_000,
    "log_level": 2,  # The stack is stopped while the client still exists: that is no news.
}
"""The client's settings, whatever is produced."""


class ProduceFailed(Exception):
    """The broker did not take everything as it should; what is expected is then unknown."""


@dataclass(frozen=True)
class Plan:
    """What to produce, and where."""

    bootstrap_servers: str
    topic: str
    partitions: int
    records: int
    bad_permille: int
    seed: int
    rate: float | None = None
    """Records per second; None is as fast as possible."""
    expects_aborted: bool = False
    """Of transactions: whether aborted records are expected too, as consumers that read uncommitted see them."""
    held_back: int = 0
    """How many of the records come last, and slowly until they are let go."""
    held_back_s: float = 0.0
    """How long those last when nobody lets them go."""


class Pace:
    """When records are due. Another thread may let go what is held back."""

    def __init__(self, plan: Plan) -> None:
        self.let_go = threading.Event()
        self.reached = threading.Event()
        """Whether none are left but those that are held back."""
        self._plan = plan
        self._due = time.monotonic()

    def next(self, produced: int, usual: int) -> int:
        """How many come next, of at most `usual` at once."""
        left, held = self._plan.records - produced, self._plan.held_back
        if self.let_go.is_set() or not held:
            return min(usual, left)
        if left > held:
            return min(usual, left - held)
        self.reached.set()
        return min(usual, left, math.ceil(held / (self._plan.held_back_s * _HELD_BACK_CHUNKS_PER_S)))

    def wait(self, count: int, stop: threading.Event) -> None:
        """Until the next ones are due, after `count`."""
        usual_s = count / self._plan.rate if self._plan.rate is not None else 0.0
        if self.reached.is_set() and not self.let_go.is_set():
            self.let_go.wait(max(usual_s, count * self._plan.held_back_s / self._plan.held_back))
            self._due = time.monotonic()
        elif usual_s:
            self._due += usual_s
            stop.wait(max(0.0, self._due - time.monotonic()))


class Generator:
    """Runs a plan. `produced` may be read from another thread while it does."""

    def __init__(self, plan: Plan) -> None:
        self.produced = 0
        self.pace = Pace(plan)
        self._plan = plan
        self._failures: list[str] = []
        self._producer = Producer({**PRODUCER, "bootstrap.servers": plan.bootstrap_servers, "delivery.report.only.error": True})

    def run(self, stop: threading.Event) -> Expectation:
        """Produces everything, unless told to stop; returns when the broker has it all."""
        plan = self._plan
        stream = Clickstream(plan.seed, plan.bad_permille, plan.partitions)
        built = ExpectationBuilder(plan.topic, plan.partitions)
        chunk = _CHUNK if plan.rate is None else max(1, int(plan.rate / _STEADY_CHUNKS_PER_S))
        while self.produced < plan.records and not stop.is_set():
            records = stream.take(self.pace.next(self.produced, chunk))
            built.add(records, [self._produce(record) for record in records])
            self.produced += len(records)
            self._producer.poll(0)
            self.pace.wait(len(records), stop)
        self._flush()
        self._check(built.next_offsets)
        return built.build()

    def _produce(self, record: Record) -> int:
        """Hands one record to the client; answers its timestamp."""
        while True:
            now = time.time_ns() // 1_000_000
            try:
                self._producer.produce(
                    self._plan.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=HEADER_VARIANTS[record.headers_variant],
                    timestamp=now,
                    on_delivery=self._on_failure,
                )
                return now
            except BufferError:
                self._producer.poll(0.05)

    def _on_failure(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failures.append(str(error))

    def _flush(self) -> None:
        left = self._producer.flush(60)
        if left or self._failures:
            raise ProduceFailed(f"{left} records were not taken by the broker in time; {self._failures[:3]}")

    def _check(self, expected: list[int]) -> None:
        found = end_offsets(self._plan.bootstrap_servers, self._plan.topic, self._plan.partitions)
        if found != expected:
            raise ProduceFailed(f"the broker's end offsets are {found}, but {expected} records were produced")


def create_topic(bootstrap_servers: str, topic: str, partitions: int) -> bool:
    """Creates the topic; false when there is one of that name."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    future = admin.create_topics([NewTopic(topic, partitions, 1)])[topic]
    try:
        future.result(30)
    except KafkaException as problem:
        if problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


def end_offsets(bootstrap_servers: str, topic: str, partitions: int) -> list[int]:
    """Per partition, the offset that the next record would get."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "icefall-end-offsets"})
    try:
        return [
            int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1])
            for partition in range(partitions)
        ]
    finally:
        consumer.close()
