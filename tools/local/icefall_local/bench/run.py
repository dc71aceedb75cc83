"""`cargo xtask bench`: puts the measurements together, shows what they found, fails when a bound is missed."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from icefall_local import launch
from icefall_local.bench import audits, figures, package, start_up, throughput
from icefall_local.bench.commits import Rounds
from icefall_local.bench.events import Events
from icefall_local.bench.figures import Figures
from icefall_local.bench.function import MeasuredFunction
from icefall_local.bench.processor import Cores
from icefall_local.bench.single_file import SingleFileQueue
from icefall_local.execution_environment import FunctionConfig
from icefall_local.scheduler import scheduled_event
from icefall_local.stack import Stack
from icefall_local.supervisor import Options, StartFailed
from icefall_local.terminal import Terminal
from icefall_local.workspace import Unusable, Workspace

_FUNCTIONS = ("writer", "committer", "hello")
_EVENTS = 24
_STARTS = 21
_INVOCATION_S = 600.0


def main(arguments: Sequence[str]) -> int:
    """Runs the benchmarks; the exit code."""
    options = _parser().parse_args(arguments)
    terminal = Terminal(sys.stderr)
    try:
        found = _run(Workspace.here(), options.events, terminal)
    except KeyboardInterrupt:
        terminal.say("stopped")
        return 130
    except (Unusable, StartFailed) as problem:
        terminal.failure(str(problem))
        return 1
    return _report(found, options.json, terminal)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cargo xtask bench", description="The benchmarks, on release builds.")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object, as the last line")
    parser.add_argument("--events", type=_positive, default=_EVENTS, metavar="N", help=f"events of 6 MB ({_EVENTS})")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _report(found: Figures, as_json: bool, terminal: Terminal) -> int:
    missed = found.missed()
    print(figures.table(found))
    for sentence in missed:
        terminal.failure(sentence)
    if as_json:
        print(found.as_json())
    return 1 if missed else 0


def _run(workspace: Workspace, events: int, terminal: Terminal) -> Figures:
    cores = Cores.of_this_machine()
    os.sched_setaffinity(0, cores.others)
    release = workspace.release
    options = Options(main_job=False, functions=str(release))
    with launch.Running(workspace, options, terminal.step) as running:
        terminal.step("packing the functions")
        folder = running.run / "bench"
        packages = {name: package.pack(release / name, folder / name) for name in _FUNCTIONS}
        bench = Bench(running.stack, folder, packages, cores, terminal)
        found = asyncio.run(bench.run(events))
    terminal.step(f"audits of a main job of {audits.RECORDS:,} records")
    return replace(found, audit_records_per_cpu_second=audits.measure(workspace, release, terminal))


@dataclass(frozen=True)
class Bench:
    """What all measurements share."""

    stack: Stack
    folder: Path
    packages: Mapping[str, package.Package]
    cores: Cores
    terminal: Terminal

    async def run(self, count: int) -> Figures:
        """All measurements, one after the other."""
        self.terminal.step(f"init to first poll, {_STARTS} runs each with warm and with cold files")
        starts = await asyncio.to_thread(start_up.measure, self._programs(), self.cores.measured, _STARTS)
        events = Events(self.stack.topic)
        await self._commit()
        self.terminal.step("writer and pyarrow script, by turns")
        through = await self._throughput(events, count)
        self.terminal.step("committing what was written")
        snapshots = await self._commit()
        self.terminal.step("the committer's CPU for a round")
        commits = await self._commit_costs(events, snapshots)
        return self._figures(starts, through, count, commits)

    def _figures(
        self,
        starts: Mapping[str, start_up.StartUp],
        through: throughput.Throughput,
        events: int,
        commits: Mapping[str, float],
    ) -> Figures:
        return Figures(
            writer_records_per_cpu_second=through.writer.records_per_cpu_second,
            peer_records_per_cpu_second=through.peer.records_per_cpu_second,
            ratio=through.ratio,
            writer_peak_rss_mib=through.peak_rss_mib,
            writer_zip_mb=self.packages["writer"].megabytes,
            committer_zip_mb=self.packages["committer"].megabytes,
            init_warm_ms=starts["writer"].warm_ms,
            init_cold_ms=starts["writer"].cold_ms,
            hello_init_warm_ms=starts["hello"].warm_ms,
            hello_init_cold_ms=starts["hello"].cold_ms,
            commit_cpu_ms=commits,
            committer_init_warm_ms=starts["committer"].warm_ms,
            committer_init_cold_ms=starts["committer"].cold_ms,
            writer_peak_rss_all_mib=through.peak_rss_all_mib,
            events=events,
            records=through.writer.records,
        )

    def _programs(self) -> list[start_up.Program]:
        """The functions with what Lambda tells them, as far as they look at it before the first poll."""
        return [
            start_up.Program(
                name,
                self.packages[name].bootstrap,
                {
                    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                    "AWS_LAMBDA_FUNCTION_NAME": name,
                    "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
                    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
                    "AWS_LAMBDA_LOG_FORMAT": "JSON",
                    "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
                    "AWS_LAMBDA_LOG_STREAM_NAME": "bench",
                    "AWS_REGION": "us-west-2",
                    **self._settings(),
                },
            )
            for name in _FUNCTIONS
        ]

    def _settings(self) -> dict[str, str]:
        return {"ICEFALL_SETTINGS": self.stack.settings}

    async def _start(self, name: str, overrides: Mapping[str, str] | None = None) -> MeasuredFunction:
        environment = {**self._settings(), **(overrides or {})}
        config = FunctionConfig(name, self.packages[name].bootstrap, environment, timeout_s=_INVOCATION_S)
        return await MeasuredFunction.start(config, self.stack.logs / f"bench-{name}.log", self.cores.measured)

    async def _commit(self) -> int:
        """Lets a committer drain the real queue, creating the tables if need be; the snapshots it added."""
        committer = await self._start("committer")
        try:
            report = await committer.invoke(scheduled_event("us-west-2"))
        finally:
            await committer.stop()
        if report["waiting"]:
            raise Unusable(f"the committer left batch manifests in the queue: {report}")
        return int(report["snapshots"])

    async def _throughput(self, events: Events, count: int) -> throughput.Throughput:
        writer = await self._start("writer")
        peer = await throughput.Peer.start(self.stack, self.stack.logs / "peer.log", self.cores.measured)
        try:
            return await throughput.measure(
                writer, peer, events, count, self.folder / "event.json", self.terminal.progress
            )
        finally:
            await writer.stop()
            await peer.stop()

    async def _commit_costs(self, events: Events, snapshots: int) -> dict[str, float]:
        queue = SingleFileQueue()
        await queue.start()
        overrides = {
            "ICEFALL__QUEUE__URL": queue.url,
            "ICEFALL__QUEUE__ENDPOINT": queue.endpoint,
            "ICEFALL__COMMITTER__COMMIT_INTERVAL": "1ms",
            "ICEFALL__COMMITTER__LINGER": "1ms",
            "ICEFALL__COMMITTER__MAX_MESSAGES": "1",
        }
        writer, committer = await self._start("writer", overrides), await self._start("committer", overrides)
        try:
            return await Rounds(writer, committer, queue, events, snapshots).measure(self.terminal.progress)
        finally:
            await writer.stop()
            await committer.stop()
            await queue.stop()
