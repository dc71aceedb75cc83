"""The proxy sees every request's key, however the bytes arrive, and changes none of them."""

import asyncio
import http.client

import pytest

from icefall_local.http1 import RequestHeads, Response, serve
from icefall_local.keys_proxy import UNSIGNED, KeysProxy


def head(name, extra="Content-Length: 0"):
    return f"PUT /x HTTP/1.1\r\nHost: h\r\nX-Name: {name}\r\n{extra}\r\n\r\n".encode()


STREAM = (
    head("one", "Content-Length: 30")
    + b"GET /not-a-head HTTP/1.1\r\n\r\n.."
    + head("two", "Transfer-Encoding: chunked")
    + b"5;ext=1\r\nab\r\nc\r\n1\r\nx\r\n0\r\nTrailer: t\r\n\r\n"
    + head("three")
    + head("four", "Transfer-Encoding: chunked")
    + b"0\r\n\r\n"
    + head("five")
)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 10_000])
def test_heads_are_found_whatever_the_pieces(piece):
    heads = RequestHeads()
    pieces = [STREAM[start : start + piece] for start in range(0, len(STREAM), piece)]
    names = [headers["x-name"] for one in pieces for headers in heads.feed(one)]
    assert names == ["one", "two", "three", "four", "five"]


def test_keys_and_scopes_are_counted_and_bodies_pass_through():
    asyncio.run(_through_a_proxy())


async def _through_a_proxy():
    async def echo(request):
        return Response(200, request.headers["host"].encode() + b" " + request.body)

    server = await serve(echo)
    proxy = KeysProxy("store", server.port)
    port = await proxy.start()
    signed = "AWS4-HMAC-SHA256 Credential=AKONE/20260101/eu-west-1/s3/aws4_request, SignedHeaders=host, Signature=0"

    def talk():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        answers = []
        for headers in ({"Authorization": signed}, {"Authorization": signed}, {}):
            connection.request("PUT", "/x", b"y" * 3_000_000, headers)
            answers.append(connection.getresponse().read())
        connection.close()
        return answers

    answers = await asyncio.to_thread(talk)
    assert answers == [f"127.0.0.1:{port} ".encode() + b"y" * 3_000_000] * 3
    assert proxy.keys == {"AKONE": 2, UNSIGNED: 1}
    assert proxy.scopes == {"eu-west-1/s3": 2}
    proxy.stop()
    await server.close()
