"""Spoils one record behind the committer's back, so that a verification that sees nothing is found out.

Each kind is a commit by another writer to a table that was right a moment before; the verification after
it must fail and name the very record.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.table import Table

from icefall_local.clickstream import DEAD_LETTER_TABLE, TABLE
from icefall_local.expectation import Expectation
from icefall_local.readers import open_catalog
from icefall_local.stack import Stack

KINDS = ("drop", "double", "alter", "lose-dead-letter")


@dataclass(frozen=True)
class Victim:
    """The record that was chosen."""

    topic: str
    partition: int
    offset: int
    event_id: str

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def choose(expectation: Expectation, kind: str) -> Victim:
    """The middle one of those that can be spoiled so."""
    candidates = expectation.dead_letters() if kind == "lose-dead-letter" else expectation.rows()
    if not candidates.num_rows:
        raise ValueError(f"nothing was produced that `{kind}` could spoil: use more records, or --bad above 0")
    record = candidates.slice(candidates.num_rows // 2, 1).to_pylist()[0]
    return Victim(expectation.topic, record["partition"], record["offset"], record["event_id"])


def spoil(stack: Stack, victim: Victim, kind: str) -> None:
    """Commits the damage."""
    catalog = open_catalog(stack)
    if kind == "lose-dead-letter":
        catalog.load_table(DEAD_LETTER_TABLE).delete(_its_offset(victim))
        return
    table, itself = catalog.load_table(TABLE), EqualTo("event_id", victim.event_id)
    row = table.scan(row_filter=itself).to_arrow()
    if kind in ("drop", "alter"):
        table.delete(itself)
    if kind in ("double", "alter"):
        _append(table, spoiled(row) if kind == "alter" else row)


def spoiled(row: pa.Table) -> pa.Table:
    """The same row with one value changed."""
    place = row.schema.get_field_index("page_url")
    other = pa.array(["https://shop.example.com/somewhere-else"] * row.num_rows, row.schema.field(place).type)
    return row.set_column(place, row.schema.field(place), other)


def _append(table: Table, row: pa.Table) -> None:
    table.refresh()
    table.append(row)


def _its_offset(victim: Victim) -> BooleanExpression:
    place = And(EqualTo("partition", victim.partition), EqualTo("offset", victim.offset))
    return And(EqualTo("topic", victim.topic), place)
