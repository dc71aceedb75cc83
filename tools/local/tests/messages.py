"""Kafka messages without a broker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FakeMessage:
    """What the encoder asks of a consumed message."""

    of_partition: int
    at_offset: int
    of_value: bytes | None = b"value"
    of_key: bytes | None = None
    of_headers: tuple[tuple[str, bytes | None], ...] | None = None
    at: tuple[int, int] = (1, 1_545_084_650_987)
    of_topic: str = "my-topic"

    def topic(self) -> str:
        return self.of_topic

    def partition(self) -> int:
        return self.of_partition

    def offset(self) -> int:
        return self.at_offset

    def timestamp(self) -> tuple[int, int]:
        return self.at

    def key(self) -> bytes | None:
        return self.of_key

    def value(self) -> bytes | None:
        return self.of_value

    def headers(self) -> tuple[tuple[str, bytes | None], ...] | None:
        return self.of_headers
