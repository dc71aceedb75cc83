"""A small HTTP/1.1 server for the emulated AWS APIs: whole bodies, kept connections, on asyncio.

The standard library's server is one thread per connection and parses headers slowly; a framework would be
one more dependency to pin. What the emulators need is little: read a request, answer it, notice that the
client is gone. Also holds `RequestHeads`, which finds the request heads in a stream of bytes that only
passes through.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from icefall_local.ports import LOOPBACK

MAX_HEAD = 64 * 1024
_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
            413: "Payload Too Large", 429: "Too Many Requests", 500: "Internal Server Error"}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A request with its whole body. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass(frozen=True)
class Response:
    """An answer with its whole body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        return cls(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def encoded(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Status')}", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


Handler = Callable[[Request], Awaitable[Response]]


class Server:
    """A listening server; closing it ends its connections too, so that none outlives the loop."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._listening: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._listening is not None
        return int(self._listening.sockets[0].getsockname()[1])

    async def listen(self, port: int) -> None:
        self._listening = await asyncio.start_server(self._connected, LOOPBACK, port, limit=1 << 20)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for task in (open_ones := list(self._connections)):
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await _read(reader)) is not None:
                response = await self._handler(request)
                writer.write(response.encoded())
                writer.write(response.body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()


async def serve(handler: Handler, port: int = 0) -> Server:
    """Listens on loopback; port 0 picks a free one."""
    server = Server(handler)
    await server.listen(port)
    return server


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, headers = parse_head(head[:-4])
    return Request(method, path, headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", "").lower():
        return await reader.readexactly(int(headers.get("content-length", "0")))
    chunks: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return b"".join(chunks)


def parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Request line and headers, of a head without its closing empty line."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return method, path, {name.strip().lower(): value.strip() for name, value in pairs}


class RequestHeads:
    """Finds the heads of the requests in what a client sends, whatever the pieces it arrives in.

    Bodies are skipped by their length and never kept; chunked ones by their chunk sizes.
    """

    def __init__(self) -> None:
        self._held = b""
        self._skip = 0
        self._chunked = False

    def feed(self, data: bytes) -> Iterator[dict[str, str]]:
        """The headers of each request whose head ends in `data`."""
        self._held += self._skipped(data)
        while self._held:
            if self._chunked:
                if not self._next_chunk():
                    return
                continue
            head, found, rest = self._held.partition(b"\r\n\r\n")
            if not found:
                if len(self._held) > MAX_HEAD:
                    raise ValueError("a request's head is longer than 64 KiB")
                return
            _, _, headers = parse_head(head.lstrip(b"\r\n"))
            self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
            self._skip = 0 if self._chunked else int(headers.get("content-length", "0"))
            self._held = self._skipped(rest)
            yield headers

    def _skipped(self, data: bytes) -> bytes:
        dropped = min(self._skip, len(data))
        self._skip -= dropped
        return data[dropped:] if dropped else data

    def _next_chunk(self) -> bool:
        """Steps over one chunk; false when more bytes are needed first."""
        line, found, rest = self._held.partition(b"\r\n")
        if not found:
            return False
        size = int(line.split(b";")[0], 16)
        if size:
            self._skip = size + 2
            self._held = self._skipped(rest)
            return True
        trailers, ended, after = self._held.partition(b"\r\n\r\n")
        if not ended:
            return False
        self._chunked, self._held = False, after
        return True
