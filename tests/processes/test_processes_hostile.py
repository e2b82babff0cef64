"""Strangers and broken senders among good ones, against a running process."""

from __future__ import annotations

import contextlib
import random
import resource
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trio

from tests.loopback import PATIENCE, Users, open_platform, text_event
from tests.processes.process import ROOT, SECRET, get, running_bot

pytestmark = pytest.mark.processes

FORM = b"application/x-www-form-urlencoded"
JSON = b"application/json"


def request(body: bytes, *headers: bytes, path: str = SECRET, kind: bytes = FORM) -> bytes:
    """A post with the right length, unless the headers say otherwise."""
    lines = [b"POST /%s HTTP/1.1" % path.encode(), b"Host: bot", b"Content-Type: " + kind]
    if not any(header.lower().startswith(b"content-length") for header in headers):
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, *headers, b"", b""]) + body


def field(**fields: object) -> bytes:
    """A form."""
    return urlencode(fields).encode()


PLACES = 100
NESTED = b'{"chat_id": 66, "type": "text", "from": "{}", "data": ' + b"[" * 200_000
# What is asked, and the statuses that are right; an empty set: whatever, as long as nobody else is harmed.
HOSTILE: dict[str, tuple[bytes, set[int]]] = {
    "wrong secret": (request(text_event(66, "no"), path="x" * 24), {404}),
    "a secret that is not ASCII": (request(text_event(66, "no"), path="%D8%B1" * 8), {404}),
    "no secret": (request(text_event(66, "no"), path=""), {404}),
    "too long, told": (request(b"", b"Content-Length: 99999999999"), {413}),
    "too long, whole": (request(b"data=" + b"x" * 3_000_000), {413}),
    "no length at all": (request(b"zz", b"Transfer-Encoding: chunked", b"Content-Length: 2"), {400}),
    "two framings": (
        request(
            b"0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n", b"Transfer-Encoding: chunked", b"Content-Length: 5"
        ),
        {400},
    ),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), {0, 400}),
    "endless header": (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000, {0, 400, 431}),
    "an upgrade": (
        b"GET /x HTTP/1.1\r\nHost: bot\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: !!!\r\n\r\n",
        set(),
    ),
    "200,000 brackets": (request(NESTED, kind=JSON), {200}),
    "a form of 200,000 brackets": (
        request(field(chat_id=66, type="contact", data="[" * 200_000)),
        {200},
    ),
    "a lone surrogate": (
        request(b'{"chat_id": 66, "type": "text", "data": "\\ud800", "from": "{}"}', kind=JSON),
        {200, 400},
    ),
    "bytes that are no text": (request(b"chat_id=66&type=text&data=%ff%fe%00"), {200, 400}),
    "a chat beyond 64 bits": (request(field(chat_id=2**63, type="text", data="x")), {200, 400}),
    "5,000 digits": (request(field(chat_id="9" * 5000, type="text", data="x")), {200, 400}),
    "5,000 digits in JSON": (request(b'{"chat_id": ' + b"9" * 5000 + b"}", kind=JSON), {200, 400}),
    "digits of another script": (request(field(chat_id="۶۶", type="text", data="x")), {200, 400}),
    "two chats": (request(b"chat_id=66&chat_id=67&type=text&data=x"), {200, 400}),
    "an unknown type": (request(field(chat_id=66, type="x" * 5000, data="x")), {200, 400}),
    "nothing": (request(b""), {200, 400}),
    "50,000 fields": (request(b"&".join(b"a%d=1" % n for n in range(50_000))), {200, 400}),
}


async def status_of(port: int, data: bytes) -> int:
    """Send it all, and read the status of the answer; 0 for none."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        answer = b""
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                with contextlib.suppress(trio.BrokenResourceError):  # refused before it was all written
                    await stream.send_all(data)

            nursery.start_soon(write)
            try:
                while b"\r\n\r\n" not in answer:
                    more = await stream.receive_some(65536)
                    if not more:
                        break
                    answer += more
            except trio.BrokenResourceError:
                pass
            nursery.cancel_scope.cancel()
        return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.slow
async def test_hostile_bodies_among_good_ones_harm_nobody(tmp_path: Path) -> None:
    """Every one gets its own status, everybody else an answer, and the process lives in sane memory."""
    order = random.Random(7)
    async with open_platform() as platform:
        async with running_bot("bot", platform=platform.url, store=tmp_path / "bot.db") as (process, port):
            users = Users(port, f"/{SECRET}")
            statuses: dict[str, set[int]] = {name: set() for name in HOSTILE}

            async def be_good(chat: int) -> None:
                async with users.connect() as line:
                    for number in range(40):
                        with trio.fail_after(PATIENCE):
                            assert await users.say(line, chat, str(number)) == 200

            async def be_bad() -> None:
                for name in order.sample(sorted(HOSTILE), len(HOSTILE)):
                    with trio.fail_after(PATIENCE):
                        statuses[name].add(await status_of(port, HOSTILE[name][0]))

            async with trio.open_nursery() as nursery:
                for chat in range(1, 9):
                    nursery.start_soon(be_good, chat)
                for _ in range(3):
                    nursery.start_soon(be_bad)
            # Some hostile bodies are messages, too, of chat 66.
            await platform.wait_until(lambda: sum(len(platform.texts[chat]) for chat in range(1, 9)) >= 320)

            wrong = {
                name: statuses[name]
                for name, (_, right) in HOSTILE.items()
                if right and not statuses[name] <= right
            }
            assert wrong == {}
            assert process.popen.poll() is None
            assert b" 200 " in await get(port, "/healthz")
            assert process.resident < 200_000_000
        assert {chat: platform.texts[chat] for chat in range(1, 9)} == users.accepted


async def _drip(port: int, start: bytes) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(start)
        while True:
            await trio.sleep(0.2)
            await stream.send_all(b"x")


async def _say_half_and_leave(port: int) -> None:
    while True:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(request(text_event(66, "half"))[:-3])


async def _promise_much(port: int) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request(b"x" * 900_000, b"Content-Length: 1000000"))
        await trio.sleep_forever()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sender",
    [
        lambda port: _drip(port, request(b"", b"Content-Length: 1000")),
        lambda port: _drip(port, b"GET /"),
        _say_half_and_leave,
        _promise_much,
    ],
    ids=["slow body", "slow header", "truncated", "huge and unfinished"],
)
async def test_slow_and_truncated_senders_keep_nobody_waiting(
    tmp_path: Path, sender: Callable[[int], Awaitable[None]]
) -> None:
    """A hundred of them, and each good request is answered at once; none of theirs becomes an event."""
    async with open_platform() as platform:
        async with running_bot("bot", platform=platform.url, store=tmp_path / "bot.db") as (process, port):
            users = Users(port, f"/{SECRET}")

            async def be_bad() -> None:
                with contextlib.suppress(OSError, trio.BrokenResourceError):
                    await sender(port)

            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(be_bad)
                await trio.sleep(0.5)
                async with users.connect() as line:
                    for number in range(20):
                        with trio.fail_after(PATIENCE):
                            assert await users.say(line, 1, str(number)) == 200
                await platform.wait_until(lambda: platform.total == 20)
                assert process.resident < 250_000_000
                nursery.cancel_scope.cancel()
            assert await process.stop() == 0
        assert dict(platform.texts) == dict(users.accepted)


@contextlib.asynccontextmanager
async def attacked(kind: str, many: int, port: int) -> AsyncGenerator[None]:
    """An attacker in a process of its own, which opens another connection for each that is closed on it."""
    command = [sys.executable, "-m", "tests.benchmarks.attacker", kind, str(many), str(port), SECRET]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.run_process, command, cwd=ROOT, check=False))
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "heads", "bodies", "strange", "busy", "unread"])
async def test_a_full_listener_hears_each_good_event(tmp_path: Path, kind: str) -> None:
    """More connections than there are places, in a process of their own: no good event fails."""
    many = 600 if kind == "busy" else 3 * PLACES
    async with open_platform() as platform:
        environ = {"TRIOBOT_CONNECTIONS": str(PLACES)}
        store = tmp_path / "bot.db"
        async with running_bot("bot", platform=platform.url, store=store, environ=environ) as (process, port):
            users = Users(port, f"/{SECRET}")
            async with attacked(kind, many, port):
                await _until_full(process.popen.pid)
                await _ten_are_heard(users)
                await platform.wait_until(lambda: platform.total == 10)
            assert await process.stop() == 0
        assert dict(platform.texts) == dict(users.accepted)


@pytest.mark.slow
async def test_descriptors_that_run_out_cost_no_event_and_few_lines(tmp_path: Path) -> None:
    """Who waits for longest gives way, and the log is not flooded."""
    log = tmp_path / "log"
    async with open_platform() as platform:
        store = tmp_path / "bot.db"
        async with running_bot("bot", platform=platform.url, store=store, log=log) as (process, port):
            users = Users(port, f"/{SECRET}")
            pid = process.popen.pid
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (_open_files(pid) + 60, hard))
            async with attacked("silent", 300, port):
                with trio.fail_after(PATIENCE):
                    while "can be taken now" not in process.output:
                        await trio.sleep(0.05)
                await _ten_are_heard(users)
                await platform.wait_until(lambda: platform.total == 10)
            assert await process.stop() == 0
        assert process.output.count("can be taken now") == 1
        assert len(process.output.splitlines()) < 20
        assert dict(platform.texts) == dict(users.accepted)


async def _ten_are_heard(users: Users) -> None:
    """Each over a connection of its own, two at a time."""

    async def say(first: int) -> None:
        for number in range(first, first + 5):
            assert await users.calls(number, "hello") == 200

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, 1)
            nursery.start_soon(say, 6)


async def _until_full(pid: int) -> None:
    with trio.fail_after(PATIENCE):
        while _open_files(pid) < PLACES:
            await trio.sleep(0.05)


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
