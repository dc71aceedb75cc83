"""What the commands do: each puts the modules together and answers with an exit code."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from icefall_local import demo as main_job
from icefall_local import launch, suites
from icefall_local.hostility import HOSTILE_RATE
from icefall_local.querying import how_to_query
from icefall_local.supervisor import Options, StartFailed
from icefall_local.terminal import Terminal
from icefall_local.trigger import TRIGGERS
from icefall_local.workspace import Workspace


def up(workspace: Workspace, options: argparse.Namespace) -> int:
    """Starts a stack and leaves it."""
    terminal = Terminal(sys.stderr)
    if (already := launch.detached(workspace)) is not None:
        terminal.failure(f"a stack is up already ({already}): `cargo xtask down` stops it")
        return 1
    return _reporting(terminal, lambda: _up(workspace, _stack(options), terminal))


def _up(workspace: Workspace, options: Options, terminal: Terminal) -> int:
    with launch.Running(workspace, options, terminal.step) as running:
        running.detach()
        terminal.say(how_to_query(running.stack))
    return 0


def down(workspace: Workspace) -> int:
    """Stops the stack that is up. Nothing to stop is no error."""
    Terminal(sys.stderr).step(launch.down(workspace))
    return 0


def demo(workspace: Workspace, options: argparse.Namespace) -> int:
    """The main job; see `demo`."""
    terminal = Terminal(sys.stderr)
    if options.keep and (already := launch.detached(workspace)) is not None:
        terminal.failure(f"a stack is up already ({already}): `cargo xtask down` stops it")
        return 1
    wanted = main_job.DemoOptions(
        records=options.records,
        bad_permille=options.bad,
        rate=options.rate or (HOSTILE_RATE if options.hostile is not None else None),
        keep=options.keep,
        as_json=options.json,
        sabotage=options.sabotage,
        seed=options.seed,
        stall_s=options.stall or TRIGGERS[options.trigger].stall_s,
        transactions=options.transactions,
        restart_broker=options.restart_broker,
        stack=_stack(options, **_chaos(options)),
    )
    return _reporting(terminal, lambda: main_job.run(workspace, wanted, terminal))


def _stack(options: argparse.Namespace, **more: Any) -> Options:
    """A stack with the main job on it, at its trigger's pace."""
    pace = TRIGGERS[options.trigger].pace
    named = {name: getattr(options, name) for name in ("kafka", "catalog", "isolation", "trigger")}
    return Options(**{**named, **pace, **more})


def _chaos(options: argparse.Namespace) -> dict[str, Any]:
    return {
        **({"committers": options.committers} if options.committers else {}),
        "kill_writers": options.kill_writers,
        "kill_committers": options.kill_committers,
        "duplicates": options.duplicates,
        "chaos_seed": options.seed,
        "hostile": options.hostile,
    }


def test(workspace: Workspace, options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """All tests on a stack of their own. The stack has the parts and the functions, and no main job."""
    terminal = Terminal(sys.stderr)
    if options.builds:
        return _builds(workspace, terminal)
    return _reporting(terminal, lambda: _test(workspace, options, arguments, terminal))


def _builds(workspace: Workspace, terminal: Terminal) -> int:
    """What SAM and cargo-lambda build for release. It needs no stack."""
    terminal.step("release builds by SAM and cargo-lambda (ten minutes or more)")
    tests = workspace.repository / "tests" / "deploy" / "builds"
    command = suites.pytest(workspace.deployment("python"), tests)
    return subprocess.run(command, cwd=workspace.repository).returncode


def _test(workspace: Workspace, options: argparse.Namespace, arguments: Sequence[str], terminal: Terminal) -> int:
    wanted = Options(kafka=options.kafka, main_job=False, second_catalog=options.all)
    with launch.Running(workspace, wanted, terminal.step) as running:
        environment = {**os.environ, "ICEFALL_STACK": str(running.run / "stack.json")}
        if options.all:
            environment["ICEFALL_TEST_ALL"] = "1"
        lanes = suites.lanes(workspace, arguments, everything=options.all)
        results = suites.run(lanes, workspace.repository, environment, terminal.step)
    for result in results:
        terminal.say(f"  {'passed' if result.code == 0 else 'FAILED':8}{result.name} ({result.seconds:.0f} s)")
    failed = sum(result.code != 0 for result in results)
    terminal.say("every suite passed" if not failed else f"{failed} of {len(results)} suites failed")
    return 1 if failed else 0


def _reporting(terminal: Terminal, work: Callable[[], int]) -> int:
    try:
        return work()
    except StartFailed as problem:
        terminal.failure(str(problem))
        return 1
