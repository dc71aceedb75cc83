"""Takes the broker away while records flow, and measures how long it takes until batches come again.

It begins with the first batch, and there must be more to come: a restart that nobody notices proves nothing, so
it fails then.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from icefall_local.stack import Stack
from icefall_local.watch import Watcher

SIGNALS = ("SIGTERM", "SIGKILL")
_LOOK_EVERY_S = 0.02
_PATIENCE_S = 60.0
_RESTART_S = 300.0
"""Longer than the run itself waits for the broker to end and to come back."""


class RestartFailed(Exception):
    """The broker did not come back, or nothing came after it did."""


@dataclass(frozen=True)
class Restarted:
    """One restart and what followed."""

    down_s: float
    """From the signal until the broker answered again, each partition with its leader."""
    recovery_s: float
    """From then until the first invocation of the writer that began afterwards."""


class BrokerRestart:
    """One restart, in a thread of its own."""

    def __init__(self, stack: Stack, signal_name: str) -> None:
        self.result: Restarted | None = None
        self.failure: Exception | None = None
        self._stack = stack
        self._signal = signal_name
        self._watcher = Watcher(stack)
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def done(self) -> bool:
        return self.result is not None

    def _guarded(self) -> None:
        try:
            self.result = self._run()
        except Exception as problem:
            self.failure = problem

    def _run(self) -> Restarted:
        self._until(lambda writer: writer["invocations"] > writer["errors"], "no batch came, so the broker was not restarted")
        down_s = self._restart()
        back, before = time.monotonic(), self._writer()["invocations"]
        self._until(
            lambda writer: writer["invocations"] > before,
            "no batch came after the broker's restart: produce more records, or at a steady --rate",
        )
        return Restarted(round(down_s, 2), round(time.monotonic() - back, 2))

    def _until(self, holds: Callable[[dict[str, Any]], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(self._writer()):
            if time.monotonic() > deadline:
                raise RestartFailed(otherwise)
            time.sleep(_LOOK_EVERY_S)

    def _writer(self) -> dict[str, Any]:
        counts: dict[str, Any] = self._watcher.status()["functions"]["writer"]
        return counts

    def _restart(self) -> float:
        order = json.dumps({"signal": self._signal}).encode()
        request = urllib.request.Request(f"{self._stack.lambda_endpoint}/local/kafka/restart", order, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_RESTART_S) as answer:
                return float(json.load(answer)["down_s"])
        except urllib.error.HTTPError as problem:
            raise RestartFailed(problem.read().decode(errors="replace")) from problem
