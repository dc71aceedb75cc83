"""Which suites a test run has, and that they run beside each other without hiding anything."""

import os
import sys
from pathlib import Path

from icefall_local.suites import Suite, _second_catalog, lanes, run
from icefall_local.workspace import Workspace


def test_the_tests_of_both_catalogs_are_selected_by_name():
    command = _second_catalog([])
    assert command[:2] == ["env", "ICEFALL_STACK_CATALOG=second"]
    assert command.count("--test") == 7 and {"quarantine", "second_catalog"} <= set(command)
    assert "--no-fail-fast" in command


def test_what_the_caller_selects_replaces_the_usual_and_what_is_skipped_stays():
    command = _second_catalog(["--test", "readers", "t02", "--", "--nocapture"])
    assert command.count("--test") == 1 and "--no-fail-fast" not in command
    before, after = command[: command.index("--")], command[command.index("--") + 1 :]
    assert before[-3:] == ["--test", "readers", "t02"]
    assert after[-1] == "--nocapture" and after.count("--skip") == 2


def test_with_arguments_only_what_they_select_is_run(tmp_path: Path):
    workspace = Workspace(tmp_path)
    assert [[suite.name for suite in lane] for lane in lanes(workspace, ["--lib"], everything=False)] == [["Rust tests"]]
    python = tmp_path / ".local" / "venv-deploy" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    first, second, third = lanes(workspace, [], everything=True)
    assert len(first) == 4 and [suite.name for suite in second] == ["tests of the local tools"]
    left_out = {Path(str(word).removeprefix("--ignore=")) for word in second[0].command if str(word).startswith("--ignore=")}
    assert left_out and left_out <= {Path(word) for word in third[0].command}, "and run beside them"


def test_lanes_run_at_once_and_one_failure_stops_nothing(tmp_path: Path, capfd):
    """Each lane waits for what the other one does: one after the other they would never end."""
    meet = "import os, sys, time, pathlib\nown, other = map(pathlib.Path, sys.argv[1:])\nown.touch()\n"
    wait = "while not other.exists(): time.sleep(0.01)\nprint(own.name, 'is through')\nsys.exit(own.name == 'second')"

    def suite(own: str, other: str) -> Suite:
        return Suite(own, [sys.executable, "-c", meet + wait, tmp_path / own, tmp_path / other])

    said: list[str] = []
    last = Suite("last", [sys.executable, "-c", "print('last is through')"])
    results = run([[suite("first", "second")], [suite("second", "first"), last]], tmp_path, os.environ, said.append)
    assert {result.name: result.code for result in results} == {"first": 0, "second": 1, "last": 0}
    assert sorted(said) == ["first", "last", "second"]
    shown = capfd.readouterr().out
    assert shown.splitlines() == ["first is through", "second is through", "last is through"]
