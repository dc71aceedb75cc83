"""The demo as its user runs it, with the real functions: what it prints, and how it ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from icefall_local.sabotage import KINDS

_TOOLS = Path(__file__).parents[1]
_SAID = {"drop": "missing", "double": "duplicates", "alter": "altered", "lose-dead-letter": "missing"}


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "icefall_local", "demo", "--records", "4000", "--bad", "20", "--json", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(_TOOLS), "ICEFALL_REPOSITORY": str(_TOOLS.parents[1])}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def figures(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    return json.loads(done.stdout.splitlines()[-1])


def test_untouched_it_ends_well_and_its_last_line_has_every_figure():
    done = demo()
    assert done.returncode == 0, done.stderr
    found = figures(done)
    names = (
        "produced rows dead_letters missing duplicates conflicts kills snapshots files bytes "
        "freshness_p50_ms freshness_p99_ms readers"
    )
    assert set(names.split()) <= found.keys()
    assert found["rows"] + found["dead_letters"] == found["produced"] == 4000
    assert (found["missing"], found["duplicates"], found["altered"]) == (0, 0, 0)
    assert found["dead_letters"] > 0
    assert found["readers"] == ["duckdb", "pyiceberg"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_sabotage_ends_with_1_and_names_the_offset(kind):
    done = demo("--sabotage", kind)
    assert done.returncode == 1, done.stdout
    victim = re.search(rf"sabotage \({kind}\) of (\S+/\d+/\d+)", done.stderr)
    assert victim, done.stderr
    for reader in ("duckdb", "pyiceberg"):
        assert f"{reader}: {_SAID[kind]}: {victim[1]}" in done.stdout
    assert figures(done)[_SAID[kind]] == 1
    assert figures(done)["ok"] is False
