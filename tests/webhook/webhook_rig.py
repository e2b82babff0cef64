"""What the webhook's tests share: a store that can fail or wait, a clock, a server over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal, TypeAlias

import attrs
import hypercorn.trio
import trio
from hypercorn.config import Config
from quart_trio import QuartTrio

from tests.loopback import PATIENCE
from triobot.base.alarm_kinds import Alarm
from triobot.base.binding import TcpBind
from triobot.errors import StoreFullError
from triobot.seams.inbox import Acceptance, Arrival, Beginning, InboxRow, OverQuota, Quota, Redelivered
from triobot.seams.writes import KeepRaw, StoreStatistics, Write
from triobot.webhook.answers import Readiness, TrafficCounters
from triobot.webhook.app import build_app
from triobot.webhook.endpoint import Endpoint
from triobot.webhook.inbox import Inbox
from triobot.webhook.limits import Limits
from triobot.webhook.secrets import Secrets
from triobot.webhook.serving import answering, serve
from triobot.wire.events import Event, Message
from triobot.wire.ids import ChatId
from triobot.wire.platform_side import Body, encode_event

SECRET = "Zq3-mXw8_Lr5Tn2KdYb7PcHv"
OLD_SECRET = "old0old1old2old3old4abcdef"
START = 1_700_000_000_000


class Clock:
    """A time of day that tests move."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> int:
        return self.at


class FakeStore:
    """The store's rules for arrivals in memory, with switches for what a disk can do."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.rows: list[InboxRow] = []
        self.kept: list[KeepRaw] = []
        self.checks = 0
        self.full = False
        self.gate: trio.Event | None = None
        self.waiting_at_gate = 0
        self._last: dict[str, tuple[int, bool]] = {}

    async def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        also: Sequence[Write] = (),
        beginning: Beginning | None = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Acceptance:
        await self._turn()
        at, acknowledged = self._last.get(arrival.key or "", (-(10**12), True))
        window = 7 * 86_400_000 if arrival.once else 60_000
        if arrival.key is not None and arrival.at - at < window and (arrival.once or not acknowledged):
            return Redelivered()
        if sum(row.chat_id == arrival.chat_id for row in self.rows) >= quota.events_per_chat:
            return OverQuota(whole=False)
        if sum(len(row.body) for row in self.rows) + len(arrival.body) > quota.bytes_in_all:
            return OverQuota(whole=True)
        row = InboxRow(len(self.rows) + 1, arrival.chat_id, arrival.at, arrival.content_type, arrival.body)
        self.rows.append(row)
        if arrival.key is not None:
            self._last[arrival.key] = (arrival.at, False)
        if on_commit is not None:
            on_commit(row)
        await trio.lowlevel.checkpoint()  # where cancellation finds the event stored
        return row

    async def commit(self, *writes: Write) -> None:
        await self._turn()
        for write in writes:
            if isinstance(write, KeepRaw):
                self.kept.append(write)

    @property
    def answered(self) -> list[str]:
        return [key for key, (_, answered) in self._last.items() if answered]

    def note_answered(self, key: str) -> None:
        if key in self._last:
            self._last[key] = (self._last[key][0], True)

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        await trio.lowlevel.checkpoint()
        return [row for row in self.rows if row.chat_id == chat_id and row.seq > after][:limit]

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        await trio.lowlevel.checkpoint()
        return [row for row in self.rows if row.seq > after][:limit]

    async def unknown_effects(self) -> int:
        await trio.lowlevel.checkpoint()
        return 0

    async def setting(self, name: str) -> str | None:
        await trio.lowlevel.checkpoint()
        return None

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        await trio.lowlevel.checkpoint()
        return self.kept[-limit:]

    async def check(self) -> None:
        await self._turn()
        self.checks += 1

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(len(self.rows), sum(len(row.body) for row in self.rows), len(self.kept))

    async def _turn(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.gate is not None:
            self.waiting_at_gate += 1
            await self.gate.wait()
        if self.full:
            raise StoreFullError("the disk is full")


@attrs.define
class Rig:
    """An inbox with everything around it that a test looks at."""

    store: FakeStore
    clock: Clock
    inbox: Inbox
    traffic: TrafficCounters
    delivered: list[tuple[InboxRow, Event]]
    alarms: list[Alarm]
    app: QuartTrio
    endpoint: Endpoint
    readiness: list[Readiness]
    port: int = 0
    shutdown: trio.Event = attrs.Factory(trio.Event)
    stopped: trio.Event = attrs.Factory(trio.Event)

    @property
    def texts(self) -> list[str]:
        return [str(event.content) for _, event in self.delivered if isinstance(event, Message)]

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def ask(self, request: bytes) -> bytes:
        """Send bytes over a connection of their own, and read until the server closes it."""
        async with await self.connect() as stream:
            await stream.send_all(request)
            return await read_all(stream)


def make_rig(*, quota: Quota | None = None, limits: Limits | None = None, secrets: str = SECRET) -> Rig:
    clock = Clock()
    store = FakeStore(clock)
    delivered: list[tuple[InboxRow, Event]] = []
    alarms: list[Alarm] = []
    inbox = Inbox(
        store,
        clock=clock,
        quota=quota or Quota(),
        deliver=lambda row, event: delivered.append((row, event)),
        alarm=alarms.append,
    )
    traffic = TrafficCounters()
    readiness = [Readiness(True, {"store": "ok"})]
    known = Secrets.parse(secrets)
    endpoint = Endpoint(
        inbox, known, limits=limits or Limits(), readiness=lambda: readiness[0], traffic=traffic
    )
    app = build_app(lambda _: endpoint)
    return Rig(store, clock, inbox, traffic, delivered, alarms, app, endpoint, readiness)


Server: TypeAlias = Literal["direct", "hypercorn"]
"""Our own listener, or the server that others put their sites on."""


async def serve_rig(
    rig: Rig,
    server: Server,
    limits: Limits,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a rig's webhook on a port of its own, until it is told to stop."""
    bind = TcpBind("127.0.0.1", 0)
    if server == "direct":
        await serve(
            answering([rig.endpoint]),
            [bind],
            shutdown=rig.shutdown,
            limits=limits,
            traffic=rig.traffic,
            task_status=task_status,
        )
    else:
        config = Config()
        config.bind = ["127.0.0.1:0"]
        config.accesslog = config.errorlog = None
        config.include_server_header = False
        config.graceful_timeout = 0.5
        await hypercorn.trio.serve(
            rig.app,  # type: ignore[arg-type]
            config,
            shutdown_trigger=rig.shutdown.wait,
            mode="asgi",
            task_status=task_status,
        )


@asynccontextmanager
async def serving(
    *,
    quota: Quota | None = None,
    limits: Limits | None = None,
    secrets: str = SECRET,
    server: Server = "direct",
) -> AsyncGenerator[Rig, None]:
    """The webhook on a port of its own. Leaving the block without having stopped it cuts it off."""
    limits = limits or Limits(linger_seconds=0.2, settle_seconds=0.05, grace_seconds=2)
    rig = make_rig(quota=quota, limits=limits, secrets=secrets)

    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await serve_rig(rig, server, limits, task_status=task_status)
        rig.stopped.set()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.inbox.run)
            (address,) = await nursery.start(partial(run))
            rig.port = int(address.rsplit(":", 1)[1])
            yield rig
            nursery.cancel_scope.cancel()


def text_event(text: str, chat: int = 7, *, as_json: bool = False) -> Body:
    return encode_event(Message(ChatId(chat), text), as_json=as_json)


def form(text: str = "hello", chat: int = 7) -> bytes:
    return text_event(text, chat).data


def post(
    body: bytes,
    *,
    path: str = "/" + SECRET,
    content_type: str = "application/x-www-form-urlencoded",
    close: bool = True,
    length: int | None = None,
) -> bytes:
    """A whole request."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: bot",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def read_all(stream: trio.SocketStream) -> bytes:
    answer = bytearray()
    try:
        async for chunk in stream:
            answer += chunk
    except trio.BrokenResourceError:
        pass
    return bytes(answer)


async def read_answer(stream: trio.SocketStream) -> bytes:
    """One answer on a connection that stays open."""
    answer = bytearray()
    while b"\r\n\r\n" not in answer:
        chunk = await stream.receive_some()
        if not chunk:
            return bytes(answer)
        answer += chunk
    return bytes(answer)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def without_date(answer: bytes) -> bytes:
    return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.startswith(b"date:"))


def as_json(text: str, chat: int = 7) -> bytes:
    return json.dumps({"chat_id": chat, "type": "text", "data": text}).encode()


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something has happened."""
    while not condition():
        await trio.sleep(0.001)


def scope_of(path: str) -> dict[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"content-type", text_event("").content_type.encode()),
            (b"transfer-encoding", b"chunked"),
        ],
        "client": None,
        "server": None,
        "extensions": {},
        "state": {},
    }
