"""The run's keys: a pair of its own for catalog, table store, ops bucket and queue, and one for the readers.

They are made anew for each run. That every part has its own is the point: a function that works only
because two parts happen to share a key or a region fails here instead of in somebody's account.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyPair:
    """An access key id and its secret."""

    access_key_id: str
    secret_access_key: str

    @classmethod
    def random(cls, hint: str) -> KeyPair:
        """A pair whose id tells in logs whose it is."""
        return cls(f"AK{hint.upper()}{secrets.token_hex(6).upper()}", secrets.token_hex(20))


@dataclass(frozen=True)
class Credentials:
    """All key pairs of one run."""

    catalog: KeyPair
    store: KeyPair
    ops: KeyPair
    queue: KeyPair
    reader: KeyPair
    second_catalog: KeyPair

    @classmethod
    def random(cls) -> Credentials:
        return cls(*(KeyPair.random(hint) for hint in ("catalog", "store", "ops", "queue", "reader", "second")))
