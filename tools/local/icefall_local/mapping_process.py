"""The event source mapping as a process of its own: consumers, connections to the Invoke API, a state file.

It is apart from the supervisor because encoding a hundred thousand records a second keeps a Python process
busy, and the proxies and the Lambda host beside it must not wait for that.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from icefall_local.event_source_mapping import Invoke, Lost, MappingConfig, NotCommitted, Poller, Progress
from icefall_local.kafka_event import Message
from icefall_local.repoll import Rebalancing

_PATIENCE_S = 1_000.0
"""Longer than any function may run."""
_START_S = 30.0
"""For the broker to say which offsets are committed: a group's first question comes before its coordinator is there."""
_SESSION_MS = 6_000
"""A commit that finds no coordinator for so long fails: a member of a group would have lost its partitions by then."""
_ANSWER_S = 2.0
_PAUSE_S = 0.2


class KafkaSource:
    """Some partitions of a topic, consumed under the mapping's group without its rebalancing."""

    def __init__(self, config: MappingConfig, partitions: Sequence[int], stop: threading.Event) -> None:
        self._topic = config.topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": config.bootstrap_servers,
                "group.id": config.consumer_group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": config.isolation_level,
                "fetch.wait.max.ms": 50,
                "queued.max.messages.kbytes": 32_768,
                "reconnect.backoff.max.ms": 1_000,
                "session.timeout.ms": _SESSION_MS,
            }
        )
        self._partitions = [TopicPartition(config.topic, partition) for partition in partitions]
        self._go_on_where_committed(stop, time.monotonic() + _START_S)

    def poll(self, at_most: int, seconds: float) -> list[Message]:
        messages = []
        for message in self._consumer.consume(max(1, at_most), timeout=max(0.0, seconds)):
            if (error := message.error()) is None:
                messages.append(message)
            elif error.code() != KafkaError._PARTITION_EOF and error.fatal():
                raise KafkaException(error)
        return messages

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in next_offsets.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as problem:
            raise NotCommitted(f"offsets were not committed: {problem}") from problem
        for one in answers:
            if one.error is not None:
                raise NotCommitted(f"offset {one.offset} of partition {one.partition} was not committed: {one.error}")

    def rewind(self, stop: threading.Event) -> None:
        self._go_on_where_committed(stop, math.inf)

    def close(self) -> None:
        self._consumer.close()

    def _go_on_where_committed(self, stop: threading.Event, deadline: float) -> None:
        """Assigns the partitions anew, which drops whatever was fetched."""
        while not stop.is_set():
            try:
                self._consumer.assign(self._stored())
                return
            except KafkaException as problem:
                if time.monotonic() > deadline:
                    raise
                print(f"the broker does not say which offsets are committed: {problem}", file=sys.stderr, flush=True)
                stop.wait(_PAUSE_S)

    def _stored(self) -> list[TopicPartition]:
        stored = self._consumer.committed(self._partitions, timeout=_ANSWER_S)
        for one in stored:
            if one.error is not None:
                raise KafkaException(one.error)
            if one.offset < 0:
                one.offset = -2  # The earliest: trim horizon.
        return stored


def partitions_of(config: MappingConfig) -> list[int]:
    consumer = Consumer({"bootstrap.servers": config.bootstrap_servers, "group.id": config.consumer_group})
    try:
        return sorted(consumer.list_topics(config.topic, timeout=30).topics[config.topic].partitions)
    finally:
        consumer.close()


def invoker(endpoint: str, function: str) -> Invoke:
    """Invokes over one kept connection."""
    address = urlsplit(endpoint)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE_S)

    def invoke(payload: bytes) -> str | None:
        try:
            connection.request("POST", f"/2015-03-31/functions/{function}/invocations", payload)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            return f"the Invoke API did not answer: {problem}"
        if response.status == 200 and response.getheader("X-Amz-Function-Error") is None:
            return None
        return f"{response.status}: {body[:2_000].decode(errors='replace')}"

    return invoke


def run(config: MappingConfig, endpoint: str, state: Path, stop: threading.Event) -> None:
    """Runs all pollers until `stop`; writes their progress to `state` twice a second."""
    partitions = partitions_of(config)
    past: list[Progress] = []
    if config.chaos_seed is None:
        shares = [partitions[first :: config.pollers] for first in range(config.pollers)]
        _generation(config, [share for share in shares if share], endpoint, state, stop, past)
        return
    rebalancing = Rebalancing(partitions, config.batch_size, random.Random(config.chaos_seed))
    while not stop.is_set():
        drawn = rebalancing.generation()
        mapping = replace(config, batch_size=drawn.batch_size)
        _generation(mapping, drawn.shares, endpoint, state, stop, past, rebalancing.lost)


def _generation(
    config: MappingConfig,
    shares: Sequence[Sequence[int]],
    endpoint: str,
    state: Path,
    stop: threading.Event,
    past: list[Progress],
    lost: Lost | None = None,
) -> None:
    """Pollers for these shares of the partitions, until `stop` or until one of them is lost. Invocations
    that are in flight then are waited for: a partition has one batch in flight at the most."""
    ended = threading.Event()
    sources = [KafkaSource(config, share, ended) for share in shares]
    pollers = [Poller(config, source, invoker(endpoint, config.function), ended, lost=lost) for source in sources]
    progress = [*past, *(poller.progress for poller in pollers)]
    threads = [threading.Thread(target=_guarded, args=(poller, stop), daemon=True) for poller in pollers]
    for thread in threads:
        thread.start()
    while not stop.is_set() and not ended.wait(0.25):
        _write_state(state, progress)
    ended.set()
    while any(thread.is_alive() for thread in threads) and not stop.is_set():
        stop.wait(0.02)
    for thread in threads:
        thread.join(5.0)
    past[:] = progress
    _write_state(state, progress)
    for source, thread in zip(sources, threads):
        if not thread.is_alive():
            source.close()


def _guarded(poller: Poller, stop: threading.Event) -> None:
    """A poller that can't go on ends the whole process: silence would look like an empty topic."""
    try:
        poller.run()
    except Exception as problem:
        poller.progress.last_error = f"the poller stopped: {problem!r}"
        print(poller.progress.last_error, file=sys.stderr, flush=True)
        stop.set()


def _write_state(state: Path, progress: Sequence[Progress]) -> None:
    scratch = state.with_suffix(".new")
    scratch.write_text(json.dumps([asdict(one) for one in progress]))
    os.replace(scratch, state)


def main(arguments: Sequence[str]) -> int:
    """`CONFIG.json ENDPOINT STATE.json`"""
    config = MappingConfig(**json.loads(Path(arguments[0]).read_text()))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    run(config, arguments[1], Path(arguments[2]), stop)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
