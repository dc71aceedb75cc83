"""How long records took from being produced to being visible: until the catalog answered the commit that added them.

Of each row, not estimated: each data file names in its manifest the snapshot that added it, and the event ids in the file
name the records. When the catalog answered is what the proxy before it saw (`commit_times`). Percentiles over all rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from icefall_local.expectation import Expectation

_READ_AT_ONCE = 16
"""Files. Each is small, so waiting for the store is what takes the time."""


@dataclass(frozen=True)
class Freshness:
    """Milliseconds; None when there is no row."""

    p50_ms: int | None
    p99_ms: int | None


def measure(table: Table, expectation: Expectation, answered_ms: Mapping[int, int]) -> Freshness:
    """Reads the event ids of every data file, and nothing else of it."""
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    committed = visible_ms([snapshot.snapshot_id for snapshot in snapshots], answered_ms, time.time_ns() // 1_000_000)
    files = [(committed[snapshot], path) for snapshot, path in _files(table) if snapshot in committed]
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        pieces = list(pool.map(lambda file: _piece(table, *file), files))
    return percentiles(pa.concat_tables(pieces), expectation) if pieces else Freshness(None, None)


def visible_ms(snapshots: Sequence[int], answered_ms: Mapping[int, int], now_ms: int) -> dict[int, int]:
    """Since when each snapshot is visible, of those in the order of their commits.

    One whose commit was made and never answered was visible when the next one was answered at the latest, which needed it.
    """
    visible, latest = {}, now_ms
    for snapshot in reversed(snapshots):
        visible[snapshot] = latest = answered_ms.get(snapshot, latest)
    return visible


def _piece(table: Table, committed_ms: int, path: str) -> pa.Table:
    """The event ids of one file. It is fetched whole: one answer instead of several."""
    with table.io.new_input(path).open() as file:
        ids = pq.read_table(pa.BufferReader(file.read()), columns=["event_id"])["event_id"]
    return pa.table({"event_id": ids, "committed_ms": pa.array([committed_ms] * len(ids), pa.int64())})


def percentiles(committed: pa.Table, expectation: Expectation) -> Freshness:
    """`committed` holds, per row, its event id and since when its snapshot is visible."""
    produced = expectation.rows().select(["event_id", "produced_ms"])
    with duckdb.connect() as connection:
        connection.register("committed", committed)
        connection.register("produced", produced)
        p50, p99 = connection.execute(
            "SELECT quantile_disc(age, 0.5), quantile_disc(age, 0.99) FROM ("
            " SELECT min(committed_ms) - min(produced_ms) AS age"
            " FROM committed JOIN produced USING (event_id) GROUP BY event_id)"
        ).fetchall()[0]
    return Freshness(p50, p99)


def _files(table: Table) -> list[tuple[int, str]]:
    """The snapshot that added each live data file, and the file."""
    entries = table.inspect.entries()
    live = [status != 2 for status in entries["status"].to_pylist()]
    files = [one["file_path"] for one in entries["data_file"].to_pylist()]
    return [pair for pair, alive in zip(zip(entries["snapshot_id"].to_pylist(), files), live) if alive]
