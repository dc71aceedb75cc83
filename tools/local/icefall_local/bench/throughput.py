"""Records per CPU-second of the writer and of the pyarrow script, over the same events, by turns.

Both run on the same core, one after the other, never at the same time; by turns, so that a change of the
machine's speed during the run meets both.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from icefall_local.bench.events import Event, Events
from icefall_local.bench.function import MeasuredFunction
from icefall_local.bench.processor import pinned
from icefall_local.stack import Stack
from icefall_local.workspace import Unusable

WARM_UP = 2


@dataclass
class Cost:
    """Records and what they took."""

    records: int = 0
    cpu_ns: int = 0

    def add(self, records: int, cpu_ns: int) -> None:
        self.records += records
        self.cpu_ns += cpu_ns

    @property
    def records_per_cpu_second(self) -> int:
        return round(self.records * 1e9 / self.cpu_ns)


@dataclass(frozen=True)
class Throughput:
    """Of one run."""

    writer: Cost
    peer: Cost
    peak_rss_mib: float
    peak_rss_all_mib: float

    @property
    def ratio(self) -> float:
        return round(self.writer.records_per_cpu_second / self.peer.records_per_cpu_second, 2)


class Peer:
    """The script's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, stack: Stack, log: Path, cores: frozenset[int]) -> Peer:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PEER_BUCKET": stack.ops_bucket,
            "PEER_ENDPOINT": stack.ops.direct_endpoint,
            "AWS_DEFAULT_REGION": stack.ops.region,
            "AWS_ACCESS_KEY_ID": stack.ops.access_key_id,
            "AWS_SECRET_ACCESS_KEY": stack.ops.secret_access_key,
        }
        with log.open("wb") as errors, pinned(cores):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "icefall_local.bench.peer",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors, env=environment,
            )  # fmt: skip
        return cls(process)

    async def write(self, event: Path) -> tuple[int, int]:
        """Records and nanoseconds of CPU time."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{event}\n".encode())
        line = await self._process.stdout.readline()
        if not line:
            raise Unusable("the pyarrow script ended; see peer.log in the run's folder")
        answer = json.loads(line)
        return answer["records"], answer["cpu_ns"]

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def measure(
    writer: MeasuredFunction, peer: Peer, events: Events, count: int, scratch: Path, say: Callable[[str], None]
) -> Throughput:
    """`count` events after the warm-up; `writer` must be fresh."""
    costs, first_peak = (Cost(), Cost()), 0.0
    for number in range(WARM_UP + count):
        event = events.full()
        one = await _both(writer, peer, event, scratch)
        if number == 0:
            first_peak = writer.peak_rss_mib()
        if number >= WARM_UP:
            for cost, cpu in zip(costs, one, strict=True):
                cost.add(event.records, cpu)
            say(f"event {number - WARM_UP + 1} of {count}")
    return Throughput(*costs, round(first_peak, 1), round(writer.peak_rss_mib(), 1))


async def _both(writer: MeasuredFunction, peer: Peer, event: Event, scratch: Path) -> tuple[int, int]:
    """CPU nanoseconds of the writer and of the script for one event, which both must have understood."""
    report, by_writer = await writer.invoke_measured(event.payload)
    scratch.write_bytes(event.payload)
    records, by_peer = await peer.write(scratch)
    if (report["rows"], report["dead_letters"], records) != (event.records, 0, event.records):
        raise Unusable(f"of {event.records} records the writer made {report}, the pyarrow script {records}")
    return by_writer, by_peer
