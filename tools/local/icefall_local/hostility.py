"""A network that lies: requests arrive twice, answers get lost, are late, are somebody else's or are about nothing.

What is done to which request is drawn from one seed, part by part; which request meets a draw is up to the run. A
part's kinds are dealt like cards, all of them before any comes again, so that a run of some length has met them all.
Success that the part has not had is only claimed as something on the way would claim it: without a word, or with a page.
An answer that is forged in the part's own form no client could tell, of any system.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from icefall_local.relay import Answer, Asked, Forward

KINDS = ("dropped", "delayed", "doubled", "5xx", "429", "empty", "html")
"""The answer is lost after the part did what it was asked to; request or answer is late; the request arrives twice; a server
error; too many requests; success without a word; a page of HTML, with success or without. In the place of any of the last
but 429 the part may have done it, or may never have heard of it."""

PARTS = ("catalog", "store", "ops", "queue")
_WIDEST_GAP = {"catalog": 3, "store": 5, "ops": 9, "queue": 9}
"""Requests from one that meets a draw to the next, at most: of some parts little is asked."""
HOSTILE_RATE = 2_500.0
"""Records per second of a demo that names no rate: at full speed all would be written and committed in a few requests."""
_LONGEST_DELAY_S = 1.5
_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Please sign in to continue</h1></body></html>"


class Deck:
    """Deals one part's kinds, now and then."""

    def __init__(self, chance: random.Random, widest_gap: int) -> None:
        self._chance = chance
        self._widest_gap = widest_gap
        self._cards: list[str] = []
        self._gap = chance.randint(1, widest_gap)

    def deal(self) -> str | None:
        """What the next request meets, if anything."""
        self._gap -= 1
        if self._gap > 0:
            return None
        self._gap = self._chance.randint(1, self._widest_gap)
        if not self._cards:
            self._cards = self._chance.sample(KINDS, len(KINDS))
        return self._cards.pop()


class Hostility:
    """Stands between a run's parts and its functions, once it has begun and until it is stopped."""

    def __init__(self, seed: int, parts: Sequence[str] = PARTS) -> None:
        self._chance = random.Random(f"hostility {seed}")
        self._decks = {part: Deck(random.Random(f"hostility {seed} {part}"), _WIDEST_GAP[part]) for part in parts}
        self._struck = {part: Counter[str]() for part in parts}
        self._is_on = False

    def begin(self) -> None:
        self._is_on = True

    def stop(self) -> None:
        self._is_on = False

    def counts(self) -> dict[str, dict[str, int]]:
        """What struck, by part and kind."""
        return {part: {kind: struck[kind] for kind in KINDS} for part, struck in self._struck.items()}

    async def between(self, asked: Asked, forward: Forward) -> Answer | None:
        """Does to a request what was drawn for it."""
        kind = self._decks[asked.part].deal() if self._is_on else None
        if kind is None:
            return await forward()
        self._struck[asked.part][kind] += 1
        return await self._done(kind, forward)

    async def _done(self, kind: str, forward: Forward) -> Answer | None:
        match kind:
            case "dropped":
                await forward()
                return None
            case "delayed":
                return await self._delayed(forward)
            case "doubled":
                first, second = await forward(), await forward()
                return self._chance.choice((first, second))
            case "429":
                return Answer.made_up(429, **({"Retry_After": "1"} if self._heads() else {}))
        if self._heads():
            await forward()
        match kind:
            case "5xx":
                return Answer.made_up(self._chance.choice((500, 502, 503, 504)))
            case "empty":
                return Answer.made_up(200)
        return Answer.made_up(self._chance.choice((200, 502)), _PAGE, Content_Type="text/html")

    async def _delayed(self, forward: Forward) -> Answer:
        is_request, delay_s = self._heads(), self._chance.uniform(0.1, _LONGEST_DELAY_S)
        if is_request:
            await asyncio.sleep(delay_s)
        answer = await forward()
        if not is_request:
            await asyncio.sleep(delay_s)
        return answer

    def _heads(self) -> bool:
        return self._chance.random() < 0.5


def never_struck(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What a run has not met, as `PART: KIND, KIND`."""
    missing = {part: [kind for kind, count in struck.items() if not count] for part, struck in counts.items()}
    return [f"{part}: {', '.join(kinds)}" for part, kinds in missing.items() if kinds]
