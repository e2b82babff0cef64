"""What a shard does for the others: answers their frames, in its own runtime.

A change of what a place keeps is noted beside it, with what came of it, until whoever asked has that durable;
see `triobot.conversations.doors.once`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, assert_never, final

import trio

from ..alarm_kinds import Alarm
from ..conversations.doors.once import EMPTIED, note_name, note_of, old_notes
from ..errors import StoreAwayError, StoreError, StoreFullError
from ..outbox.broadcasts import Announcement
from ..outbox.course import PAGE
from ..runtime import Intake, Runtime
from ..seams import BroadcastState, BroadcastStatus, LeaseLostError, PutData
from ..wire.ids import ChatId, InvoiceId, RefId
from .frames import (
    AddToPart,
    EndPart,
    FindPayment,
    Frame,
    OpenPart,
    PutKept,
    RaiseAtHome,
    ReadBroadcast,
    ReadGone,
    ReadKeptOf,
    ReadKeyed,
    ReplaceKept,
    SettleKept,
    StartRoute,
    StopBroadcast,
    StopRoute,
    TellPlace,
)

_HOME_SECONDS: Final = 10.0


@final
class NoOwnerError(Exception):
    """No process that has the shard can do it now; nothing was done, or it may be asked again."""


@final
class Owner:
    """Answers what others ask of a shard that this process has.

    Args:
        intake: the shard's.
        nursery: where captures of broadcasts run.
    """

    def __init__(self, intake: Intake, nursery: trio.Nursery) -> None:
        self.intake = intake
        self._nursery = nursery
        self._work: Runtime | None = None
        self._works = trio.Event()
        self._under_way: dict[str, trio.Event] = {}
        self._parts: dict[str, SpreadPart] = {}

    def begin(self, work: Runtime) -> None:
        """Answer from now on."""
        self._work = work
        self._works.set()

    def end(self) -> None:
        """Answer no more: the work ends."""
        begun, self._work, self._works = self._works, None, trio.Event()
        begun.set()  # whoever waits for the work asks again

    async def give_up(self, sessions: Sequence[str]) -> None:
        """Forget the parts that these starts have opened: whoever made them is gone."""
        for session in sessions:
            if (part := self._parts.pop(session, None)) is not None:
                with suppress(StoreError, NoOwnerError):
                    await part.end(given_up=True)

    async def answer(self, frame: Frame, wanted: Callable[[], bool] | None = None) -> object:
        """Do what a frame asks, and return what comes back; waits until the shard's work has begun.

        Args:
            wanted: returns whether it is to be done still, once it has begun; None: it is.

        Raises:
            NoOwnerError: the work ends, the store is away for a while, or it isn't wanted; ask again.
            StoreError: it could not be done.
        """
        await self._works.wait()
        work = self._work
        if work is None or not (wanted is None or wanted()):
            raise NoOwnerError
        try:
            return await self._answer(work, frame)
        except (trio.ClosedResourceError, StoreAwayError, LeaseLostError):
            raise NoOwnerError from None
        except StoreFullError:
            if self._work is work:
                raise
            raise NoOwnerError from None  # the work has ended before it could be written

    async def _answer(self, work: Runtime, frame: Frame) -> object:
        elsewhere, keeping, store = work.dispatcher.elsewhere, work.dispatcher.keeping, work.store
        match frame:
            case TellPlace(said):
                return await elsewhere.take_in(said.arrival)
            case StartRoute(said, run):
                return await elsewhere.take_in(said.arrival, run)
            case StopRoute(halt):
                return await elsewhere.halt(halt)
            case ReadKeptOf(place):
                return dict(await keeping.data(place))
            case PutKept(place, key, value, once):
                await self._change(work, place, key, value, once)
                return None
            case ReplaceKept(place, key, old, new, once):
                return await self._change(work, place, key, new, once, was=(old,))
            case SettleKept(place, once):
                if (noted := note_of(once, await store.data(place))) is not None:
                    await store.commit(PutData(place, noted, None))
                return None
            case ReadKeyed(key, after):
                return list(await keeping.keyed_here(key, after))
            case FindPayment(number, invoice):
                rows = store.payments
                if invoice:
                    return await rows.of_invoice(InvoiceId(number)) is not None
                return await work.cashier.books.read(RefId(number)) is not None
            case OpenPart(session, key, content):
                part = self._parts[session] = SpreadPart(key)
                self._nursery.start_soon(part.run, work, Announcement.load(content))
                if not (wanted := await part.wait_wanted()):
                    del self._parts[session]
                return wanted
            case AddToPart(session, chats):
                opened = self._parts.get(session)
                return opened is not None and await opened.add(chats)
            case EndPart(session, given_up):
                ended = self._parts.pop(session, None)
                return ended is not None and await ended.end(given_up=given_up)
            case ReadBroadcast(key):
                return await work.broadcasts.status(key)
            case StopBroadcast(key):
                return await work.broadcasts.stop(key)
            case ReadGone(key, position):
                gone = await store.receivers(key, after=position, limit=PAGE, gone=True)
                return [(one.position, one.chat_id) for one in gone]
            case RaiseAtHome(kind, key, text):
                self.intake.bell.ring(Alarm(kind, key, text))
                return None
            case _:
                assert_never(frame)

    def pass_on(self, alarm: Alarm, ask: Callable[[Frame], Awaitable[object]]) -> None:
        """Have the home shard raise an alarm, by this; never waits. Ours does if the other can't soon."""
        self._nursery.start_soon(self._pass_on, alarm, ask)

    async def _pass_on(self, alarm: Alarm, ask: Callable[[Frame], Awaitable[object]]) -> None:
        with trio.move_on_after(_HOME_SECONDS), suppress(StoreError):
            await ask(RaiseAtHome(alarm.kind, alarm.key, alarm.text))
            return
        self.intake.bell.ring(alarm)

    async def _change(
        self,
        work: Runtime,
        place: ChatId,
        key: str,
        new: str | None,
        once: str,
        *,
        was: tuple[str | None] | None = None,
    ) -> str | None:
        """Keep a value, once, if what is kept is as it `was`; return what is there by this, or None."""
        while (other := self._under_way.get(once)) is not None:
            await other.wait()
        over = self._under_way[once] = trio.Event()
        try:
            now, stored = self.intake.clock.now(), await work.store.data(place)
            if (noted := note_of(once, stored)) is not None:
                return stored[noted]
            keeping, commits = work.dispatcher.keeping, work.dispatcher.commits
            if was is not None and (await keeping.read(place)).get(key) != was[0]:
                return None
            note = PutData(place, note_name(once, now), EMPTIED if new is None else new)
            old = [PutData(place, name, None) for name in old_notes(stored, now)]
            commits.add([keeping.put_now(place, key, new), note, *old])
            await commits.wait_written()
            return new
        finally:
            del self._under_way[once]
            over.set()


@final
class SpreadPart:
    """A shard's part of a broadcast that is being started by another one."""

    def __init__(self, key: str) -> None:
        self._key = key
        # A piece at a time: whoever reads the audience waits until the one before is stored.
        self._send, self._receive = trio.open_memory_channel[tuple[ChatId, ...]](0)
        self._asked, self._ended = trio.Event(), trio.Event()
        self._began = self._given_up = False
        self._error: StoreError | NoOwnerError | None = None

    async def run(self, work: Runtime, announcement: Announcement) -> None:
        """Capture, until the part is ended."""
        try:
            self._began = await work.broadcasts.start(self._key, announcement, self._audience())
        except StoreError as error:
            self._error = error
        except trio.ClosedResourceError:
            self._error = NoOwnerError()
        except _GivenUpError:
            pass
        finally:
            self._receive.close()
            self._asked.set()
            self._ended.set()

    async def _audience(self) -> AsyncGenerator[ChatId]:
        self._asked.set()
        async for piece in self._receive:
            for chat_id in piece:
                yield chat_id
        if self._given_up:
            raise _GivenUpError

    async def wait_wanted(self) -> bool:
        """Wait until it is known whether receivers are wanted: not if it was started before.

        Raises:
            StoreError: it could not be begun.
        """
        await self._asked.wait()
        if self._error is not None:
            raise self._error
        return not self._ended.is_set()

    async def add(self, chats: Sequence[ChatId]) -> bool:
        """Add receivers, unless the broadcast was stopped meanwhile.

        Raises:
            StoreError: they could not be stored.
        """
        with suppress(trio.BrokenResourceError):
            await self._send.send(tuple(chats))
        if self._error is not None:
            raise self._error
        return True

    async def end(self, *, given_up: bool) -> bool:
        """Begin to tell them, or forget them; return whether they are being told by this.

        Raises:
            StoreError: they could not be stored.
        """
        self._given_up = given_up
        self._send.close()
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._began


@final
class _GivenUpError(Exception):
    """The audience can't be read to its end."""


ADDING_UP: Final = ("total", "sent", "gone", "failed", "unknown")
_UNDER_WAY: Final[tuple[BroadcastState, ...]] = ("capturing", "sending", "stopping", "stopped")


def sum_of(parts: Sequence[BroadcastStatus]) -> BroadcastStatus:
    """Return how far a broadcast is whose parts are so far.

    It is being captured, sent or stopped while one part is; a part that was never started counts for none.
    """
    states = {part.state for part in parts if part.state != "none"}
    counts = {name: sum(getattr(part, name) for part in parts) for name in ADDING_UP}
    for state in _UNDER_WAY:
        if state in states:
            return BroadcastStatus(state, **counts)
    return BroadcastStatus("done" if states else "none", **counts)
