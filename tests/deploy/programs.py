"""SAM and cargo-lambda as programs of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cloudformation import REPOSITORY

PROGRAMS = Path(sys.executable).parent


def run(*command: str | Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """In the repository, with this environment's programs first: SAM looks for cargo-lambda, which looks for ziglang."""
    environment = {
        **os.environ,
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "SAM_CLI_TELEMETRY": "0",
        "RUSTUP_DIST_SERVER": "http://127.0.0.1:9",
        "RUSTUP_UPDATE_ROOT": "http://127.0.0.1:9",
    }
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done
