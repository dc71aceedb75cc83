"""A queue that hands out one message at a time: the next only when the one before it is deleted.

The committer's cost of one round is wanted, and a thousand rounds in a minute. A real queue would give it
as many batch manifests as there are, for one snapshot, and hold every lone one up by its long polls. Speaks
the four actions that the functions use of SQS, in its JSON protocol; checks neither keys nor signatures.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any

from icefall_local.http1 import Request, Response, Server, serve
from icefall_local.ports import LOOPBACK


class SingleFileQueue:
    """One queue at `url`."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._in_flight: tuple[str, str] | None = None
        """Receipt handle and body."""
        self._server: Server | None = None

    def __len__(self) -> int:
        return len(self._waiting) + (self._in_flight is not None)

    async def start(self) -> None:
        self._server = await serve(self._handle)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()

    @property
    def url(self) -> str:
        return f"{self.endpoint}/000000000000/single-file"

    @property
    def endpoint(self) -> str:
        assert self._server is not None
        return f"http://{LOOPBACK}:{self._server.port}"

    async def _handle(self, request: Request) -> Response:
        action = request.headers.get("x-amz-target", "").rpartition(".")[2]
        answer = self.act(action, request.json())
        if answer is None:
            return Response.of_json({"__type": "UnsupportedOperation", "message": action}, 400)
        return Response.of_json(answer, headers={"Content-Type": "application/x-amz-json-1.0"})

    def act(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """An action's answer; None when it isn't known here."""
        match action:
            case "SendMessageBatch":
                sent = [self._entry(one["Id"], one["MessageBody"]) for one in asked["Entries"]]
                return {"Successful": sent, "Failed": []}
            case "ReceiveMessage":
                return {"Messages": self._hand_out()}
            case "DeleteMessageBatch":
                for one in asked["Entries"]:
                    self._delete(one["ReceiptHandle"])
                return {"Successful": [{"Id": one["Id"]} for one in asked["Entries"]], "Failed": []}
            case "ChangeMessageVisibilityBatch":
                return {"Successful": [{"Id": one["Id"]} for one in asked["Entries"]], "Failed": []}
        return None

    def _entry(self, id_: str, body: str) -> dict[str, str]:
        self._waiting.append(body)
        return {"Id": id_, "MessageId": str(uuid.uuid4()), "MD5OfMessageBody": _md5(body)}

    def _hand_out(self) -> list[dict[str, Any]]:
        if self._in_flight is not None or not self._waiting:
            return []
        receipt, body = uuid.uuid4().hex, self._waiting.popleft()
        self._in_flight = (receipt, body)
        attributes = {"ApproximateReceiveCount": "1", "SentTimestamp": "0"}
        return [
            {"MessageId": receipt, "ReceiptHandle": receipt, "Body": body, "MD5OfBody": _md5(body), "Attributes": attributes}
        ]

    def _delete(self, receipt: str) -> None:
        if self._in_flight is not None and self._in_flight[0] == receipt:
            self._in_flight = None


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
