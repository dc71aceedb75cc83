"""Fail points: at a certain request of a certain function its process is killed, or frozen and later thawed.

The proxies before the parts are the places where it can be done to the shipped programs, without a special build:
whatever a function does to the world is a request. Just before one is sent on, or after the part has answered and
before the answer goes back, the process gets SIGKILL, or SIGSTOP until it is thawed. A function that can be struck has
proxies of its own, so that others may be at work at the same time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from icefall_local.calls import Call
from icefall_local.http1 import Request, Response
from icefall_local.relay import Answer, Asked, Between, Forward


class Victim(Protocol):
    """A function's process."""

    def kill(self) -> None:
        """SIGKILL."""

    def freeze(self) -> None:
        """SIGSTOP."""

    def thaw(self) -> None:
        """SIGCONT."""


@dataclass(frozen=True)
class FailPoint:
    """When to strike, and how. Each strikes once."""

    function: str
    call: str
    """One of the words of `calls`."""
    moment: str
    """`before` the request is sent on, or `after` the part has done it."""
    act: str = "kill"
    """Or `freeze`."""
    about: str = ""
    """Only requests whose path or key holds this."""
    nth: int = 1
    """Of the requests that all of this fits."""

    def __post_init__(self) -> None:
        if self.moment not in ("before", "after") or self.act not in ("kill", "freeze"):
            raise ValueError(f"no fail point strikes {self.moment} a request, or is to {self.act}")

    def fits(self, function: str, call: Call) -> bool:
        return (self.function, self.call) == (function, call.word) and self.about in call.about


@dataclass
class _Armed:
    point: FailPoint
    passed: int = 0
    struck: str = ""
    """The request that it struck at."""
    victim: Victim | None = None
    thawed: asyncio.Event = field(default_factory=asyncio.Event)


class FailPoints:
    """All that are armed in a run."""

    def __init__(self, at_work: Callable[[str], Victim | None]) -> None:
        self._at_work = at_work
        self._armed: dict[str, _Armed] = {}
        self._calls: Counter[tuple[str, str]] = Counter()

    def arm(self, name: str, point: FailPoint) -> None:
        """From now on it counts requests."""
        self._armed[name] = _Armed(point)

    def status(self, name: str) -> dict[str, Any]:
        """Whether it has struck, and at what."""
        armed = self._armed[name]
        return {"struck": armed.struck, "thawed": armed.thawed.is_set()}

    def thaw(self, name: str) -> None:
        """Lets go on what it has frozen."""
        armed = self._armed[name]
        if armed.victim is not None:
            armed.victim.thaw()
        armed.thawed.set()

    def calls(self) -> list[tuple[str, str, bool, int]]:
        """Function, word, whether it has an effect, and how often: all calls since the run began."""
        return [(function, word, Call(word, "").has_effect, count) for (function, word), count in sorted(self._calls.items())]

    def between(self, function: str) -> Between:
        """What happens between the requests of a function and their answers."""

        async def strike_where_due(asked: Asked, forward: Forward) -> Answer | None:
            call = asked.call
            self._calls[function, call.word] += 1
            if not await self._goes_on("before", function, call):
                return None
            answer = await forward()
            if _has_done_it(call, answer) and not await self._goes_on("after", function, call):
                return None
            return answer

        return strike_where_due

    async def _goes_on(self, moment: str, function: str, call: Call) -> bool:
        """Strikes if a point is due now; false when the process is dead."""
        armed = self._due(moment, function, call)
        if armed is None or (victim := self._at_work(function)) is None:
            return True
        armed.struck, armed.victim = f"{call.word} {call.about}", victim
        if armed.point.act == "kill":
            victim.kill()
            return False
        victim.freeze()
        await armed.thawed.wait()
        return True

    def _due(self, moment: str, function: str, call: Call) -> _Armed | None:
        for armed in self._armed.values():
            if armed.point.moment == moment and not armed.struck and armed.point.fits(function, call):
                armed.passed += 1
                if armed.passed == armed.point.nth:
                    return armed
        return None


def answered(points: FailPoints, method: str, words: Sequence[str], request: Request) -> Response:
    """What a run answers below `/local/fail-points/`: `PUT NAME` arms one, `GET NAME` tells of it, `POST NAME/thaw` lets go on
    what it has frozen, and `GET` alone lists all calls so far."""
    match (method, *words):
        case ("GET",):
            return Response.of_json(points.calls())
        case ("PUT", name):
            points.arm(name, FailPoint(**request.json()))
            return Response.of_json({"armed": name})
        case ("GET", name):
            return Response.of_json(points.status(name))
        case ("POST", name, "thaw"):
            points.thaw(name)
            return Response.of_json(points.status(name))
    return Response.of_json({"message": f"there is no {method} {'/'.join(words)} of fail points"}, 404)


def _has_done_it(call: Call, answer: Answer) -> bool:
    """Whether there is something to be left behind. A poll that brought no message has done nothing."""
    return answer.succeeded and (call.word != "receive" or b"ReceiptHandle" in answer.body)
