"""Where things lie: the repository, what is installed below `.local/`, and one folder per run.

Every run writes into a fresh folder, so that nothing of an earlier run can make a later one pass, and so
that its logs are still there afterwards. Old runs are removed when a new one starts, the newest few kept.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

RUNS_KEPT = 4
"""Folders of finished runs that stay for their logs. A run of a million records takes some hundred MB."""


class Unusable(Exception):
    """Something that the run needs is not there; the text says what to do."""


@dataclass(frozen=True)
class Workspace:
    """The repository and what lies below it."""

    repository: Path

    @classmethod
    def here(cls) -> Workspace:
        """From `ICEFALL_REPOSITORY` as `cargo xtask` sets it, or by the place of this file."""
        named = os.environ.get("ICEFALL_REPOSITORY")
        return cls(Path(named) if named else Path(__file__).resolve().parents[3])

    @property
    def local(self) -> Path:
        return self.repository / ".local"

    @property
    def current(self) -> Path:
        """Names the stack that is up and detached: the file that `down` reads."""
        return self.local / "current.json"

    def program(self, name: str) -> Path:
        """An executable that a package of the tools' environment brought along."""
        return _existing(Path(sysconfig.get_path("scripts")) / name)

    def packaged(self, package: str, file: str) -> Path:
        """A file inside an installed package."""
        return _existing(Path(sysconfig.get_path("purelib")) / package / file)

    def deployment(self, program: str) -> Path:
        """A program of the environment that deploys: SAM, cargo-lambda, their Python."""
        return _existing(self.local / "venv-deploy" / "bin" / program)

    def queue_python(self) -> Path:
        """The Python of the SQS server's own environment."""
        return _existing(self.local / "venv-queue" / "bin" / "python")

    def java(self) -> Path:
        """The machine's own Java, looked for as Maven does."""
        home = os.environ.get("JAVA_HOME")
        found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
        if found is None:
            raise Unusable(f"no Java {f'in JAVA_HOME ({home})' if home else 'on the PATH'}: Apache Kafka needs 17 or newer")
        return Path(found)

    def kafka_jars(self) -> Path:
        """The folder of Apache Kafka's jars."""
        return _existing(self.local / "kafka" / "installed-from.xml").parent / "lib"

    def function(self, name: str, folder: str = "") -> Path:
        """A function's program: in `folder`, or where cargo builds it (`CARGO_TARGET_DIR` is honoured)."""
        return _existing(Path(folder or self._target / "debug") / name)

    def operators_tool_with_tls(self) -> Path:
        """The operator's program, built so that it can reach Kafka behind TLS."""
        return _existing(self.local / "kafka-tls" / "icefall")

    def operators_tool(self, folder: str = "") -> Path | None:
        """The operator's program, beside the functions; stand-ins for these have none."""
        path = Path(folder or self._target / "debug") / "icefall"
        return path if path.is_file() else None

    @property
    def release(self) -> Path:
        """The folder of the programs that are deployed."""
        return self._target / "release"

    @property
    def _target(self) -> Path:
        return Path(os.environ.get("CARGO_TARGET_DIR") or self.repository / "target")

    def new_run(self) -> Path:
        """A fresh folder for one run."""
        runs = self.local / "run"
        runs.mkdir(parents=True, exist_ok=True)
        self._remove_old(runs)
        folder = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        folder.mkdir()
        return folder

    def _remove_old(self, runs: Path) -> None:
        finished = sorted(folder for folder in runs.iterdir() if not _in_use(folder))
        for folder in finished[: max(0, len(finished) - RUNS_KEPT + 1)]:
            shutil.rmtree(folder, ignore_errors=True)


def _in_use(run: Path) -> bool:
    """Whether the supervisor that owns this run is alive."""
    try:
        os.kill(int((run / "supervisor.pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def _existing(path: Path) -> Path:
    if not path.exists():
        raise Unusable(f"{path} is missing: start through `cargo xtask`, which installs and builds it")
    return path
