"""The bot's process in a test: start, kill, start again on the same store, and stop.

After a kill, the process's store no longer changes, and the process sends no request.
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
from ..runtime.work import Intake, Surroundings, retention_of
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, OverQuota, Quota
from ..seams.resources import Provided
from ..seams.values import forget_met
from ..seams.writes import Accept, Forgotten, WorkSlots, Write
from ..store import Store
from ..store.memory import MemoryRows, open_memory
from ..webhook.inbox import EventStored
from ..wire.ids import ChatId
from ..wire.platform_side import Body
from .virtual import VirtualWallClock

# A limit that no stop in a test reaches: the application's shutdown has its own, shorter deadline.
_PATIENCE: Final = 3600.0


@final
class Crashable:
    """Access of one process to the store and the network; `die` ends both kinds of access at once.

    The code of a killed process still runs during the teardown. The writes of this code are dropped, and its
    requests are never sent.
    """

    def __init__(self) -> None:
        self.dead = False

    def die(self) -> None:
        """Drop the process's writes and requests from now on."""
        self.dead = True


@final
class InsideTransport(httpx.AsyncBaseTransport):
    """Sends requests to an ASGI application in the same process.

    The client sees the errors of a real network: an unfinished answer is a broken connection, and during an
    outage connections are refused.
    """

    def __init__(self, app: AsgiApp, outage: Outage) -> None:
        self._app = app
        self._outage = outage
        self._refusing = False
        self._inner = httpx.ASGITransport(self._whole)  # pyright: ignore[reportArgumentType]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, or raise ConnectError during an outage."""
        if self._refusing:
            await trio.lowlevel.checkpoint()
            raise httpx.ConnectError("nobody listens: the emulator refuses connections", request=request)
        return await self._inner.handle_async_request(request)

    async def keep_refusing(self) -> None:
        """Refuse connections during outages, until cancelled."""
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
    """Transport of a process that can be killed."""

    def __init__(self, inner: httpx.AsyncBaseTransport, mortal: Crashable) -> None:
        self._inner = inner
        self._mortal = mortal

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; wait for ever if the process is dead."""
        if self._mortal.dead:
            await trio.sleep_forever()
        return await self._inner.handle_async_request(request)


@final
class CrashableStore:
    """Store of a process that can be killed; the stored rows outlive the process.

    The methods defined here write to the store. All other attributes are taken from `inner`.
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
        """Store the number of a conversation while its code runs; see `at_work`."""
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
    """Runs the bot, alone or mounted in an application, in one process after another.

    Args:
        nursery: nursery for the process's tasks.
        app: application into which the bot is mounted, or None.
        rows: contents of the store, which each process opens again.
        on_alarm: called with each alarm.
        on_failure: called with each error of the bot's own code.
        replays: checks each conversation by replays while the conversation runs; None: no checks.
        instead: called in place of a step's function; no background task starts then. None: steps and
            background tasks run.
        fenced: returns the store that the bot gets in place of the given store.

    Attributes:
        clock: wall clock of the process's machine.
        intake: the running bot's intake of events; None while no process runs.
        answered: number of answers to events by HTTP status; None counts events without a running process.
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
        replays: ReplayCheck | None = None,
        instead: Instead | None = None,
        fenced: Callable[[Store], Store] = lambda store: store,
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
        self._fenced = fenced
        self.answered: Counter[int | None] = Counter()
        self._mortal = Crashable()
        self.intake: Intake | None = None
        self._scope = trio.CancelScope()
        self._stop = trio.Event()
        self._stopped = trio.Event()
        self._stopped.set()
        self._starting = trio.Lock()

    async def start(self) -> None:
        """Start a process, and return once the process accepts events. Do nothing while a process runs.

        A process runs already if two tasks of a test killed the same process, and one task has already
        started a new process.
        """
        async with self._starting:
            if self._stopped.is_set():
                await self._nursery.start(self._live)

    async def stop(self) -> None:
        """Stop the process gracefully within its grace period, as a deploy does."""
        self._stop.set()
        with trio.move_on_after(_PATIENCE):
            await self._stopped.wait()

    async def kill(self) -> None:
        """Kill the process as ``kill -9`` does: unwritten data is lost, unsent requests are never sent.

        A process that is starting finishes its start first.
        """
        while self._starting.locked():
            async with self._starting:
                pass
        self._mortal.die()
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._stopped.wait()

    async def take(self, body: Body) -> int | None:
        """Pass an event to the bot's inbox, and return the status that the webhook would answer.

        Returns: None if no process runs, or if the process dies before the answer.
        """
        status = await self._accept(body)
        self.answered[status] += 1
        return status

    async def _accept(self, body: Body) -> int | None:
        if self.intake is None:
            await trio.lowlevel.checkpoint()
            return None
        mortal, inbox = self._mortal, self.intake.inbox
        try:
            outcome = await inbox.accept(body.content_type, body.data)
        except trio.ClosedResourceError:
            return None  # the event came at the very end of a stop
        if mortal.dead:
            return None
        match outcome:
            case EventStored():
                inbox.answered(outcome)
                return 200
            case "unread":
                return 200
            case "unstorable":
                return 400
            case _:
                return 503

    async def _live(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._mortal, self._scope = Crashable(), trio.CancelScope()
        self._stop, self._stopped = trio.Event(), trio.Event()
        try:
            async with open_memory(
                clock=self.clock, retention=retention_of(self._settings), rows=self._rows
            ) as inner:
                around = Surroundings(
                    settings=self._settings,
                    clock=self.clock,
                    transport=CrashableTransport(self._transport, self._mortal),
                    store=self._fenced(cast("Store", CrashableStore(inner, self._mortal))),
                    on_alarm=self._alarm,
                    on_failure=self._on_failure,
                    provided=self._provided,
                    opened=self._opened,
                    replays=self._replays,
                    instead=self._instead,
                )
                with self._scope, within(self._bot, around):
                    async with self._bot.running() if self._app is None else _served(self._app):
                        if self.intake is None:
                            raise ConfigError(
                                "the bot isn't mounted into this application: bot.mount(app, '/bot')"
                            )
                        task_status.started()
                        await self._stop.wait()
        finally:
            if self._mortal.dead:
                self._rows.crashed()
            # A new process doesn't know the classes that this process registered while encoding values.
            forget_met()
            self.intake = None
            self._stopped.set()

    def _opened(self, intake: Intake) -> None:
        self.intake = intake

    def _alarm(self, alarm: Alarm) -> None:
        # Drop the alarm ``crash_loop``: the test's own kills cause the crash loop.
        if not self._mortal.dead and alarm.kind != "crash_loop":
            self._on_alarm(alarm)


@asynccontextmanager
async def _served(app: QuartTrio) -> AsyncGenerator[None]:
    """Run an application's lifespan as a server would, without a server.

    Raises:
        ConfigError: startup or shutdown failed; the error contains the application's message.
    """
    # The application's own test_app() isn't used: a cancelled or failed test_app() corrupts Trio's nurseries.
    asked, heard = trio.open_memory_channel[Message](2)
    said, answers = trio.open_memory_channel[Message](4)

    async def settled(what: str) -> None:
        await asked.send({"type": f"lifespan.{what}"})
        if (answer := await answers.receive())["type"] != f"lifespan.{what}.complete":
            raise ConfigError(f"the application's {what} failed: {answer.get('message', '')}")

    front = cast("Callable[[object, object, object], Awaitable[None]]", app)
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front, scope, heard.receive, said.send)
        await settled("startup")
        yield
        await settled("shutdown")
        nursery.cancel_scope.cancel()
