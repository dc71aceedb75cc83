"""One Lambda execution environment: a function's process and the Runtime API that it alone talks to.

The process is the built `bootstrap`, started as Lambda starts it, polling for one invocation at a time. A
process that ends, overruns its time or reports an error while it starts is gone for good, as on Lambda:
the next invocation gets a new environment.
Runtime API: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icefall_local.http1 import Request, Response, Server, serve
from icefall_local.ports import LOOPBACK
from icefall_local.processes import end_with_parent

MAX_PAYLOAD = 6_291_456
"""Bytes of a synchronous invocation's request or response (6 MiB).
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

_ACCOUNT = "000000000000"
_RUNTIME = "/2018-06-01/runtime/"


@dataclass(frozen=True)
class FunctionConfig:
    """A function as it would be created on Lambda."""

    name: str
    bootstrap: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int = 512
    timeout_s: float = 60.0
    init_timeout_s: float = 30.0
    """Lambda allows 10 s; unoptimised builds on a busy machine get more."""
    concurrency: int = 10
    """Reserved concurrency: at most this many environments at once."""
    event_age_s: float = 60.0
    """An asynchronous event older than this is dropped."""
    region: str = "us-west-2"
    """Deliberately none of the parts' regions: each must be told its own."""

    @property
    def arn(self) -> str:
        return f"arn:aws:lambda:{self.region}:{_ACCOUNT}:function:{self.name}"


@dataclass(frozen=True)
class Outcome:
    """What came of an invocation: the payload, and the kind of error if it is one."""

    payload: bytes
    error: str | None = None

    @classmethod
    def failed(cls, error_type: str, message: str) -> Outcome:
        return cls(json.dumps({"errorType": error_type, "errorMessage": message}).encode(), "Unhandled")


@dataclass
class _Invocation:
    request_id: str
    payload: bytes
    outcome: asyncio.Future[Outcome]
    deadline_ms: int = 0


@dataclass(frozen=True)
class Usage:
    """What a process has used: CPU seconds, and the most memory it ever held."""

    cpu_seconds: float = 0.0
    peak_rss_mib: float = 0.0


class ExecutionEnvironment:
    """A process that takes one invocation at a time. All methods run on the event loop."""

    def __init__(self, config: FunctionConfig, log: Path, ended: Callable[[ExecutionEnvironment], None]) -> None:
        self.config = config
        self.alive = True
        self.busy = False
        self.killed_from_outside = False
        self.id = uuid.uuid4().hex
        self.process: subprocess.Popen[bytes] | None = None
        self._log = log
        self._ended = ended
        self._exit_usage: Usage | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[_Invocation] = asyncio.Queue(1)
        self._ready = asyncio.Event()
        self._exited = asyncio.Event()
        self._current: _Invocation | None = None
        self._server: Server | None = None
        self._closing: asyncio.Task[None] | None = None
        self._start_failure: Outcome | None = None

    async def start(self) -> None:
        """Opens the Runtime API and starts the process; its readiness is awaited by the first invocation."""
        self._server = await serve(self._runtime_api)
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(self.config.bootstrap)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._variables(self._server.port),
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        threading.Thread(target=self._reap, args=(self.process,), daemon=True).start()

    async def invoke(self, payload: bytes, request_id: str) -> Outcome:
        """Runs one invocation to its end, whatever that is. The caller has set `busy`."""
        invocation = _Invocation(request_id, payload, self._loop.create_future())
        self._current = invocation
        started = time.monotonic()
        try:
            outcome = await self._carry_out(invocation)
        finally:
            self._current, self.busy = None, False
        self._report(request_id, time.monotonic() - started, outcome)
        return outcome

    async def _carry_out(self, invocation: _Invocation) -> Outcome:
        if not await self._within(self._ready.wait(), self.config.init_timeout_s):
            self.kill()
            message = f"Init was not done after {self.config.init_timeout_s:.2f} seconds"
            return self._start_failure or self._exit_or(Outcome.failed("Sandbox.Timedout", message))
        if not self.alive:
            return self._start_failure or self._exit_or(Outcome.failed("Runtime.ExitError", "Runtime exited"))
        invocation.deadline_ms = int((time.time() + self.config.timeout_s) * 1000)
        self._waiting.put_nowait(invocation)
        if await self._within(asyncio.shield(invocation.outcome), self.config.timeout_s):
            return invocation.outcome.result()
        self.kill()
        text = f"{invocation.request_id} Task timed out after {self.config.timeout_s:.2f} seconds"
        return Outcome.failed("Sandbox.Timedout", text)

    def kill(self, from_outside: bool = False) -> None:
        """SIGKILL, at once: what a time-out does, and what a fault test asks for."""
        self.alive = False
        self.killed_from_outside = self.killed_from_outside or from_outside
        if self.process is not None and not self._exited.is_set():
            self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: the process does nothing, and its connections stay. The platform does not notice."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: it goes on where it was, without knowing how long that took."""
        self._signal(signal.SIGCONT)

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL: the environment is no longer needed."""
        self.alive = False
        if self.process is not None and not self._exited.is_set():
            self._signal(signal.SIGTERM)
            if not await self._within(self._exited.wait(), 1.0):
                self._signal(signal.SIGKILL)
                await self._exited.wait()
        if self._closing is not None:
            await self._closing

    def usage(self) -> Usage:
        """Of the process so far, or of its whole life once it has ended."""
        if self._exit_usage is not None or self.process is None:
            return self._exit_usage or Usage()
        return _usage_of_running(self.process.pid)

    async def _within(self, awaitable: Any, seconds: float) -> bool:
        try:
            await asyncio.wait_for(awaitable, seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """In a thread of its own: waits for the end, for only that tells all the CPU time used."""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        usage = Usage(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        try:
            self._loop.call_soon_threadsafe(self._on_exit, usage)
        except RuntimeError:
            pass  # The loop is closed: the run is over.

    def _on_exit(self, usage: Usage) -> None:
        self._exit_usage, self.alive = usage, False
        self._exited.set()
        self._ready.set()
        if self._server is not None:
            self._closing = asyncio.ensure_future(self._server.close())
        if self._current is not None and not self._current.outcome.done():
            self._current.outcome.set_result(self._exit_or(Outcome.failed("Runtime.ExitError", "Runtime exited")))
        self._ended(self)

    def _exit_or(self, otherwise: Outcome) -> Outcome:
        if self.process is None or self.process.returncode is None or self._current is None:
            return otherwise
        code = self.process.returncode
        how = f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        message = f"RequestId: {self._current.request_id} Error: Runtime exited with error: {how}"
        return Outcome.failed("Runtime.ExitError", message)

    async def _runtime_api(self, request: Request) -> Response:
        path = request.path.removeprefix(_RUNTIME)
        if path == "invocation/next" and request.method == "GET":
            return await self._next()
        if path == "init/error":
            self._start_failure = Outcome(request.body, "Unhandled")
            self.kill()
            return Response.of_json({"status": "OK"}, 202)
        words = path.split("/")
        if len(words) == 3 and words[0] == "invocation" and words[2] in ("response", "error"):
            return self._finished(words[1], words[2] == "error", request.body)
        return Response.of_json({"errorType": "InvalidRequest", "errorMessage": request.path}, 404)

    async def _next(self) -> Response:
        self._ready.set()
        invocation = await self._waiting.get()
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self.config.arn,
            "Lambda-Runtime-Trace-Id": f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Sampled=0",
        }
        return Response(200, invocation.payload, headers)

    def _finished(self, request_id: str, is_error: bool, body: bytes) -> Response:
        current = self._current
        if current is None or current.request_id != request_id or current.outcome.done():
            text = f"no invocation {request_id} is running here"
            return Response.of_json({"errorType": "InvalidRequestID", "errorMessage": text}, 400)
        if len(body) > MAX_PAYLOAD:
            text = f"Response payload size ({len(body)} bytes) exceeded maximum allowed payload size ({MAX_PAYLOAD} bytes)."
            current.outcome.set_result(Outcome.failed("Function.ResponseSizeTooLarge", text))
            return Response.of_json({"errorType": "RequestEntityTooLarge", "errorMessage": text}, 413)
        current.outcome.set_result(Outcome(body, "Unhandled" if is_error else None))
        return Response.of_json({"status": "OK"}, 202)

    def _report(self, request_id: str, seconds: float, outcome: Outcome) -> None:
        """The platform's closing line, as Lambda writes it to the function's log."""
        record = {
            "requestId": request_id,
            "status": "error" if outcome.error else "success",
            "metrics": {"durationMs": round(seconds * 1000, 1), "maxMemoryUsedMB": round(self.usage().peak_rss_mib)},
        }
        line = json.dumps({"time": _now(), "type": "platform.report", "record": record})
        with self._log.open("ab") as log:
            log.write(line.encode() + b"\n")

    def _variables(self, port: int) -> dict[str, str]:
        config = self.config
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "TZ": ":UTC",
            "AWS_LAMBDA_RUNTIME_API": f"{LOOPBACK}:{port}",
            "AWS_LAMBDA_FUNCTION_NAME": config.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(config.memory_mib),
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{config.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": f"[$LATEST]{self.id}",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": "AWS_Lambda_provided.al2023",
            "AWS_REGION": config.region,
            "AWS_DEFAULT_REGION": config.region,
            "LAMBDA_TASK_ROOT": str(config.bootstrap.parent),
            "_HANDLER": "bootstrap",
            **config.environment,
        }


def _usage_of_running(pid: int) -> Usage:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Usage()
    ticks = int(fields[11]) + int(fields[12])
    peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(peak) / 1024)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
