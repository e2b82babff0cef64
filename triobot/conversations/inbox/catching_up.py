"""Chats that are behind, and chats that come back from the store: their events are read from the inbox.

A page each, in turn: a chat that is flooded delays no other.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

import trio

from ...errors import RecordError, UnreadableRecordError
from ...seams import Alarm, InboxRow
from ...values import decode_value
from ...wire.events import Event
from ..doors.calls import CALL, SIGNAL, Call, Halt
from ..life import ChatLife
from ..revival.reviving import revive
from ..routes.declarations import Table
from ..routes.filters import is_payment
from ..routes.routing import Delivery
from ..services import Services
from ..workload import Workload
from .consumption import stored_event

PAGE: Final = 256
PROMPT: Final = 1.0
"""Seconds for which a chat that comes back holds up the others: its code may wait for what never comes."""

log: Final = logging.getLogger("triobot.conversations")


@final
class CatchingUp:
    """Brings chats to where the dispatcher's cursor is.

    Args:
        known: returns an event as this bot knows it: a call with its route's present name; None if there is
            no such route.
        until_not_too_busy: waits while too many conversations are at work.
    """

    def __init__(
        self,
        services: Services,
        table: Table,
        work: Workload,
        known: Callable[[Event | None], Event | None],
        until_not_too_busy: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._table = table
        self._work = work
        self._known = known
        self._until_not_too_busy = until_not_too_busy
        self._stalled: dict[ChatLife, None] = {}
        self._coming: set[ChatLife] = set()
        self._stall = trio.Event()

    def __len__(self) -> int:
        return len(self._stalled)

    def room(self, life: ChatLife) -> None:
        """Read on for a chat that was behind, and has room again."""
        self._stalled[life] = None
        self._stall.set()

    async def keep_up(self) -> None:
        """Read on for whoever has room again, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._stall.wait()
                self._stall = trio.Event()
                while self._stalled:
                    # A page each, in turn: a chat that is flooded delays no other.
                    life = next(iter(self._stalled))
                    del self._stalled[life]
                    await self._until_not_too_busy()
                    if not life.loading:
                        await self._catch_up(life)
                    elif life not in self._coming:
                        await self._come_back_beside(life, nursery)

    async def _come_back_beside(self, life: ChatLife, nursery: trio.Nursery) -> None:
        """Bring a chat back, and wait for that; if it takes long, it goes on beside the next ones."""
        there = trio.Event()
        self._coming.add(life)

        async def come_back() -> None:
            try:
                await self._come_back(life)
            finally:
                self._coming.discard(life)
                there.set()

        nursery.start_soon(come_back)
        with trio.move_on_after(PROMPT):
            await there.wait()

    async def _catch_up(self, life: ChatLife) -> None:
        latest = life.latest
        rows: Sequence[InboxRow] = ()
        if life.cursor < latest:
            rows = await self._services.store.pending(life.chat_id, after=life.cursor, limit=PAGE)
        if not self._work.stopping and life.behind:
            await self._deliver_page(life, rows, latest)

    async def _come_back(self, life: ChatLife) -> None:
        """Bring a chat back from the store; then look at what came for it."""
        # What the last ones of this chat left behind must be there to be read.
        await self._work.wait_written()
        await revive(self._services, self._table, life, await self._waiting(life))
        life.shows_no_more()
        await self._look_at_those_that_waited(life)
        life.loading = False
        if not self._work.stopping:
            self.room(life)
            for there in life.places.all():
                there.tick()

    async def _waiting(self, life: ChatLife) -> Sequence[tuple[Delivery, bool]]:
        """Read what waits to be routed; each with whether its chat was a group."""
        found = list[tuple[Delivery, bool]]()
        for row in await self._services.store.pending(life.chat_id, after=life.cursor, limit=PAGE):
            event = self._known(stored_event(row))
            if event is not None and not self._is_the_ledgers(event):
                found.append((Delivery(row.seq, event, row.at), row.group))
        return found

    async def _look_at_those_that_waited(self, life: ChatLife) -> None:
        """Deliver what waited, as if it came now; once there is no room, only those jump ahead that can."""
        seen, room = life.cursor, True
        while not self._work.stopping and seen < life.latest:
            latest = life.latest
            rows = await self._services.store.pending(life.chat_id, after=seen, limit=PAGE)
            for row in rows:
                event = self._known(stored_event(row))
                if row.seq > latest:
                    break
                if self._is_the_ledgers(event):
                    continue
                if event is None:
                    if room:
                        unreadable(self._work, self._services, row)
                    continue
                delivery = Delivery(row.seq, event, row.at)
                if not room:
                    life.jump(delivery, group=row.group)
                elif life.deliver(delivery, group=row.group):
                    life.cursor = row.seq
                else:
                    room = False
            seen = min(rows[-1].seq, latest) if len(rows) == PAGE else latest
            if room:
                life.cursor = seen

    async def _deliver_page(self, life: ChatLife, rows: Sequence[InboxRow], latest: int) -> None:
        for row in rows:
            if row.seq > latest:
                break  # the cursor comes to it by itself
            if not await self._deliver_stored(life, row):
                return  # until there is room
            life.cursor = row.seq
        else:
            if len(rows) == PAGE:
                self.room(life)
                return
        life.cursor = max(life.cursor, latest)
        life.jumped = {seq for seq in life.jumped if seq > life.cursor}
        life.behind = life.latest > life.cursor
        if life.behind:
            self.room(life)
        elif life.idle:
            life.calls.over(life)

    async def _deliver_stored(self, life: ChatLife, row: InboxRow) -> bool:
        if row.seq in life.jumped:
            life.jumped.discard(row.seq)
            return True
        event = self._known(stored_event(row))
        if self._is_the_ledgers(event):
            return True
        if event is None:
            unreadable(self._work, self._services, row)
            return True
        delivery = Delivery(row.seq, event, row.at)
        return life.deliver(delivery, group=row.group, jumped=True)

    def _is_the_ledgers(self, event: Event | None) -> bool:
        """Return whether the ledger has this row, since it was routed, and consumes it."""
        return self._services.payments is not None and event is not None and is_payment(event)


def unreadable(work: Workload, services: Services, row: InboxRow) -> None:
    """Deal with such a row."""
    if row.content_type in (SIGNAL, CALL):
        # It is what another version of the bot understands: it waits in the inbox for that.
        work.count("unknown_signal")
        what = "a call" if row.content_type == CALL else "a signal"
        try:
            asked = decode_value(row.body.decode())
            why = f"the bot has no route {asked.name!r}" if isinstance(asked, Call | Halt) else "it is none"
        except (RecordError, UnicodeDecodeError) as error:
            why = error.what if isinstance(error, UnreadableRecordError) else "it is no record"
        text = f"{what} in chat {row.chat_id} can't be read, and waits in the inbox ({row.seq}): {why}"
        log.warning("%s", text)
        services.raise_alarm(Alarm("signal_unreadable", what, text))
    else:
        work.count("unreadable")
        work.consumed([row.seq])
