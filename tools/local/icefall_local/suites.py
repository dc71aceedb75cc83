"""The suites of `cargo xtask test`: which there are, and how they are run beside each other.

Rust's tests and those of the tools wait for most of their time, and share nothing but the programs that are built
before. So there are three lanes: the first one's output is shown as it comes, the others' when all are through.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

from icefall_local.workspace import Workspace


@dataclass(frozen=True)
class Suite:
    """A command that passes or fails."""

    name: str
    command: list[str | Path]


@dataclass(frozen=True)
class Result:
    """What became of a suite."""

    name: str
    code: int
    seconds: float


def lanes(workspace: Workspace, arguments: Sequence[str], *, everything: bool) -> list[list[Suite]]:
    """Suites that run one after another, in lists that run at once.

    With arguments of `cargo test`, only what they select; else the tools' own tests too.
    """
    first = [Suite("Rust tests", _rust(arguments))]
    if everything:
        first.append(Suite("Rust tests on the second catalog", _second_catalog(arguments)))
    if arguments:
        return [first]
    tests = workspace.repository / "tests"
    if everything:
        promises = [tests / "deploy" / name for name in ("test_promises.py", "test_alarms.py", "test_sam.py")]
        first += [
            Suite("the development loop of cargo-lambda", pytest(sys.executable, tests / "dev_loop")),
            # They need an environment of their own.
            Suite("tests of the deployment", pytest(workspace.deployment("python"), *promises)),
        ]
    tools = workspace.repository / "tools" / "local" / "tests"
    dying = [tools / name for name in _OF_DYING_FUNCTIONS]
    others = [*pytest(sys.executable, tools), *(f"--ignore={path}" for path in dying)]
    second = [Suite("tests of the local tools", others)]
    return [first, second, [Suite("the functions, dying", pytest(sys.executable, *dying))]]


_OF_DYING_FUNCTIONS = ("test_chaos_run.py", "test_crash_points.py")
"""Those of the tools' tests that take longest: they wait for what dead functions had in hand."""


def run(
    lanes: Sequence[Sequence[Suite]], repository: Path, environment: Mapping[str, str], step: Callable[[str], None]
) -> list[Result]:
    """Runs every suite of every lane; what one of them comes to changes nothing for the others."""
    results: list[Result] = []

    def through(suites: Sequence[Suite], output: IO[bytes] | None) -> None:
        for suite in suites:
            step(suite.name)
            started = time.monotonic()
            done = subprocess.run(suite.command, cwd=repository, env=environment, stdout=output, stderr=output)
            results.append(Result(suite.name, done.returncode, time.monotonic() - started))

    shown, *others = lanes
    outputs = [tempfile.TemporaryFile() for _ in others]
    threads = [Thread(target=through, args=pair) for pair in zip(others, outputs, strict=True)]
    for thread in threads:
        thread.start()
    through(shown, None)
    for thread, output in zip(threads, outputs, strict=True):
        thread.join()
        with output:
            output.seek(0)
            sys.stdout.write(output.read().decode(errors="replace"))
            sys.stdout.flush()
    return results


def pytest(python: str | Path, *tests: Path) -> list[str | Path]:
    """The tests in these places."""
    return [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]


def _cargo_test(arguments: Sequence[str], *more: str) -> list[str | Path]:
    keep_going = [] if arguments else ["--no-fail-fast"]
    return [os.environ.get("CARGO", "cargo"), "test", "--workspace", *keep_going, *more]


def _rust(arguments: Sequence[str]) -> list[str | Path]:
    return _cargo_test(arguments, *arguments)


_ON_BOTH_CATALOGS = ("promises", "conformance", "refusals", "cases", "readers", "quarantine")
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
    return ["env", "ICEFALL_STACK_CATALOG=second", *_cargo_test(arguments, *targets, *own, "--", *skipped, *rest)]
