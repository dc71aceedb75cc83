"""A Kafka batch as the JSON event that Lambda's Kafka event source mapping delivers.

The text is put together by hand, because its exact length decides what fits into a payload, and because a
hundred thousand records a second leave a few microseconds for each.
Shape: https://docs.aws.amazon.com/lambda/latest/dg/with-kafka.html. A null key or no headers and the signed
header bytes are as the service's Java side sends them.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_PAYLOAD = 6_291_456
"""Bytes of one payload, envelope and base64 included (6 MB in AWS's words)."""

Headers = Sequence[tuple[str, bytes | None]]

_TIMESTAMP_TYPES = {1: "CREATE_TIME", 2: "LOG_APPEND_TIME"}


class Message(Protocol):
    """What is used of a consumed message: `confluent_kafka.Message` has it."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...


@dataclass(frozen=True)
class Origin:
    """Where the records come from: the lines of the event before its records."""

    bootstrap_servers: str
    arn: str | None = None
    """The MSK cluster's ARN; without one the source is self-managed Kafka."""

    def opening(self) -> bytes:
        """The event up to the records' opening brace."""
        lines: dict[str, str] = {"eventSource": "aws:kafka" if self.arn else "SelfManagedKafka"}
        if self.arn:
            lines["eventSourceArn"] = self.arn
        lines["bootstrapServers"] = self.bootstrap_servers
        return json.dumps(lines, separators=(",", ":")).encode()[:-1] + b',"records":{'


class RecordEncoder:
    """Encodes the records of one topic; remembers what repeats."""

    def __init__(self, topic: str) -> None:
        self._topic = json.dumps(topic).encode()
        self._headers: dict[tuple[tuple[str, bytes | None], ...], bytes] = {}

    def encode(self, message: Message) -> bytes:
        """One record's JSON object."""
        kind, millis = message.timestamp()
        key, value = message.key(), message.value()
        return b'{"topic":%b,"partition":%d,"offset":%d,"timestamp":%d,"timestampType":"%b"%b,"value":%b,"headers":%b}' % (
            self._topic,
            message.partition(),
            message.offset(),
            millis if kind else -1,
            _TIMESTAMP_TYPES.get(kind, "NO_TIMESTAMP_TYPE").encode(),
            b"" if key is None else b',"key":"%b"' % b2a_base64(key, newline=False),
            b"null" if value is None else b'"%b"' % b2a_base64(value, newline=False),
            self._encoded_headers(message.headers()),
        )

    def _encoded_headers(self, headers: Headers | None) -> bytes:
        if not headers:
            return b"[]"
        known = self._headers.get(named := tuple(headers))
        if known is None:
            known = b"[%b]" % b",".join(b"{%b:%b}" % (json.dumps(name).encode(), _signed(value)) for name, value in named)
            if len(self._headers) < 10_000:
                self._headers[named] = known
        return known


def _signed(value: bytes | None) -> bytes:
    """A header's value as a list of Java bytes, -128 to 127."""
    if value is None:
        return b"null"
    return b"[%b]" % ",".join(map(str, memoryview(value).cast("b"))).encode()


class PayloadBuilder:
    """Collects encoded records, grouped by partition, and knows the payload's exact length at any time."""

    def __init__(self, origin: Origin, topic: str, batch_size: int, max_payload: int = MAX_PAYLOAD) -> None:
        self._opening = origin.opening()
        self._topic = topic
        self._batch_size = batch_size
        self._max_payload = max_payload
        self.clear()

    def clear(self) -> None:
        self._groups: dict[int, list[bytes]] = {}
        self._length = len(self._opening) + len(b"}}")
        self.count = 0
        self.next_offsets: dict[int, int] = {}
        """Per partition, the offset after the last record collected: what is committed on success."""

    def add(self, partition: int, offset: int, encoded: bytes) -> bool:
        """Takes the record unless it would make the batch too large; false then."""
        group = self._groups.get(partition)
        added = len(encoded) + (1 if group else len(self._group_opening(partition)) + 1 + (1 if self._groups else 0))
        if self.count >= self._batch_size or self._length + added > self._max_payload:
            return False
        if group is None:
            self._groups[partition] = [encoded]
        else:
            group.append(encoded)
        self._length += added
        self.count += 1
        self.next_offsets[partition] = offset + 1
        return True

    @property
    def full(self) -> bool:
        return self.count >= self._batch_size

    def payload(self) -> bytes:
        """The event."""
        groups = [b"%b%b]" % (self._group_opening(part), b",".join(group)) for part, group in self._groups.items()]
        return b"%b%b}}" % (self._opening, b",".join(groups))

    def __len__(self) -> int:
        return self._length

    def _group_opening(self, partition: int) -> bytes:
        return json.dumps(f"{self._topic}-{partition}").encode() + b":["
