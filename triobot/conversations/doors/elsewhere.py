"""What comes to a chat from elsewhere than the platform: signals, and routes that code starts and stops.

Each is written into the inbox before it is said to be done, and then goes the way of every event. What the
chat keeps can be read and written from here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

import trio

from ...base.clock import WallClock
from ...errors import StoreFullError
from ...seams.inbox import Arrival, InboxRow, OverQuota, Quota
from ...seams.journals import ConversationRow, ParkConversation
from ...seams.money import Captured, MovePayment
from ...seams.rooms import told
from ...seams.writes import Write
from ...store import Store
from ...wire.events import Event, Sender
from ...wire.ids import ChatId
from ..notices import KnownKey
from ..routes.declarations import Table
from ..services import Also, Services
from .calls import (
    CALL,
    SIGNALS,
    Call,
    Halt,
    Order,
    Place,
    RoomName,
    asked_of,
    call_arrival,
    order_arrival,
    runs_behind,
    signal_arrival,
    stored_call,
    stored_event,
)

_QUOTA: Final = Quota(events_per_chat=SIGNALS)
RETRY_STORE: Final = 5.0


@final
class Elsewhere:
    """Puts into chats what no user did.

    Args:
        offer: takes an accepted event.
        runs: says whether there is something in its chat that this stops.
        is_behind: says whether events of a chat wait in the inbox only.
        hurry: routes an accepted event before those that wait, if it ends what runs in its chat.

    Attributes:
        coming: the calls that are on their way to their chats, by row.
    """

    def __init__(
        self,
        services: Services,
        table: Table,
        offer: Callable[[InboxRow, Event], None],
        runs: Callable[[Halt], bool],
        is_behind: Callable[[ChatId], bool],
        hurry: Callable[[InboxRow], None],
    ) -> None:
        self.table = table
        self._services = services
        self._take = offer
        self._runs_in_chat = runs
        self._is_behind = is_behind
        self._hurry = hurry
        self.coming: dict[int, Call | Halt] = {}

    async def signal(
        self, place: ChatId, value: object, key: str | None, room: RoomName | None = None
    ) -> bool:
        """Store a signal, unless its key is known, and take it as an event; see `triobot.RoomRef.signal`."""
        arrival = signal_arrival(place, value, key, self._services.clock.now(), room)
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._accept(arrival)

    async def start(
        self,
        chat_id: ChatId,
        name: str,
        args: tuple[object, ...],
        *,
        key: str | None,
        once: str | None,
        value: object = None,
        sender: Sender | None = None,
        own: bool = False,
        also: Also | None = None,
    ) -> bool:
        """Have a route started; see `triobot.ChatRef.start`.

        Args:
            also: writes for the transaction that stores the call.
            own: the chat's own code calls: what that ends, which may be the caller, ends before it goes on.
            key: of the run; what runs, or is on its way, with this key, is not started again.
            once: a second call with this key is dropped.
            value, sender: of the conversation that calls.
        """
        call = Call(chat_id, name, args, value, sender, key)
        # A call that is repeated after a deploy is the same one, whatever its route is called by then.
        first = None if (route := self.table.named(name)) is None else route.first_name
        arrival = call_arrival(call, once, self._services.clock.now(), first)
        run = None if key is None else Halt(chat_id, name, key)
        await trio.lowlevel.checkpoint_if_cancelled()
        if run is not None and self._runs(run):
            await trio.lowlevel.cancel_shielded_checkpoint()
            started = False
        else:
            started = await self._accept(arrival, also=await also() if also else (), own=own)
        unknown = started or run is None or self._runs(run) or self._is_behind(chat_id)
        if run is not None and not unknown and self._services.notice is not None:
            self._services.notice(KnownKey(name, run.key))
        return started

    async def tick(self, call: Call, once: str, called: str, also: Sequence[Write]) -> None:
        """Have a job's run begin, together with what is noted of it; durable when it returns.

        Args:
            once: a second call of the job with this key begins nothing.
            called: the name by which the job is known for that.

        Raises:
            StoreFullError: nothing was stored.
        """
        arrival = call_arrival(call, once, self._services.clock.now(), called)
        if not await self._accept(arrival, also=also):
            await self._services.store.commit(*also)

    async def stop(
        self, chat_id: ChatId, name: str, key: str | None, *, own: bool = False, also: Also | None = None
    ) -> bool:
        """Have a route's runs ended; see `triobot.ChatRef.stop`; `own` and `also` as for `start`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        halt = Halt(chat_id, name, key)
        # What is behind may hold what this is to stop.
        if not (self._runs(halt) or self._is_behind(chat_id)):
            await trio.lowlevel.cancel_shielded_checkpoint()
            return False
        arrival = call_arrival(halt, None, self._services.clock.now())
        return await self._accept(arrival, also=await also() if also else (), own=own)

    async def order(self, row: ConversationRow, *, end: bool, say: str = "") -> bool:
        """Store what an operator wants of a parked conversation; False if its end was ordered before."""
        return await give_order(self._services.store, self._services.clock, row, end, say, self._offer)

    def _runs(self, halt: Halt) -> bool:
        asked = [one for one in self.coming.values() if one.chat_id == halt.chat_id]
        return runs_behind(self._runs_in_chat(halt), halt, asked)

    async def hand_money(self, name: str, captured: Captured, claim: MovePayment) -> None:
        """Have the aside begin that takes this money, unless it runs or is on its way already; durable.

        By the money's key, so that a delivery that is repeated begins nothing twice.

        Args:
            claim: says that it has been delivered, in the transaction that begins the aside.

        Raises:
            StaleRowError: it has moved meanwhile; nothing was stored.
        """
        chat_id, key, store = captured.chat_id, captured.key, self._services.store
        call = Call(chat_id, name, (), captured, None, key, Place.BESIDE)
        has_aside = await is_under_way(
            store,
            chat_id,
            lambda call: isinstance(call.value, Captured) and call.value.key == key,
            lambda row: row.key == key and row.ended_at is None,
        )
        while True:
            try:
                if has_aside:
                    return await store.commit(claim)
                arrival = call_arrival(call, None, self._services.clock.now())
                await self._accept(arrival, also=[claim])
            except StoreFullError:
                await trio.sleep(RETRY_STORE)
            else:
                return None

    async def _accept(self, arrival: Arrival, *, also: Sequence[Write] = (), own: bool = False) -> bool:
        row = await put_in(self._services.store, "signal", arrival, also, self._offer)
        if own and row is not None:
            self._hurry(row)
            await trio.lowlevel.checkpoint_if_cancelled()
        return row is not None

    def _offer(self, row: InboxRow) -> None:
        event = stored_event(row)
        if event is not None:
            call = asked_of(event)
            if isinstance(call, Call | Halt):
                self.coming[row.seq] = call
            self._take(row, event)


def _ignored(row: InboxRow) -> None:
    """Ignore the row: no bot runs that could be told of it."""


async def put_in(
    store: Store,
    what: str,
    arrival: Arrival,
    also: Sequence[Write],
    on_commit: Callable[[InboxRow], None] = _ignored,
) -> InboxRow | None:
    """Store what no user did, beside what else is written; return None if the store has had it before.

    Raises:
        StoreFullError: there was no room for `what` this is; nothing was stored.
    """
    accepted = await store.accept(arrival, quota=_QUOTA, also=also, on_commit=on_commit)
    if isinstance(accepted, OverQuota):
        whose = "altogether" if accepted.whole else f"in {told(arrival.chat_id)}"
        raise StoreFullError(f"the {what} was not stored: too much waits {whose}; repeat it later")
    return accepted if isinstance(accepted, InboxRow) else None


async def give_order(
    store: Store,
    clock: WallClock,
    row: ConversationRow,
    end: bool,
    say: str,
    on_commit: Callable[[InboxRow], None] = _ignored,
) -> bool:
    """Store what an operator wants of a parked conversation: the bot that runs, or the next one, does it.

    Returns:
        False if the order to end it is stored already.

    Raises:
        StoreFullError: nothing was stored.
    """
    order = Order(row.chat_id, row.id, end, say)
    # Whatever it was parked for counts no more; since when it has been parked stays.
    again = ParkConversation(row.lease, row.id, row.updated_at, row.parked_because)
    arrival, also = order_arrival(order, clock.now()), () if end else (again,)
    return await put_in(store, "order", arrival, also, on_commit) is not None


async def is_under_way(
    store: Store, chat_id: ChatId, brings: Callable[[Call], bool], runs: Callable[[ConversationRow], bool]
) -> bool:
    """Return whether such a call waits in a chat's inbox, or such a conversation is stored."""
    after = 0
    while rows := await store.pending(chat_id, after=after, limit=SIGNALS):
        after = rows[-1].seq
        calls = [stored_call(row) for row in rows if row.content_type == CALL]
        if any(isinstance(call, Call) and brings(call) for call in calls):
            return True
    # In this order: a row that is taken meanwhile has its conversation by then.
    return any(map(runs, await store.conversations(chat_id)))
