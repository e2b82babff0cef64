"""The bot's process in a test: it starts, is killed, starts again on the same store, and stops.

A kill cuts the process off: the store stays as it was, and no request leaves any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast, final

import httpx
import trio
from quart_trio import QuartTrio

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..conversations.inspection.checking import ReplayCheck
from ..conversations.services import Instead, OnFailure
from ..emulator.door import AsgiApp, Message, Receive, Send
from ..emulator.faults import Outage
from ..errors import ConfigError, StoreFullError
from ..runtime.bot import Bot, within
from ..runtime.settings import Settings
from ..runtime.work import Intake, Surroundings
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, OverQuota, Quota
from ..seams.resources import Provided
from ..seams.values import forget_met
from ..seams.writes import Accept, Forgotten, WorkSlots, Write
from ..store import MemoryRows, Store, open_memory
from ..webhook.inbox import EventStored, Unread, Unstorable
from ..wire.encode import Body
from ..wire.ids import ChatId
from .virtual import VirtualWallClock

# The application's own shutdown has a deadline of its own; nothing in a test takes this long.
_PATIENCE: Final = 3600.0


@final
class Crashable:
    """One process's hold on the store and on the network; `die` lets go of both at once.

    While the process is torn down, it still acts as a killed one could not: its writes are dropped, its
    requests never leave.
    """

    def __init__(self) -> None:
        self.dead = False

    def die(self) -> None:
        """Let no write reach the store, and no request the network, from now on."""
        self.dead = True


@final
class InsideTransport(httpx.AsyncBaseTransport):
    """Carries requests to an ASGI application in the same process.

    An answer that the application does not finish is a connection that broke, and while there is an outage
    none can be made: the client sees what it would see over a network.
    """

    def __init__(self, app: AsgiApp, outage: Outage) -> None:
        self._app = app
        self._outage = outage
        self._refusing = False
        self._inner = httpx.ASGITransport(self._whole)  # pyright: ignore[reportArgumentType]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request."""
        if self._refusing:
            await trio.lowlevel.checkpoint()
            raise httpx.ConnectError("nobody listens: the emulator refuses connections", request=request)
        return await self._inner.handle_async_request(request)

    async def keep_refusing(self) -> None:
        """Refuse connections while there is an outage, until cancelled."""
        while True:
            await self._outage.wait_begin()
            self._refusing = True
            await trio.sleep(self._outage.take())
            self._refusing = False

    async def _whole(self, scope: Message, receive: Receive, send: Send) -> None:
        finished = False

        async def watched(message: Message) -> None:
            nonlocal finished
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                finished = True
            await send(message)

        await self._app(scope, receive, watched)
        if not finished:
            raise httpx.RemoteProtocolError("the connection ended in the middle of the answer")


@final
class CrashableTransport(httpx.AsyncBaseTransport):
    """Requests of a process that may die."""

    def __init__(self, inner: httpx.AsyncBaseTransport, mortal: Crashable) -> None:
        self._inner = inner
        self._mortal = mortal

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request, unless it is too late."""
        if self._mortal.dead:
            await trio.sleep_forever()
        return await self._inner.handle_async_request(request)


@final
class CrashableStore:
    """The store of a process that may die; the store itself lives on.

    Here is what writes; what only reads is passed on.
    """

    def __init__(self, inner: Store, mortal: Crashable) -> None:
        self._inner = inner
        self._mortal = mortal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        also: Sequence[Write] = (),
        beginning: Beginning | None = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Acceptance:
        if self._mortal.dead:
            await trio.lowlevel.checkpoint()
            return OverQuota(whole=True)
        return await self._inner.accept(
            arrival, quota=quota, also=also, beginning=beginning, on_commit=on_commit
        )

    async def commit(self, *writes: Write) -> None:
        if self._mortal.dead:
            await trio.lowlevel.checkpoint()
            if any(isinstance(write, Accept) for write in writes):
                raise StoreFullError("the process is dead, and no event is acknowledged any more")
            return
        await self._inner.commit(*writes)

    def note_answered(self, key: str) -> None:
        if not self._mortal.dead:
            self._inner.note_answered(key)

    def note_consumed(self, seqs: Sequence[int]) -> bool:
        return self._mortal.dead or self._inner.note_consumed(seqs)

    def __setitem__(self, slot: int, number: int, /) -> None:
        """Note what is at work; see `at_work`."""
        if not self._mortal.dead:
            self._inner.at_work[slot] = number

    @property
    def at_work(self) -> WorkSlots:
        return self

    async def forget(self, chat_id: ChatId) -> Forgotten:
        if self._mortal.dead:
            await trio.sleep_forever()
        return await self._inner.forget(chat_id)


@final
class DrivenProcess:
    """Runs the bot, by itself or inside the application that it is mounted into, again and again.

    Args:
        nursery: where it runs.
        app: the application that the bot is mounted into, or None.
        rows: what the store holds; each process opens it anew.
        on_alarm: told of each alarm.
        on_failure: told of each error of the bot's own code.
        replays: checks each conversation while it runs, or None.
        instead: what runs in place of each step's function, and of background tasks; None: they run.

    Attributes:
        clock: of its machine.
        answered: how often an event was answered with this status; None while no process runs.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        bot: Bot,
        app: QuartTrio | None,
        *,
        settings: Settings,
        clock: VirtualWallClock,
        transport: httpx.AsyncBaseTransport,
        rows: MemoryRows,
        on_alarm: RaiseAlarm,
        on_failure: OnFailure,
        provided: Sequence[Provided],
        replays: ReplayCheck | None,
        instead: Instead | None = None,
    ) -> None:
        self._nursery = nursery
        self._bot = bot
        self._app = app
        self._settings = settings
        self.clock = clock
        self._transport = transport
        self._rows = rows
        self._on_alarm = on_alarm
        self._on_failure = on_failure
        self._provided = provided
        self._replays = replays
        self._instead = instead
        self.answered: Counter[int | None] = Counter()
        self._mortal = Crashable()
        self._intake: Intake | None = None
        self._scope = trio.CancelScope()
        self._stop = trio.Event()
        self._stopped = trio.Event()
        self._stopped.set()
        self._starting = trio.Lock()

    async def start(self) -> None:
        """Start, and return once events are accepted; do nothing while a process runs.

        It runs already where two tasks of a test killed the same process, and the other has started it again.
        """
        async with self._starting:
            if self._stopped.is_set():
                await self._nursery.start(self._live)

    async def stop(self) -> None:
        """Stop as a deploy does: come to rest within the grace period."""
        self._stop.set()
        with trio.move_on_after(_PATIENCE):
            await self._stopped.wait()

    async def kill(self) -> None:
        """Die as by ``kill -9``: what was not written is forgotten, what was not sent never leaves.

        A process that is being started comes up first.
        """
        while self._starting.locked():
            async with self._starting:
                pass
        self._mortal.die()
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    async def take(self, body: Body) -> int | None:
        """Answer an event as the webhook would; None while no process runs, or when it dies meanwhile."""
        status = await self._accept(body)
        self.answered[status] += 1
        return status

    async def _accept(self, body: Body) -> int | None:
        if self._intake is None:
            await trio.lowlevel.checkpoint()
            return None
        mortal, inbox = self._mortal, self._intake.inbox
        try:
            outcome = await inbox.accept(body.content_type, body.data)
        except trio.ClosedResourceError:
            return None  # it came at the very end of a stop
        if mortal.dead:
            return None
        match outcome:
            case EventStored():
                inbox.answered(outcome)
                return 200
            case Unread():
                return 200
            case Unstorable():
                return 400
            case _:
                return 503

    async def _live(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._mortal, self._scope = Crashable(), trio.CancelScope()
        self._stop, self._stopped = trio.Event(), trio.Event()
        try:
            async with open_memory(clock=self.clock, rows=self._rows) as inner:
                around = Surroundings(
                    settings=self._settings,
                    clock=self.clock,
                    transport=CrashableTransport(self._transport, self._mortal),
                    store=cast("Store", CrashableStore(inner, self._mortal)),
                    on_alarm=self._alarm,
                    on_failure=self._on_failure,
                    provided=self._provided,
                    opened=self._opened,
                    replays=self._replays,
                    instead=self._instead,
                )
                with self._scope, within(self._bot, around):
                    async with self._bot.running() if self._app is None else _served(self._app):
                        if self._intake is None:
                            raise ConfigError(
                                "the bot isn't mounted into this application: bot.mount(app, '/bot')"
                            )
                        task_status.started()
                        await self._stop.wait()
        finally:
            if self._mortal.dead:
                self._rows.crashed()
            # The next process knows nothing that this one has only met.
            forget_met()
            self._intake = None
            self._stopped.set()

    def _opened(self, intake: Intake) -> None:
        self._intake = intake

    def _alarm(self, alarm: Alarm) -> None:
        # It is the test that kills it time and again.
        if not self._mortal.dead and alarm.kind != "crash_loop":
            self._on_alarm(alarm)


@asynccontextmanager
async def _served(app: QuartTrio) -> AsyncGenerator[None]:
    """Run an application's lifespan as a server would, without a server.

    Raises:
        ConfigError: it did not start, or came to no good end; with its own words.
    """
    # Not by the application's own test_app(): that corrupts Trio's nurseries when it is cancelled or fails.
    asked, heard = trio.open_memory_channel[Message](2)
    said, told = trio.open_memory_channel[Message](4)

    async def settled(what: str) -> None:
        await asked.send({"type": f"lifespan.{what}"})
        if (answer := await told.receive())["type"] != f"lifespan.{what}.complete":
            raise ConfigError(f"the application's {what} failed: {answer.get('message', '')}")

    front = cast("Callable[[object, object, object], Awaitable[None]]", app)
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front, scope, heard.receive, said.send)
        await settled("startup")
        yield
        await settled("shutdown")
        nursery.cancel_scope.cancel()
