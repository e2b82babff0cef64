"""Our connections against servers that others wrote, beside httpx's: both see the same."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from http_rig import make_certificates
from real_peers import LONG, long_body, needs, nginx, on_aiohttp, on_hypercorn

from tests.loopback import PATIENCE
from triobot.base import authorities
from triobot.http.connections import Connections, NoConnectionError, NothingSentError, Origin

SERVERS = [
    "hypercorn",
    "aiohttp",
    pytest.param("nginx", marks=needs("nginx")),
    pytest.param("nginx with TLS", marks=needs("nginx")),
]
SENT = "http11.send_request_headers.started"
LONG_DIGEST = hashlib.sha256(long_body()).hexdigest()


@asynccontextmanager
async def serving(name: str, folder: Path) -> AsyncGenerator[tuple[str, ssl.SSLContext]]:
    certificates = make_certificates("localhost")
    async with AsyncExitStack() as stack:
        if name == "aiohttp":
            port = await stack.enter_async_context(on_aiohttp())
        else:
            port = await stack.enter_async_context(on_hypercorn())
        secured = name == "nginx with TLS"
        if name.startswith("nginx"):
            both = folder / "both.pem"
            issued = certificates.authority.issue_cert("localhost")
            issued.private_key_and_cert_chain_pem.write_to_path(both)
            front = nginx(f"127.0.0.1:{port}", folder, certificate=both if secured else None)
            port = await stack.enter_async_context(front)
        yield f"https://localhost:{port}" if secured else f"http://127.0.0.1:{port}", certificates.client


class Ours(httpx.AsyncBaseTransport):
    """Our connections under httpx's requests: whole ones, as the client posts them."""

    def __init__(self, base: str) -> None:
        url = httpx.URL(base)
        self.pool = Connections(Origin(url.scheme, url.host, url.port or 443))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        lines = (
            b"%s %s HTTP/1.1" % (request.method.encode(), url.raw_path),
            *map(b": ".join, request.headers.raw),
        )
        message = b"\r\n".join((*lines, b"", await request.aread()))
        while True:
            kept = self.pool.idle()
            connection = kept or await self.pool.open()
            connection.post(message)
            if (trace := request.extensions.get("trace")) is not None:
                await trace(SENT, {})
            try:
                body = await connection.answer(100_000_000)
                break
            except NothingSentError:
                connection.close()
                assert kept
            except BaseException:
                connection.close()
                raise
        self.pool.settle(connection)
        return httpx.Response(connection.reader.status, headers=connection.reader.headers, content=body)

    async def aclose(self) -> None:
        self.pool.close()


@asynccontextmanager
async def client(which: str, base: str, tls: ssl.SSLContext) -> AsyncGenerator[httpx.AsyncClient]:
    transport = Ours(base) if which == "ours" else httpx.AsyncHTTPTransport(verify=tls)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(authorities, "client_context", lambda: tls)
        async with httpx.AsyncClient(base_url=base, transport=transport, timeout=PATIENCE) as asking:
            yield asking


async def ask_everything(asking: httpx.AsyncClient) -> list[tuple[str, object]]:
    """Requests of every kind, and what came of each."""
    seen: list[tuple[str, object]] = []

    async def note(name: str, method: str, path: str, **given: Any) -> None:
        response = await asking.request(method, path, **given)
        told: Any = response.text
        if response.headers.get("content-type", "").startswith("application/json") and told:
            told = response.json()
        seen.append((name, (response.status_code, told)))

    await note("query", "GET", "/echo", params={"a": "b c", "é": "ü"})
    await note("options", "OPTIONS", "/echo")
    await note("delete", "DELETE", "/echo")
    await note("json", "POST", "/echo", json={"a": [1, 2, "سلام"]})
    await note("form", "POST", "/echo", data={"a": "1", "b": "two words"})
    await note("empty", "POST", "/echo")
    await note("megabyte", "PUT", "/echo", content=b"x" * 1_000_000)
    await note("none", "GET", "/none")
    await note("redirect", "POST", "/elsewhere", content=b"kept", follow_redirects=True)
    await note("last", "GET", "/last")
    await note("after the last", "GET", "/echo")
    for name in ("long", "zipped"):
        async with asking.stream("GET", f"/{name}") as response:
            digest, length = hashlib.sha256(), 0
            async for piece in response.aiter_bytes():
                digest.update(piece)
                length += len(piece)
            seen.append((name, (response.status_code, length, digest.hexdigest())))
    with trio.CancelScope() as limit:

        async def give_up_soon(step: str, _: object) -> None:
            # Not before it is connected: httpx's own transport leaves a socket open when TLS is given up.
            if step == SENT:
                limit.deadline = trio.current_time() + 0.05

        await asking.get("/slow", extensions={"trace": give_up_soon})
    assert limit.cancelled_caught
    await note("after one that was given up", "GET", "/echo")

    statuses: list[int] = []

    async def one(number: int) -> None:
        response = await asking.post("/echo", content=b"z" * number)
        assert response.json()["length"] == number
        statuses.append(response.status_code)

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(one, number)
    seen.append(("at once", statuses))
    return seen


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("name", SERVERS)
async def test_requests_of_every_kind_are_answered_as_to_httpx(name: str, tmp_path: Path) -> None:
    async with serving(name, tmp_path) as (base, tls):
        async with client("ours", base, tls) as asking:
            ours = await ask_everything(asking)
        async with client("httpx", base, tls) as asking:
            theirs = await ask_everything(asking)

    assert ours == theirs
    found: dict[str, Any] = dict(ours)
    assert found["query"][1]["query"] == "a=b+c&%C3%A9=%C3%BC"
    assert found["megabyte"][1]["length"] == 1_000_000
    assert found["none"] == (204, "")
    assert found["redirect"][1]["query"] == "moved=1"
    assert found["redirect"][1]["length"] == 4
    assert found["long"] == found["zipped"] == (200, LONG, LONG_DIGEST)
    assert found["at once"] == [200] * 40


@pytest.mark.processes
@needs("nginx")
@pytest.mark.parametrize("which", ["ours", "httpx"])
async def test_an_upload_that_is_refused_early_is_a_413(which: str, tmp_path: Path) -> None:
    """nginx answers before it has read the body, and closes."""
    async with serving("nginx", tmp_path) as (base, tls), client(which, base, tls) as asking:
        assert (await asking.post("/echo", content=b"x" * 5_000_000)).status_code == 413
        assert (await asking.get("/echo")).status_code == 200


@pytest.mark.processes
@needs("nginx")
async def test_a_certificate_of_somebody_else_is_refused(tmp_path: Path) -> None:
    async with serving("nginx with TLS", tmp_path) as (base, _):
        async with client("ours", base, ssl.create_default_context()) as asking:
            with pytest.raises(NoConnectionError):
                await asking.get("/echo")
        elsewhere = base.replace("localhost", "127.0.0.1")  # not in the certificate
        async with client("ours", elsewhere, make_certificates("localhost").client) as asking:
            with pytest.raises(NoConnectionError):
                await asking.get("/echo")
