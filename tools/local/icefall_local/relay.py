"""A proxy that takes requests and answers whole, so that something can happen between the two.

What passes is what came, byte for byte: the head with the signature in it, the body, the answer. So a request that is
sent on twice is signed as well the second time. Each request goes on over a connection of its own: one that was kept,
and that the part has closed meanwhile, would leave open whether the request arrived, which is for others to cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from icefall_local.calls import Call, call
from icefall_local.http1 import parse_head
from icefall_local.keys_proxy import KeysProxy
from icefall_local.ports import LOOPBACK

_LIMIT = 1 << 20
_END = b"\r\n\r\n"
_WITHOUT_BODY = (204, 304)


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    part: str
    method: str
    target: str
    headers: Mapping[str, str]
    head: bytes
    body: bytes
    """As it was sent, with the sizes of its chunks if it has any."""

    @property
    def call(self) -> Call:
        return call(self.part, self.method, self.target, self.headers)


@dataclass(frozen=True)
class Answer:
    """An answer, of the part or made up."""

    status: int
    headers: Mapping[str, str]
    head: bytes
    body: bytes

    @classmethod
    def made_up(cls, status: int, body: bytes = b"", **headers: str) -> Answer:
        """One that no part gave."""
        lines = [f"HTTP/1.1 {status} ", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines).encode() + _END
        return cls(status, parse_answer_head(head)[1], head, body)

    @property
    def succeeded(self) -> bool:
        return self.status < 300

    @property
    def is_last(self) -> bool:
        """Whether the connection ends with it."""
        is_framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        return self.headers.get("connection", "").lower() == "close" or not (is_framed or self.status in _WITHOUT_BODY)


Forward = Callable[[], Awaitable[Answer]]
"""Sends the request on, and waits for its answer. May be called more than once, or never."""
Between = Callable[[Asked, Forward], Awaitable[Answer | None]]
"""What happens between request and answer; without an answer the client's connection ends."""


class RelayProxy(KeysProxy):
    """Notes keys as any proxy does, and lets `between` have its way with each request."""

    def __init__(self, part: str, target_port: int, between: Between) -> None:
        super().__init__(part, target_port)
        self._between = between
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._connected, LOOPBACK, port, limit=_LIMIT)
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        super().stop()
        for task in self._open:
            task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # Either end went away, or what it sent is no HTTP: the other end sees its connection end.
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await self._taken(reader, writer)
            self.note(dict(asked.headers))
            answer = await self._between(asked, lambda: self._forward(asked))
            if answer is None:
                return
            writer.write(answer.head + answer.body)
            await writer.drain()
            if answer.is_last:
                # Not aborted: the client has to get all of it.
                writer.close()
                await writer.wait_closed()
                return

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
        head = await reader.readuntil(_END)
        method, target, headers = parse_head(head[: -len(_END)])
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue" + _END)
        return Asked(self.part, method, target, headers, head, await _body(reader, headers))

    async def _forward(self, asked: Asked) -> Answer:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.target_port, limit=_LIMIT)
        try:
            writer.write(asked.head)
            writer.write(asked.body)
            await writer.drain()
            return await _answer(reader, asked.method)
        finally:
            writer.transport.abort()


async def _answer(reader: asyncio.StreamReader, method: str) -> Answer:
    while True:
        head = await reader.readuntil(_END)
        status, headers = parse_answer_head(head)
        if status >= 200:  # What comes before is between the two ends of one connection.
            break
    if method == "HEAD" or status in _WITHOUT_BODY:
        return Answer(status, headers, head, b"")
    if "content-length" in headers or "transfer-encoding" in headers:
        return Answer(status, headers, head, await _body(reader, headers))
    return Answer(status, headers, head, await reader.read())


def parse_answer_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers, names in lower case."""
    _, status, headers = parse_head(head[: -len(_END)])
    return int(status), headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """A body as it is on the wire."""
    if "chunked" not in headers.get("transfer-encoding", "").lower():
        return await reader.readexactly(int(headers.get("content-length", "0")))
    pieces: list[bytes] = []
    while True:
        pieces.append(await reader.readline())
        size = int(pieces[-1].split(b";")[0], 16)
        if not size:
            break
        pieces.append(await reader.readexactly(size + 2))
    while pieces[-1].strip():
        pieces.append(await reader.readline())
    return b"".join(pieces)
