"""Events of the main job's data, as full as Lambda allows or as small as wanted, each with new offsets."""

from __future__ import annotations

import time
from dataclasses import dataclass

from icefall_local.clickstream import HEADER_VARIANTS, Clickstream, Record
from icefall_local.kafka_event import Headers, Origin, PayloadBuilder, RecordEncoder

PARTITIONS = 4
_ORIGIN = Origin("127.0.0.1:9092")
_NO_LIMIT = 1_000_000
"""Above the mapping's 10,000 records: what bounds a benchmark's event is its size alone."""
_DRAWN_AT_ONCE = 1_000


@dataclass(frozen=True)
class Event:
    """A payload and how many records it holds."""

    payload: bytes
    records: int


class Events:
    """Makes events; no two hold the same record, and every partition's offsets go on without a gap."""

    def __init__(self, topic: str, seed: int = 7) -> None:
        self._topic = topic
        self._stream = Clickstream(seed, bad_permille=0, partitions=PARTITIONS)
        self._encoder = RecordEncoder(topic)
        self._next_offsets = [0] * PARTITIONS

    def full(self) -> Event:
        """As many records as fit into one payload."""
        return self._fill(_NO_LIMIT)

    def of(self, records: int) -> Event:
        """Exactly so many records."""
        return self._fill(records)

    def _fill(self, at_most: int) -> Event:
        builder = PayloadBuilder(_ORIGIN, self._topic, batch_size=at_most)
        now = time.time_ns() // 1_000_000
        while not builder.full:
            for record in self._stream.take(min(_DRAWN_AT_ONCE, at_most - builder.count)):
                if not self._add(builder, record, now):
                    return Event(builder.payload(), builder.count)
        return Event(builder.payload(), builder.count)

    def _add(self, builder: PayloadBuilder, record: Record, now: int) -> bool:
        offset = self._next_offsets[record.partition]
        encoded = self._encoder.encode(_Produced(self._topic, offset, now, record))
        if not builder.add(record.partition, offset, encoded):
            return False
        self._next_offsets[record.partition] = offset + 1
        return True


class _Produced:
    """A record as a consumer would hand it over."""

    def __init__(self, topic: str, offset: int, millis: int, record: Record) -> None:
        self._topic = topic
        self._offset = offset
        self._millis = millis
        self._record = record

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._record.partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._millis

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def headers(self) -> Headers | None:
        return HEADER_VARIANTS[self._record.headers_variant]
