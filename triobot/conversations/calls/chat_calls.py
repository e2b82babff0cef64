"""Inputs of a chat that don't come from the platform: signals, and starts and stops of routes by code.

Each input is stored in the inbox before the caller's await returns. A stored input is routed like an event.
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
from ...seams.rooms import place_name
from ...seams.writes import Write
from ...store import Store
from ...wire.events import Event, Sender
from ...wire.ids import ChatId
from ..notices import KnownKey
from ..revival.stored import begun_journal
from ..routes.declarations import Table
from ..services import Also, Services
from ..workload import CommitQueue
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
    signal_arrival,
    stored_event,
)

_QUOTA: Final = Quota(events_per_chat=SIGNALS)
_RETRY_STORE: Final = 5.0


@final
class ChatCalls:
    """The object that stores signals, calls and orders in the inbox.

    Args:
        offer: passes an accepted event to its chat.
        hurry: routes an accepted event before waiting events, if the accepted event ends a run in its chat.
    """

    def __init__(
        self,
        services: Services,
        table: Table,
        commits: CommitQueue,
        offer: Callable[[InboxRow, Event], None],
        hurry: Callable[[InboxRow], None],
    ) -> None:
        self.table = table
        self._services = services
        self._commits = commits
        self._take = offer
        self._hurry = hurry

    async def signal(
        self, place: ChatId, value: object, key: str | None, room: RoomName | None = None
    ) -> bool:
        """Store a signal as an event, unless a signal used this key before; see `triobot.RoomRef.signal`."""
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
            own: whether the chat's own code makes the call. Runs that such a call ends stop before the
                calling code continues; the caller's own run may be among these runs.
            also: returns further writes for the transaction that stores the call.

        Returns:
            False if the call was refused or dropped.
        """
        call = Call(chat_id, name, args, value, sender, key)
        # Deduplicate by the route's first name: a deploy may rename the route before a call is repeated.
        first = None if (route := self.table.named(name)) is None else route.first_name
        arrival = call_arrival(call, once, self._services.clock.now(), first)
        await trio.lowlevel.checkpoint_if_cancelled()
        lives = key is not None and await self._lives(Halt(chat_id, name, key))
        started = not lives and await self._accept(arrival, also=await also() if also else (), own=own)
        if key is not None and not (lives or started) and self._services.notice is not None:
            self._services.notice(KnownKey(name, key))
        return started

    async def stop(
        self, chat_id: ChatId, name: str, key: str | None, *, own: bool = False, also: Also | None = None
    ) -> bool:
        """Store a call that ends a route's runs; see `triobot.ChatRef.stop`. Arguments are as for `start`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        halt = Halt(chat_id, name, key)
        # A waiting event may start a run that this call must stop.
        if not await self._lives(halt, waiting=True):
            return False
        arrival = call_arrival(halt, None, self._services.clock.now())
        return await self._accept(arrival, also=await also() if also else (), own=own)

    async def _lives(self, halt: Halt, *, waiting: bool = False) -> bool:
        await self._commits.wait_written()

        def name_of(name: str) -> str:
            return name if (route := self.table.named(name)) is None else route.name

        return await is_under_way(self._services.store, halt, name_of, waiting=waiting)

    async def begin(self, call: Call, once: str | None, called: str, also: Sequence[Write]) -> None:
        """Store a call and the writes `also`; durable on return. Waits while the store is full.

        Args:
            once: deduplication key: if a call of the route with this key was stored before, only `also` is
                stored.
            called: the route's name for deduplication.
        """
        while True:
            arrival = call_arrival(call, once, self._services.clock.now(), called)
            try:
                if not await self._accept(arrival, also=also):
                    await self._services.store.commit(*also)
            except StoreFullError:
                await trio.sleep(_RETRY_STORE)
            else:
                return

    async def order(self, row: ConversationRow, *, end: bool, say: str = "") -> bool:
        """Store an order for a parked conversation; see `give_order`."""
        return await give_order(self._services.store, self._services.clock, row, end, say, self._offer)

    async def hand_money(self, name: str, captured: Captured, claim: MovePayment) -> None:
        """Start the aside for verified money, unless the aside runs or is about to start; durable on return.

        The money's key identifies the aside's run, so a repeated delivery starts no second run.

        Args:
            claim: write that marks the payment as delivered, in the transaction that starts the aside.

        Raises:
            StaleRowError: the payment's state has changed since `claim` was made; nothing was stored.
        """
        chat_id, key = captured.chat_id, captured.key
        # Compare only the key, not the route: after a deploy, the run of another route may have the money.
        if await is_under_way(self._services.store, Halt(chat_id, "", key), lambda _: ""):
            await self._services.store.commit(claim)
        else:
            await self.begin(Call(chat_id, name, (), captured, None, key, Place.BESIDE), None, name, [claim])

    async def _accept(self, arrival: Arrival, *, also: Sequence[Write] = (), own: bool = False) -> bool:
        row = await put_in(self._services.store, "signal", arrival, also, self._offer)
        if own and row is not None:
            self._hurry(row)
            await trio.lowlevel.checkpoint_if_cancelled()
        return row is not None

    def _offer(self, row: InboxRow) -> None:
        if (event := stored_event(row)) is not None:
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
    """Store a signal, call or order as an inbox row, together with the writes `also`. Return None, and store
    nothing, if a row with the same deduplication key was stored before.

    Args:
        what: name of the row's content in the error.

    Raises:
        StoreFullError: there was no room; nothing was stored.
    """
    accepted = await store.accept(arrival, quota=_QUOTA, also=also, on_commit=on_commit)
    if isinstance(accepted, OverQuota):
        whose = "altogether" if accepted.whole else f"in {place_name(arrival.chat_id)}"
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
    """Store an operator's order for a parked conversation. The bot executes the order, at once or after its
    next start.

    Returns:
        False if an order to end the conversation is stored already.

    Raises:
        StoreFullError: nothing was stored.
    """
    order = Order(row.chat_id, row.id, end, say)
    # If the conversation crashed the process, `error` names the build, and that build doesn't run the
    # conversation again. So clear `error`, but keep the time of the parking.
    again = ParkConversation(row.id, row.updated_at, row.parked_because)
    arrival, also = order_arrival(order, clock.now()), () if end else (again,)
    return await put_in(store, "order", arrival, also, on_commit) is not None


async def is_under_way(
    store: Store, halt: Halt, name_of: Callable[[str], str], *, waiting: bool = False
) -> bool:
    """Return whether the chat has, or is about to start, a run that `halt` would stop.

    Call only once all earlier writes are stored.

    Args:
        name_of: returns the present name of a stored route.
        waiting: whether each waiting event counts as such a run, because the event may start one.
    """
    found, stopped, after = False, 0, 0
    while rows := await store.pending(halt.chat_id, after=after, limit=SIGNALS):
        after = rows[-1].seq
        for row in rows:
            call = asked_of(stored_event(row)) if row.content_type == CALL else None
            if isinstance(call, Halt) and call.ends(halt.name, halt.key):
                found, stopped = False, row.seq
            elif isinstance(call, Call):
                found = found or halt.ends(name_of(call.name), call.key)
            elif (begun := begun_journal(row)) is not None:
                found = found or halt.ends(name_of(begun.row.route), begun.row.key)
            else:
                found = found or (waiting and call is None)
    # The conversations are read last: by now, a call that was routed after the query above has a stored
    # conversation.
    runs = await store.conversations(halt.chat_id)
    return found or any(row.id > stopped and halt.ends(name_of(row.route), row.key) for row in runs)
