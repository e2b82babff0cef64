"""Against httpx's own transport: the same answers give the same to whoever asks."""

from __future__ import annotations

import httpx
import pytest
import trio
from http_rig import Peer, answered, answering, ask, post
from test_http_response import BAD, GOOD

from triobot.http.request import MalformedError


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_answers_reach_the_program_alike(name: str) -> None:
    data, eof, _, _, _ = GOOD[name]

    async def answer(peer: Peer, _: bytes) -> None:
        for at in range(0, len(data), 100):
            await peer.stream.send_all(data[at : at + 100])
        if eof:
            await peer.stream.send_eof()  # type: ignore[union-attr]

    async with answering(answer) as server, httpx.AsyncClient(trust_env=False) as client:
        for _ in range(2):
            connection = await post(server)
            body = await answered(server, connection, 10_000)
            theirs = await client.post(server.url, content=b"x")
            ours = connection.reader
            assert (ours.status, body) == (theirs.status_code, theirs.content)
            assert httpx.Headers(ours.headers) == theirs.headers


@pytest.mark.parametrize("name", sorted(BAD))
async def test_what_is_no_answer_is_an_error(name: str) -> None:
    async def answer(peer: Peer, _: bytes) -> None:
        try:
            await peer.stream.send_all(BAD[name])
            await peer.stream.send_eof()  # type: ignore[union-attr]
        except trio.BrokenResourceError:
            pass

    async with answering(answer) as server:
        with pytest.raises(MalformedError):
            await ask(server)
