"""Against httpx's own transport: the same requests and the same answers give the same to whoever asks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import trio
from http_rig import OK, Peer, answering
from test_http_response import BAD, GOOD

from triobot.http import TrioTransport


class Body(httpx.AsyncByteStream):
    """Two pieces and an empty one, through no generator."""

    def __init__(self) -> None:
        self._rest = [b"abc", b"", b"de"]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop(0)


def requests(url: str) -> list[httpx.Request]:
    """What programs send."""
    return [
        httpx.Request("GET", url + "/a%20b?c=d&e"),
        httpx.Request("POST", url, content=b"abc", headers={"X-A": "1", "x-b": "ü".encode()}),
        httpx.Request("POST", url, data={"a": "b c"}),
        httpx.Request("POST", url, json={"a": 1}),
        httpx.Request("PUT", url, content=Body()),
        httpx.Request("PUT", url, content=Body(), headers={"content-length": "5"}),
        httpx.Request("DELETE", url),
        httpx.Request("HEAD", url),
        httpx.Request("OPTIONS", url, headers={"host": "other.test"}),
        httpx.Request(
            "POST",
            url,
            files={"f": ("n.txt", b"file")},
            headers={"content-type": "multipart/form-data; boundary=b"},
        ),
    ]


def transports() -> list[httpx.AsyncBaseTransport]:
    return [httpx.AsyncHTTPTransport(), TrioTransport()]


def normal(request: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """A request without what may differ: the case and the order of headers, the size of chunks."""
    head, _, body = request.partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    pairs = {name.lower(): value for name, _, value in (header.partition(b": ") for header in headers)}
    return line, pairs, body


async def test_requests_reach_the_server_alike() -> None:
    async def answer(peer: Peer, request: bytes) -> None:
        await peer.stream.send_all(OK.removesuffix(b"ok") if request.startswith(b"HEAD") else OK)

    seen: list[list[tuple[bytes, dict[bytes, bytes], bytes]]] = []
    for transport in transports():
        async with answering(answer) as server, transport:
            for request in requests(f"http://127.0.0.1:{server.port}"):
                response = await transport.handle_async_request(request)
                await response.aread()
                await response.aclose()
            seen.append([normal(one.replace(b":%d" % server.port, b":PORT")) for one in server.requests])

    assert seen[0] == seen[1]
    assert len(seen[1]) == 10


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_answers_reach_the_program_alike(name: str) -> None:
    data, eof, _, _, _ = GOOD[name]

    async def answer(peer, _) -> None:  # type: ignore[no-untyped-def]
        for at in range(0, len(data), 100):
            await peer.stream.send_all(data[at : at + 100])
        if eof:
            await peer.stream.send_eof()

    got: list[object] = []
    for transport in transports():
        async with answering(answer) as server, httpx.AsyncClient(transport=transport) as client:
            for _ in range(2):
                response = await client.post(f"http://127.0.0.1:{server.port}/", content=b"x")
                got.append(
                    (
                        response.status_code,
                        sorted(response.headers.multi_items()),
                        response.content,
                        response.reason_phrase,
                        response.http_version,
                    )
                )

    assert got[0] == got[2]
    assert got[1] == got[3]


@pytest.mark.parametrize("name", sorted(BAD))
async def test_ours_is_never_the_more_lenient_one(name: str) -> None:
    async def answer(peer, _) -> None:  # type: ignore[no-untyped-def]
        try:
            await peer.stream.send_all(BAD[name])
            await peer.stream.send_eof()
        except trio.BrokenResourceError:
            pass

    async with answering(answer) as server, httpx.AsyncClient(transport=TrioTransport()) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"http://127.0.0.1:{server.port}/", content=b"x")
