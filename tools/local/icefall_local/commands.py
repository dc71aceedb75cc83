"""What the commands do: each puts the modules together and answers with an exit code."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from icefall_local import demo as main_job
from icefall_local import launch
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
    return Options(**{"kafka": options.kafka, "isolation": options.isolation, "trigger": options.trigger, **pace, **more})


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
    return subprocess.run(_pytest(workspace.deployment("python"), tests), cwd=workspace.repository).returncode


def _test(workspace: Workspace, options: argparse.Namespace, arguments: Sequence[str], terminal: Terminal) -> int:
    results: list[tuple[str, int, float]] = []
    wanted = Options(kafka=options.kafka, main_job=False, second_catalog=options.all)
    with launch.Running(workspace, wanted, terminal.step) as running:
        environment = {**os.environ, "ICEFALL_STACK": str(running.run / "stack.json")}
        if options.all:
            environment["ICEFALL_TEST_ALL"] = "1"
        suites = _suites(workspace, arguments, options.all)
        if options.all:
            suites.append(("Rust tests on the second catalog", _second_catalog(arguments)))
        for name, command in suites:
            terminal.step(name)
            started = time.monotonic()
            code = subprocess.run(command, cwd=workspace.repository, env=environment).returncode
            results.append((name, code, time.monotonic() - started))
    for name, code, seconds in results:
        terminal.say(f"  {'passed' if code == 0 else 'FAILED':8}{name} ({seconds:.0f} s)")
    failed = sum(code != 0 for _, code, _ in results)
    terminal.say("every suite passed" if not failed else f"{failed} of {len(results)} suites failed")
    return 1 if failed else 0


def _suites(workspace: Workspace, arguments: Sequence[str], everything: bool) -> list[tuple[str, list[str | Path]]]:
    """With arguments of `cargo test`, only what they select; else the tools' own tests too.

    Those of the deployment come last: they need an environment of their own.
    """
    cargo = os.environ.get("CARGO", "cargo")
    keep_going = [] if arguments else ["--no-fail-fast"]
    suites: list[tuple[str, list[str | Path]]] = [
        ("Rust tests", [cargo, "test", "--workspace", *keep_going, *arguments]),
    ]
    if not arguments:
        tests = workspace.repository / "tools" / "local" / "tests"
        suites.append(("tests of the local tools", _pytest(sys.executable, tests)))
    if everything and not arguments:
        tests = workspace.repository / "tests"
        suites.append(("the development loop of cargo-lambda", _pytest(sys.executable, tests / "dev_loop")))
        promises = [tests / "deploy" / name for name in ("test_promises.py", "test_sam.py")]
        suites.append(("tests of the deployment", _pytest(workspace.deployment("python"), *promises)))
    return suites


def _pytest(python: str | Path, *tests: Path) -> list[str | Path]:
    return [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]


_ON_BOTH_CATALOGS = ("promises", "conformance", "refusals", "cases", "readers")
"""The test targets that are run once more, on the second catalog. `second_catalog` is run on that one alone."""
_NOT_ITS_HABIT = ("the_catalogs_secret_is_wrong", "the_committers_catalog_secret_is_wrong")
"""Tests of what the second catalog doesn't do: it asks nobody for a key."""


def _second_catalog(arguments: Sequence[str]) -> list[str | Path]:
    """The same arguments of `cargo test`; targets that they select replace the usual ones."""
    own, rest = list(arguments), []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    usual = [word for target in (*_ON_BOTH_CATALOGS, "second_catalog") for word in ("--test", target)]
    targets = [] if any(word.startswith(("--test", "--lib")) for word in own) else usual
    skipped = [word for name in _NOT_ITS_HABIT for word in ("--skip", name)]
    keep_going = [] if arguments else ["--no-fail-fast"]
    cargo = os.environ.get("CARGO", "cargo")
    return [
        "env", "ICEFALL_STACK_CATALOG=second",
        cargo, "test", "--workspace", *keep_going, *targets, *own, "--", *skipped, *rest,
    ]  # fmt: skip


def _reporting(terminal: Terminal, work: Callable[[], int]) -> int:
    try:
        return work()
    except StartFailed as problem:
        terminal.failure(str(problem))
        return 1
