"""Rows of the inbox: what they hold, and their end once they have been dealt with.

Deleting is write-behind: a crash before it handles events again, and never loses one. What a conversation
wrote into its chat's data while it had an event in hand goes into the same commit as that event's end. An end
that comes alone is noted only, and written with whatever is written next.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, cast, final

import attrs
import trio

from ...errors import (
    JournalConflictError,
    LocalProtocolError,
    ProtocolError,
    RedeliveredError,
    StaleRowError,
    StoreFullError,
)
from ...seams import Accept, Alarm, Consume, InboxRow, PutData, RaiseAlarm, Store, Write
from ...wire.decode import decode_event
from ...wire.events import Event
from ...wire.ids import ChatId
from ..doors.calls import CALL, SIGNAL, stored_call, stored_signal

log: Final = logging.getLogger("triobot.conversations")

_FLUSH_DEADLINE: Final = 10.0

Refusal: TypeAlias = JournalConflictError | StaleRowError | LocalProtocolError | RedeliveredError
_REFUSALS: Final = (JournalConflictError, StaleRowError, LocalProtocolError, RedeliveredError)
"""What the store says of a unit that it will not have, however often it is asked."""


class UnitWriter(Protocol):
    """Who has written a unit.

    Attributes:
        lost: one of its units was refused: what it has written behind that is of no use to anybody.
    """

    lost: bool

    def refused(self, error: Refusal) -> None:
        """Stop: its unit can't be stored, and has not happened; no effect of it was seen. Must not raise."""
        ...

    def accepted(self, error: Exception | None) -> None:
        """Hear what became of an event that it took before that was stored. Must not raise."""
        ...


@final
@attrs.define(eq=False)
class _Unit:
    """What is stored whole or not at all.

    Attributes:
        accepts: an event comes into the store with it.
        stored: it is durable.
        error: why it is not, and never will be.
    """

    writes: tuple[Write, ...]
    writer: UnitWriter | None
    accepts: bool = False
    stored: bool = False
    error: Exception | None = None

    def refuse(self, error: Exception) -> None:
        """Have it not happen, nor what its writer has written behind it."""
        self.error = error
        if self.writer is not None:
            self.writer.lost = True

    def tell(self) -> None:
        """Tell its writer what became of the event."""
        if self.accepts and self.writer is not None:
            self.writer.accepted(self.error)


@final
class EarlyEvent:
    """An event that was taken before it was stored, and what became of it."""

    def __init__(self) -> None:
        self._known = trio.Event()
        self._error: Exception | None = None

    def settle(self, error: Exception | None) -> None:
        """Say that it is stored, or why not."""
        self._error = error
        self._known.set()

    async def holds(self) -> bool:
        """Wait until it is known, and return whether it was taken."""
        await self._known.wait()
        return self._error is None

    async def stored(self) -> bool | None:
        """Wait until it is stored, with all that came of it so far; return False if it was here already.

        None if it has not been taken after all, for a reason that isn't its own: it is to go its way.

        Raises:
            StoreFullError: it could not be stored, and has not been taken.
            LocalProtocolError: it can't be stored.
        """
        await self._known.wait()
        if isinstance(self._error, RedeliveredError):
            return False
        if isinstance(self._error, JournalConflictError):
            return None
        if self._error is not None:
            raise self._error
        return True


def stored_event(row: InboxRow) -> Event | None:
    """Decode the event of a stored row; return None if only an earlier version could read it."""
    if row.content_type == SIGNAL:
        return stored_signal(row)
    if row.content_type == CALL:
        # As a signal's: the wire's own union stays closed.
        return cast("Event | None", stored_call(row))
    try:
        return decode_event(row.content_type, row.body)
    except ProtocolError:
        return None


@final
class Consumption:
    """Writes what conversations leave behind, as many units at once as there are, in their order.

    A unit is stored whole or not at all, and never before an earlier one. One that the store refuses takes
    nobody else's with it: who wrote it is told before anybody hears that anything was written.
    """

    def __init__(self, store: Store, raise_alarm: RaiseAlarm) -> None:
        self._store = store
        self._raise_alarm = raise_alarm
        self._units: list[_Unit] = []
        self._looks: list[Callable[[], None]] = []
        self._told: list[Callable[[], None]] = []
        self._chats: Counter[ChatId] = Counter()
        self._added = 0
        self._written = 0
        # Who waits, and for how many units. Nobody is woken before these are durable.
        self._waiting: dict[trio.lowlevel.Task, int] = {}
        self._over = False
        self._in_doubt = False
        self._some = trio.Event()
        self._has_some = False

    def add(self, writes: Sequence[Write], writer: UnitWriter | None = None) -> int:
        """Write this, as one; returns how many units were added so far, for `wait_for`."""
        if writes:
            unit = _Unit(tuple(writes), writer)
            self._units.append(unit)
            for write in writes:
                match write:
                    case PutData():
                        self._chats[write.chat_id] += 1
                    case Accept():
                        unit.accepts = True
                    case _:
                        pass
            self._added += 1
            if not self._has_some:
                self._stir()
        return self._added

    def before_writing(self, look: Callable[[], None]) -> None:
        """Call this once, just before the next units are taken, which is soon: it may add one."""
        self._looks.append(look)
        if not self._has_some:
            self._stir()

    def when_written(self, tell: Callable[[], None]) -> None:
        """Call this once what is added by the end of the present step is durable; when the bot stops, too."""
        self._told.append(tell)
        if not self._has_some:
            self._stir()

    def _stir(self) -> None:
        self._has_some = True
        self._some.set()

    def has_data(self, chat_id: ChatId) -> bool:
        """Return whether there is data of this chat that isn't durable yet."""
        return self._chats[chat_id] > 0

    async def wait_written(self, chat_id: ChatId | None = None) -> None:
        """Wait until what was added is durable; with a chat's id, only if there is data of that chat.

        What is about to be added (`before_writing`) counts as well.

        Raises:
            trio.ClosedResourceError: the bot stops, and it could not be written.
        """
        self._look()
        if chat_id is None or self.has_data(chat_id):
            await self.wait_for(self._added)

    async def wait_for(self, added: int) -> None:
        """Wait until so many units are durable; what others add meanwhile is not waited for.

        Raises: as `wait_written`.
        """
        if self._written < added and not self._over:
            task = trio.lowlevel.current_task()
            self._waiting[task] = added

            def abort(_: object) -> trio.lowlevel.Abort:
                del self._waiting[task]
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        if self._written < added:
            raise trio.ClosedResourceError("the bot has stopped")

    @property
    def added(self) -> int:
        """Return how many units were added so far."""
        return self._added

    def is_written(self, added: int) -> bool:
        """Return whether so many units are durable."""
        return self._written >= added

    @property
    def waiting(self) -> int:
        """Return how many units are not written yet."""
        return len(self._units)

    async def keep_flushing(self) -> None:
        """Write whatever is added, until cancelled."""
        while True:
            await self._some.wait()
            self._some, self._has_some = trio.Event(), False
            if not await self._flush():
                await trio.sleep(1)
                self._stir()

    async def flush_at_the_end(self) -> None:
        """Write the last of it, in spite of cancellation, within some seconds."""
        # Shielded, so that events that were dealt with are not dealt with again after a clean stop.
        try:
            with trio.move_on_after(_FLUSH_DEADLINE, shield=True) as limit:
                await self._flush()
        finally:
            self._over = True
            self._wake()
            for unit in self._units:
                unit.error = StoreFullError("the bot stopped before this could be written")
                unit.tell()
            for tell in self._told:
                tell()
        if limit.cancelled_caught:
            log.warning("the last %d handled events are still in the inbox", len(self._units))

    async def _flush(self) -> bool:
        """Write all units that were added, and return whether the store had room for them."""
        self._look()
        units, self._units = self._units, []
        told, self._told = self._told, []
        try:
            await self._commit(units)
        except StoreFullError as error:
            # Nothing is lost: what isn't durable has not happened, and nobody has seen anything of it.
            for unit in units:
                if unit.accepts:
                    # The platform delivers it again; what others have written waits in memory for room.
                    if not unit.stored:
                        unit.refuse(error)
                    unit.tell()
                    unit.accepts = False
            self._units, self._told = [*units, *self._units], [*told, *self._told]
            self._raise_alarm(
                Alarm("store_unwritable", "store", "the store can't be written: free some space")
            )
            return False
        except BaseException:
            self._units, self._told = [*units, *self._units], [*told, *self._told]
            self._in_doubt = True
            raise
        self._written += len(units)
        if self._chats:
            for unit in units:
                self._chats.subtract(write.chat_id for write in unit.writes if isinstance(write, PutData))
            self._chats += Counter()
        for unit in units:
            if unit.accepts:
                unit.tell()
        self._wake()
        for tell in told:
            tell()
        return True

    def _wake(self) -> None:
        """Let those go on whose units are durable; at the end everybody."""
        written = math.inf if self._over else self._written
        for task in [task for task, added in self._waiting.items() if added <= written]:
            del self._waiting[task]
            trio.lowlevel.reschedule(task)

    def _look(self) -> None:
        """Let those add their units who wait with that until something is written."""
        looks, self._looks = self._looks, []
        for look in looks:
            look()

    async def _commit(self, units: Sequence[_Unit]) -> None:
        writes: list[Write] = []
        for unit in units:
            if unit.stored:
                continue
            if not _is_lost(unit):
                writes += unit.writes
            elif unit.error is None:
                unit.error = JournalConflictError(0, "what this comes behind was not stored")
        try:
            if writes and not self._note_ends(writes):
                await self._store.commit(*writes)
        except _REFUSALS as error:
            if len(units) == 1:
                return self._refused(units[0], error)
            # It is one unit's own: the others must not suffer for it.
            for unit in units:
                await self._commit([unit])
        else:
            for unit in units:
                unit.stored = unit.error is None

    def _note_ends(self, writes: Sequence[Write]) -> bool:
        """Note what has been dealt with, if that is all that there is to write: no commit is made for it."""
        seqs = list[int]()
        for write in writes:
            if type(write) is not Consume:
                return False
            seqs += write.seqs
        return self._store.note_consumed(seqs)

    def _refused(self, unit: _Unit, error: Refusal) -> None:
        if self._in_doubt and isinstance(error, JournalConflictError | RedeliveredError):
            # A commit that was cut short by the program's stop has been done all the same.
            unit.stored = True
            log.debug("a conversation is where its writer believes it to be, already: %s", error)
            return
        unit.refuse(error)
        if unit.accepts:
            # At once: what has begun behind it must not be stored without it.
            unit.tell()
            unit.accepts = False
            return
        log.warning("a conversation isn't where its writer believes: %s", error)
        if unit.writer is not None:
            unit.writer.refused(error)


def _is_lost(unit: _Unit) -> bool:
    return unit.writer is not None and unit.writer.lost
