"""Free loopback ports, found just before a server is started on them.

SeaweedFS takes a second port for gRPC, 10000 above each of its HTTP ports, so a port is only handed out
when that one is free too. Ports come from below the range that systems hand out for outgoing connections,
where a port could be taken between looking and starting.
"""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
GRPC_DISTANCE = 10_000
_LOWEST, _HIGHEST = 11_000, 21_999


class Ports:
    """Hands out ports, none twice."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self._given: set[int] = set()

    def free(self) -> int:
        """A port that nothing listens on, nor on the one 10000 above."""
        for _ in range(1_000):
            port = self._random.randint(_LOWEST, _HIGHEST)
            if port not in self._given and _is_free(port) and _is_free(port + GRPC_DISTANCE):
                self._given.add(port)
                return port
        raise OSError("no free pair of loopback ports was found in a thousand tries")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
