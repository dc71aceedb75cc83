"""The Lambda service, as far as the functions can tell: Invoke API, warm environments, concurrency, events.

Existing local hosts get the things wrong that the functions rely on: real deadlines, the 6 MB limit, the
error header, throttling. Here they are as documented, so that boto3's client and the emulators on top see
what they would see on AWS. https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from icefall_local.execution_environment import MAX_PAYLOAD, ExecutionEnvironment, FunctionConfig, Outcome, Usage
from icefall_local.http1 import Request, Response

_PREFIX = "/2015-03-31/functions/"
_THROTTLED_PAUSE_S = 0.1


class Throttled(Exception):
    """The function is at its reserved concurrency."""


@dataclass
class Counts:
    """What happened to a function's invocations since the run began."""

    invocations: int = 0
    errors: int = 0
    throttles: int = 0
    crashes: int = 0
    kills: int = 0
    kills_in_flight: int = 0
    """Of the kills, those that struck during an invocation."""
    expired: int = 0
    """Asynchronous events that were dropped because of their age."""
    last_error: dict[str, str] = field(default_factory=dict)


class HostedFunction:
    """One function: its environments, and the events that wait for it."""

    def __init__(self, config: FunctionConfig, log: Path) -> None:
        self.config = config
        self.counts = Counts()
        self._log = log
        self._environments: list[ExecutionEnvironment] = []
        self._ended_usage = Usage()
        self._durations: deque[float] = deque(maxlen=10)
        self._events: set[asyncio.Task[None]] = set()

    async def invoke(self, payload: bytes) -> Outcome:
        """Runs in a warm environment, or a new one while the concurrency allows it."""
        environment = await self._environment()
        self.counts.invocations += 1
        request_id = str(uuid.uuid4())
        started = time.monotonic()
        outcome = await environment.invoke(payload, request_id)
        self._durations.append(time.monotonic() - started)
        if outcome.error:
            self._note_error(request_id, outcome, environment)
        return outcome

    def invoke_later(self, payload: bytes) -> None:
        """An asynchronous event, with no retries: it waits while throttled, until it is too old."""
        task = asyncio.ensure_future(self._deliver(payload, time.monotonic() + self.config.event_age_s))
        self._events.add(task)
        task.add_done_callback(self._events.discard)

    def kill_one(self, chance: random.Random, busy_only: bool = False) -> bool:
        """SIGKILL to one environment, chosen at random; false when there is none."""
        candidates = [one for one in self._environments if one.alive and (one.busy or not busy_only)]
        if not candidates:
            return False
        self.kill(chance.choice(candidates))
        return True

    def kill(self, environment: ExecutionEnvironment) -> None:
        """SIGKILL to one of its environments."""
        self.counts.kills += 1
        self.counts.kills_in_flight += environment.busy
        environment.kill(from_outside=True)

    def at_work(self) -> ExecutionEnvironment | None:
        """The environment whose invocation has been in flight for longest."""
        return next((one for one in self._environments if one.alive and one.busy), None)

    @property
    def working(self) -> bool:
        """Whether an invocation is in flight."""
        return any(one.alive and one.busy for one in self._environments)

    @property
    def typical_s(self) -> float:
        """How long invocations took of late, failed ones among them: of few that begin with a cold start the mean says nothing."""
        return statistics.median(self._durations) if self._durations else 0.0

    def usage(self) -> Usage:
        """CPU of all environments ever, and the largest of their peaks."""
        all_of_them = [self._ended_usage, *(one.usage() for one in self._environments)]
        return Usage(sum(one.cpu_seconds for one in all_of_them), max(one.peak_rss_mib for one in all_of_them))

    def status(self) -> dict[str, Any]:
        return {**asdict(self.counts), **asdict(self.usage()), "environments": len(self._environments)}

    async def stop(self) -> None:
        for task in list(self._events):
            task.cancel()
        await asyncio.gather(*(environment.stop() for environment in list(self._environments)))

    async def _environment(self) -> ExecutionEnvironment:
        for environment in self._environments:
            if environment.alive and not environment.busy:
                environment.busy = True
                return environment
        if sum(environment.alive for environment in self._environments) >= self.config.concurrency:
            self.counts.throttles += 1
            raise Throttled
        environment = ExecutionEnvironment(self.config, self._log, self._on_end)
        environment.busy = True
        self._environments.append(environment)
        try:
            await environment.start()
        except OSError:
            self._environments.remove(environment)
            raise
        return environment

    def _on_end(self, environment: ExecutionEnvironment) -> None:
        used = environment.usage()
        self._ended_usage = Usage(
            self._ended_usage.cpu_seconds + used.cpu_seconds, max(self._ended_usage.peak_rss_mib, used.peak_rss_mib)
        )
        self._environments.remove(environment)

    async def _deliver(self, payload: bytes, latest: float) -> None:
        while time.monotonic() < latest:
            try:
                await self.invoke(payload)
                return
            except Throttled:
                await asyncio.sleep(_THROTTLED_PAUSE_S)
        self.counts.expired += 1

    def _note_error(self, request_id: str, outcome: Outcome, environment: ExecutionEnvironment) -> None:
        self.counts.errors += 1
        self.counts.crashes += not environment.alive
        text = outcome.payload.decode(errors="replace")[:4_000]
        moment = time.strftime("%H:%M:%S", time.gmtime())
        self.counts.last_error = {"time": moment, "request_id": request_id, "text": text}


@dataclass(frozen=True)
class HostedProcess:
    """The process of one environment, as what strikes at it sees it."""

    of: HostedFunction
    environment: ExecutionEnvironment

    def kill(self) -> None:
        self.of.kill(self.environment)

    def freeze(self) -> None:
        self.environment.freeze()

    def thaw(self) -> None:
        self.environment.thaw()


class LambdaHost:
    """All functions, behind the Invoke API."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._functions: dict[str, HostedFunction] = {}
        self._retired: list[HostedFunction] = []

    def create(self, config: FunctionConfig) -> HostedFunction:
        """Adds a function, or replaces one: later invocations get the new one."""
        if (old := self._functions.get(config.name)) is not None:
            self._retired.append(old)
        function = HostedFunction(config, self._logs / f"{config.name}.log")
        self._functions[config.name] = function
        return function

    def function(self, name: str) -> HostedFunction | None:
        return self._functions.get(name)

    def at_work(self, name: str) -> HostedProcess | None:
        """The process of this function that is at work."""
        function = self._functions.get(name)
        environment = function.at_work() if function is not None else None
        return HostedProcess(function, environment) if function is not None and environment is not None else None

    def status(self) -> Mapping[str, Any]:
        return {name: function.status() for name, function in self._functions.items()}

    async def stop(self) -> None:
        await asyncio.gather(*(function.stop() for function in [*self._functions.values(), *self._retired]))

    async def handle(self, request: Request) -> Response:
        """Answers `POST /2015-03-31/functions/NAME/invocations`."""
        path = urlsplit(request.path).path
        name = unquote(path.removeprefix(_PREFIX).removesuffix("/invocations")).rpartition(":function:")[2]
        if request.method != "POST" or not path.startswith(_PREFIX) or not path.endswith("/invocations"):
            return _error(404, "ResourceNotFoundException", f"there is no {request.method} {path} here")
        function = self._functions.get(name)
        if function is None:
            return _error(404, "ResourceNotFoundException", f"Function not found: {name}")
        if len(request.body) > MAX_PAYLOAD:
            text = f"Request must be smaller than {MAX_PAYLOAD} bytes for the InvokeFunction operation"
            return _error(413, "RequestTooLargeException", text)
        if request.headers.get("x-amz-invocation-type") == "Event":
            function.invoke_later(request.body)
            return Response(202)
        return await _synchronous(function, request.body)


async def _synchronous(function: HostedFunction, payload: bytes) -> Response:
    try:
        outcome = await function.invoke(payload or b"{}")
    except Throttled:
        return _error(429, "TooManyRequestsException", "Rate Exceeded.")
    except OSError as problem:
        return _error(500, "ServiceException", f"the function could not be started: {problem}")
    headers = {"Content-Type": "application/json", "X-Amz-Executed-Version": "$LATEST"}
    if outcome.error:
        headers["X-Amz-Function-Error"] = outcome.error
    return Response(200, outcome.payload, headers)


def _error(status: int, kind: str, message: str) -> Response:
    body = {"Type": "User" if status < 500 else "Service", "message": message}
    if kind == "TooManyRequestsException":
        body["Reason"] = "ReservedFunctionConcurrentInvocationLimitExceeded"
    return Response(status, json.dumps(body).encode(), {"Content-Type": "application/json", "x-amzn-ErrorType": kind})
