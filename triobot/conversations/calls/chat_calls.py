"""Inputs of a chat that don't come from the platform: signals, and starts and stops of routes by code.

Each input is stored in the inbox before the caller's await returns. Then it is routed like an event.
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
from .signals import (
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
    stored_event,
)

_QUOTA: Final = Quota(events_per_chat=SIGNALS)
RETRY_STORE: Final = 5.0


@final
class ChatCalls:
    """Entry of signals, calls and orders into the inbox.

    Args:
        offer: passes an accepted event to its chat.
        runs: whether the chat has a run that the given `Halt` stops.
        is_behind: whether some events of a chat are in the inbox only.
        hurry: routes an accepted event before waiting events, if the accepted event ends a run in its chat.

    Attributes:
        coming: calls that were accepted and not yet routed, by inbox row.
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
        """Store a signal as an event, unless its key was used before; see `triobot.RoomRef.signal`."""
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
        """Store a call that starts a route; see `triobot.ChatRef.start`.

        Args:
            key: key of the run. The call is refused while a run or a waiting call has this key.
            once: deduplication key: a second call with this key is dropped.
            value, sender: value and user of the calling conversation.
            own: whether the chat's own code makes the call. If so, runs that the call ends, perhaps the
                caller's own run, end before the code continues.
            also: makes writes for the transaction that stores the call.

        Returns:
            False if the call was refused or dropped.
        """
        call = Call(chat_id, name, args, value, sender, key)
        # Deduplicate by the route's first name: a call that is repeated after a deploy may use a new name.
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
        """Store a call that starts a job's run, together with the writes `also`; durable on return.

        Args:
            once: deduplication key: a second call of the job with this key starts nothing.
            called: the job's name for deduplication.

        Raises:
            StoreFullError: nothing was stored.
        """
        arrival = call_arrival(call, once, self._services.clock.now(), called)
        if not await self._accept(arrival, also=also):
            await self._services.store.commit(*also)

    async def stop(
        self, chat_id: ChatId, name: str, key: str | None, *, own: bool = False, also: Also | None = None
    ) -> bool:
        """Store a call that ends a route's runs; see `triobot.ChatRef.stop`. Arguments are as for `start`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        halt = Halt(chat_id, name, key)
        # An event that is only in the inbox may start a run that this call must stop.
        if not (self._runs(halt) or self._is_behind(chat_id)):
            await trio.lowlevel.cancel_shielded_checkpoint()
            return False
        arrival = call_arrival(halt, None, self._services.clock.now())
        return await self._accept(arrival, also=await also() if also else (), own=own)

    async def order(self, row: ConversationRow, *, end: bool, say: str = "") -> bool:
        """Store an order for a parked conversation; return False if an order to end it is stored already."""
        return await give_order(self._services.store, self._services.clock, row, end, say, self._offer)

    def _runs(self, halt: Halt) -> bool:
        asked = [one for one in self.coming.values() if one.chat_id == halt.chat_id]
        return runs_behind(self._runs_in_chat(halt), halt, asked)

    async def hand_money(self, name: str, captured: Captured, claim: MovePayment) -> None:
        """Start the aside for verified money, unless the aside runs or is about to start; durable on return.

        The money's key identifies the aside's run, so a repeated delivery starts no second run.

        Args:
            claim: write that marks the payment as delivered, in the transaction that starts the aside.

        Raises:
            StaleRowError: the payment's state has changed since `claim` was made; nothing was stored.
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
    """Ignore the row: no bot runs in this process."""


async def put_in(
    store: Store,
    what: str,
    arrival: Arrival,
    also: Sequence[Write],
    on_commit: Callable[[InboxRow], None] = _ignored,
) -> InboxRow | None:
    """Store an inbox row that code has made, and the writes `also`; return None if the row's key is known.

    Args:
        what: name of the row's content in the error.

    Raises:
        StoreFullError: there was no room; nothing was stored.
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
    """Store an operator's order for a parked conversation. The running bot, or the bot's next start, executes
    the order.

    Returns:
        False if an order to end the conversation is stored already.

    Raises:
        StoreFullError: nothing was stored.
    """
    order = Order(row.chat_id, row.id, end, say)
    # Reset the crash count, a possible reason of the parking, and keep the time of the parking.
    again = ParkConversation(row.id, row.updated_at, row.parked_because)
    arrival, also = order_arrival(order, clock.now()), () if end else (again,)
    return await put_in(store, "order", arrival, also, on_commit) is not None


async def is_under_way(
    store: Store, chat_id: ChatId, brings: Callable[[Call], bool], runs: Callable[[ConversationRow], bool]
) -> bool:
    """Whether `brings` is true for a call in the inbox, or `runs` for a conversation in the store."""
    after = 0
    while rows := await store.pending(chat_id, after=after, limit=SIGNALS):
        after = rows[-1].seq
        calls = [asked_of(stored_event(row)) for row in rows if row.content_type == CALL]
        if any(isinstance(call, Call) and brings(call) for call in calls):
            return True
    # The conversations are read last: a call that was routed after the query above has stored its
    # conversation by now.
    return any(map(runs, await store.conversations(chat_id)))
