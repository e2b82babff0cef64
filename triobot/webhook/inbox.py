"""Decode a request's body, store the event and pass it to the dispatcher, all before the answer.

When `Inbox.accept` returns, the event is stored, and the dispatcher has the event. The dispatcher gets events
in the order of the store's rows. An unreadable body is stored unchanged and answered 200, since the platform
would only repeat the same bytes. This module is independent of HTTP: `endpoint` maps an outcome to a status.

The platform repeats an event that got no answer, but users also send the same text twice. So an equal event
counts as a repetition only if the earlier event's 200 was not fully written. Right after a written 200, the
inbox makes a note in the store, because the note must survive a kill of the process.

If the process is killed between the answer and the note, the note is lost. In the worst case the user then
sends the same text again within a minute, and this second message counts as a repetition. If the note were
written before the answer, a kill between the two would lose the answer. The platform would then repeat an
event that is noted as answered, and the event would be handled twice.
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
    """Outcome: the event is in the store, new or from an earlier delivery.

    Answer 200, then call `Inbox.answered` with this outcome.

    Attributes:
        repeated: whether the store already had the event. The dispatcher doesn't get a repetition.
        key: key of the delivery; None if no note of the written 200 is needed, because the event's later
            deliveries are treated the same without the note.
    """

    repeated: bool
    key: str | None = attrs.field(repr=False)


NotStored: TypeAlias = Literal["unread", "no room", "unwritable", "unreached", "unstorable"]
"""Why an event is not in the store.

``unread``: the body can't be decoded, and is stored unchanged; answer 200. ``no room``: too many events of
this chat, or of all chats, are waiting; answer 503. ``unwritable``: the store could not write; answer 503.
``unreached``: the sender disconnected, and another process may accept the event; answer 503. ``unstorable``:
the event contains a value that no store can save; answer 400.
"""
Outcome: TypeAlias = EventStored | NotStored


class Admits(Protocol):
    """The methods through which the inbox stores events, in this process's store or in another process's.

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
        """Store an event, unless it is a repetition or over the quota; see `triobot.store.Store.accept`."""
        ...

    async def commit(self, kept: KeepRaw, /) -> None:
        """Store an undecodable request."""
        ...

    def note_answered(self, key: str) -> None:
        """Note that the 200 of a delivery was fully written; see `triobot.store.Store.note_answered`."""
        ...

    async def check(self) -> None:
        """Raise StoreError unless the store can write now."""
        ...

    def statistics(self) -> StoreStatistics: ...


@final
@attrs.define(kw_only=True)
class InboxStatistics:
    """Counts of received events since the start.

    Attributes:
        accepted: new events, which were stored and passed to the dispatcher.
        repeated: events that the store already had.
        unread: bodies stored unchanged because the body or its ``data`` was undecodable. If only ``data`` was
            undecodable, the event is also counted as accepted.
        over_quota_chat: refused, because too many events of the chat were waiting.
        over_quota_whole: refused, because too many events of all chats were waiting.
        unwritable: refused, because the store could not write.
        unstorable: refused, because the event contains a value that no store can save.
        undelivered: stored, but the dispatcher raised an error; the events remain in the backlog.
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
    """A delivery that is being stored. Other deliveries with the same key wait for the result."""

    __slots__ = ("over", "stored")

    def __init__(self) -> None:
        self.over = trio.Event()
        self.stored = False

    def end(self, *, stored: bool) -> None:
        """Set the result, and wake the waiting deliveries."""
        self.stored = stored
        self.over.set()


@final
class Inbox:
    """Stores events, and passes the events to the dispatcher. `run` must be running while `accept` is called.

    Args:
        store: store of the events.
        clock: time of day.
        quota: limits of waiting events.
        deliver: see the attribute.
        alarm: see the attribute.

    Attributes:
        alarm: called if the inbox is half full, the store can't write, a chat's event was refused, or a
            request was unreadable.
        early: the early door, which stores an event together with other writes; None: the event is stored
            alone.
        shared: whether other processes accept the same events. If so, the endpoint refuses an event if the
            sender has disconnected: another process may have accepted, answered and forgotten the event.
        deliver: the dispatcher's callback, called with each new durable event in the order of the rows'
            `seq`; must be quick and must not raise. None: another task reads the events from the store.
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
        self._reported: dict[str, tuple[float, int]] = {}
        # Deliveries being stored, by key; the value is None unless a delivery with the same key waits.
        self._coming: dict[str, _BeingStored | None] = {}
        self._failing = False
        self._failed = trio.Event()
        self._counts = InboxStatistics()

    async def accept(self, content_type: str, body: bytes, event: Event | None = None) -> Outcome:
        """Store a request's event, and pass the event to the dispatcher.

        The dispatcher gets an event at most once: for an event that the store already has, `accept` only
        returns `EventStored`. If an event with the same key is being stored, the call waits for the result.
        Without the wait, the second delivery could be stored and answered first. The first delivery would
        then count as a new event. A store's failure is an outcome, not an exception.

        Args:
            content_type: the request's header, or empty.
            body: raw body of the request; the caller limits its length.
            event: the decoded event, if the caller has decoded it.

        Cancellation: *ambiguous*: the store may have the event; the dispatcher still gets a stored event.
        After a cancellation, the event counts as not answered, so the event's next delivery counts as a
        repetition.

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
                return "no room"
            case _ as never:
                assert_never(never)

    async def _is_stored_meanwhile(self, key: str) -> bool:
        """Wait for the delivery with `key` that is being stored. Return whether that delivery was stored."""
        coming = self._coming[key]
        if coming is None:
            coming = self._coming[key] = _BeingStored()
        await coming.over.wait()
        return coming.stored

    def answered(self, taken: EventStored) -> None:
        """Note in the store that the event's 200 was fully written. Never waits."""
        if taken.key is not None:
            self._store.note_answered(taken.key)

    async def run(self) -> None:
        """Check the store every two seconds while the store can't write; run until cancelled.

        Without the check, the inbox might not detect the recovery: a proxy that obeys ``/readyz`` sends no
        more events.
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
        """Whether the store's last write failed."""
        return self._failing

    @property
    def roomy(self) -> bool:
        """Whether less than a quarter of the quota is used.

        The inbox raises an alarm when half of the quota is used, and no further alarm until the inbox has
        been roomy. So only one alarm is raised if the usage varies around a half.
        """
        return self._store.statistics().inbox_bytes * 4 < self._quota.bytes_in_all

    def statistics(self) -> InboxStatistics:
        """Return a copy of the counts since the start."""
        return attrs.evolve(self._counts)

    def _hand_on(self, event: Event, begins: Callable[[InboxRow], bool] | None, row: InboxRow) -> None:
        # The store's writer calls this method for every event of a batch: an error here must not affect the
        # other events. The row is durable, so the event remains in the backlog.
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
            return "unstorable"
        except StoreError as error:
            return self._not_written(error)
        if self._failing:
            self._works()
        self._counts.unread += 1
        size = f"{len(body)} bytes"
        self._tell("request_unreadable", f"kept a request of {size} that can't be read: {reason}")
        return "unread"

    def _tell(self, kind: Literal["chat_refused", "request_unreadable"], what: str) -> None:
        """Raise an alarm and log `what`, at most once a minute for each kind, to keep the log short."""
        since, unsaid = self._reported.get(kind, (-math.inf, 0))
        if trio.current_time() < since + _QUIET_SECONDS:
            self._reported[kind] = since, unsaid + 1
            return
        self._reported[kind] = trio.current_time(), 0
        _log.warning("%s; and %d like it since the last such line", what, unsaid)
        self._raise(Alarm(kind, "inbox", text_of(kind, "")))

    def _not_written(self, error: StoreError) -> NotStored:
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
        return "unwritable"

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
