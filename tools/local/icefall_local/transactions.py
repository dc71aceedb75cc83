"""Produces the click stream in Kafka transactions, some of which are aborted after the broker has their records.

An application that aborts does its work again: the records of an aborted transaction are produced again in the
next one. So a consumer that reads committed sees each record once, at offsets with gaps (markers, aborted
records), and one that reads uncommitted sees the aborted ones too. What is expected comes from the delivery
reports: offsets can't be counted here.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from icefall_local.clickstream import HEADER_VARIANTS, Clickstream, Record
from icefall_local.expectation import Expectation, ExpectationBuilder
from icefall_local.generator import PRODUCER, Pace, Plan, ProduceFailed, end_offsets

ABORTED_EVERY = 4
"""The fourth transaction of each four is aborted."""
_LARGEST = 2_000
_LEAST_TRANSACTIONS = 40
_STEADY_PER_S = 10
_CALL_S = 10.0
_PATIENCE_S = 120.0
"""For the broker to come back, when it is gone."""


@dataclass(frozen=True)
class _Attempt:
    """One transaction's records as sent, and the offsets that the broker reported for them; None without one."""

    records: Sequence[Record]
    produced_ms: list[int]
    offsets: list[int | None]
    errors: list[str]


class TransactionalGenerator:
    """Runs a plan, as `Generator` does. `produced` counts what is expected of it so far."""

    def __init__(self, plan: Plan) -> None:
        self.produced = 0
        self.pace = Pace(plan)
        self.aborted = 0
        """Records that the broker has, of transactions that were aborted."""
        self.in_doubt = 0
        """Commits that the client gave up and the broker may have made."""
        self._plan = plan
        self._built = ExpectationBuilder(plan.topic, plan.partitions)
        self._highest = [-1] * plan.partitions
        self._producer = Producer(
            {
                **PRODUCER,
                "bootstrap.servers": plan.bootstrap_servers,
                "transactional.id": f"icefall-generator-{uuid.uuid4()}",
                "transaction.timeout.ms": 300_000,
            }
        )

    def run(self, stop: threading.Event) -> Expectation:
        """Produces until as many records are committed as planned, unless told to stop."""
        plan, number, committed = self._plan, 0, 0
        self._patiently(self._producer.init_transactions)
        stream = Clickstream(plan.seed, plan.bad_permille, plan.partitions)
        while committed < plan.records and not stop.is_set():
            records = stream.take(self.pace.next(committed, transaction_size(plan)))
            number += 1
            if number % ABORTED_EVERY == 0:
                self._abort(self._send(records))
                number += 1
            self._commit(records)
            committed += len(records)
            self.pace.wait(len(records), stop)
        self._check()
        return self._built.build()

    def _commit(self, records: Sequence[Record]) -> None:
        """Again and again, in a new transaction each time, until one is committed."""
        while True:
            attempt = self._send(records)
            try:
                self._patiently(self._producer.commit_transaction)
            except KafkaException as problem:
                if not problem.args[0].txn_requires_abort():
                    raise
                self._patiently(self._producer.abort_transaction)
                if not self._was_committed(attempt):
                    self._aborted(attempt)
                    continue
            if None in attempt.offsets:
                raise ProduceFailed(f"a committed transaction lacks records: {attempt.errors[:3]}")
            self._expect(attempt)
            return

    def _send(self, records: Sequence[Record]) -> _Attempt:
        """All records of one transaction, until the broker has them: an abort before that would send nothing.

        The client takes no more of a transaction that can only be aborted; its commit says so too.
        """
        self._producer.begin_transaction()
        attempt = _Attempt(records, [], [None] * len(records), [])
        try:
            for number, record in enumerate(records):
                self._produce(attempt, number, record)
        except KafkaException as problem:
            attempt.errors.append(str(problem))
        if left := self._producer.flush(_PATIENCE_S):
            raise ProduceFailed(f"{left} records were not taken by the broker in {_PATIENCE_S:.0f} s")
        return attempt

    def _produce(self, attempt: _Attempt, number: int, record: Record) -> None:
        attempt.produced_ms.append(time.time_ns() // 1_000_000)
        self._producer.produce(
            self._plan.topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            headers=HEADER_VARIANTS[record.headers_variant],
            timestamp=attempt.produced_ms[-1],
            on_delivery=partial(_note, attempt, number),
        )

    def _was_committed(self, attempt: _Attempt) -> bool:
        """What the broker did, where the client believes that it has aborted; a commit is only sent when all was taken."""
        if attempt.errors or (offset := attempt.offsets[0]) is None:
            return False
        self.in_doubt += 1
        return is_committed(self._plan.bootstrap_servers, TopicPartition(self._plan.topic, attempt.records[0].partition, offset))

    def _abort(self, attempt: _Attempt) -> None:
        self._patiently(self._producer.abort_transaction)
        self._aborted(attempt)

    def _aborted(self, attempt: _Attempt) -> None:
        self.aborted += sum(offset is not None for offset in attempt.offsets)
        if self._plan.expects_aborted:
            if attempt.errors:
                raise ProduceFailed(f"which records of an aborted transaction the broker has is unknown: {attempt.errors[:3]}")
            self._expect(attempt)

    def _expect(self, attempt: _Attempt) -> None:
        """What the broker has of the attempt is expected, where it reported it."""
        taken = [number for number, offset in enumerate(attempt.offsets) if offset is not None]
        offsets = [offset for offset in attempt.offsets if offset is not None]
        records = [attempt.records[number] for number in taken]
        self._built.add_at(offsets, records, [attempt.produced_ms[number] for number in taken])
        self.produced += len(taken)
        for record, offset in zip(records, offsets, strict=True):
            if offset <= self._highest[record.partition]:
                raise ProduceFailed(f"the broker reported offset {offset} of partition {record.partition} out of order")
            self._highest[record.partition] = offset

    def _patiently(self, call: Callable[[float], object]) -> None:
        """The client asks to call again what it calls retriable; an outcome is known only when it no longer does."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                call(_CALL_S)
                return
            except KafkaException as problem:
                if not problem.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _check(self) -> None:
        """Of markers, only that there are some is known: the topic must end behind the last record."""
        ends = end_offsets(self._plan.bootstrap_servers, self._plan.topic, self._plan.partitions)
        if not all(end > highest + 1 for end, highest in zip(ends, self._highest, strict=True) if highest >= 0):
            raise ProduceFailed(f"the broker's end offsets are {ends}, but records stand up to {self._highest}, then markers")


def is_committed(bootstrap_servers: str, record: TopicPartition) -> bool:
    """Whether who reads committed sees the record at this offset; known once its transaction has ended."""
    reading = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({**reading, "bootstrap.servers": bootstrap_servers, "group.id": "icefall-was-it-committed"})
    deadline = time.monotonic() + _PATIENCE_S
    try:
        consumer.assign([record])
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error, offset = message.error(), message.offset()
            if error is None:
                return offset == record.offset
            if error.code() == KafkaError._PARTITION_EOF and offset > record.offset:
                return False
        raise ProduceFailed(f"whether {record} was committed can't be read from the topic in {_PATIENCE_S:.0f} s")
    finally:
        consumer.close()


def transaction_size(plan: Plan) -> int:
    """Records of a transaction: so many that even a small plan has several that are aborted."""
    steady = _LARGEST if plan.rate is None else int(plan.rate / _STEADY_PER_S)
    return max(1, min(_LARGEST, steady, plan.records // _LEAST_TRANSACTIONS))


def _note(attempt: _Attempt, number: int, error: KafkaError | None, message: Message) -> None:
    if error is None:
        attempt.offsets[number] = message.offset()
    else:
        attempt.errors.append(str(error))
