"""The proxy that takes requests whole: what passes is what came, and what is done in between is done as drawn."""

import asyncio
import http.client
import random
import socket

import pytest

from icefall_local.calls import call
from icefall_local.fail_points import FailPoint, FailPoints
from icefall_local.hostility import KINDS, Deck, Hostility, never_struck
from icefall_local.http1 import Response, serve
from icefall_local.relay import Answer, Asked, RelayProxy

SIGNED = "AWS4-HMAC-SHA256 Credential=AKONE/20260101/eu-west-1/s3/aws4_request, SignedHeaders=host, Signature=0"


async def passed_on(asked, forward):
    return await forward()


class Behind:
    """A part that keeps what it was asked, and a proxy before it; `talk` runs beside them."""

    def __init__(self, between=passed_on, part="store"):
        self.requests = []
        self._between, self._part = between, part

    async def _answer(self, request):
        self.requests.append(request)
        return Response(200, b"done " + request.body)

    def run(self, talk):
        async def running():
            server = await serve(self._answer)
            self.proxy = RelayProxy(self._part, server.port, self._between)
            port = await self.proxy.start()
            try:
                return await asyncio.to_thread(talk, port)
            finally:
                self.proxy.stop()
                await server.close()

        return asyncio.run(running())


def ask(port, count=1, method="PUT", body=b"x"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    answers = []
    for _ in range(count):
        connection.request(method, "/lake/t/data/f.parquet", body, {"Authorization": SIGNED})
        response = connection.getresponse()
        answers.append((response.status, response.read()))
    connection.close()
    return answers


def test_requests_pass_as_they_are_over_a_kept_connection():
    behind = Behind()
    assert behind.run(lambda port: ask(port, 3, body=b"y" * 3_000_000)) == [(200, b"done " + b"y" * 3_000_000)] * 3
    assert [request.headers["authorization"] for request in behind.requests] == [SIGNED] * 3
    assert behind.proxy.keys == {"AKONE": 3}
    assert behind.proxy.scopes == {"eu-west-1/s3": 3}


def test_chunked_bodies_and_clients_that_wait_to_go_on_are_served():
    head = b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"

    def talk(port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(head)
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n")
            return client.recv(1_000)

    behind = Behind()
    assert behind.run(talk).endswith(b"\r\n\r\ndone abcde")
    assert behind.requests[0].headers["expect"] == "100-continue"


def test_what_is_sent_on_twice_is_the_same_twice_and_what_has_no_answer_ends_the_connection():
    async def doubled_and_dropped(asked, forward):
        await forward()
        await forward()
        return None

    behind = Behind(doubled_and_dropped)
    with pytest.raises(http.client.RemoteDisconnected):
        behind.run(ask)
    one, other = behind.requests
    assert one == other


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_does_what_it_says(kind, monkeypatch):
    hostility = Hostility(1, ["catalog"])
    hostility.begin()
    monkeypatch.setattr("icefall_local.hostility._LONGEST_DELAY_S", 0.2)
    monkeypatch.setattr(Deck, "deal", lambda self: kind)
    behind = Behind(hostility.between, "catalog")

    def talk(port):
        try:
            return ask(port)[0]
        except http.client.RemoteDisconnected:
            return None

    answer = behind.run(talk)
    assert hostility.counts() == {"catalog": {one: int(one == kind) for one in KINDS}}
    arrived = len(behind.requests)
    match kind:
        case "dropped":
            assert (answer, arrived) == (None, 1)
        case "delayed":
            assert (answer, arrived) == ((200, b"done x"), 1)
        case "doubled":
            assert (answer, arrived) == ((200, b"done x"), 2)
        case "5xx":
            assert answer[0] >= 500 and arrived <= 1
        case "429":
            assert (answer, arrived) == ((429, b""), 0)
        case "empty":
            assert answer == (200, b"") and arrived <= 1
        case "html":
            assert answer[1].startswith(b"<!DOCTYPE html>") and arrived <= 1


def test_success_that_was_not_had_is_only_claimed_without_a_word_or_with_a_page(monkeypatch):
    monkeypatch.setattr("icefall_local.hostility._LONGEST_DELAY_S", 0.11)
    hostility = Hostility(2, ["store"])
    hostility.begin()
    claimed = set()

    async def met(number):
        done = []

        async def forward():
            done.append(1)
            return Answer.made_up(200, b"object")

        answer = await hostility.between(Asked("store", "GET", "/b/k", {}, b"", b""), forward)
        if answer is not None and answer.succeeded and not done:
            claimed.add(answer.body[:15])

    async def all_met():
        await asyncio.gather(*(met(number) for number in range(1_000)))

    asyncio.run(all_met())
    assert claimed == {b"", b"<!DOCTYPE html>"}
    assert never_struck(hostility.counts()) == []


def test_a_deck_deals_all_kinds_before_any_comes_again_and_the_same_for_the_same_seed():
    def dealt(seed):
        deck = Deck(random.Random(seed), 5)
        return [kind for kind in (deck.deal() for _ in range(400)) if kind is not None]

    kinds = dealt(3)
    assert dealt(3) == kinds != dealt(4)
    assert 400 / 5 <= len(kinds) < 400 * 3 / 4
    for start in range(0, len(kinds) - len(KINDS), len(KINDS)):
        assert sorted(kinds[start : start + len(KINDS)]) == sorted(KINDS)


def test_what_never_struck_is_named():
    counts = {"catalog": dict.fromkeys(KINDS, 1), "queue": {**dict.fromkeys(KINDS, 2), "429": 0, "html": 0}}
    assert never_struck(counts) == ["queue: 429, html"]


@pytest.mark.parametrize(
    ("part", "method", "target", "headers", "word"),
    [
        ("catalog", "GET", "/v1/config?warehouse=s3%3A%2F%2Flake", {}, "get-config"),
        ("catalog", "GET", "/v1/lake/namespaces/a/tables/t?snapshots=refs", {}, "load-table"),
        ("catalog", "POST", "/v1/lake/namespaces/a/tables/t", {}, "commit"),
        ("catalog", "POST", "/v1/lake/namespaces/a/tables", {}, "create-table"),
        ("catalog", "POST", "/v1/namespaces", {}, "create-namespace"),
        ("catalog", "DELETE", "/v1/namespaces/a", {}, "DELETE /v1/namespaces/a"),
        ("store", "PUT", "/lake/a/t/data/h%3D1/f.parquet?x-id=PutObject", {}, "put-data-file"),
        ("store", "PUT", "/lake/a/t/metadata/snap-1-0-x.avro", {}, "put-manifest-list"),
        ("store", "GET", "/lake/a/t/metadata/x-icefall-m0.avro", {}, "get-manifest"),
        ("ops", "PUT", "/ops/corner/heartbeat/demo.1.json", {}, "put-heartbeat"),
        ("ops", "PUT", "/ops/quarantine/2026-11-30/another-table/m.raw", {}, "put-quarantined-message"),
        ("ops", "PUT", "/ops/quarantine/2026-11-30/another-table/m.json", {}, "put-quarantine-entry"),
        ("ops", "PUT", "/ops/quarantine/2026-11-30/another-table/m/0-f.parquet", {}, "put-quarantine-copy"),
        ("queue", "POST", "/", {"x-amz-target": "AmazonSQS.SendMessageBatch"}, "send"),
    ],
)
def test_requests_are_known_by_their_words(part, method, target, headers, word):
    assert call(part, method, target, headers).word == word


class Recorder:
    """A process that only notes what is done to it."""

    def __init__(self):
        self.done = []

    def kill(self):
        self.done.append("kill")

    def freeze(self):
        self.done.append("freeze")

    def thaw(self):
        self.done.append("thaw")


def test_a_point_strikes_the_nth_request_that_fits_it_once_before_or_after_it_is_done():
    for moment, arrived in (("before", 1), ("after", 2)):
        victim = Recorder()
        points = FailPoints(lambda name: victim)
        points.arm("p", FailPoint("w", "put-data-file", moment, nth=2, about="/data/"))
        points.arm("other", FailPoint("w", "put-data-file", moment, about="/elsewhere/"))
        behind = Behind(points.between("w"))

        def talk(port):
            first = ask(port)
            with pytest.raises(http.client.RemoteDisconnected):
                ask(port)
            return [*first, *ask(port)]

        assert behind.run(talk) == [(200, b"done x")] * 2
        assert (victim.done, len(behind.requests)) == (["kill"], arrived + 1)
        assert points.status("p")["struck"] == "put-data-file /lake/t/data/f.parquet"
        assert points.status("other")["struck"] == ""
        assert points.calls() == [("w", "put-data-file", True, 3)]


def test_what_is_frozen_waits_until_it_is_thawed():
    victim = Recorder()
    points = FailPoints(lambda name: victim)
    points.arm("p", FailPoint("w", "put-data-file", "before", "freeze"))
    behind = Behind(points.between("w"))

    async def beside(port):
        asking = asyncio.create_task(asyncio.to_thread(ask, port))
        while not points.status("p")["struck"]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert (victim.done, behind.requests, asking.done()) == (["freeze"], [], False)
        points.thaw("p")
        return await asking

    async def running():
        server = await serve(behind._answer)
        proxy = RelayProxy("store", server.port, points.between("w"))
        try:
            return await beside(await proxy.start())
        finally:
            proxy.stop()
            await server.close()

    assert asyncio.run(running()) == [(200, b"done x")]
    assert victim.done == ["freeze", "thaw"]


def test_a_point_that_can_not_be_is_refused():
    with pytest.raises(ValueError, match="no fail point strikes during"):
        FailPoint("w", "commit", "during")
