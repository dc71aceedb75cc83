"""Child processes that never outlive the run: own process group, log file, readiness, orderly stop.

On Linux the kernel is asked to end a child when its parent is gone, so that not even `kill -9` of the
supervisor leaves a server behind. Elsewhere an orderly stop is all there is.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class PartFailed(Exception):
    """A part did not start or ended by itself; the text holds the end of its log."""


def _prctl() -> Callable[[int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: int(function(option, value, 0, 0, 0))


_PRCTL = _prctl()


def end_with_parent() -> None:
    """Runs in a child between fork and exec: ask for SIGKILL when the parent ends."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Part:
    """A running server of the stack."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> Part:
        """Starts `command` with both outputs in `log` and only `environment` beside PATH and HOME."""
        inherited = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **environment},
                cwd=log.parent,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        return cls(name, process, log)

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Asks `ready` again and again; fails with the log when the part ends or takes too long."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None:
                raise self.failed(f"ended with {self.process.returncode} while starting")
            if time.monotonic() > deadline:
                raise self.failed(f"was not ready after {seconds:.0f} s")
            time.sleep(0.02)

    def failed(self, how: str) -> PartFailed:
        """What to raise when the part did `how`; with the end of its log."""
        return PartFailed(f"{self.name} {how}.{self._said()}")

    def stop(self, seconds: float = 5.0) -> None:
        """SIGTERM, then SIGKILL to the whole group when it takes longer than `seconds`.

        Nothing is lost by that: a run's data is never used by another run.
        """
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _said(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()[-15:]
        return "".join(f"\n  {line}" for line in [f"The end of {self.log}:", *lines])
