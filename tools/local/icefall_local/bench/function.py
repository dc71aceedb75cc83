"""A function under measurement: one process, pinned to the measured core, invoked one event at a time."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

from icefall_local.bench.processor import cpu_ns, peak_rss_mib, pinned
from icefall_local.execution_environment import ExecutionEnvironment, FunctionConfig
from icefall_local.workspace import Unusable

_QUIET_S = 0.03
"""After an answer a process still puts things away and polls again: that is part of the event's cost."""


class MeasuredFunction:
    """A running function; its answers must not be errors."""

    def __init__(self, environment: ExecutionEnvironment, log: Path) -> None:
        self._environment = environment
        self._log = log

    @classmethod
    async def start(cls, config: FunctionConfig, log: Path, cores: frozenset[int]) -> MeasuredFunction:
        environment = ExecutionEnvironment(config, log, lambda _: None)
        with pinned(cores):
            await environment.start()
        return cls(environment, log)

    async def invoke(self, payload: bytes) -> dict[str, Any]:
        """The function's report."""
        self._environment.busy = True
        outcome = await self._environment.invoke(payload, str(uuid.uuid4()))
        if outcome.error:
            text = outcome.payload.decode(errors="replace")[:2_000]
            raise Unusable(f"the {self._environment.config.name} failed: {text}\n  its log: {self._log}")
        report: dict[str, Any] = json.loads(outcome.payload)
        return report

    async def invoke_measured(self, payload: bytes) -> tuple[dict[str, Any], int]:
        """The report, and the CPU time of the invocation in nanoseconds."""
        before = cpu_ns(self._pid)
        report = await self.invoke(payload)
        await asyncio.sleep(_QUIET_S)
        return report, cpu_ns(self._pid) - before

    def peak_rss_mib(self) -> float:
        return peak_rss_mib(self._pid)

    async def stop(self) -> None:
        await self._environment.stop()

    @property
    def _pid(self) -> int:
        assert self._environment.process is not None
        return self._environment.process.pid
