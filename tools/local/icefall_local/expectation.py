"""What must come out: for each offset produced, the row's values or the dead letter's bytes.

Kept in columns, so that a million records are some hundred MB and the comparison is a join. Saved beside
the run's logs: a stack that is kept can be verified again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather

from icefall_local.clickstream import BAD_KINDS, HEADER_VARIANTS, ROW_SCHEMA, Record, event_micros

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("produced_ms", pa.int64()),
        ("bad_kind", pa.int8()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers_variant", pa.int8()),
        *ROW_SCHEMA,
    ]
)
"""`value` is kept for dead letters only; the columns of the row mean nothing for those."""


@dataclass(frozen=True)
class Expectation:
    """Everything produced to one topic."""

    topic: str
    records: pa.Table

    def rows(self) -> pa.Table:
        """The records that must stand in the table."""
        return self.records.filter(pc.equal(self.records["bad_kind"], -1))

    def dead_letters(self) -> pa.Table:
        """The records that must stand in the dead-letter table."""
        return self.records.filter(pc.not_equal(self.records["bad_kind"], -1))

    def kinds(self) -> dict[str, int]:
        """How many of each bad kind were produced."""
        counts = Counter(self.dead_letters()["bad_kind"].to_pylist())
        return {BAD_KINDS[kind][0]: count for kind, count in sorted(counts.items())}

    def last_produced_ms(self) -> int:
        """When the last record was produced."""
        return int(pc.max(self.records["produced_ms"]).as_py())

    def save(self, path: Path) -> None:
        table = self.records.replace_schema_metadata({"topic": self.topic})
        pyarrow.feather.write_feather(table, path, compression="lz4")

    @classmethod
    def load(cls, path: Path) -> Expectation:
        table = pyarrow.feather.read_table(path)
        return cls((table.schema.metadata or {})[b"topic"].decode(), table)


class ExpectationBuilder:
    """Collects what was produced, with the offset that each record got: on a fresh topic, its place in its partition."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self.next_offsets = [0] * partitions
        """Per partition, how many records were produced: the end offset that the broker must show."""
        self._chunks: list[pa.Table] = []

    def add(self, records: Sequence[Record], produced_ms: Sequence[int]) -> None:
        """Records in the order they were produced in."""
        offsets = []
        for record in records:
            offsets.append(self.next_offsets[record.partition])
            self.next_offsets[record.partition] += 1
        self.add_at(offsets, records, produced_ms)

    def add_at(self, offsets: Sequence[int], records: Sequence[Record], produced_ms: Sequence[int]) -> None:
        """Records whose offsets the broker reported."""
        values = [record.values for record in records]
        columns = [
            pa.array([record.partition for record in records], pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array(produced_ms, pa.int64()),
            pa.array([record.bad_kind for record in records], pa.int8()),
            pa.array([record.key for record in records], pa.binary()),
            pa.array([None if record.bad_kind < 0 else record.value for record in records], pa.binary()),
            pa.array([record.headers_variant for record in records], pa.int8()),
            *(pa.array([getattr(one, field.name) for one in values], field.type) for field in list(ROW_SCHEMA)[:-1]),
            _times([one.event_time for one in values]),
        ]
        self._chunks.append(pa.table(columns, schema=SCHEMA))

    def build(self) -> Expectation:
        return Expectation(self._topic, pa.concat_tables([SCHEMA.empty_table(), *self._chunks]))


def _times(texts: Sequence[str]) -> pa.Array:
    return pa.array(np.asarray(event_micros(texts)), pa.int64()).cast(ROW_SCHEMA.field("event_time").type)


def headers_of(variant: int) -> list[tuple[str, bytes | None]]:
    """The headers that a record was produced with."""
    return list(HEADER_VARIANTS[variant] or [])
