"""A bot that shares its store with other processes: the bot always accepts events, and works while this
process has the store.

A standby stores events in the inbox, commits, and answers 200. The process that has the store handles the
events. When the store becomes free, a standby gets the store and starts the bot's work as after a stop or
kill; the standby's listener stays open. When a process loses the store, its work is cancelled, and the
process becomes a standby again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import trio

# Import the work's modules already now. The work begins at a takeover, and by then a deploy may have replaced
# the files.
from ..alarms import http_target as http_target
from ..alarms import targets as targets
from ..base.alarm_kinds import Alarm, OnAlarm, text_of
from ..base.authors import leaves, run_contained
from ..base.clock import SystemClock, WallClock
from ..conversations.data import Speech
from ..conversations.routes.router import Table
from ..conversations.running.lines import is_authors, is_between
from ..errors import StoreAwayError, StoreLockedError
from ..exact.sites import loaded_modules, read_file
from ..operator import orders as orders
from ..operator.api import OperatorApi
from ..seams.inbox import Quota
from ..seams.money import RaiseAlarm
from ..seams.writes import LeaseLostError
from ..store import Stamp, admission_at, is_made, wait_free
from ..store.server_clock import ServerClock, how_far
from ..webhook.answers import Readiness, TrafficCounters
from ..webhook.inbox import Inbox
from ..webhook.kept_secrets import FORMER_SECRET, SECRET, forget_former
from ..webhook.secrets import Secrets, read_kept
from .logs import KEY, Speaker, registered, speaking
from .settings import Settings
from .work import Intake, Runtime, covered, open_intake, open_work

if TYPE_CHECKING:
    from ..store.postgres.admitting import Admission

_log: Final = logging.getLogger("triobot")
Opens = Callable[..., AbstractAsyncContextManager[Runtime]]
# These errors end the work on a shared store, but not the process.
_PASSING: Final = (LeaseLostError, StoreAwayError, StoreLockedError)
_PAUSE: Final = 1.0
_AGAIN: Final = 0.1
_LOOK_EVERY: Final = 5.0
_PUT_EVERY: Final = 60.0


@final
class Standby:
    """A bot with a shared store, in this process. Listeners use a `Standby` like an `Intake`.

    Attributes:
        voice: the bot's identity in log lines.
        secrets: secrets of the bot's webhook.
        traffic: counters of requests refused by triobot's own listener.
        inbox: accepts events.
        intake: the intake on the store, while this process has the store.
        background: the bot's background tasks, which run while the bot works.
        clock: time of day for the bot's work.
    """

    def __init__(
        self, settings: Settings, clock: WallClock, on_alarm: OnAlarm | None, way: Admission
    ) -> None:
        self.settings = settings
        # The server's time of day, unless the author has passed a clock.
        self._server_clock = ServerClock(clock) if type(clock) is SystemClock else None
        self.clock: WallClock = self._server_clock or clock
        if self._server_clock is not None:
            way.heard = self._server_clock.heard
        self._on_alarm = on_alarm
        self._way = way
        self._stop = trio.Event()
        self._work: Runtime | None = None
        self._stands_by = self._worked = False
        self._told_of_clock = self._differs = False
        self._left: dict[str, RaiseAlarm] = {}
        self.secrets = Secrets.generate()  # replaced once the store's secrets are read
        self.voice = Speaker(settings.label, "", lambda text: text)
        self.traffic: TrafficCounters | None = None
        self.inbox = Inbox(way, clock=self.clock, quota=Quota(), alarm=self._ring)
        self.inbox.shared = True
        self.intake: Intake | None = None
        self.background: Sequence[Callable[[], Awaitable[None]]] = ()

    def _ring(self, alarm: Alarm) -> None:
        """Raise an alarm; a standby puts the alarm into the store, for the working process to send."""
        if self.intake is not None:
            self.intake.sink.ring(alarm)
        else:
            _log.error("ALARM %s: %s", alarm.kind, alarm.text)
            self._leave(alarm)

    def _leave(self, alarm: Alarm) -> None:
        text = f"{self._way.process}, which stands by: {alarm.text}"
        self._left[alarm.kind] = RaiseAlarm(alarm.kind, gethostname(), text, self.clock.now())

    async def watch(self) -> None:
        """Check this machine's clock, and put a standby's alarms into the store, until cancelled."""
        put_at = dict[str, float]()
        while True:
            await trio.sleep(_LOOK_EVERY)
            if (clock := self._server_clock) is not None:
                if clock.differs:
                    said = f"this machine's clock is {how_far(clock.differs)} the database server's."
                    alarm = Alarm("clock_differs", gethostname(), f"{said} {text_of('clock_differs', '')}")
                    # While the clocks differ, each check raises the alarm again. A standby logs the alarm
                    # only at the first of these checks.
                    (self._leave if self._told_of_clock and self.intake is None else self._ring)(alarm)
                self._told_of_clock = clock.differs != 0
            now = trio.current_time()
            for kind, left in list(self._left.items()):
                if now >= put_at.get(kind, now) and not self.inbox.failing:
                    with suppress(StoreAwayError):
                        await self._way.commit(left)
                        put_at[kind] = now + _PUT_EVERY
                        if self._left[kind] is left:
                            del self._left[kind]

    @property
    def apis(self) -> Sequence[OperatorApi]:
        """The operator API, while this process has the store."""
        return () if self.intake is None else [self.intake.api]

    def readiness(self) -> Readiness:
        """Return the state for ``/readyz``: ready if events are accepted, even if another process handles the
        events.
        """
        if self.intake is not None and self._work is not None:
            return self.intake.readiness()
        store = "unwritable" if self.inbox.failing else "ok"
        return Readiness(
            self._stands_by and store == "ok", {"store": store, "conversations": "standby", "outbox": "ok"}
        )

    def any_work(self) -> Runtime:
        """Return the running work.

        Raises:
            StoreAwayError: this process stands by.
        """
        if self._work is None:
            raise StoreAwayError("another process has the bot's store, and this one stands by; ask there")
        return self._work

    def prepare(self, kept: Mapping[str, str]) -> Sequence[int]:
        """Read the webhook's secrets and the log key from `kept`, the store's settings for the whole bot.
        Return the times until which the former secrets are accepted.
        """
        settings = self.settings
        untils: Sequence[int] = ()
        if settings.webhook_secret is not None:
            self.secrets = Secrets.parse(settings.webhook_secret.reveal())
        else:
            self.secrets, untils = read_kept(kept[SECRET], kept.get(FORMER_SECRET, ""), self.clock.now())
        self.voice = Speaker(settings.label, kept[KEY], partial(covered, settings, self.secrets))
        own = (file for _, file in loaded_modules() if is_authors(file) and not is_between(file))
        self._differs = "" in kept and not {read_file(file)[0] for file in own} <= {*json.loads(kept[""])}
        return untils

    async def keep(
        self, opens: Opens, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Work whenever no other process has the store, until `stop`. `task_status` reports the start once
        the process works or stands by.

        Args:
            opens: opens the work on an intake.

        Raises:
            ConfigError, StoreError: the store can't be used at all.
        """
        begun = reported = away = False

        def tell() -> None:
            nonlocal reported
            if not reported:
                reported = True
                task_status.started()

        while not self._stop.is_set():
            try:
                if not await self._wait_free(tell):
                    break
                begun = True
                await self._live(opens, tell)
                away = False
            except (*_PASSING, BaseExceptionGroup) as error:
                why = BaseExceptionGroup("", [error])
                if why.split(StoreLockedError)[1] is None:
                    continue  # another standby was faster, or the former process is back
                if self._stop.is_set() and why.split(LeaseLostError)[1] is None:
                    return  # another process continues the work, and this process was asked to stop
                if not begun or self._stop.is_set() or why.split(_PASSING)[1] is not None:
                    raise
                if why.subgroup(LeaseLostError) is not None:
                    _log.warning(
                        "another process has taken the store over; the work here was cut, and goes on there"
                    )
                else:
                    cause: BaseException = next(leaves(why))
                    if self._worked:
                        _log.warning("%s; work that needs the store was cut, and begins anew", cause)
                    elif not away:
                        _log.warning("%s; this process goes on standing by", cause)
                    away, self._worked = True, False
                    with trio.move_on_after(_PAUSE):
                        await self._stop.wait()
        tell()

    def stop(self) -> None:
        """Stop the work, and make `keep` return."""
        self._stop.set()

    async def _wait_free(self, tell: Callable[[], None]) -> bool:
        """Wait until no process has the store. Return False if `stop` was called."""

        def stands_by() -> None:
            self._stands_by = True
            _log.info("another process has the store; this one stands by, and takes events for it")
            if self._differs:
                _log.warning("this process has other code than the one that works: deploy one code to all")
            tell()

        async with trio.open_nursery() as nursery:

            async def stopped() -> None:
                await self._stop.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(stopped)
            await wait_free(self.settings.store, taken=stands_by)
            nursery.cancel_scope.cancel()
        return not self._stop.is_set()

    async def _live(self, opens: Opens, tell: Callable[[], None]) -> None:
        opening = open_intake(self.settings, self.clock, self._on_alarm, inbox=self.inbox)
        async with opening as intake:
            intake.traffic = self.traffic
            self.intake, self._way.store = intake, intake.store
            try:
                with speaking(intake.voice):
                    async with opens(intake) as self._work, trio.open_nursery() as nursery:
                        self._way.news = self._work.dispatcher.inbox.look_in_inbox
                        for run in self.background:
                            name = getattr(run, "__qualname__", None)
                            nursery.start_soon(run_contained, run, name=name)
                        if self._stands_by:
                            _log.info("this process has the store now, and works")
                        self._worked, self._differs = True, False
                        tell()
                        await self._stop.wait()
                        nursery.cancel_scope.cancel()
            finally:
                self.intake = self._way.store = self._work = None
                self._way.news = lambda: None


Front: TypeAlias = Intake | Standby
"""A bot's intake or standby, for a listener."""


@asynccontextmanager
async def open_standby(
    settings: Settings, clock: WallClock, on_alarm: OnAlarm | None = None
) -> AsyncGenerator[Standby]:
    """While the block runs, accept events for a bot with a store on a database server; see `open_turns`.

    Raises:
        ConfigError: the store belongs to another bot, or can't be used.
        StoreError: the store can't be reached.
    """
    made, way = await is_made(settings.store), admission_at(settings.store)
    standby = Standby(settings, clock, on_alarm, way)
    untils = standby.prepare(await _kept(settings, clock, way, made=made))
    async with way.running(), trio.open_nursery() as nursery:
        with registered(standby.voice):
            with speaking(standby.voice):
                nursery.start_soon(standby.inbox.run)
                nursery.start_soon(standby.watch)
                if untils:
                    nursery.start_soon(forget_former, standby.secrets, untils, standby.clock)
            yield standby
            nursery.cancel_scope.cancel()


async def _kept(settings: Settings, clock: WallClock, way: Admission, *, made: bool) -> Mapping[str, str]:
    """Return the store's settings for the whole bot, once this or another process has made the store."""
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    needed = {KEY} if settings.webhook_secret is not None else {KEY, SECRET}
    while True:
        try:
            if not made:
                async with open_intake(settings, clock):
                    made = True  # the store has its secret and key now
            if (kept := await way.settings(stamp)).keys() >= needed:
                return kept
            made = False  # another process made the store, but hasn't written the settings yet
        except StoreLockedError:
            made = True  # another process is making the store
        except StoreAwayError as error:
            _log.warning("%s; it begins anew", error)
            await trio.sleep(_PAUSE)
        await trio.sleep(_AGAIN)


@asynccontextmanager
async def open_turns(standby: Standby, table: Table, texts: Speech, **named: Any) -> AsyncGenerator[None]:
    """Work whenever this process has the store, while the block runs; then stop the work.

    Args:
        table, texts, named: as for `open_work`.

    Raises:
        ConfigError, StoreError: the store can't be used.
    """

    def opens(intake: Intake) -> AbstractAsyncContextManager[Runtime]:
        return open_work(intake, table, texts, **named)

    async with trio.open_nursery() as nursery:
        await nursery.start(standby.keep, opens)
        yield
        standby.stop()
