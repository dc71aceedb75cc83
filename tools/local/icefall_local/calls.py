"""What a request asks of its part, in a word: `commit`, `put-segment`, `receive`.

Crash points and their table speak in these words. They follow from method, path and `X-Amz-Target` alone: what the
catalog's REST specification, S3 and SQS put there, and where Icefall keeps what in its ops bucket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_TABLE = re.compile(r"/namespaces/([^/]+)/tables/([^/]+)$")
_CATALOG = (
    (re.compile(r"/v1/config$"), {"GET": "get-config"}),
    (_TABLE, {"GET": "load-table", "POST": "commit"}),
    (re.compile(r"/namespaces/([^/]+)/tables$"), {"POST": "create-table"}),
    (re.compile(r"/namespaces/([^/]+)$"), {"GET": "get-namespace"}),
    (re.compile(r"/namespaces$"), {"POST": "create-namespace"}),
)
_FILES = (
    (re.compile(r"\.parquet$"), "data-file"),
    (re.compile(r"/metadata/snap-[^/]*\.avro$"), "manifest-list"),
    (re.compile(r"/metadata/[^/]*\.avro$"), "manifest"),
)
_OBJECTS = (
    (re.compile(r"(?:^|/)heartbeat/"), "heartbeat"),
    (re.compile(r"(?:^|/)segments/"), "segment"),
    (re.compile(r"(?:^|/)dead-letters/"), "dead-letters"),
    (re.compile(r"(?:^|/)spill/"), "spill"),
    (re.compile(r"(?:^|/)register/"), "register"),
    (re.compile(r"(?:^|/)clusters/"), "clusters"),
    (re.compile(r"(?:^|/)quarantine/.*\.raw$"), "quarantined-message"),
    (re.compile(r"(?:^|/)quarantine/[^/]*/[^/]*/[^/]*\.json$"), "quarantine-entry"),
    (re.compile(r"(?:^|/)quarantine/"), "quarantine-copy"),
)
_QUEUE = {
    "SendMessageBatch": "send",
    "ReceiveMessage": "receive",
    "DeleteMessageBatch": "delete",
    "ChangeMessageVisibilityBatch": "hide",
    "GetQueueAttributes": "get-queue-attributes",
}
_READS = ("get-", "load-")


@dataclass(frozen=True)
class Call:
    """One request: its word, and what it is about (a path or a key)."""

    word: str
    about: str

    @property
    def has_effect(self) -> bool:
        """Whether the part is changed by it: `receive` hides messages."""
        return not self.word.startswith(_READS)


def call(part: str, method: str, target: str, headers: Mapping[str, str]) -> Call:
    """The call of a request. One that is not known keeps its method and path, so that nothing passes for another."""
    path = unquote(urlsplit(target).path)
    word = _queue(headers) if part == "queue" else _catalog(method, path) if part == "catalog" else _object(part, method, path)
    return Call(word or f"{method} {path}", path)


def _queue(headers: Mapping[str, str]) -> str | None:
    return _QUEUE.get(headers.get("x-amz-target", "").rpartition(".")[2])


def _catalog(method: str, path: str) -> str | None:
    return next((words.get(method) for pattern, words in _CATALOG if pattern.search(path)), None)


def _object(part: str, method: str, path: str) -> str | None:
    kinds = _FILES if part == "store" else _OBJECTS
    kind = next((kind for pattern, kind in kinds if pattern.search(path)), None)
    return f"{method.lower()}-{kind}" if kind and method in ("GET", "PUT") else None
