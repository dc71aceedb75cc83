"""Lays out a folder with the stand-ins as the programs `writer` and `committer`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def lay_out(folder: Path) -> Path:
    """The folder, for `Options.functions`."""
    for name, method in (("writer", "write"), ("committer", "commit")):
        program(folder / name, f"{_HERE / 'stand_in' / 'sink.py'} {method}")
    return folder


def program(path: Path, arguments: str) -> Path:
    """An executable that runs a Python script with the tools' own interpreter."""
    paths = ":".join(map(str, (_HERE.parent, _HERE / "stand_in")))
    path.write_text(f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(paths)}\nexec {shlex.quote(sys.executable)} {arguments}\n")
    path.chmod(0o755)
    return path
