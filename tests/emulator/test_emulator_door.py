"""Who may come in: pages in a developer's browser may not, and faults happen as planned."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

import httpx
import pytest
import trio
from emulated import CONTROL, Emulated, emulated

from tests.loopback import PATIENCE
from triobot.emulator.door import Message, Receive, RequestGuard, Send
from triobot.emulator.faults import EventFault, Fault, FaultPlan
from triobot.emulator.server import Emulator, serve_emulator
from triobot.errors import ConfigError

JSON = {"content-type": "application/json"}


async def make_user(platform: Emulated, headers: dict[str, str]) -> httpx.Response:
    return await platform.control.post("users", content=b'{"name": "Ali"}', headers=headers)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "localhost:8081.evil.example", ""]
)
async def test_other_host_names_are_refused_everywhere(tmp_path: Path, host: str) -> None:
    async with emulated(tmp_path) as platform:
        assert (await make_user(platform, {**JSON, "host": host})).status_code == 403
        for path in ("/sendMessage", "/nothing"):
            assert (await platform.platform.post(path, headers={"host": host})).status_code == 403
        assert (await platform.platform.get("/files/a/b", headers={"host": host})).status_code == 403
        assert list(platform.exchange.world.people) == []


async def test_two_host_headers_are_refused(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        answer = await platform.platform.get(
            "/files/a/b", headers=[("host", "127.0.0.1:8081"), ("host", "evil.example")]
        )
        assert answer.status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8081", 200),
        ("http://localhost:8081", 200),
        ("http://localhost:3000", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
async def test_only_our_own_pages_control(tmp_path: Path, origin: str, status: int) -> None:
    async with emulated(tmp_path) as platform:
        answer = await make_user(platform, {**JSON, "origin": origin})

        assert answer.status_code == status
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://evil.example", "null"])
async def test_pages_of_others_get_nothing_at_all(tmp_path: Path, origin: str) -> None:
    async with emulated(tmp_path) as platform:
        platform.exchange.plan.add(Fault(status=502, times=1))
        for path in ("/", "/page/main.js", "/files/a/b"):
            assert (await platform.platform.get(path, headers={"origin": origin})).status_code == 403
        answer = await platform.platform.post("/sendMessage", data={"a": "b"}, headers={"origin": origin})

        assert answer.status_code == 403
        # A form needs no preflight: it must not use up what is planned for the bot, nor be seen as the bot's.
        assert len(platform.exchange.plan.pending()) == 1
        assert list(platform.exchange.traffic.since(0)) == []


# Each of them was once routed to the control API: a router takes several spellings of a path for the same.
_SPELLINGS = (
    "//control/users",
    "///control//users",
    "/control//users",
    "/%63ontrol/users",
    "/%2fcontrol/users",
    "/%2f/control%2fusers",
    "http://127.0.0.1/control/users",
    "http://evil.example//control/users",
    "x:/control/users",
    "control/users",
)


async def test_no_spelling_of_a_path_leads_past_the_token() -> None:
    async with trio.open_nursery() as nursery:
        platform: Emulator = await nursery.start(
            partial(serve_emulator, port=0, bot_url=None, token="t", control_token=CONTROL)
        )
        authority = platform.base_url.rpartition("/")[2]
        host, _, port = authority.partition(":")
        body = '{"name": "Mallory"}'
        for method in ("GET", "POST"):
            for path in _SPELLINGS:
                # What any page may post without asking first, and what a program would.
                for kind in ("text/plain", "application/json"):
                    async with await trio.open_tcp_stream(host, int(port)) as stream:
                        await stream.send_all(
                            f"{method} {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: {kind}\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
                        )
                        answer = await stream.receive_some()
                    assert answer.split(b" ")[1] in (b"403", b"404", b"405"), (method, path, answer)
        assert list(platform.world.people) == []
        nursery.cancel_scope.cancel()


async def test_the_control_api_serves_only_what_the_door_let_in(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        door = platform.door

        async def hole(scope: Message, receive: Receive, send: Send) -> None:
            await door._inner(scope, receive, send)

        transport = httpx.ASGITransport(app=cast("httpx.ASGITransport", hole))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as client:
            headers = {"X-Triobot-Control": CONTROL}
            for path in ("/control/users", "/control/stream"):
                assert (await client.get(path, headers=headers)).status_code == 404


@pytest.mark.parametrize("token", ["", "wrong", CONTROL + "x"])
async def test_the_control_token_is_needed(tmp_path: Path, token: str) -> None:
    async with emulated(tmp_path) as platform:
        headers = {"X-Triobot-Control": token}
        assert (await make_user(platform, {**JSON, **headers})).status_code == 403
        assert (await platform.control.get("users", headers=headers)).status_code == 403
        assert (await platform.platform.get("/control/users")).status_code == 403


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""]
)
async def test_control_takes_json_only(tmp_path: Path, kind: str) -> None:
    async with emulated(tmp_path) as platform:
        assert (await make_user(platform, {"content-type": kind})).status_code == 403
        assert (
            await make_user(platform, {"content-type": "application/json; charset=utf-8"})
        ).status_code == 200


async def test_a_preflight_gets_no_permission(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        for path in ("/control/users", "/sendMessage"):
            answer = await platform.platform.options(
                path, headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
            )
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_addresses_of_other_machines_are_refused_unless_exposed() -> None:
    for host in ("0.0.0.0", "192.168.1.2", "example.org", "::"):
        with pytest.raises(ConfigError, match="loopback"):
            await serve_emulator(host=host, bot_url=None, token="t", control_token="c")


@pytest.mark.parametrize(
    "line", ["PUT /nothing", "PUT /", "POST /nothing", "POST /control/nothing", "GET /control/nothing"]
)
async def test_a_connection_goes_on_after_a_body_that_nobody_wanted(line: str) -> None:
    """Its body comes when the answer has begun: hypercorn once left such a connection open, and deaf."""
    async with trio.open_nursery() as nursery:
        platform: Emulator = await nursery.start(
            partial(serve_emulator, port=0, bot_url=None, token="t", control_token=CONTROL)
        )
        host, _, port = platform.base_url.removeprefix("http://").partition(":")
        head = f" HTTP/1.1\r\nHost: {host}:{port}\r\n"
        asks = f"{line}{head}X-Triobot-Control: {CONTROL}\r\nContent-Type: application/json\r\n"
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            with trio.fail_after(PATIENCE):
                await stream.send_all(f"{asks}Content-Length: 5\r\n\r\n".encode())
                first = await stream.receive_some()
                await stream.send_all(f"12345GET /page/main.js{head}\r\n".encode())
                second = b""
                while b"HTTP/1.1 200" not in second:
                    second += (piece := await stream.receive_some())
                    assert piece, first + second
        assert first.startswith(b"HTTP/1.1 40")
        nursery.cancel_scope.cancel()


async def test_a_body_that_never_comes_holds_an_answer_for_a_moment_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Then the server closes the connection, before the application hears that the sender has left."""
    told: list[str] = []
    left = trio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        told.append(message["type"])
        if message["type"] == "http.response.body":
            left.set()
            await trio.sleep(1)
            told.append("closed")

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:

            async def hear() -> None:
                told.append((await receive())["type"])

            nursery.start_soon(hear)
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})

    door = RequestGuard(application, plan=FaultPlan(), control_token="c", authorities=["a"])
    headers = [(b"host", b"a"), (b"content-length", b"5")]
    start = trio.current_time()
    await door({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive, send)
    assert told == ["http.response.start", "http.response.body", "closed", "http.disconnect"]
    assert trio.current_time() - start == 3


async def test_a_planned_status_answers_instead_and_does_nothing(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await platform.app.user("Ali")
        await ali.joins()
        await platform.app.post("faults", {"operation": "sendMessage", "status": 502, "times": 2})
        fields = {"chat_id": ali.chat_id, "type": "text", "data": "a"}

        statuses = [(await platform.perform("sendMessage", **fields)).status_code for _ in range(3)]

        assert statuses == [502, 502, 200]
        assert len(await ali.history()) == 1


async def test_latency_is_virtual_time_here(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with emulated(tmp_path) as platform:
        platform.exchange.plan.add(Fault(latency=30))
        start = trio.current_time()
        await platform.perform("sendAction", chat_id=1, type="typing")
        assert trio.current_time() - start == 30
        await platform.app.post("faults/clear", {})
        await platform.perform("sendAction", chat_id=1, type="typing")
        assert trio.current_time() - start == 30


def test_faults_are_used_up_in_their_order() -> None:
    plan = FaultPlan()
    always, once, twice = (
        Fault(latency=1),
        Fault(operation="upload", times=1),
        EventFault(type="text", times=2),
    )
    for fault in (once, always, twice):
        plan.add(fault)

    assert [plan.for_operation("upload") for _ in range(2)] == [once, always]
    assert plan.for_operation("sendMessage") == always
    assert [plan.for_event("text") is not None for _ in range(3)] == [True, True, False]
    assert plan.for_event("join") is None
    assert plan.pending() == (always,)


@pytest.mark.parametrize(
    "fault",
    [
        {"latency": -1},
        {"status": 200},
        {"drop": "sometimes"},
        {"times": 0},
        {"type": "text", "delay": "x"},
        {"type": "text", "duplicates": -1},
        {"operation": "x", "delay": 1},
    ],
)
async def test_impossible_faults_are_refused(tmp_path: Path, fault: dict[str, object]) -> None:
    async with emulated(tmp_path) as platform:
        assert (await platform.control.post("faults", json=fault)).status_code == 400
        assert platform.exchange.plan.pending() == ()
