"""Compares what a reader found with what the generator expects, by value, and names what differs.

All comparison is done on columns, as joins in an in-memory DuckDB that holds nothing but the two sides.
A record is named by topic, partition and offset, because that is what an operator can look up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from icefall_local.clickstream import ROW_SCHEMA, Tables
from icefall_local.expectation import Expectation, headers_of
from icefall_local.readers import read_with_duckdb, read_with_pyiceberg
from icefall_local.stack import Stack

NAMED_AT_MOST = 5
"""Records of each kind of difference that are named; all are counted."""

ROW_COLUMNS = tuple(ROW_SCHEMA.names)
DEAD_LETTER_COLUMNS = (
    "topic", "partition", "offset", "timestamp", "key", "value", "headers", "target_table", "error_class", "error_text",
)  # fmt: skip
"""Of the dead-letter table, what is compared."""


@dataclass
class Differences:
    """What one reader found wrong in one table."""

    missing: int = 0
    duplicates: int = 0
    altered: int = 0
    unexpected: int = 0
    """Rows that no record produced can account for."""
    named: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(self.missing or self.duplicates or self.altered or self.unexpected)


@dataclass(frozen=True)
class Reading:
    """One reader's result."""

    reader: str
    rows: int
    dead_letters: int
    row_differences: Differences
    dead_letter_differences: Differences

    def total(self, what: str) -> int:
        return int(getattr(self.row_differences, what) + getattr(self.dead_letter_differences, what))

    @property
    def right(self) -> bool:
        return not (self.row_differences.any or self.dead_letter_differences.any)


Read = Callable[[Stack, str, tuple[str, ...]], pa.Table]
_READ: dict[str, Read] = {"duckdb": read_with_duckdb, "pyiceberg": read_with_pyiceberg}


def verify(stack: Stack, expectation: Expectation, reader: str, tables: Tables = Tables()) -> Reading:
    """Reads both tables with one reader and compares every value."""
    rows = _READ[reader](stack, tables.rows, ROW_COLUMNS)
    letters = _READ[reader](stack, tables.dead_letters, DEAD_LETTER_COLUMNS)
    return Reading(
        reader,
        rows.num_rows,
        letters.num_rows,
        compare_rows(expectation, rows),
        compare_dead_letters(expectation, letters, tables),
    )


def compare_rows(expectation: Expectation, found: pa.Table) -> Differences:
    """The table's rows against the good records; a record is known by its event id."""
    values = [name for name in ROW_COLUMNS if name != "event_id"]
    return _compare(expectation.topic, expectation.rows(), found, ("event_id",), values)


def compare_dead_letters(expectation: Expectation, found: pa.Table, tables: Tables = Tables()) -> Differences:
    """The dead letters against the bad records, byte by byte; a record is known by its offset."""
    expected = expectation.dead_letters()
    count = expected.num_rows
    expected = pa.table(
        {
            "topic": pa.array([expectation.topic] * count, pa.string()),
            "partition": expected["partition"],
            "offset": expected["offset"],
            "timestamp": expected["produced_ms"].cast(pa.timestamp("ms", tz="UTC")),
            "key": expected["key"],
            "value": expected["value"],
            "headers": pa.array([_as_text(headers_of(one)) for one in expected["headers_variant"].to_pylist()], pa.string()),
            "target_table": pa.array([tables.rows] * count, pa.string()),
        }
    )
    differences = _compare(
        expectation.topic,
        expected,
        _with_headers_as_text(found),
        ("topic", "partition", "offset"),
        ("timestamp", "key", "value", "headers", "target_table"),
    )
    _require_reasons(found, differences)
    return differences


def _with_headers_as_text(found: pa.Table) -> pa.Table:
    """Headers as one text, in their order: readers differ in how they nest them, not in what they hold."""
    texts = [
        _as_text([(header["key"], header["value"]) for header in headers or []]) for headers in found["headers"].to_pylist()
    ]
    place = found.schema.get_field_index("headers")
    return found.set_column(place, "headers", pa.array(texts, pa.string()))


def _as_text(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return "\n".join(f"{key}={'null' if value is None else bytes(value).hex()}" for key, value in headers)


def _require_reasons(found: pa.Table, differences: Differences) -> None:
    """A dead letter without a reason is of no use."""
    silent = duckdb.sql(
        "SELECT topic, partition, \"offset\" FROM found WHERE coalesce(error_class, '') = '' OR coalesce(error_text, '') = ''"
    ).fetchall()
    differences.altered += len(silent)
    for topic, partition, offset in silent[:NAMED_AT_MOST]:
        differences.named.append(f"a dead letter without a reason: {topic}/{partition}/{offset}")


def _compare(
    topic: str, expected: pa.Table, found: pa.Table, identity: Sequence[str], values: Sequence[str]
) -> Differences:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("expected_arrow", expected)
        connection.register("found_arrow", found)
        which = ", ".join(f'"{name}"' for name in identity)
        connection.execute(
            f"CREATE TABLE expected AS SELECT *, row_number() OVER (PARTITION BY {which} ORDER BY partition, \"offset\") AS nth"
            " FROM expected_arrow"
        )
        connection.execute(f"CREATE TABLE found AS SELECT *, row_number() OVER (PARTITION BY {which}) AS nth FROM found_arrow")
        return _Comparison(connection, topic, identity, values).run()


class _Comparison:
    """The queries of one comparison.

    A record may be expected more than once: an application that aborts a transaction produces its records
    again, and who reads uncommitted has both. So each side's copies are numbered, and the n-th meets the n-th.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, topic: str, identity: Sequence[str], values: Sequence[str]
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._identity = ", ".join(f'"{name}"' for name in identity)
        self._values = values

    def run(self) -> Differences:
        differences = Differences()
        located = "partition, \"offset\""
        self._note(
            differences,
            "missing",
            f"SELECT {located}, 1, '' FROM expected ANTI JOIN found USING ({self._identity}, nth)",
        )
        self._note(
            differences,
            "duplicates",
            f"SELECT e.partition, e.\"offset\", extra, 'stands ' || n || ' times' FROM expected e JOIN "
            f"(SELECT {self._identity}, count(*) AS extra, max(nth) AS n FROM found "
            f"ANTI JOIN expected USING ({self._identity}, nth) GROUP BY ALL) USING ({self._identity}) WHERE e.nth = 1",
        )
        unequal = " OR ".join(f'e."{name}" IS DISTINCT FROM f."{name}"' for name in self._values)
        which = " || ".join(
            f"CASE WHEN e.\"{name}\" IS DISTINCT FROM f.\"{name}\" THEN '{name} ' ELSE '' END" for name in self._values
        )
        self._note(
            differences,
            "altered",
            f"SELECT e.partition, e.\"offset\", 1, 'differs in ' || {which} FROM expected e "
            f"JOIN found f USING ({self._identity}) WHERE e.nth = 1 AND ({unequal})",
        )
        self._note_unexpected(differences)
        return differences

    def _note(self, differences: Differences, what: str, query: str) -> None:
        """`query` answers partition, offset, how many, and a remark, for each record that differs."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE differing AS {query}")
        total = self._connection.sql('SELECT coalesce(sum(#3), 0)::BIGINT FROM differing').fetchall()[0][0]
        setattr(differences, what, int(total))
        first = self._connection.sql(f"SELECT * FROM differing ORDER BY 1, 2 LIMIT {NAMED_AT_MOST}").fetchall()
        for partition, offset, _, remark in first:
            differences.named.append(f"{what}: {self._topic}/{partition}/{offset} {remark}".rstrip())

    def _note_unexpected(self, differences: Differences) -> None:
        query = f"SELECT {self._identity} FROM found ANTI JOIN expected USING ({self._identity})"
        differences.unexpected = int(self._connection.sql(f"SELECT count(*) FROM ({query})").fetchall()[0][0])
        for identity in self._connection.sql(f"{query} LIMIT {NAMED_AT_MOST}").fetchall():
            differences.named.append(f"unexpected: {'/'.join(map(str, identity))} was never to be here")
