"""The processor as a measuring instrument: pinning processes to one core, and reading their CPU time.

One core is kept for what is measured; the stack and the benchmark itself get the others, if there are any.
CPU time is the process's own clock in nanoseconds, all threads included, also those that have ended:
`/proc/PID/stat` counts in hundredths of a second, too coarse for an event that takes ten milliseconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from icefall_local.workspace import Unusable

_CPUCLOCK_SCHED = 2
"""A process's scheduler clock, in the low bits of a Linux clock id; see clock_getcpuclockid(3)."""


@dataclass(frozen=True)
class Cores:
    """Which cores are for what."""

    measured: frozenset[int]
    others: frozenset[int]

    @classmethod
    def of_this_machine(cls) -> Cores:
        if not sys.platform.startswith("linux"):
            raise Unusable("the benchmarks pin processes and evict files as only Linux can: run them there")
        return cls.split(os.sched_getaffinity(0))

    @classmethod
    def split(cls, usable: set[int]) -> Cores:
        """The last core is measured on; with a single one there is nothing to keep apart."""
        measured = frozenset({max(usable)})
        return cls(measured, frozenset(usable) - measured or measured)


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """What is started within runs on `cores` for all its life."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_ns(pid: int) -> int:
    """CPU time that the process has used so far."""
    return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)


def peak_rss_mib(pid: int) -> float:
    """The most memory that the process ever held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return high_water_mark_kib(status) / 1024


def high_water_mark_kib(status: str) -> int:
    """`VmHWM` of a `/proc/PID/status`."""
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])
