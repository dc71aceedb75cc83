"""What a run does to itself on purpose: functions die in the middle of their work, messages come twice.

Both are drawn from one seed, so that a run that found something can be run again; what the draws meet is
up to the machine. The pure parts say what happens and when, `Chaos` does it to a run.

A kill is SIGKILL to the function's process, if possible while it works: the platform's out-of-memory kill,
or a host that is gone. A copy is a message's body sent a second time. That is what a committer sees of both
ways in which a standard queue doubles: a writer repeats a send whose answer was lost, or a host of the queue
missed a delete and delivers the message after it was let go. Peeking is the queue server's own, which hides
nothing and counts nothing: receiving to copy would itself delay what it copies.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from icefall_local.stack import Stack

_LOOK_EVERY_S = 0.005
"""For an invocation to interrupt: a writer's of a few records takes some 20 ms."""
_PEEK_EVERY_S = 1.0


@dataclass(frozen=True)
class Wanted:
    """The chaos that a run asks for. Any of it brings copies and re-polls; see `repoll`."""

    kill_writers: bool = False
    kill_committers: bool = False
    copies: bool = False
    seed: int = 7
    kill_pause_s: tuple[float, float] = (2.0, 6.0)
    """The least and the most between two kills."""
    kill_patience_s: float = 3.0
    """How long a kill waits for an invocation that it could interrupt."""

    @property
    def any(self) -> bool:
        return self.kill_writers or self.kill_committers or self.copies

    @property
    def victims(self) -> tuple[str, ...]:
        """The functions that die."""
        return ("writer",) * self.kill_writers + ("committer",) * self.kill_committers


@dataclass(frozen=True)
class Kill:
    """One kill."""

    function: str
    pause_s: float
    """From the kill before."""
    moment: float
    """How far into an invocation, as a share of how long they took of late."""


class KillPlan:
    """Draws kills: each victim in its turn, a few seconds apart."""

    def __init__(self, victims: Sequence[str], chance: random.Random, pause_s: tuple[float, float]) -> None:
        self._victims = tuple(victims)
        self._chance = chance
        self._pause_s = pause_s
        self._turn: list[str] = []

    def next(self) -> Kill:
        if not self._turn:
            self._turn = self._chance.sample(self._victims, len(self._victims))
        return Kill(self._turn.pop(), self._chance.uniform(*self._pause_s), self._chance.random())


@dataclass(frozen=True)
class Copy:
    """A message that is to be sent once more."""

    body: str
    at: float


@dataclass
class CopyPlan:
    """Draws which messages are copied, and when: at once, or when the first has long been settled."""

    chance: random.Random
    at_most: int = 2
    """Of one look."""
    late_s: tuple[float, float] = (2.0, 6.0)
    due: list[Copy] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def look(self, messages: Sequence[tuple[str, str]], now: float) -> None:
        """Takes note of ids and bodies that are in the queue; each message is considered once."""
        fresh = [(one, body) for one, body in messages if one not in self._seen]
        self._seen.update(one for one, _ in fresh)
        for _, body in self.chance.sample(fresh, min(len(fresh), self.chance.randint(1, self.at_most))):
            late = self.chance.random() < 0.5
            self.due.append(Copy(body, now + (self.chance.uniform(*self.late_s) if late else 0.0)))

    def take_due(self, now: float) -> list[str]:
        """The bodies whose time has come."""
        ready = [copy.body for copy in self.due if copy.at <= now]
        self.due = [copy for copy in self.due if copy.at > now]
        return ready

    def sent(self, message: str) -> None:
        """A copy's own id: copies are not copied, or a queue would never run empty."""
        self._seen.add(message)


class Victim(Protocol):
    """A function as its host has it."""

    @property
    def working(self) -> bool:
        """Whether an invocation is in flight."""

    @property
    def typical_s(self) -> float:
        """How long invocations took of late."""

    def kill_one(self, chance: random.Random, busy_only: bool = False) -> bool:
        """SIGKILL to one environment; false when there is none."""


async def strike(victim: Victim, kill: Kill, chance: random.Random, patience_s: float) -> bool:
    """Kills in the middle of an invocation; when none comes for long, whatever environment is warm.

    Where one ended before its moment, the next is struck earlier: some took long of late, and most are short.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    moment = kill.moment
    while loop.time() < deadline:
        if victim.working:
            await asyncio.sleep(min(moment * victim.typical_s, max(0.0, deadline - loop.time())))
            if victim.kill_one(chance, busy_only=True):
                return True
            moment /= 2
        await asyncio.sleep(_LOOK_EVERY_S)
    return victim.kill_one(chance)


class Chaos:
    """Does to a run what it was asked to, until it is stopped."""

    def __init__(self, wanted: Wanted, stack: Stack, victims: dict[str, Victim], queue: Any) -> None:
        self.copies = 0
        """Messages sent a second time."""
        self._stack = stack
        self._victims = victims
        self._queue = queue
        self._chance = random.Random(wanted.seed)
        self._patience_s = wanted.kill_patience_s
        self._tasks = [asyncio.ensure_future(self._copy_for_ever(CopyPlan(random.Random(f"copies {wanted.seed}"))))]
        if victims:
            plan = KillPlan(tuple(victims), random.Random(f"kills {wanted.seed}"), wanted.kill_pause_s)
            self._tasks.append(asyncio.ensure_future(self._kill_for_ever(plan)))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _kill_for_ever(self, plan: KillPlan) -> None:
        while True:
            kill = plan.next()
            await asyncio.sleep(kill.pause_s)
            await strike(self._victims[kill.function], kill, self._chance, self._patience_s)

    async def _copy_for_ever(self, plan: CopyPlan) -> None:
        loop = asyncio.get_running_loop()
        while True:
            plan.look(await asyncio.to_thread(self._peek), loop.time())
            for body in plan.take_due(loop.time()):
                plan.sent(await asyncio.to_thread(self._send, body))
                self.copies += 1
            await asyncio.sleep(_PEEK_EVERY_S)

    def _peek(self) -> list[tuple[str, str]]:
        """Id and body of every message, those that are hidden among them."""
        url = self._stack.direct_queue_url
        query = urllib.parse.urlencode({"QueueUrl": url, "region": self._stack.queue.region})
        with urllib.request.urlopen(f"{self._stack.queue.direct_endpoint}/_ministack/sqs/messages?{query}", timeout=30) as answer:
            accounts: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = json.load(answer)["messages"]
        queues = [queue for regions in accounts.values() for queues in regions.values() for queue in queues.values()]
        return [(message["MessageId"], message["Body"]) for queue in queues for message in queue]

    def _send(self, body: str) -> str:
        return str(self._queue.send_message(QueueUrl=self._stack.direct_queue_url, MessageBody=body)["MessageId"])
