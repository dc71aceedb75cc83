"""From exec to the first poll: what Lambda's init phase takes here, with warm and with cold files.

The Runtime API is a listening socket and nothing else: the first request is all that is awaited, and the
process is killed once it has come. Download, unpacking and the virtual machine's own start are not in it.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from icefall_local.bench.processor import pinned
from icefall_local.ports import LOOPBACK
from icefall_local.workspace import Unusable

_FIRST_POLL = b"GET /2018-06-01/runtime/invocation/next "
_PATIENCE_S = 30.0
_EVICTED_WITHIN_S = 10.0


@dataclass(frozen=True)
class Program:
    """What is started."""

    name: str
    bootstrap: Path
    environment: Mapping[str, str]


@dataclass(frozen=True)
class StartUp:
    """Medians in milliseconds."""

    warm_ms: float
    cold_ms: float


def measure(programs: list[Program], cores: frozenset[int], runs: int) -> dict[str, StartUp]:
    """Every program, in turns, so that a busy moment of the machine meets all of them."""
    warm = _medians(programs, cores, runs, _touch)
    cold = _medians(programs, cores, runs, _evict)
    return {program.name: StartUp(warm[program.name], cold[program.name]) for program in programs}


def _medians(
    programs: list[Program], cores: frozenset[int], runs: int, prepare: Callable[[Path], None]
) -> dict[str, float]:
    times: dict[str, list[float]] = {program.name: [] for program in programs}
    for _ in range(runs):
        for program in programs:
            prepare(program.bootstrap)
            times[program.name].append(_time_to_first_poll(program, cores))
    return {name: round(statistics.median(of_one), 1) for name, of_one in times.items()}


def _touch(path: Path) -> None:
    path.read_bytes()


def _evict(path: Path) -> None:
    """Takes the file out of the page cache, which takes until the process that ran it last is gone."""
    deadline = time.monotonic() + _EVICTED_WITHIN_S
    with path.open("rb") as file:
        while True:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if not _is_cached(file.fileno()):
                return
            if time.monotonic() > deadline:
                raise Unusable(f"{path} stays in the page cache: .local/ must lie on a disk, not in memory")
            time.sleep(0.02)


def _is_cached(file: int) -> bool:
    """Whether the file's first page can be read without asking the disk; see preadv2(2)."""
    try:
        return os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False


def _time_to_first_poll(program: Program, cores: frozenset[int]) -> float:
    """Milliseconds."""
    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(_PATIENCE_S)
        variables = {**program.environment, "AWS_LAMBDA_RUNTIME_API": f"{LOOPBACK}:{server.getsockname()[1]}"}
        with pinned(cores):
            began = time.perf_counter()
            pid = os.posix_spawn(program.bootstrap, [str(program.bootstrap)], variables, file_actions=_SILENT)
        try:
            _await_first_poll(server)
            return (time.perf_counter() - began) * 1_000
        except TimeoutError:
            raise Unusable(f"{program.bootstrap} did not poll for an event within {_PATIENCE_S:.0f} s") from None
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


_SILENT = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]


def _await_first_poll(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.settimeout(_PATIENCE_S)
        received = connection.recv(65_536)
        if not received.startswith(_FIRST_POLL):
            raise Unusable(f"the first request to the Runtime API is {received[:100]!r}: was start-up refused?")
