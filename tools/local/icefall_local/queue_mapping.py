"""What stands for Lambda's SQS event source mapping: polls the commit queue and invokes the committer with batches.

Nothing installable emulates it as documented, and its rules are what the committer's answer rests on: a batch
closes by count, window or payload size; no more batches are in flight than the maximum concurrency; of a batch
whose invocation succeeded all is deleted but what the partial batch response names; after a function error, or
an answer that can't be read, nothing is. What is not deleted is seen again when its visibility time-out is over:
the mapping itself sends nothing twice.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from icefall_local.execution_environment import MAX_PAYLOAD, Outcome
from icefall_local.lambda_host import Throttled

LEAST_CONCURRENCY = 2
"""The smallest maximum concurrency that Lambda lets a mapping of a queue have."""
_LONGEST_POLL_S = 2.0
"""Lambda waits for up to 20 s; a run that is stopped would wait for that."""
_MESSAGES_PER_POLL = 10
_THROTTLED_PAUSE_S = 0.1
_UNREACHABLE_PAUSE_S = 0.5

Message = Mapping[str, Any]
"""As ReceiveMessage answers it, with all its attributes."""
Invoke = Callable[[bytes], Awaitable[Outcome]]


@dataclass(frozen=True)
class QueueMappingConfig:
    """The mapping as it would be created on Lambda, with `ReportBatchItemFailures`; refused where Lambda refuses it."""

    queue_arn: str
    batch_size: int = 10
    """Messages in a batch at most, 1 to 10,000."""
    window_s: float = 0.0
    """Maximum batching window: how long a batch that isn't full waits, from its first message. Without one, what a
    poll gives is a batch."""
    max_concurrency: int = LEAST_CONCURRENCY
    visibility_s: float = 30.0
    """The queue's own: how long a throttled batch is tried."""
    function_timeout_s: float = 30.0
    max_payload: int = MAX_PAYLOAD

    def __post_init__(self) -> None:
        rules = {
            "BatchSize is 1 to 10,000": 1 <= self.batch_size <= 10_000,
            "MaximumBatchingWindowInSeconds is 0 to 300": 0 <= self.window_s <= 300,
            "a BatchSize above 10 needs a window of 1 s or more": self.batch_size <= 10 or self.window_s >= 1,
            "MaximumConcurrency is 2 to 1,000": LEAST_CONCURRENCY <= self.max_concurrency <= 1_000,
            "the function's time limit is at most the queue's visibility time-out": self.function_timeout_s <= self.visibility_s,
        }
        if broken := [rule for rule, kept in rules.items() if not kept]:
            raise ValueError("; ".join(broken))

    @property
    def region(self) -> str:
        return self.queue_arn.split(":")[3]


class QueueFailed(Exception):
    """The queue did not do what it was asked to; the text says why."""


class Queue(Protocol):
    """The commit queue, as a poller needs it."""

    async def receive(self, at_most: int, wait_s: float) -> Sequence[Message]:
        """Up to `at_most` messages, at most ten; waits for the first. Raises `QueueFailed`."""

    async def delete(self, messages: Sequence[Message]) -> None:
        """Lets messages go; raises `QueueFailed` when that may not have happened."""


@dataclass
class QueueProgress:
    """Counts of all pollers, for whoever watches."""

    events: int = 0
    """Batches that were sent to the function, those in flight among them."""
    messages: int = 0
    """Messages in these."""
    failures: int = 0
    """Events of which nothing was deleted: the function failed, or its answer can't be read."""
    kept: int = 0
    """Messages that answers named as failed."""
    last_error: str = ""


def record(message: Message, config: QueueMappingConfig) -> dict[str, Any]:
    """A message as it stands in the event."""
    found: dict[str, Any] = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {name: _attribute(one) for name, one in message.get("MessageAttributes", {}).items()},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": config.queue_arn,
        "awsRegion": config.region,
    }
    if "MD5OfMessageAttributes" in message:
        found["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return found


def _attribute(attribute: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "StringValue" in attribute:
        found["stringValue"] = attribute["StringValue"]
    if "BinaryValue" in attribute:
        found["binaryValue"] = base64.b64encode(attribute["BinaryValue"]).decode()
    return {**found, "stringListValues": [], "binaryListValues": [], "dataType": attribute["DataType"]}


def kept_by(answer: bytes, brought: Collection[str]) -> frozenset[str] | None:
    """The ids that a partial batch response keeps, none of them when it is empty or null. None, for the whole batch, when it
    is malformed or names one that wasn't `brought`. What an answer that is no object means isn't documented: the same."""
    try:
        response = json.loads(answer or b"null")
    except ValueError:
        return None
    if response is not None and not isinstance(response, dict):
        return None
    items = (response or {}).get("batchItemFailures")
    if items is not None and not isinstance(items, list):
        return None
    named = [item.get("itemIdentifier") if isinstance(item, dict) else None for item in items or []]
    return frozenset(named) if all(isinstance(one, str) and one in brought for one in named) else None


class Batch:
    """An event that is being filled."""

    _AROUND = len(b'{"Records":[]}')

    def __init__(self, config: QueueMappingConfig) -> None:
        self.messages: list[Message] = []
        self._config = config
        self._records: list[bytes] = []
        self._size = self._AROUND

    @property
    def room(self) -> int:
        return self._config.batch_size - len(self.messages)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(message["MessageId"] for message in self.messages)

    def add(self, message: Message) -> bool:
        """False, and nothing added, when the payload would be too large. A message alone always fits: it has 1 MiB at most."""
        encoded = json.dumps(record(message, self._config), ensure_ascii=False).encode()
        size = self._size + len(encoded) + bool(self._records)
        if self._records and size > self._config.max_payload:
            return False
        self.messages.append(message)
        self._records.append(encoded)
        self._size = size
        return True

    def payload(self) -> bytes:
        return b'{"Records":[' + b",".join(self._records) + b"]}"


class QueuePoller:
    """One batch at a time: collect, invoke, delete."""

    def __init__(
        self,
        config: QueueMappingConfig,
        queue: Queue,
        invoke: Invoke,
        progress: QueueProgress,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config = config
        self._queue = queue
        self._invoke = invoke
        self._progress = progress
        self._clock = clock
        self._sleep = sleep
        self._held: deque[Message] = deque()
        """Received, but too large for the batch before."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.one_batch()

    async def one_batch(self) -> None:
        """Waits for messages, delivers them once, and deletes what is not to be kept."""
        batch = await self._collect()
        outcome = await self._deliver(batch)
        if outcome is not None and (kept := self._kept(batch, outcome)) is not None:
            await self._delete([message for message in batch.messages if message["MessageId"] not in kept])

    async def _collect(self) -> Batch:
        """Fills a batch until its size, its payload or its window is exhausted; waits for its first message."""
        batch, closes_at = Batch(self._config), math.inf
        while True:
            while self._held and batch.room:
                if not batch.add(self._held[0]):
                    return batch
                self._held.popleft()
            now = self._clock()
            if batch.messages and closes_at == math.inf:
                closes_at = now + self._config.window_s
            if not batch.room or now >= closes_at:
                return batch
            self._held.extend(await self._receive(batch.room, min(_LONGEST_POLL_S, closes_at - now)))

    async def _receive(self, at_most: int, wait_s: float) -> Sequence[Message]:
        try:
            return await self._queue.receive(min(_MESSAGES_PER_POLL, at_most), wait_s)
        except QueueFailed as problem:
            self._progress.last_error = str(problem)
            await self._sleep(_UNREACHABLE_PAUSE_S)
            return []

    async def _deliver(self, batch: Batch) -> Outcome | None:
        """Invokes once. A throttled invocation is none: it is tried until the messages are seen by others again."""
        payload = batch.payload()
        self._progress.events += 1
        self._progress.messages += len(batch.messages)
        seen_again_at = self._clock() + self._config.visibility_s - self._config.window_s
        while True:
            try:
                return await self._invoke(payload)
            except Throttled:
                if self._clock() >= seen_again_at:
                    self._progress.last_error = "throttled for as long as its messages were hidden"
                    return None
                await self._sleep(_THROTTLED_PAUSE_S)
            except OSError as problem:
                return Outcome.failed("ServiceException", f"the function could not be started: {problem}")

    def _kept(self, batch: Batch, outcome: Outcome) -> frozenset[str] | None:
        """The ids that stay; None when the whole batch does."""
        kept = None if outcome.error else kept_by(outcome.payload, batch.ids)
        if kept is None:
            self._progress.failures += 1
            self._progress.last_error = outcome.payload.decode(errors="replace")[:2_000]
        else:
            self._progress.kept += len(kept)
        return kept

    async def _delete(self, messages: Sequence[Message]) -> None:
        """A message that can't be deleted comes again."""
        for first in range(0, len(messages), _MESSAGES_PER_POLL):
            try:
                await self._queue.delete(messages[first : first + _MESSAGES_PER_POLL])
            except QueueFailed as problem:
                self._progress.last_error = str(problem)


async def run(config: QueueMappingConfig, queue: Queue, invoke: Invoke, progress: QueueProgress) -> None:
    """As many pollers as batches may be in flight, until cancelled."""
    pollers = [QueuePoller(config, queue, invoke, progress) for _ in range(config.max_concurrency)]
    await asyncio.gather(*(poller.run() for poller in pollers))


class SqsQueue:
    """A queue by its URL. boto3's calls wait in threads of their own: a long poll would keep those of others busy."""

    def __init__(self, client: Any, url: str, polls_at_once: int) -> None:
        self._client = client
        self._url = url
        self._threads = ThreadPoolExecutor(2 * polls_at_once, thread_name_prefix="queue-mapping")

    async def receive(self, at_most: int, wait_s: float) -> Sequence[Message]:
        answer = await self._call(
            "receive_message",
            MaxNumberOfMessages=at_most,
            WaitTimeSeconds=math.ceil(wait_s),
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        found: list[Message] = answer.get("Messages", [])
        return found

    async def delete(self, messages: Sequence[Message]) -> None:
        """What the function deleted itself is gone, whatever the queue says to the old receipt."""
        entries = [{"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]} for number, one in enumerate(messages)]
        await self._call("delete_message_batch", Entries=entries)

    async def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        call = getattr(self._client, operation)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: call(QueueUrl=self._url, **arguments)
            )
        except (BotoCoreError, ClientError) as problem:
            raise QueueFailed(f"{operation}: {problem}") from problem
