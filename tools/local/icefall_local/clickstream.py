"""The main job's data: the field's usual click-stream example, good records and every kind of bad one.

What a record is expected to become is decided here, when it is made, and nowhere else: a good one becomes
a row with the values it was made from, a bad one a dead letter with the very bytes that were produced. No
decoder is asked, least of all the one under test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

TABLE = "analytics.clickstream"
DEAD_LETTER_TABLE = "icefall.dead_letters"
TOPIC = "clickstream"


@dataclass(frozen=True)
class Tables:
    """Where the records go."""

    rows: str = TABLE
    dead_letters: str = DEAD_LETTER_TABLE


@dataclass(frozen=True)
class Column:
    """A column as declared in the settings."""

    name: str
    type: str
    required: bool


COLUMNS = (
    Column("event_id", "string", True),
    Column("user_id", "long", True),
    Column("session_id", "string", True),
    Column("page_url", "string", True),
    Column("event_type", "string", True),
    Column("referrer", "string", False),
    Column("event_time", "timestamptz", True),
)

ROW_SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("user_id", pa.int64()),
        ("session_id", pa.string()),
        ("page_url", pa.string()),
        ("event_type", pa.string()),
        ("referrer", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
    ]
)

EVENT_TYPES = ("page_view", "add_to_cart", "search", "checkout", "purchase", "sign_in", "video_play", "share")
_PAGES = ("products/{}/details", "catégories/été-{}", "search?q=%22{}%22&sort=asc", "検索/{}", 'a"quoted"\\path/{}', "cart/{}")
_REFERRERS = ("https://www.example.org/results?page={}", "https://news.example.net/\u2028{}", "", "android-app://shop/{}")

Headers = list[tuple[str, bytes | None]] | None
HEADER_VARIANTS: tuple[Headers, ...] = (
    None,
    [("source", b"web")],
    [("trace", bytes(range(0xF0, 0x100))), ("trace", b"\x00\x7f\x80\xff"), ("källa", b"")],
)
"""None at all; the usual one; a repeated name, bytes that are negative in Java, and an empty value."""

_FIRST_EVENT_US = 1_768_471_200_000_000  # 2026-01-15T10:00:00Z
_SPREAD_US = 4 * 3_600_000_000
"""Events spread over four hours, so that a batch fills several partitions of the table."""


class Values(NamedTuple):
    """The values of one record, as the row is to hold them, and as JSON where that takes escaping."""

    event_id: str
    user_id: int
    session_id: str
    page_url: str
    event_type: str
    referrer: str | None
    event_time: str
    page_json: str
    referrer_json: str | None
    """None: the member is absent; `null`: it is there and null."""


def good(values: Values) -> bytes:
    """The record's value, as JSON."""
    referrer = "" if values.referrer_json is None else f'"referrer":{values.referrer_json},'
    return (
        f'{{"event_id":"{values.event_id}","user_id":{values.user_id},"session_id":"{values.session_id}",'
        f'"page_url":{values.page_json},"event_type":"{values.event_type}",{referrer}"event_time":"{values.event_time}"}}'
    ).encode()


def _with(values: Values, **raw: str) -> bytes:
    """The record's value with the JSON of some members replaced."""
    members = {name: json.dumps(value) for name, value in json.loads(good(values)).items()} | raw
    return ("{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}").encode()


def _without(values: Values, name: str) -> bytes:
    document = json.loads(good(values))
    del document[name]
    return json.dumps(document).encode()


BAD_KINDS: tuple[tuple[str, Callable[[Values], bytes | None]], ...] = (
    ("truncated JSON", lambda v: good(v)[:-20]),
    ("invalid UTF-8", lambda v: good(v).replace(b'"page_url":"', b'"page_url":"\xff\xfe', 1)),
    ("a JSON array", lambda v: b"[" + good(v) + b"]"),
    ("a JSON number", lambda v: b"42"),
    ("an empty value", lambda v: b""),
    ("text for a long", lambda v: _with(v, user_id='"twelve"')),
    ("an object for a string", lambda v: _with(v, page_url='{"path":"/"}')),
    ("a long above its range", lambda v: _with(v, user_id="9223372036854775808")),
    ("a long below its range", lambda v: _with(v, user_id="-9223372036854775809")),
    ("a fraction for a long", lambda v: _with(v, user_id="1.5")),
    ("a required field missing", lambda v: _without(v, "session_id")),
    ("null in a required field", lambda v: _with(v, event_id="null")),
    ("a time that is none", lambda v: _with(v, event_time='"2026-02-30T25:61:00Z"')),
    ("a tombstone", lambda v: None),
    ("deep nesting", lambda v: _with(v, referrer="[" * 5_000 + "]" * 5_000)),
)
"""Each is a dead letter by any reading of the rules; their names are for the reports."""


class Record(NamedTuple):
    """One record to produce, and what it is expected to become."""

    values: Values
    value: bytes | None
    key: bytes | None
    headers_variant: int
    partition: int
    bad_kind: int
    """Index into `BAD_KINDS`, or -1 for a good one."""


class Clickstream:
    """An endless sequence of records, the same for the same seed."""

    def __init__(self, seed: int, bad_permille: int, partitions: int) -> None:
        self._random = np.random.default_rng(seed)
        self._bad_permille = bad_permille
        self._partitions = partitions
        self._bad_made = 0

    def take(self, count: int) -> list[Record]:
        """The next `count` records."""
        random = self._random
        ids = random.bytes(16 * count).hex()
        users = random.integers(1, 10_000_000, count).tolist()
        pages = random.integers(0, 5_000, count).tolist()
        types = random.integers(0, len(EVENT_TYPES), count).tolist()
        referrers = random.integers(0, 4 * len(_REFERRERS), count).tolist()
        micros = _FIRST_EVENT_US + random.integers(0, _SPREAD_US, count)
        times = np.datetime_as_string(micros.astype("datetime64[us]"), unit="us").tolist()
        bad = (random.integers(0, 1_000, count) < self._bad_permille).tolist()
        partitions = random.integers(0, self._partitions, count).tolist()
        drawn = zip(users, pages, types, referrers, times, bad, partitions, strict=True)
        return [
            self._record(ids[32 * number : 32 * number + 32], *fields) for number, fields in enumerate(drawn)
        ]

    def _record(
        self, id_: str, user: int, page: int, type_: int, referrer: int, time: str, is_bad: bool, partition: int
    ) -> Record:
        address, address_json = _page(page)
        origin, origin_json = _referrer(referrer, page)
        values = Values(
            f"{id_[:8]}-{id_[8:12]}-4{id_[13:16]}-a{id_[17:20]}-{id_[20:]}",
            _extreme(user),
            f"s-{id_[:14]}",
            address,
            EVENT_TYPES[type_],
            origin,
            f"{time}Z",
            address_json,
            origin_json,
        )
        kind = self._next_bad_kind() if is_bad else -1
        value = BAD_KINDS[kind][1](values) if is_bad else good(values)
        key = None if user % 16 == 0 else str(user).encode()
        return Record(values, value, key, page % len(HEADER_VARIANTS), partition, kind)

    def _next_bad_kind(self) -> int:
        """Each kind in turn, so that a run of any size has as many as it can."""
        self._bad_made += 1
        return (self._bad_made - 1) % len(BAD_KINDS)


def _extreme(user: int) -> int:
    """A few users stand at the ends of a long's range."""
    return {0: -(2**63), 1: 2**63 - 1, 2: 0}.get(user % 5_000, user)


@cache
def _page(number: int) -> tuple[str, str]:
    """A page's address, and the same as JSON: half of them with escapes for what isn't ASCII."""
    address = "https://shop.example.com/" + _PAGES[number % len(_PAGES)].format(number)
    return address, json.dumps(address, ensure_ascii=number % 2 == 0)


def _referrer(drawn: int, page: int) -> tuple[str | None, str | None]:
    """A quarter absent, a quarter null, half of them there."""
    if drawn >= 3 * len(_REFERRERS):
        return None, None
    if drawn >= 2 * len(_REFERRERS):
        return None, "null"
    text = _REFERRERS[drawn % len(_REFERRERS)].format(page % 100)
    return text, json.dumps(text, ensure_ascii=False)


def event_micros(texts: Sequence[str]) -> np.ndarray:
    """Event times as microseconds since 1970, from their text."""
    return np.array([text[:-1] for text in texts], dtype="datetime64[us]").astype(np.int64)
