"""A proxy before each part that notes whose access key every request was signed with.

It proves that the functions use each part's own keys. Bytes pass through unchanged and at once, the Host
header among them: SigV4 signs it, so functions sign for the proxy's address and the part behind verifies
that very header.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from icefall_local.http1 import RequestHeads
from icefall_local.ports import LOOPBACK

UNSIGNED = "(unsigned)"
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/\d{8}/([^/]+)/([^/]+)/")


class KeysProxy:
    """Forwards one loopback port to another."""

    def __init__(self, part: str, target_port: int) -> None:
        self.part = part
        self.keys: Counter[str] = Counter()
        """Requests by access key id."""
        self.scopes: Counter[str] = Counter()
        """Requests by the `region/service` they were signed for."""
        self.target_port = target_port
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> int:
        """Listens; answers the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self, self.target_port), LOOPBACK, port)
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def note(self, headers: dict[str, str]) -> None:
        """Counts one request by its Authorization header."""
        found = _CREDENTIAL.search(headers.get("authorization", ""))
        self.keys[found.group(1) if found else UNSIGNED] += 1
        if found:
            self.scopes[f"{found.group(2)}/{found.group(3)}"] += 1


class _Pipe(asyncio.Protocol):
    """One end of a forwarded connection; slows its peer's reading down when it can't write on."""

    transport: asyncio.Transport | None = None
    peer: _Pipe | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.close()

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()


class _Client(_Pipe):
    """The client's end: connects on, and reads the request heads as they pass."""

    def __init__(self, proxy: KeysProxy, target_port: int) -> None:
        self._proxy = proxy
        self._target_port = target_port
        self._heads = RequestHeads()
        self._readable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        assert self.transport is not None
        try:
            _, server = await asyncio.get_running_loop().create_connection(_Pipe, LOOPBACK, self._target_port)
        except OSError:
            self.transport.abort()
            return
        self.peer, server.peer = server, self
        if self.transport.is_closing():
            assert server.transport is not None
            server.transport.close()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._readable:
            try:
                for headers in self._heads.feed(data):
                    self._proxy.note(headers)
            except ValueError:
                self._readable = False
        super().data_received(data)
