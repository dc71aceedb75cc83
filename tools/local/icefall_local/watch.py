"""Looks at a running stack from outside: what is committed, what is queued, what the functions did.

Everything is asked of the parts themselves (table metadata, queue, host); nothing is taken from what the
functions say about themselves, except for the few counts that only they can know.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from pyiceberg.table import Table

from icefall_local.clickstream import DEAD_LETTER_TABLE, TABLE
from icefall_local.readers import load_table, open_catalog
from icefall_local.stack import Stack


@dataclass(frozen=True)
class View:
    """One look at the stack."""

    rows: int
    dead_letters: int
    snapshots: int
    queued: int
    in_flight: int
    status: dict[str, Any]

    @property
    def settled(self) -> int:
        return self.rows + self.dead_letters

    @property
    def queue_empty(self) -> bool:
        return self.queued == 0 and self.in_flight == 0

    def moved_since(self, other: View) -> bool:
        """Whether anything at all has happened: committed, queued or delivered to a function with success."""
        return self._moving() != other._moving()

    def _moving(self) -> tuple[object, ...]:
        return (self.rows, self.dead_letters, self.queued, self.in_flight, self.successes("writer"))

    def successes(self, function: str) -> int:
        counts = self.status["functions"].get(function, {})
        return int(counts.get("invocations", 0)) - int(counts.get("errors", 0))


class Watcher:
    """Keeps its connections between looks."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._catalog = open_catalog(stack)
        self._queue = boto3.client(
            "sqs",
            endpoint_url=stack.queue.direct_endpoint,
            region_name=stack.queue.region,
            aws_access_key_id=stack.queue.access_key_id,
            aws_secret_access_key=stack.queue.secret_access_key,
        )

    def look(self) -> View:
        rows, snapshots = _totals(load_table(self._catalog, TABLE))
        letters, _ = _totals(load_table(self._catalog, DEAD_LETTER_TABLE))
        waiting, in_flight = self._depth()
        return View(rows, letters, snapshots, waiting, in_flight, self.status())

    def table(self, name: str) -> Table:
        return self._catalog.load_table(name)

    def stop_chaos(self) -> None:
        """From here on nothing dies and nothing comes twice."""
        order = urllib.request.Request(f"{self._stack.lambda_endpoint}/local/chaos/stop", method="POST")
        urllib.request.urlopen(order, timeout=30).close()

    def status(self) -> dict[str, Any]:
        """What the Lambda host, the proxies and the mapping say."""
        with urllib.request.urlopen(f"{self._stack.lambda_endpoint}/local/status", timeout=30) as answer:
            status: dict[str, Any] = json.load(answer)
        return status

    def commits_answered_ms(self) -> dict[int, int]:
        """When the catalog answered the commit of each snapshot."""
        with urllib.request.urlopen(f"{self._stack.lambda_endpoint}/local/commits", timeout=30) as answer:
            return {int(snapshot): answered_ms for snapshot, answered_ms in json.load(answer).items()}

    def _depth(self) -> tuple[int, int]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._queue.get_queue_attributes(QueueUrl=self._stack.direct_queue_url, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])


def _totals(table: Table | None) -> tuple[int, int]:
    """Rows by the current snapshot's summary, and how many snapshots there are."""
    if table is None or (snapshot := table.current_snapshot()) is None:
        return 0, 0
    summary = snapshot.summary
    return int((summary["total-records"] if summary else None) or 0), len(table.metadata.snapshots)


def metric_sums(log: Path, names: Sequence[str]) -> dict[str, int]:
    """The sums of a function's counters, from the metric lines of its log. A process that is killed takes
    along what it counted since its last round."""
    sums = dict.fromkeys(names, 0)
    if not log.exists():
        return sums
    with log.open(errors="replace") as lines:
        for line in (line for line in lines if line.startswith("{") and "_aws" in line):
            try:
                found = json.loads(line)
            except ValueError:
                continue  # Cut off by a kill.
            for name in names:
                value = found.get(name, 0)
                sums[name] += int(sum(value) if isinstance(value, list) else value)
    return sums


def mapping_progress(run: Path) -> dict[str, Any]:
    """The event source mapping's own counts, summed over its pollers."""
    try:
        pollers = json.loads((run / "mapping-state.json").read_text())
    except (OSError, ValueError):
        pollers = []
    names = ("batches", "records", "failures", "rewinds", "repolls")
    sums: dict[str, Any] = {name: sum(poller[name] for poller in pollers) for name in names}
    sums["largest_payload"] = max((poller["largest_payload"] for poller in pollers), default=0)
    sums["last_error"] = next((poller["last_error"] for poller in pollers if poller["last_error"]), "")
    return sums
