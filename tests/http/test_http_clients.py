"""Our listener under what others wrote: curl, wrk, h11, httpx, requests, aiohttp, and nginx as a proxy."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import h11
import httpx
import pytest
import trio
from http_rig import make_certificates
from real_peers import LONG, long_body, needs, nginx, talked

from tests.loopback import PATIENCE
from triobot.base.binding import Bind, TcpBind, Tls, UnixBind, address_of, open_listeners
from triobot.base.certificates import server_context
from triobot.base.limits import ServingLimits
from triobot.http.listener import serve_listeners

pytestmark = pytest.mark.processes

LONG_DIGEST = hashlib.sha256(long_body()).hexdigest()


@asynccontextmanager
async def listening(*binds: Bind, tls: Tls | None = None) -> AsyncGenerator[str]:
    """The application on our listener; gives its address without the scheme."""
    stop = trio.Event()
    (listener,) = await open_listeners(binds or [TcpBind("127.0.0.1", 0)], backlog=100)
    address = address_of(listener).rpartition("//")[2]
    # A slow client finds its connection as it left it.
    limits = ServingLimits(idle_seconds=PATIENCE)
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(serve_listeners, talked, [listener], shutdown=stop, limits=limits, tls=tls)
        )
        yield address
        stop.set()


async def run(*command: str, data: bytes = b"") -> bytes:
    with trio.fail_after(PATIENCE):
        ended = await trio.run_process(command, stdin=data, capture_stdout=True)
    return bytes(ended.stdout)


async def curl(*arguments: str, data: bytes = b"") -> bytes:
    return await run(
        "curl",
        "--silent",
        "--show-error",
        "--fail-with-body",
        "--max-time",
        str(PATIENCE),
        *arguments,
        data=data,
    )


@needs("curl")
async def test_curl() -> None:
    body = b"x" * 300_000
    digest = hashlib.sha256(body).hexdigest()
    async with listening() as address:
        url = f"http://{address}"
        told = json.loads(await curl(f"{url}/echo?a=b"))
        assert (told["method"], told["query"], told["length"]) == ("GET", "a=b", 0)
        for how in (
            ["--data-binary", "@-"],
            ["--data-binary", "@-", "-H", "Expect: 100-continue"],
            ["--data-binary", "@-", "-H", "Transfer-Encoding: chunked"],
            ["--data-binary", "@-", "--http1.0"],
            ["--upload-file", "-"],
        ):
            told = json.loads(await curl(*how, f"{url}/echo", data=body))
            assert (told["length"], told["digest"]) == (len(body), digest), how
        told = json.loads(await curl("-F", "file=@-;filename=a.bin", f"{url}/echo", data=body))
        assert told["headers"]["content-type"].startswith("multipart/form-data")
        assert told["length"] > len(body)
        head = (await curl("--head", f"{url}/echo")).lower()
        assert head.startswith(b"http/1.1 200")
        assert b"content-length:" in head
        assert hashlib.sha256(await curl(f"{url}/long")).hexdigest() == LONG_DIGEST
        assert hashlib.sha256(await curl("--http1.0", f"{url}/long")).hexdigest() == LONG_DIGEST
        assert hashlib.sha256(await curl("--compressed", f"{url}/zipped")).hexdigest() == LONG_DIGEST
        assert json.loads(await curl("--location", "-d", "kept", f"{url}/elsewhere"))["query"] == "moved=1"
        # One connection for all of them, and what the second request says is not of the first.
        several = await curl(f"{url}/echo?n=[1-20]", "-w", "%{num_connects}\n", "-o", "/dev/null")
        assert several.split() == [b"1"] + [b"0"] * 19


@needs("curl")
async def test_curl_by_a_path_and_by_tls(tmp_path: Path) -> None:
    path = tmp_path / "bot.sock"
    async with listening(UnixBind(str(path))):
        assert json.loads(await curl("--unix-socket", str(path), "http://bot/echo"))["method"] == "GET"
    certificates = make_certificates("localhost")
    issued = certificates.authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    certificates.authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    async with listening(tls=server_context(tmp_path / "both.pem")) as address:
        url = f"https://localhost:{address.rpartition(':')[2]}"
        trusting = ["--cacert", str(tmp_path / "authority.pem")]
        told = json.loads(await curl(*trusting, "-d", "a=1", f"{url}/echo"))
        assert told["length"] == 3
        assert hashlib.sha256(await curl(*trusting, f"{url}/long")).hexdigest() == LONG_DIGEST
        with pytest.raises(subprocess.CalledProcessError):
            await curl(f"{url}/echo")  # nobody has told it of this authority


@needs("wrk")
async def test_wrk() -> None:
    """As many requests as it can make: not one fails."""
    async with listening() as address:
        told = await run(
            "wrk", "-t1", "-c50", "-d1s", "--timeout", f"{PATIENCE:.0f}s", f"http://{address}/echo"
        )
        assert int(re.search(rb"(\d+) requests in", told)[1]) > 0  # type: ignore[index]
        assert b"Non-2xx" not in told
        assert b"Socket errors" not in told


async def test_h11_with_all_requests_in_one_write() -> None:
    """h11 reads strictly: what it takes for an answer is one."""
    asked = h11.Connection(h11.CLIENT)
    async with listening() as address:
        host, _, port = address.rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as sock:
            data = b""
            for number in range(20):
                each = h11.Connection(h11.CLIENT)
                body = b"y" * number
                framing = ("Transfer-Encoding", "chunked") if number % 2 else ("Content-Length", str(number))
                request = h11.Request(
                    method="POST", target=f"/echo?{number}", headers=[("Host", "x"), framing]
                )
                for event in (request, h11.Data(data=body), h11.EndOfMessage()):
                    data += each.send(event) or b""
            await sock.send_all(data)
            for number in range(20):
                asked.send(
                    h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")])
                )
                asked.send(h11.EndOfMessage())
                answer = b""
                while not isinstance(event := asked.next_event(), h11.EndOfMessage):
                    if event is h11.NEED_DATA:
                        asked.receive_data(await sock.receive_some())
                    elif isinstance(event, h11.Data):
                        answer += event.data
                    else:
                        assert isinstance(event, h11.Response)
                        assert event.status_code == 200
                told = json.loads(answer)
                assert (told["query"], told["length"]) == (str(number), number)
                asked.start_next_cycle()


async def test_httpx() -> None:
    async with (
        listening() as address,
        httpx.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE) as asking,
    ):
        with trio.fail_after(PATIENCE):
            for _ in range(3):
                assert (await asking.post("/echo", json={"a": 1})).json()["length"] > 0
                assert (await asking.head("/echo")).status_code == 200
                assert (await asking.get("/none")).status_code == 204
                assert hashlib.sha256((await asking.get("/long")).content).hexdigest() == LONG_DIGEST
                assert len((await asking.get("/zipped")).content) == LONG
                assert (await asking.get("/last")).headers["connection"] == "close"


REQUESTS = """
import io, sys, requests
with requests.Session() as asking:
    for _ in range(3):
        assert asking.post(sys.argv[1] + "/echo", json={"a": 1}).json()["length"] > 0
        assert asking.post(sys.argv[1] + "/echo", data=iter([b"abc", b"de"])).json()["length"] == 5
        file = {"file": io.BytesIO(b"x" * 100_000)}
        assert asking.post(sys.argv[1] + "/echo", files=file).json()["length"] > 100_000
        assert asking.head(sys.argv[1] + "/echo").status_code == 200
        assert asking.get(sys.argv[1] + "/none").status_code == 204
        assert len(asking.get(sys.argv[1] + "/long").content) == int(sys.argv[2])
        assert len(asking.get(sys.argv[1] + "/zipped").content) == int(sys.argv[2])
        assert asking.post(sys.argv[1] + "/elsewhere", data="kept").json()["query"] == "moved=1"
        assert asking.get(sys.argv[1] + "/last").json() == "the last"
print("all of it")
"""

AIOHTTP = """
import asyncio, sys, aiohttp

async def parts():
    yield b"abc"
    yield b"de"

async def main():
    async with aiohttp.ClientSession(sys.argv[1]) as asking:
        async def one(number):
            async with asking.post("/echo", data=b"x" * number) as answer:
                assert (await answer.json())["length"] == number
        for _ in range(3):
            await asyncio.gather(*map(one, range(50)))
            async with asking.post("/echo", data=parts(), expect100=True) as answer:
                assert (await answer.json())["length"] == 5
            async with asking.head("/echo") as answer:
                assert answer.status == 200
            async with asking.get("/none") as answer:
                assert answer.status == 204
            async with asking.get("/long") as answer:
                assert len(await answer.read()) == int(sys.argv[2])
            async with asking.get("/zipped") as answer:
                assert len(await answer.read()) == int(sys.argv[2])
            async with asking.post("/elsewhere", data=b"kept") as answer:
                assert (await answer.json(content_type=None))["query"] == "moved=1"

asyncio.run(main())
print("all of it")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "script"), [("requests", REQUESTS), ("aiohttp", AIOHTTP)])
async def test_libraries_of_other_event_loops(module: str, script: str) -> None:
    pytest.importorskip(module)
    async with listening() as address:
        assert await run(sys.executable, "-c", script, f"http://{address}", str(LONG)) == b"all of it\n"


@pytest.mark.slow
@needs("nginx")
@pytest.mark.parametrize("by_path", [False, True])
async def test_nginx_in_front(by_path: bool, tmp_path: Path) -> None:
    """Its ways of passing requests on: on connections that stay, with bodies as they come, in HTTP/1.0."""
    path = tmp_path / "bot.sock"
    binds: list[Bind] = [UnixBind(str(path)) if by_path else TcpBind("127.0.0.1", 0)]
    body = bytes(range(256)) * 4000
    digest = hashlib.sha256(body).hexdigest()
    async with listening(*binds) as address:
        behind = f"unix:{path}" if by_path else address
        async with (
            nginx(behind, tmp_path) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as asking,
        ):
            with trio.fail_after(PATIENCE):
                for where in ("", "/unbuffered", "/old"):
                    for _ in range(3):
                        told = (await asking.post(f"{where}/echo", content=body)).json()
                        assert (told["length"], told["digest"]) == (len(body), digest)
                        got = (await asking.get(f"{where}/long")).content
                        assert hashlib.sha256(got).hexdigest() == LONG_DIGEST
                        assert (await asking.get(f"{where}/none")).status_code == 204

                async def one() -> None:
                    assert (await asking.post("/echo", content=b"abc")).json()["length"] == 3

                async with trio.open_nursery() as nursery:
                    for _ in range(60):
                        nursery.start_soon(one)
