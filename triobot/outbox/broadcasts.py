"""Broadcasts: the same message to everybody, as jobs of the store.

An audience is captured once, in pieces, and nothing is sent before the last piece is durable. Each broadcast
then is one task that follows its `Course`; a few run at a time, and share the lanes' broadcast class fairly.
Replies go first: that is the lanes' business, and the chat's own lane keeps its order.

When the process dies, the next one goes on behind the last receiver who was meant. Those who were on their
way then are counted as unknown, so that each receiver is told at most once; or they are told again, if the
author would rather have that.

What an operator may ask is plain JSON values: one question in, one answer out.

====================================  ================================================================
``{"ask": "broadcast.list"}``         ``{"broadcasts": [{"key", "at", "state", "total", "sent", ...}]}``
``{"ask": "broadcast.status",``       ``{"broadcast": {...}}``; its state is ``none`` for an unknown key
``"key": ...}``
``{"ask": "broadcast.stop",``         ``{"stopped": true}``; false if there was nothing to stop
``"key": ...}``
====================================  ================================================================

No answer holds a message or a chat's id. How they travel
is not decided here: over a running bot's own socket, or inside a command that has taken the store's lock.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, final

import attrs
import trio

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..base.clock import WallClock
from ..base.frozen import guarded
from ..errors import (
    DeliveryUnknownError,
    ForbiddenError,
    LocalProtocolError,
    NotDeliveredError,
    RefusedError,
    StoreFullError,
    UnreadableRecordError,
)
from ..seams.broadcasts import (
    AddReceivers,
    BroadcastJob,
    BroadcastStatus,
    BroadcastWrite,
    DropBroadcast,
    OpenBroadcast,
    Outcome,
    Receiver,
    TurnBroadcast,
    check_key,
)
from ..seams.outbox import OnUnknown, Urgency
from ..seams.patience import await_store
from ..seams.values import decode_value, encode_value, register
from ..seams.writes import Write
from ..store import Store
from ..wire import content, markup
from ..wire.content import Content, Descriptor, Media
from ..wire.ids import ChatId
from ..wire.markup import InlineKeyboard
from ..wire.operations import SendMessage, Upload
from ..wire.rules import JsonValue
from .course import PAGE, Course, WindowRules
from .outbox import LaneOutbox

OnDoubt: TypeAlias = Literal["count", "resend"]
"""What becomes of a receiver whom the message may have reached: counted as unknown, or told again."""

_RECORDED: Final = (
    content.Image,
    content.Video,
    content.Audio,
    content.Voice,
    content.File,
    content.Contact,
    content.Location,
    content.Descriptor,
    markup.InlineKeyboard,
    markup.CallbackButton,
    markup.LinkButton,
)

_log: Final = logging.getLogger("triobot.outbox")
AT_ONCE: Final = 4
"""Broadcasts that run at a time; later ones wait, so that a hundred of them stay bounded."""
PIECE: Final = 500
"""Receivers that are written down at a time: a transaction that delays nobody's event by much."""
_STOP_PATIENCE: Final = 2.0
_GRACE: Final = 5.0
_FLUSH_DEADLINE: Final = 5.0
_FULL_PAUSE: Final = 1.0
_TOO_MANY: Final = 429


def _register() -> None:
    # Names that stay when a module moves; the same ones that other records use.
    for cls in (*_RECORDED, Announcement):
        register(cls, name=f"triobot.{cls.__name__}")


@final
@guarded
class Announcement:
    """What everybody is told. Media must have its descriptor: a file may be gone tomorrow."""

    content: Content = attrs.field(repr=False)
    keyboard: InlineKeyboard | None = attrs.field(default=None, repr=False)
    on_unknown: OnDoubt = "count"

    def to(self, chat_id: ChatId) -> SendMessage:
        """Return the operation that tells one receiver.

        Raises:
            LocalProtocolError: the content can't be sent to anybody.
        """
        return SendMessage(chat_id, self.content, inline_keyboard=self.keyboard)

    def dump(self) -> str:
        """Encode it as text, for the store."""
        _register()
        return encode_value(self)

    @classmethod
    def load(cls, text: str) -> Announcement:
        """Decode what `dump` wrote.

        Raises:
            UnreadableRecordError: another version wrote it.
        """
        _register()
        recorded = decode_value(text)
        if not isinstance(recorded, Announcement):
            raise UnreadableRecordError("this is no broadcast's content")
        return recorded


@attrs.define(eq=False)
class _Capture:
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    stopped: bool = False
    forgotten: set[ChatId] = attrs.field(factory=set[ChatId])
    ended: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class _RunningBroadcast:
    """A broadcast's task: its course, how to wake it, and how to give up those on their way.

    Who is forgotten has no row any more, but may have been read before.
    """

    course: Course
    announcement: Announcement
    news: trio.Event = attrs.field(factory=trio.Event)
    telling: dict[trio.CancelScope, ChatId] = attrs.field(factory=dict[trio.CancelScope, ChatId])
    forgotten: set[ChatId] = attrs.field(factory=set[ChatId])
    patient_until: float | None = None

    def give_up(self) -> None:
        """Stop waiting for answers: those on their way get an unknown outcome."""
        for scope in self.telling:
            scope.cancel()

    def forget(self, chat_id: ChatId) -> None:
        """Tell this one nothing."""
        self.forgotten.add(chat_id)
        for scope, told in self.telling.items():
            if told == chat_id:
                scope.cancel()


@asynccontextmanager
async def open_broadcasts(
    store: Store,
    outbox: LaneOutbox,
    *,
    clock: WallClock,
    raise_alarm: RaiseAlarm,
    rules: WindowRules | None = None,
) -> AsyncGenerator[Broadcasts]:
    """Carry on with what was started, and take more, while the block runs.

    At the end nobody more is told; those on their way get five seconds, and what became of them is
    written down. Close the outbox before, or let it come to rest: then that takes no time.

    Args:
        store: what outlives the process.
        outbox: carries each message.
        clock: the time of day.
        raise_alarm: told when the store can't be written.
        rules: how many are on their way at a time.
    """
    broadcasts = Broadcasts(store, outbox, clock, raise_alarm, rules)
    async with trio.open_nursery() as nursery:
        # Shielded: a cancelled start waits for its task to end, and this task waits to be told to rest.
        with trio.CancelScope(shield=True):
            await nursery.start(broadcasts.live)
        try:
            yield broadcasts
        finally:
            broadcasts.rest()


@final
class Broadcasts:
    """All broadcasts of a store. Made by `open_broadcasts`."""

    def __init__(
        self,
        store: Store,
        outbox: LaneOutbox,
        clock: WallClock,
        raise_alarm: RaiseAlarm,
        rules: WindowRules | None,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._raise_alarm = raise_alarm
        self._rules = rules
        self._capturing: dict[str, _Capture] = {}
        self._running: dict[str, _RunningBroadcast] = {}
        # Keys to be looked at, in the order in which they were started.
        self._due: dict[str, None] = {}
        self._wake = trio.Event()
        self._resting = trio.Event()
        # Shielded, because somebody on their way may be told although the program is being cancelled, and
        # what became of them must be written down: the deadline comes with `rest`.
        self._shield = trio.CancelScope(shield=True)
        self._idle = trio.lowlevel.ParkingLot()

    # --- what others call

    async def start(
        self,
        key: str,
        announcement: Announcement,
        audience: AsyncIterable[ChatId],
        also: Callable[[], Awaitable[Sequence[Write]]] | None = None,
    ) -> bool:
        """Capture an audience and begin to tell it; see `triobot.Broadcast.start`.

        Args:
            also: writes for the transaction by which it begins.
        """
        check_key(key)
        while (other := self._capturing.get(key)) is not None:
            await other.ended.wait()
        mine = self._capturing[key] = _Capture()
        try:
            look = partial(self._store.broadcast, key)
            job = await (await_store(look) if also else look())
            if job is not None and job.status.state != "capturing":
                return False
            with mine.scope:
                announcement = await self.uploaded(announcement)
                await self._write(OpenBroadcast(key, self._clock.now(), announcement.dump()))
                await self._capture(key, audience, mine.forgotten)
            if mine.stopped:
                await self._write(OpenBroadcast(key, self._clock.now(), ""), TurnBroadcast(key, "stopped"))
            else:
                await self._write(TurnBroadcast(key, "sending"), *(await also() if also else ()))
        finally:
            del self._capturing[key]
            mine.ended.set()
            # Captured, or given up half-way, or nobody knows: the row says which.
            self._look_at(key)
        return True

    async def _capture(self, key: str, audience: AsyncIterable[ChatId], forgotten: set[ChatId]) -> None:
        piece: list[ChatId] = []
        async for chat_id in audience:
            piece.append(chat_id)
            if len(piece) == PIECE:
                await self._write(AddReceivers(key, _without(piece, forgotten)))
                piece.clear()
        if piece:
            await self._write(AddReceivers(key, _without(piece, forgotten)))

    async def _write(self, *writes: Write) -> None:
        """Write once the store is there: what was read of an audience can't be read anew."""
        await await_store(partial(self._store.commit, *writes))

    async def status(self, key: str) -> BroadcastStatus:
        """Return how far a broadcast is; ``none`` for a key that was never started."""
        job = await self._store.broadcast(key)
        return BroadcastStatus("none") if job is None else job.status

    async def jobs(self) -> Sequence[BroadcastJob]:
        """Return all broadcasts, in the order in which they were started."""
        return await self._store.broadcasts()

    async def stop(self, key: str, also: Callable[[], Awaitable[Sequence[Write]]] | None = None) -> bool:
        """Start nothing more of a broadcast; see `triobot.Broadcast.stop`; `also` as for `start`."""
        capture = self._capturing.get(key)
        if capture is not None:
            capture.stopped = True
            capture.scope.cancel()
            await capture.ended.wait()
        job = await self._store.broadcast(key)
        if job is None or job.status.state not in ("sending", "stopping"):
            return capture is not None and job is not None and job.status.state == "stopped"
        told = await also() if also and job.status.state == "sending" else ()
        await self._store.commit(TurnBroadcast(key, "stopping"), *told)
        self._look_at(key)
        if (run := self._running.get(key)) is not None:
            run.course.stopped = True
            self._begin_no_more(run)
        return job.status.state == "sending"

    def gone(self, key: str) -> Gone:
        """Iterate over the receivers who have left, in the order of the audience, as far as is known."""
        return Gone(self._store, key)

    async def forget(self, chat_id: ChatId) -> None:
        """Tell a chat nothing that was started before now; its rows are the store's to delete, after this."""
        await trio.lowlevel.checkpoint()
        for capture in self._capturing.values():
            capture.forgotten.add(chat_id)
        for run in self._running.values():
            run.forget(chat_id)

    # --- life

    def rest(self) -> None:
        """Tell nobody more until the next start. Captures go on."""
        if not self._resting.is_set():
            self._shield.deadline = trio.current_time() + _GRACE + _FLUSH_DEADLINE
        self._resting.set()
        self._wake.set()
        for run in self._running.values():
            run.course.resting = True
            self._begin_no_more(run)

    def _begin_no_more(self, run: _RunningBroadcast) -> None:
        # Whoever waits for its turn is certainly not told, and must not be in doubt when patience ends.
        for chat_id in list(run.telling.values()):
            self._outbox.refuse_waiting(chat_id, Urgency.BROADCAST)
        run.news.set()

    async def drain(self) -> None:
        """Wait, after `rest`, until what became of everybody on their way is written down."""
        await trio.lowlevel.checkpoint()
        while self._running:
            await self._idle.park()

    async def live(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks until `rest`, and through the grace after it. `open_broadcasts` does both."""
        with self._shield:
            self._due |= {job.key: None for job in await self._store.broadcasts() if not job.status.over}
            async with trio.open_nursery() as nursery:
                task_status.started()
                while not self._resting.is_set():
                    self._wake = trio.Event()
                    all_done = await self._look(nursery)
                    if not self._resting.is_set():
                        with trio.move_on_after(math.inf if all_done else _FULL_PAUSE):
                            await self._wake.wait()
                with trio.move_on_after(_GRACE):
                    await self.drain()
                for run in self._running.values():
                    run.give_up()

    def _look_at(self, key: str) -> None:
        self._due[key] = None
        self._wake.set()

    async def _look(self, nursery: trio.Nursery) -> bool:
        """Begin what is due, as far as there is room; forget captures that nobody finished.

        Returns:
            False if the store was too full for that.
        """
        all_done = True
        for key in list(self._due):
            if key in self._running or key in self._capturing:
                # It looks at itself when it ends.
                del self._due[key]
                continue
            job = await self._store.broadcast(key)
            if job is None or job.status.over or key in self._capturing:
                self._due.pop(key, None)
            elif job.status.state == "capturing":
                # Not repeated here: when there is room, the key may have been started again.
                if await self._committed(DropBroadcast(key)):
                    self._due.pop(key, None)
                else:
                    all_done = False
            elif self._has_room(job) and not self._resting.is_set():
                self._due.pop(key, None)
                run = await self._resumed(job)
                if run is not None:
                    self._running[key] = run
                    nursery.start_soon(self._carry, run, name=f"broadcast {key}")
        return all_done

    def _has_room(self, job: BroadcastJob) -> bool:
        # What is being stopped has only to say so.
        return job.status.state == "stopping" or len(self._running) < AT_ONCE

    async def _resumed(self, job: BroadcastJob) -> _RunningBroadcast | None:
        stopping = job.status.state == "stopping"
        try:
            # Nobody is told what is being stopped: whether it can be read makes no difference.
            announcement = Announcement("") if stopping else Announcement.load(job.content)
        except UnreadableRecordError as error:
            # Another version of the bot wrote it: it waits for that.
            _log.error("broadcast %r can't be carried on: %s", job.key, error)
            return None
        rows = await self._store.receivers(job.key, after=0, limit=4 * PAGE)
        doubtful = [row for row in rows if row.position <= job.meant]
        if doubtful:
            _log.warning("broadcast %r: %d receivers were on their way at a crash", job.key, len(doubtful))
        doubt = Outcome.AGAIN if announcement.on_unknown == "resend" else Outcome.UNKNOWN
        return _RunningBroadcast(Course(job, doubtful, self._rules, doubt=doubt), announcement)

    # --- one broadcast

    async def _carry(self, run: _RunningBroadcast) -> None:
        course = run.course
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    run.news = trio.Event()
                    if self._resting.is_set():
                        course.resting = True
                    if (after := course.wants) is not None:
                        course.read(await self._store.receivers(course.key, after=after, limit=PAGE))
                    course.window.pace = self._outbox.rate
                    stride = course.stride(trio.current_time())
                    if stride is None:
                        await self._wait(run)
                        continue
                    await self._commit(*stride.writes)
                    for receiver in course.written(stride, trio.current_time()):
                        nursery.start_soon(self._tell, run, receiver)
                    if stride.last:
                        break
        finally:
            del self._running[course.key]
            self._look_at(course.key)
            self._idle.unpark_all()

    async def _wait(self, run: _RunningBroadcast) -> None:
        now = trio.current_time()
        until = run.course.look_again(now)
        if run.course.stopped:
            # A stop is prompt, also while the platform doesn't answer: who is on their way then is unknown.
            if run.patient_until is None:
                run.patient_until = now + _STOP_PATIENCE
            if now >= run.patient_until:
                run.give_up()
            else:
                until = min(until, run.patient_until)
        with trio.move_on_at(until):
            await run.news.wait()

    async def _tell(self, run: _RunningBroadcast, receiver: Receiver) -> None:
        outcome = Outcome.UNKNOWN
        with trio.CancelScope() as scope:
            run.telling[scope] = receiver.chat_id
            if run.course.stopped or run.course.resting:
                outcome = Outcome.AGAIN
            elif receiver.chat_id not in run.forgotten:
                outcome = await self._told(run.announcement, receiver.chat_id)
        del run.telling[scope]
        if receiver.chat_id in run.forgotten and outcome is Outcome.UNKNOWN:
            outcome = Outcome.AGAIN  # changes nothing, because its row has gone
        if run.course.came(receiver, outcome, trio.current_time()):
            run.news.set()

    async def _told(self, announcement: Announcement, chat_id: ChatId) -> Outcome:
        on_unknown = OnUnknown.RESEND if announcement.on_unknown == "resend" else OnUnknown.RAISE
        try:
            await self._outbox.perform(
                announcement.to(chat_id), urgency=Urgency.BROADCAST, on_unknown=on_unknown
            )
        except ForbiddenError:
            return Outcome.GONE
        except NotDeliveredError:
            return Outcome.AGAIN
        except RefusedError as error:
            return Outcome.AGAIN if error.status == _TOO_MANY else Outcome.FAILED
        except LocalProtocolError:
            return Outcome.FAILED
        except Exception as error:
            if not isinstance(error, DeliveryUnknownError):
                # Whatever it is, it may have come after the message.
                _log.warning("a message of a broadcast failed with %s", type(error).__name__)
            return Outcome.UNKNOWN
        return Outcome.SENT

    async def uploaded(self, announcement: Announcement) -> Announcement:
        """Hand a file's bytes to the platform, once for all receivers; return what names it there."""
        media = announcement.content
        if not isinstance(media, Media) or isinstance(media.source, Descriptor):
            return announcement
        descriptor = await self._outbox.perform(Upload.of(media), urgency=Urgency.BROADCAST)
        return attrs.evolve(announcement, content=attrs.evolve(media, source=descriptor))

    async def _commit(self, *writes: BroadcastWrite) -> None:
        """Write, as soon as there is room: nobody is told meanwhile."""
        while True:
            if not writes or await self._committed(*writes):
                return
            await trio.sleep(_FULL_PAUSE)

    async def _committed(self, *writes: BroadcastWrite) -> bool:
        try:
            await self._store.commit(*writes)
        except StoreFullError as error:
            text = f"the store can't be written: {error.remedy}"
            self._raise_alarm(Alarm("store_unwritable", "store", text))
            return False
        return True


def _without(piece: Sequence[ChatId], forgotten: set[ChatId]) -> tuple[ChatId, ...]:
    return tuple(chat_id for chat_id in piece if chat_id not in forgotten)


@final
class Gone:
    """The receivers who have left, in the order of the audience, as far as is known; each once."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._after = 0
        self._page = deque[Receiver]()

    def __aiter__(self) -> Gone:
        return self

    async def __anext__(self) -> ChatId:
        if not self._page:
            found = await self._store.receivers(self._key, after=self._after, limit=PAGE, gone=True)
            if not found:
                raise StopAsyncIteration
            self._page.extend(found)
            self._after = found[-1].position
        return self._page.popleft().chat_id


class AnsweringBroadcasts(Protocol):
    """What operators' questions are answered from: `Broadcasts` in a running bot, else `StoredBroadcasts`."""

    async def jobs(self) -> Sequence[BroadcastJob]:
        """Return all broadcasts, in the order in which they were started."""
        ...

    async def stop(self, key: str) -> bool:
        """Start nothing more of a broadcast; False if there was nothing to stop."""
        ...


@final
class StoredBroadcasts:
    """The broadcasts of a store that no bot has open."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def jobs(self) -> Sequence[BroadcastJob]:
        """Return all broadcasts, in the order in which they were started."""
        return await self._store.broadcasts()

    async def stop(self, key: str) -> bool:
        """Let the next start of the bot tell nobody more."""
        job = await self._store.broadcast(key)
        if job is None or job.status.state != "sending":
            return False
        # The next start counts those who were on their way, and ends it.
        await self._store.commit(TurnBroadcast(key, "stopping"))
        return True


async def answer(broadcasts: AnsweringBroadcasts, question: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Answer an operator's question about broadcasts.

    Raises:
        LocalProtocolError: it is none, or names no key.
    """
    asked, key = question.get("ask"), question.get("key")
    if asked == "broadcast.list":
        return {"broadcasts": [view_of(job) for job in await broadcasts.jobs()]}
    if not isinstance(key, str):
        raise LocalProtocolError("key", "must name a broadcast")
    if asked == "broadcast.status":
        found = [view_of(job) for job in await broadcasts.jobs() if job.key == key]
        return {"broadcast": found[0] if found else {"key": key, "state": "none"}}
    if asked == "broadcast.stop":
        return {"stopped": await broadcasts.stop(key)}
    raise LocalProtocolError("ask", "must be a question about broadcasts")


def view_of(job: BroadcastJob) -> dict[str, JsonValue]:
    """Return a broadcast as plain JSON values, without its content."""
    return {"key": job.key, "at": job.at, **attrs.asdict(job.status)}
