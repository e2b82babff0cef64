"""Broadcasts: one message to many receivers, as a job in the store.

`start` stores the receivers once, in pieces, and no message is sent before the last piece is durable. Then
one task for each broadcast carries out the broadcast's `BroadcastPlan`. At most `AT_ONCE` broadcasts send at
a time, and share the slots for broadcasts fairly. The lanes send replies first, and keep each chat's order.

Before a broadcast sends to receivers, it stores these receivers as *meant*. After a crash, the next process
continues after the last meant receiver. Meant receivers without an outcome are counted as unknown, so each
receiver gets the message at most once. With ``on_unknown="resend"`` the message is sent again to the
receivers with an unknown outcome.

An operator's request about broadcasts and its answer are plain JSON values:

====================================  ================================================================
``{"ask": "broadcast.list"}``         ``{"broadcasts": [{"key", "at", "state", "total", "sent", ...}]}``
``{"ask": "broadcast.status",``       ``{"broadcast": {...}}``; its state is ``none`` for an unknown key
``"key": ...}``
``{"ask": "broadcast.stop",``         ``{"stopped": true}``; false if there was nothing to stop
``"key": ...}``
====================================  ================================================================

No answer contains a message or a chat's id. The caller of `answer` chooses the transport: a running bot's
socket, or a command that has locked the store.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, final

import attrs
import trio

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..base.clock import WallClock
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
    Announcement,
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
from ..seams.writes import Write
from ..store import Store
from ..wire.content import Descriptor, Media
from ..wire.ids import ChatId
from ..wire.operations import Upload
from ..wire.rules import JsonValue
from .broadcast_plan import PAGE, BroadcastPlan, WindowRules
from .outbox import LaneOutbox

_log: Final = logging.getLogger("triobot.outbox")
AT_ONCE: Final = 4
"""Largest number of broadcasts that run at a time; later broadcasts wait."""
PIECE: Final = 500
"""Receivers per transaction of a capture; few enough to delay events only a little."""
_STOP_PATIENCE: Final = 2.0
_GRACE: Final = 5.0
_FLUSH_DEADLINE: Final = 5.0
_FULL_PAUSE: Final = 1.0
_TOO_MANY: Final = 429


@attrs.define(eq=False)
class _Capture:
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    stopped: bool = False
    forgotten: set[ChatId] = attrs.field(factory=set[ChatId])
    ended: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class _RunningBroadcast:
    """A running broadcast: its plan, its wake-up event, and the cancel scopes of its requests.

    Attributes:
        news: set when the task has something to do.
        telling: the chat of each request in flight, by the request's cancel scope.
        forgotten: chats to skip. The store deletes these chats' rows, but the task may have read some of
            these rows earlier.
        patient_until: when a stopped broadcast stops waiting for answers.
    """

    plan: BroadcastPlan
    announcement: Announcement
    news: trio.Event = attrs.field(factory=trio.Event)
    telling: dict[trio.CancelScope, ChatId] = attrs.field(factory=dict[trio.CancelScope, ChatId])
    forgotten: set[ChatId] = attrs.field(factory=set[ChatId])
    patient_until: float | None = None

    def give_up(self) -> None:
        """Cancel the requests in flight; their receivers get an unknown outcome."""
        for scope in self.telling:
            scope.cancel()

    def forget(self, chat_id: ChatId) -> None:
        """Skip a chat, and cancel its request in flight."""
        self.forgotten.add(chat_id)
        for scope, receiver in self.telling.items():
            if receiver == chat_id:
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
    """Continue unfinished broadcasts, and accept new broadcasts, while the block runs.

    At the block's end no further request is sent. Requests in flight get five seconds, and their outcomes are
    stored. If the outbox was closed or drained before, the end takes no time.

    Args:
        store: stores the broadcasts.
        outbox: sends each message.
        clock: clock of the stored start times.
        raise_alarm: called when the store can't be written.
        rules: bounds of the receivers in flight.
    """
    broadcasts = Broadcasts(store, outbox, clock, raise_alarm, rules)
    async with trio.open_nursery() as nursery:
        # Shielded: a cancelled `nursery.start` waits until its task ends, and this task only ends after
        # `rest`.
        with trio.CancelScope(shield=True):
            await nursery.start(broadcasts.live)
        try:
            yield broadcasts
        finally:
            broadcasts.rest()


@final
class Broadcasts:
    """All broadcasts of a store; `open_broadcasts` creates the object."""

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
        # Keys of the broadcasts to check, in start order.
        self._due: dict[str, None] = {}
        self._wake = trio.Event()
        self._resting = trio.Event()
        # Shielded: a request in flight may succeed while the program is cancelled, and its outcome must be
        # stored. `rest` sets the deadline.
        self._shield = trio.CancelScope(shield=True)
        self._idle = trio.lowlevel.ParkingLot()

    # --- calls by other modules

    async def start(
        self,
        key: str,
        announcement: Announcement,
        audience: AsyncIterable[ChatId],
        also: Callable[[], Awaitable[Sequence[Write]]] | None = None,
    ) -> bool:
        """Store the receivers of a broadcast and start the broadcast; see `triobot.Broadcast.start`.

        Args:
            also: returns writes for the transaction that starts the broadcast.
        """
        check_key(key)
        while (other := self._capturing.get(key)) is not None:
            await other.ended.wait()
        mine = self._capturing[key] = _Capture()
        try:
            look = partial(self._store.broadcasts.get, key)
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
            # `_look` reads the row, and then starts the broadcast, or deletes a broadcast with an incomplete
            # audience.
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
        """Commit, and retry until the store is available: the audience can't be iterated a second time."""
        await await_store(partial(self._store.commit, *writes))

    async def status(self, key: str) -> BroadcastStatus:
        """Return a broadcast's progress; the state is ``none`` for a key that was never started."""
        job = await self._store.broadcasts.get(key)
        return BroadcastStatus("none") if job is None else job.status

    async def stop(self, key: str, also: Callable[[], Awaitable[Sequence[Write]]] | None = None) -> bool:
        """Stop a broadcast; see `triobot.Broadcast.stop`.

        Args:
            also: returns writes for the transaction that stops the broadcast.
        """
        capture = self._capturing.get(key)
        if capture is not None:
            capture.stopped = True
            capture.scope.cancel()
            await capture.ended.wait()
        job = await self._store.broadcasts.get(key)
        if job is None or job.status.state not in ("sending", "stopping"):
            return capture is not None and job is not None and job.status.state == "stopped"
        writes = await also() if also and job.status.state == "sending" else ()
        await self._store.commit(TurnBroadcast(key, "stopping"), *writes)
        self._look_at(key)
        if (run := self._running.get(key)) is not None:
            run.plan.stopped = True
            self._begin_no_more(run)
        return job.status.state == "sending"

    def gone(self, key: str) -> Gone:
        """Return an iterator over the receivers known to have left, in audience order."""
        return Gone(self._store, key)

    async def forget(self, chat_id: ChatId) -> None:
        """Make all unfinished broadcasts send nothing more to a chat.

        Must be called before the chat's rows are deleted.
        """
        await trio.lowlevel.checkpoint()
        for capture in self._capturing.values():
            capture.forgotten.add(chat_id)
        for run in self._running.values():
            run.forget(chat_id)

    # --- running

    def rest(self) -> None:
        """Make all broadcasts pause until the next start of the bot: no further request is sent.

        Calls of `start` that are storing receivers continue.
        """
        if not self._resting.is_set():
            self._shield.deadline = trio.current_time() + _GRACE + _FLUSH_DEADLINE
        self._resting.set()
        self._wake.set()
        for run in self._running.values():
            run.plan.resting = True
            self._begin_no_more(run)

    def _begin_no_more(self, run: _RunningBroadcast) -> None:
        # Withdraw queued requests. The receivers of these requests certainly got nothing, so the outcomes
        # aren't unknown.
        for chat_id in list(run.telling.values()):
            self._outbox.refuse_waiting(chat_id, Urgency.BROADCAST)
        run.news.set()

    async def drain(self) -> None:
        """Wait, after `rest`, until the outcomes of all requests in flight are stored."""
        await trio.lowlevel.checkpoint()
        while self._running:
            await self._idle.park()

    async def live(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the broadcasts' tasks until the call of `rest`, and during the grace period after this call.

        `open_broadcasts` calls `live` and `rest`.
        """
        with self._shield:
            self._due |= {job.key: None for job in await self._store.broadcasts.all() if not job.status.over}
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
        """Start the due broadcasts, up to `AT_ONCE`, and delete broadcasts with an incomplete audience.

        Returns:
            False if the store was too full to delete a broadcast.
        """
        all_done = True
        for key in list(self._due):
            if key in self._running or key in self._capturing:
                # When the broadcast's task, or the call of `start`, ends, the key is added to `_due` again.
                del self._due[key]
                continue
            job = await self._store.broadcasts.get(key)
            if job is None or job.status.over or key in self._capturing:
                self._due.pop(key, None)
            elif job.status.state == "capturing":
                # If the store is full, the next call of `_look` reads the job again, because `start` may have
                # used the key meanwhile.
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
        # A stopping broadcast starts even if `AT_ONCE` broadcasts are sending: it sends nothing, and only
        # stores its end.
        return job.status.state == "stopping" or len(self._running) < AT_ONCE

    async def _resumed(self, job: BroadcastJob) -> _RunningBroadcast | None:
        stopping = job.status.state == "stopping"
        try:
            # A stopping broadcast sends nothing, so its content is not needed.
            announcement = Announcement("") if stopping else Announcement.load(job.content)
        except UnreadableRecordError as error:
            # Another version of the bot wrote the content. The broadcast waits until that version is started
            # again.
            _log.error("broadcast %r can't be carried on: %s", job.key, error)
            return None
        rows = await self._store.broadcasts.receivers(job.key, after=0, limit=4 * PAGE)
        doubtful = [row for row in rows if row.position <= job.meant]
        if doubtful:
            _log.warning("broadcast %r: %d receivers were on their way at a crash", job.key, len(doubtful))
        doubt = Outcome.AGAIN if announcement.on_unknown == "resend" else Outcome.UNKNOWN
        return _RunningBroadcast(BroadcastPlan(job, doubtful, self._rules, doubt=doubt), announcement)

    # --- one broadcast

    async def _carry(self, run: _RunningBroadcast) -> None:
        plan = run.plan
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    run.news = trio.Event()
                    if self._resting.is_set():
                        plan.resting = True
                    if (after := plan.wants) is not None:
                        plan.read(await self._store.broadcasts.receivers(plan.key, after=after, limit=PAGE))
                    plan.window.pace = self._outbox.rate
                    stride = plan.stride(trio.current_time())
                    if stride is None:
                        await self._wait(run)
                        continue
                    await self._commit(*stride.writes)
                    for receiver in plan.written(stride, trio.current_time()):
                        nursery.start_soon(self._tell, run, receiver)
                    if stride.last:
                        break
        finally:
            del self._running[plan.key]
            self._look_at(plan.key)
            self._idle.unpark_all()

    async def _wait(self, run: _RunningBroadcast) -> None:
        now = trio.current_time()
        until = run.plan.look_again(now)
        if run.plan.stopped:
            # If the platform doesn't answer, a stop waits for the answers only until `patient_until`. Then
            # the requests in flight end with an unknown outcome.
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
            if run.plan.stopped or run.plan.resting:
                outcome = Outcome.AGAIN
            elif receiver.chat_id not in run.forgotten:
                outcome = await self._send(run.announcement, receiver.chat_id)
        del run.telling[scope]
        if receiver.chat_id in run.forgotten and outcome is Outcome.UNKNOWN:
            outcome = Outcome.AGAIN  # the store deleted the receiver's row, so no outcome is stored
        if run.plan.came(receiver, outcome, trio.current_time()):
            run.news.set()

    async def _send(self, announcement: Announcement, chat_id: ChatId) -> Outcome:
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
                # The message may have been delivered before this unexpected error.
                _log.warning("a message of a broadcast failed with %s", type(error).__name__)
            return Outcome.UNKNOWN
        return Outcome.SENT

    async def uploaded(self, announcement: Announcement) -> Announcement:
        """Upload the announcement's file, once for all receivers.

        Returns:
            The announcement with the file's descriptor.
        """
        media = announcement.content
        if not isinstance(media, Media) or isinstance(media.source, Descriptor):
            return announcement
        descriptor = await self._outbox.perform(Upload.of(media), urgency=Urgency.BROADCAST)
        return attrs.evolve(announcement, content=attrs.evolve(media, source=descriptor))

    async def _commit(self, *writes: BroadcastWrite) -> None:
        """Commit as soon as the store has room; the broadcast sends nothing until then."""
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
    """Iterator over the receivers known to have left, in audience order, each once."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._after = 0
        self._page = deque[Receiver]()

    def __aiter__(self) -> Gone:
        return self

    async def __anext__(self) -> ChatId:
        if not self._page:
            found = await self._store.broadcasts.receivers(
                self._key, after=self._after, limit=PAGE, gone=True
            )
            if not found:
                raise StopAsyncIteration
            self._page.extend(found)
            self._after = found[-1].position
        return self._page.popleft().chat_id


async def stop_stored(store: Store, key: str) -> bool:
    """Set a broadcast's state to ``stopping``, in a store that no running bot has open.

    After its next start, the bot sends no further message of the broadcast.

    Returns:
        False if there was nothing to stop.
    """
    job = await store.broadcasts.get(key)
    if job is None or job.status.state != "sending":
        return False
    # After its next start, the bot counts the receivers in doubt, and ends the broadcast.
    await store.commit(TurnBroadcast(key, "stopping"))
    return True


async def answer(
    store: Store, stop: Callable[[str], Awaitable[bool]], question: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Answer an operator's request about broadcasts.

    Args:
        stop: `Broadcasts.stop` in a running bot, otherwise `stop_stored`.

    Raises:
        LocalProtocolError: the request is unknown, or names no key.
    """
    asked, key = question.get("ask"), question.get("key")
    if asked == "broadcast.list":
        return {"broadcasts": [view_of(job) for job in await store.broadcasts.all()]}
    if not isinstance(key, str):
        raise LocalProtocolError("key", "must name a broadcast")
    if asked == "broadcast.status":
        found = [view_of(job) for job in await store.broadcasts.all() if job.key == key]
        return {"broadcast": found[0] if found else {"key": key, "state": "none"}}
    if asked == "broadcast.stop":
        return {"stopped": await stop(key)}
    raise LocalProtocolError("ask", "must be a question about broadcasts")


def view_of(job: BroadcastJob) -> dict[str, JsonValue]:
    """Return a broadcast as plain JSON values, without its content."""
    return {"key": job.key, "at": job.at, **attrs.asdict(job.status)}
