"""`cargo lambda watch` with both functions behind it, and `cargo lambda invoke` to call them.

The programs are those that `cargo xtask` has built: watch is told to serve the Lambda APIs alone, and they are
started as it would start them. What it would add is a second compilation of everything with other features.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icefall_local.parts import accepts
from icefall_local.ports import LOOPBACK, Ports
from icefall_local.processes import Part
from icefall_local.workspace import Workspace

FUNCTIONS = ("writer", "committer")
FIXTURES = Path(__file__).parents[1] / "fixtures"


class Watch:
    """Both functions, served until the `with` block ends."""

    def __init__(self, workspace: Workspace, environment: Mapping[str, str], logs: Path) -> None:
        self._workspace = workspace
        self._logs = logs
        self.port = Ports().free()
        self._parts = [self._serve()]
        for function in FUNCTIONS:
            self._parts.append(self._start(function, environment))

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        for part in reversed(self._parts):
            part.stop()

    def invoke(self, function: str, fixture: str) -> subprocess.CompletedProcess[str]:
        """`cargo lambda invoke FUNCTION -F tests/fixtures/FIXTURE`."""
        command = [self._cargo_lambda, "lambda", "invoke", function, "-A", LOOPBACK, "-P", str(self.port)]
        command += ["-F", FIXTURES / fixture]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, env=_offline())

    def report(self, function: str, fixture: str) -> dict[str, Any]:
        """The function's answer."""
        done = self.invoke(function, fixture)
        assert done.returncode == 0, f"{done.stderr}\n{self.log(function)}"
        return json.loads(done.stdout)

    def log(self, function: str) -> str:
        return (self._logs / f"{function}.log").read_text()

    @property
    def _cargo_lambda(self) -> Path:
        return self._workspace.deployment("cargo-lambda")

    def _serve(self) -> Part:
        command = [self._cargo_lambda, "lambda", "watch", "--only-lambda-apis", "-A", LOOPBACK, "-P", str(self.port)]
        command += ["--manifest-path", self._workspace.repository / "Cargo.toml"]
        part = Part.start("cargo lambda watch", command, self._logs / "watch.log", _offline())
        part.wait_until(lambda: accepts(LOOPBACK, self.port), 60.0)
        return part

    def _start(self, function: str, environment: Mapping[str, str]) -> Part:
        variables = {
            "AWS_LAMBDA_RUNTIME_API": f"http://{LOOPBACK}:{self.port}/.rt/{function}",
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "4096",
            **environment,
        }
        return Part.start(function, [self._workspace.function(function)], self._logs / f"{function}.log", variables)


def _offline() -> dict[str, str]:
    """rustup may not fetch anything because a tool asks it to."""
    return {**os.environ, "RUSTUP_DIST_SERVER": "http://127.0.0.1:9", "RUSTUP_UPDATE_ROOT": "http://127.0.0.1:9"}
