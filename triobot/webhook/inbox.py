"""From a request's body to a durable event: decodes, stores and hands it on, all before it is answered.

When `Inbox.accept` returns, an event is in the store and has been handed on, in the order of the store's
rows. A body that can't be read is kept as it came and answered 200, since the platform would only send the
same bytes again. Nothing here knows HTTP: `endpoint` turns an outcome into a status.

After each answer the store is told. The platform repeats what it got no answer to, and users say the same
thing twice. An equal event is a repetition only if the earlier one's 200 was not fully written. The store
therefore notes each answer at once, in a way that outlives the process.

A kill may come between an answer and its note, whichever is first. If the note came first, the platform would
repeat an event that counts as answered, and the event would be handled twice. As the note comes second, the
worst case is a user who says the same again within a minute and is taken for the platform.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, assert_never, final

import attrs
import trio

from ..base.alarm_kinds import Alarm, RaiseAlarm, text_of
from ..base.clock import WallClock, steady_time
from ..base.frozen import frozen
from ..errors import LocalProtocolError, RemoteProtocolError, StoreError
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, OverQuota, Quota, Redelivered, StoreEarly
from ..seams.writes import KeepRaw, StoreStatistics
from ..wire.decode import decode_event
from ..wire.encode import event_key
from ..wire.events import Event, UnknownEvent

_log: Final = logging.getLogger("triobot.webhook")
_LOOK_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 60.0


@final
@frozen
class EventStored:
    """The event is durable, new or not. Answer 200, then call `Inbox.answered` with this.

    Attributes:
        repeated: the store had it already; it was not handed on again.
        key: of the delivery; None if an equal one is a repetition, answered or not.
    """

    repeated: bool
    key: str | None = attrs.field(repr=False)


@final
@frozen
class Unread:
    """The body can't be read; it is kept as it came. Answer 200."""


@final
@frozen
class NoRoom:
    """Not stored: too much waits, in this chat or (`whole`) altogether. Answer 503."""

    whole: bool


@final
@frozen
class Unwritable:
    """Not stored: the store could not write. Answer 503."""


@final
@frozen
class Unreached:
    """Not stored: the sender has left, and another process may take the event in. Answer 503."""


@final
@frozen
class Unstorable:
    """Not stored, and never will be: no store holds such a value. Answer 400."""


Outcome: TypeAlias = EventStored | Unread | NoRoom | Unwritable | Unreached | Unstorable


class Admits(Protocol):
    """What takes events in: a store, or the way to one that another process may have.

    Raises, from every method that waits: as `triobot.store.Store`.
    """

    def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        beginning: Beginning | None = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Awaitable[Acceptance]:
        """Store an event, unless it is here or there is no room; see `triobot.store.Store.accept`."""
        ...

    async def commit(self, kept: KeepRaw, /) -> None:
        """Keep a request that could not be read."""
        ...

    def note_answered(self, key: str) -> None:
        """Note that the 200 of a delivery was fully written; see `triobot.store.Store.note_answered`."""
        ...

    async def check(self) -> None:
        """See whether it can write now."""
        ...

    def statistics(self) -> StoreStatistics:
        """Return where the store stands."""
        ...


@final
@attrs.define(kw_only=True)
class InboxStatistics:
    """Counts of what has arrived since the start.

    Attributes:
        accepted: new events, stored and handed on.
        repeated: events that the store had already.
        unread: bodies that could not be read, kept as they came; an event of which only the data could not
            be read is accepted besides.
        over_quota_chat: refused, because too much of their chat waits.
        over_quota_whole: refused, because too much waits altogether.
        unwritable: refused, because the store could not write.
        unstorable: refused, because no store holds such a value.
        undelivered: stored, but handing them on failed; they are in the backlog.
    """

    accepted: int = 0
    repeated: int = 0
    unread: int = 0
    over_quota_chat: int = 0
    over_quota_whole: int = 0
    unwritable: int = 0
    unstorable: int = 0
    undelivered: int = 0


@final
class _BeingStored:
    """A delivery that is being stored, for others of its key."""

    __slots__ = ("over", "stored")

    def __init__(self) -> None:
        self.over = trio.Event()
        self.stored = False

    def end(self, *, stored: bool) -> None:
        """Say what became of it."""
        self.stored = stored
        self.over.set()


@final
class Inbox:
    """Makes events durable and hands them on. `run` must be running for as long as `accept` is called.

    Args:
        store: where events wait.
        clock: the time of day.
        quota: how much may wait.
        deliver: see the attribute.
        alarm: see the attribute.

    Attributes:
        alarm: called when the inbox is half full, and when the store can't write.
        early: stores an event with what it leads to; None: it is stored first.
        shared: other processes take the same events in. So one whose sender has left is refused: it may have
            been taken and answered elsewhere since, and forgotten.
        deliver: called with each new event once it is durable, in the order of the rows' `seq`; quick, and
            must not raise. None: the event is where it is safe, and is read from there.
    """

    def __init__(
        self,
        store: Admits,
        *,
        clock: WallClock,
        quota: Quota,
        deliver: Callable[[InboxRow, Event], None] | None = None,
        alarm: RaiseAlarm | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._quota = quota
        self.alarm = alarm
        self.shared = False
        self.early: StoreEarly | None = None
        self.deliver = deliver
        self._half_full = False
        self._told: dict[str, tuple[float, int]] = {}
        # Deliveries that are being stored, by key, with what waits for one of them, if anything does.
        self._coming: dict[str, _BeingStored | None] = {}
        self._failing = False
        self._failed = trio.Event()
        self._counts = InboxStatistics()

    async def accept(self, content_type: str, body: bytes, event: Event | None = None) -> Outcome:
        """Make one request's event durable, and hand it on.

        At most once per delivery: an event that the store has already is `EventStored`, too, and not handed
        on again. One that comes while another of the same key is being stored waits for that: it would be
        a new one if it overtook that, and was answered first. A failure of the store is an outcome, not an
        exception.

        Args:
            content_type: the request's header, or empty.
            body: the request's body, raw; bounded by the caller.
            event: what it says, if it has been read already.

        Cancellation: *ambiguous*: the event may have been stored, and is handed on if it was. It has
        not been answered, so that the platform's repetition of it counts as one.

        Platform: section 2.2.
        """
        came = steady_time()
        if event is None:
            try:
                event = decode_event(content_type, body)
            except RemoteProtocolError as error:
                return await self._keep(str(error), content_type, body)
        try:
            key, once = event_key(event, content_type, body)
            sender_id = event.sender.id if event.sender is not None else None
            now = self._clock.now()
            arrival = Arrival(event.chat_id, sender_id, now, content_type, body, key, once, came)
            while key in self._coming:
                if await self._is_stored_meanwhile(key):
                    self._counts.repeated += 1
                    return EventStored(True, None if once else key)
            if key is not None:
                self._coming[key] = None
            early, stored = self.early, False
            try:
                if early is not None:
                    acceptance = await early(event, arrival, self._quota, partial(self._hand_on, event))
                else:
                    hand_on = partial(self._hand_on, event, None)
                    acceptance = await self._store.accept(arrival, quota=self._quota, on_commit=hand_on)
                stored = not isinstance(acceptance, OverQuota)
            finally:
                if key is not None and (coming := self._coming.pop(key)) is not None:
                    coming.end(stored=stored)
        except LocalProtocolError as error:
            return await self._keep(str(error), content_type, body)
        except StoreError as error:
            return self._not_written(error)
        if self._failing:
            self._works()
        match acceptance:
            case None:
                self._counts.accepted += 1
                return EventStored(False, None if once else key)
            case InboxRow():
                self._watch_quota()
                if isinstance(event, UnknownEvent) and event.reason:
                    await self._keep(f"{event.type}: {event.reason}", content_type, body)
                return EventStored(False, None if once else key)
            case Redelivered():
                self._counts.repeated += 1
                return EventStored(True, None if once else key)
            case OverQuota(whole):
                self._counts.over_quota_whole += whole
                self._counts.over_quota_chat += not whole
                if not whole:
                    self._tell("chat_refused", "refused an event of a chat in which too many wait")
                return NoRoom(whole)
            case _ as never:
                assert_never(never)

    async def _is_stored_meanwhile(self, key: str) -> bool:
        """Wait until it is known what became of the one with this key that is being stored."""
        coming = self._coming[key]
        if coming is None:
            coming = self._coming[key] = _BeingStored()
        await coming.over.wait()
        return coming.stored

    def answered(self, taken: EventStored) -> None:
        """Remember that the 200 of this was fully written. Never waits."""
        if taken.key is not None:
            self._store.note_answered(taken.key)

    async def run(self) -> None:
        """Try, while the store can't write, every two seconds whether it can again, until cancelled.

        A proxy that obeys ``/readyz`` sends no event that would show it.
        """
        while True:
            await self._failed.wait()
            await trio.sleep(_LOOK_SECONDS)
            try:
                await self._store.check()
            except StoreError:
                continue
            if self._failing:
                self._works()

    @property
    def failing(self) -> bool:
        """Return whether the store failed to write what came last."""
        return self._failing

    @property
    def roomy(self) -> bool:
        """Return whether less than a quarter of the room is used; at a half, one that hovers would alarm."""
        return self._store.statistics().inbox_bytes * 4 < self._quota.bytes_in_all

    def statistics(self) -> InboxStatistics:
        """Return the counts since the start."""
        return attrs.evolve(self._counts)

    def _hand_on(self, event: Event, begins: Callable[[InboxRow], bool] | None, row: InboxRow) -> None:
        # The store's writer calls this, for every event of a batch: one that failed must not take the
        # others with it. The row is durable, so that the backlog still has it.
        self._counts.accepted += 1
        try:
            handled = begins is not None and begins(row)
            if self.deliver is not None and not handled:
                self.deliver(row, event)
        except Exception as error:
            self._counts.undelivered += 1
            _log.error("event %d was stored but not handed on: %s", row.seq, type(error).__name__)

    async def _keep(self, reason: str, content_type: str, body: bytes) -> Outcome:
        kept = KeepRaw(at=self._clock.now(), reason=reason, content_type=content_type, body=body)
        try:
            await self._store.commit(kept)
        except LocalProtocolError as error:
            self._counts.unstorable += 1
            _log.warning("refused a request that can't be stored: %s", error)
            return Unstorable()
        except StoreError as error:
            return self._not_written(error)
        if self._failing:
            self._works()
        self._counts.unread += 1
        size = f"{len(body)} bytes"
        self._tell("request_unreadable", f"kept a request of {size} that can't be read: {reason}")
        return Unread()

    def _tell(self, kind: Literal["chat_refused", "request_unreadable"], what: str) -> None:
        """Raise an alarm and log, at most once a minute: a flood must not fill the log."""
        since, unsaid = self._told.get(kind, (-math.inf, 0))
        if trio.current_time() < since + _QUIET_SECONDS:
            self._told[kind] = since, unsaid + 1
            return
        self._told[kind] = trio.current_time(), 0
        _log.warning("%s; and %d like it since the last such line", what, unsaid)
        self._raise(Alarm(kind, "inbox", text_of(kind, "")))

    def _not_written(self, error: StoreError) -> Unwritable:
        self._counts.unwritable += 1
        if not self._failing:
            self._failing = True
            self._failed.set()
            self._raise(
                Alarm(
                    "store_unwritable",
                    "store",
                    f"the store can't write ({type(error).__name__}): events are refused with 503 until it "
                    f"can, and the platform may not repeat them; {error.remedy}",
                )
            )
        return Unwritable()

    def _works(self) -> None:
        self._failing = False
        self._failed = trio.Event()
        _log.warning("the store can write again: events are accepted")

    def _watch_quota(self) -> None:
        waiting, most = self._store.statistics().inbox_bytes, self._quota.bytes_in_all
        if not self._half_full and waiting * 2 >= most:
            self._half_full = True
            self._raise(
                Alarm(
                    "inbox_half_full",
                    "inbox",
                    f"{waiting} of {most} bytes of the inbox wait to be handled; when it is full, "
                    "all events are refused with 503",
                )
            )
        elif self._half_full and self.roomy:
            self._half_full = False

    def _raise(self, alarm: Alarm) -> None:
        if self.alarm is not None:
            self.alarm(alarm)
