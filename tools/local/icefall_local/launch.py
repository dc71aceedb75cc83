"""Starting and ending a supervisor, from the command that wants a stack.

`Running` holds the lease. Leaving its `with` block stops the stack, whatever the reason; `detach` lets it
outlive the command, and `down` ends it then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from icefall_local.stack import Stack
from icefall_local.supervisor import FAILED, READY, Options, StartFailed
from icefall_local.workspace import Workspace

_STOP_SECONDS = 45.0


class Running:
    """A stack that is up as long as this object's `with` block, or until `down` once detached."""

    def __init__(self, workspace: Workspace, options: Options, say: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._detached = False
        self.run = workspace.new_run()
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "ICEFALL_REPOSITORY": str(workspace.repository)}
        with (self.run / "supervisor.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "icefall_local.supervisor", str(self.run), json.dumps(asdict(options))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        try:
            self.stack = self._wait(say)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None) -> None:
        if not self._detached:
            self.stop()

    def detach(self) -> None:
        """Lets the stack outlive this command; `down` finds it by `.local/current.json`."""
        assert self._process.stdin is not None
        self._workspace.current.write_text(json.dumps({"run": str(self.run), "pid": self._process.pid}))
        self._process.stdin.write(b"detach\n")
        self._process.stdin.flush()
        self._detached = True

    def stop(self) -> None:
        """Ends the lease and waits; a Ctrl-C meanwhile doesn't cut it short."""
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        except OSError:
            pass
        finally:
            self._process.wait()
            signal.signal(signal.SIGINT, previous)

    def _wait(self, say: Callable[[str], None]) -> Stack:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            if line.startswith(READY):
                return Stack.read(Path(line.removeprefix(READY)))
            if line.startswith(FAILED):
                raise StartFailed(line.removeprefix(FAILED).replace("\r", "\n"))
            say(line)
        raise StartFailed(f"the supervisor ended while starting; see {self.run}/supervisor.log")


def down(workspace: Workspace) -> str:
    """Stops the detached stack; says what it did."""
    try:
        current = json.loads(workspace.current.read_text())
        pid, run = int(current["pid"]), Path(current["run"])
    except (OSError, ValueError, KeyError):
        return "no stack is up"
    if not (run / "supervisor.pid").exists():
        workspace.current.unlink()
        return "no stack is up (the last one ended by itself)"
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while (run / "supervisor.pid").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    if (run / "supervisor.pid").exists():
        os.killpg(pid, signal.SIGKILL)
    workspace.current.unlink(missing_ok=True)
    return f"stopped; logs and data stay in {run} until later runs replace them"


def detached(workspace: Workspace) -> Path | None:
    """The folder of the stack that is up and detached, if there is one."""
    try:
        run = Path(json.loads(workspace.current.read_text())["run"])
    except (OSError, ValueError, KeyError):
        return None
    return run if (run / "supervisor.pid").exists() else None
