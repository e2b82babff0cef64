"""One commit for an event and for what comes of it.

An event that a conversation at rest waits for is given to it before it is stored (`Claims.take`). The record
that takes it is stored in the same transaction, with all that it has led to by then; what is sent waits for
that. If the store has no room, or has had the event before, the chat is brought back as it is stored.

Of a conversation that begins nothing may be taken back: its code has not run before. So the routing is asked
before such an event is stored. If it would start a conversation in a chat of which nothing is in memory, the
first record is stored in the event's own row (`begun`). Whether the chat is at rest is looked at once more
*in* the transaction, where nothing can come between: no other event of it waits, and no conversation of it is
stored. If not, the event is accepted as every other, and goes its way.

Most conversations end well before anything more of them has to be known; then that row is all that was ever
stored of them. One that rests, or does more than one thing, is written down by itself (`JournalWriter`). What
was under way when the last process ended is written down by the next one, before anything else happens
there, and is revived as every other conversation.

Filters see an event then that isn't stored yet: it has no number by which they would know it again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from operator import attrgetter
from typing import Final, final

import trio

from ...engine import Record, encode_record
from ...errors import StoreError, StoreFullError
from ...seams import Alarm, Arrival, ChatAtArrival, InboxRow, Store
from ...wire.events import Event, Join, Message
from ...wire.ids import ChatId
from ..conversation import Conversation
from ..data import any_declared, of_authors
from ..life import ChatLife
from ..revival.stored import StartedWith, open_run, write_out
from ..routes.declarations import Per, RouteKind
from ..routes.filters import Setting
from ..routes.routing import Decision, Delivery, Give, Start, Taken, Wait, Watch, decide
from ..services import Services
from ..shared import Shared
from .consumption import EarlyEvent

log: Final = logging.getLogger("triobot.conversations")

HAS_NO_NUMBER: Final = -1
_LATELY: Final = 4096
_STUCK: Final = attrgetter("stuck")


@final
class Claims:
    """Asked for every event that comes in from the platform.

    Args:
        find: returns what of a chat is in memory.
        keeps_up: says whether nothing waits before what comes in now.
        has_routed_all: says whether all that was accepted and announced has come to its chat.
        came_to: returns the life of a row's chat, in which something has begun that is durable with the row.
        took: notes that an event that came now was given to its chat before it is stored.
    """

    def __init__(
        self,
        services: Services,
        shared: Shared,
        username: str | None,
        *,
        find: Callable[[ChatId], ChatLife | None],
        keeps_up: Callable[[], bool],
        has_routed_all: Callable[[], bool],
        came_to: Callable[[InboxRow], ChatLife],
        took: Callable[[ChatLife], None],
    ) -> None:
        self._services = services
        self._table = shared.table
        self._work = shared.work
        self._care = shared.care
        self._keeping = shared.keeping
        self._life = find
        self._keeps_up = keeps_up
        self._has_routed_all = has_routed_all
        self._came_to = came_to
        self._took = took
        self._username = username
        # Conversations are started from the store's task, and must not run in its context.
        self._context: Context | None = None
        # The chats of which an event is being stored, with how many are, and what one is to begin.
        self._coming: Counter[ChatId] = Counter()
        self._beginnings: dict[ChatId, Beginning] = {}
        # Rows whose beginning came to nothing: they go their way like every other.
        self._declined: set[int] = set()
        self._from_before: int | None = None
        # Keys of events that were taken lately: what is delivered twice is for the store to tell.
        self._lately: dict[str, None] = {}

    async def write_out(self) -> None:
        """Write down what began in an earlier run, before the store is asked who goes on."""
        while self._from_before is None:
            try:
                self._from_before = await write_out(self._services.store)
            except StoreFullError:
                # Nothing may happen before it: what is under way would begin anew.
                text = "the store can't be written, so the bot can't start: free some space"
                self._services.raise_alarm(Alarm("store_unwritable", "store", text))
                await trio.sleep(1)

    async def open(self) -> None:
        """Let events begin conversations in this task's context, once what began before is written down."""
        await self.write_out()
        self._context = copy_context()

    def has_begun(self, row: InboxRow) -> bool:
        """Return whether a conversation has begun with this row in this run, and may be over by now."""
        if row.begun is None or self._from_before is None or row.seq <= self._from_before:
            return False
        return row.seq not in self._declined

    def of(self, chat_id: ChatId) -> Beginning | None:
        """Return what an event of this chat is about to begin."""
        return self._beginnings.get(chat_id)

    # --- an answer

    def take(self, event: Event, arrival: Arrival) -> EarlyEvent | None:
        """Give an event to the conversation that waits for it; None, and nothing done, if it goes its way."""
        life = self._life(event.chat_id)
        if life is None or type(event) is not Message or not self._may_take(life, arrival):
            return None
        given = self._decide(event, arrival.at, life)
        if type(given) is not Give or not given.wait.parked or given.wait.question:
            return None
        there = next(there for there in life.places.all() if given.wait in there.waits)
        if (writer := there.writer) is None or not writer.may_take:
            return None
        if arrival.key is not None:
            self._lately[arrival.key] = None
            if len(self._lately) > _LATELY:
                del self._lately[next(iter(self._lately))]
        self._took(life)
        taken, writer.handed_on = writer.take(arrival), arrival.at
        life.give(given.wait, Taken(Delivery(HAS_NO_NUMBER, event, arrival.at), given.value))
        writer.handed_on = None
        return taken

    def _may_take(self, life: ChatLife, arrival: Arrival) -> bool:
        """Return whether nothing of this chat is on its way, and it can be brought back as it is stored."""
        if not self._keeps_up() or not self._has_routed_all() or arrival.chat_id in self._coming:
            return False
        if arrival.key in self._lately or not life.knows(arrival.sender_id) or not life.may_leave:
            return False
        return not any(map(_STUCK, life.places.all()))

    def _decide(self, event: Event, at: int, life: ChatLife | None) -> Decision | None:
        """Return what would become of an event now; None if that can't be told before it is stored."""
        care, chat_id = self._care, event.chat_id
        if not care.may_claim(chat_id):
            return None
        failures: list[str] = []
        waits: list[Wait] = []
        live: list[Wait] | None = None
        watches: list[Watch] = []
        if life is not None:
            (waits, live), watches = life.places.waits(event), life.places.watches(event)
        setting = Setting(self._username, life is not None and life.group, HAS_NO_NUMBER, at, _NOTHING)
        care.claims(chat_id)
        try:
            decision = decide(
                event,
                setting,
                self._table,
                waits,
                live,
                lambda name, error: failures.append(name),
                watches=watches,
            )
        finally:
            care.claims(0)
        return None if failures else decision

    # --- a beginning

    def claim(self, event: Event, at: int) -> Coming:
        """Return what is to become durable with this event, if it begins something."""
        chat_id = event.chat_id
        beginning = self._beginning(event, at)
        self._coming[chat_id] += 1
        if beginning is not None:
            self._beginnings[chat_id] = beginning
        return Coming(self, chat_id, beginning)

    def _beginning(self, event: Event, at: int) -> Beginning | None:
        chat_id = event.chat_id
        if self._context is None or not self._keeps_up() or not isinstance(event, Message | Join):
            return None
        if chat_id in self._coming or self._life(chat_id) is not None:
            return None
        if not self._keeping.is_stored(chat_id) or self._services.store.lease(chat_id) is None:
            return None
        start = self._decide(event, at, None)
        if not isinstance(start, Start) or start.call is not None or not start.route.durable:
            return None
        if start.route.kind is not RouteKind.CONVERSATION:
            return None
        opening, clock = StartedWith(event, at, start.value), self._services.clock
        first, value, durable = open_run(start.route, opening, now=at, jumped=clock.jumped(), untold=True)
        if not durable:
            return None
        return Beginning(event, Start(start.route, value), first)

    def begin(self, beginning: Beginning, row: InboxRow) -> bool:
        """Run a conversation whose beginning is durable; False if the chat has come alive meanwhile."""
        if self._work.stopping:
            return False  # it is stored as something under way, and goes on after the next start
        if self._context is None or self._life(row.chat_id) is not None:
            self._declined.add(row.seq)
            return False
        self._context.run(self._run, beginning, row)
        return True

    def _run(self, beginning: Beginning, row: InboxRow) -> None:
        life = self._came_to(row)
        if beginning.values is not None:
            life.kept.begin_with(beginning.values)
        delivery = Delivery(row.seq, beginning.event, row.at)
        self._work.count("taken_at_once")
        owner, first = beginning.owner, beginning.first
        life.begin_claimed(
            Conversation(self._services, life, beginning.start, delivery, owner=owner, in_row=first)
        )

    # --- an event that is being stored

    def came(self, chat_id: ChatId, beginning: Beginning | None) -> None:
        """Note that an event is stored, or won't be."""
        self._coming[chat_id] -= 1
        if not self._coming[chat_id]:
            del self._coming[chat_id]
        if beginning is not None and self._beginnings.get(chat_id) is beginning:
            del self._beginnings[chat_id]

    def find_out(self, coming: Coming) -> None:
        """Find out, in a task of its own, what became of an event that the store has been given."""
        self._work.beside(partial(coming.wait_out, self._services.store))


@final
class Coming:
    """An event that is being stored; see `triobot.webhook.inbox.Claim`."""

    def __init__(self, claims: Claims, chat_id: ChatId, beginning: Beginning | None) -> None:
        self._claims = claims
        self._chat_id = chat_id
        self._beginning = beginning
        self._came = False

    def beginning(self, chat: ChatAtArrival) -> str | None:
        """Return what is stored with the event. Runs in the store's thread; the last run counts."""
        return None if self._beginning is None else self._beginning.words(chat)

    def accepted(self, row: InboxRow) -> bool:
        """Return whether the event, durable now, has begun something; else it is to be handed on."""
        self.came()
        return (
            self._beginning is not None and row.begun is not None and self._claims.begin(self._beginning, row)
        )

    def over(self, *, known: bool) -> None:
        """Note that the event is stored, or refused; if not `known`, it may still be stored."""
        if known:
            self.came()
        elif not self._came:
            self._claims.find_out(self)

    async def wait_out(self, store: Store) -> None:
        """Wait until the store has it, or not."""
        # What is asked later is answered later; only its failure would be told to nobody.
        with suppress(StoreError):
            await store.pending(self._chat_id, after=0, limit=1)
        self.came()

    def came(self) -> None:
        """Let other events of the chat be taken or begin something."""
        if not self._came:
            self._came = True
            self._claims.came(self._chat_id, self._beginning)


@final
class Beginning:
    """The beginning of a conversation that an event would start.

    Attributes:
        first: its first record.
        values: what the chat keeps; None if it is to be read from the store.
    """

    def __init__(self, event: Event, start: Start, first: Record) -> None:
        self.event = event
        self.start = start
        self.first = first
        sender = event.sender
        self.owner = sender.id if sender is not None and start.route.per is Per.SENDER else None
        self.values: Mapping[str, str] | None = None
        self._reads = any_declared()
        route = start.route
        self._words = encode_record([*first, route.kind.value, route.version, self.owner])

    def put(self, key: str, value: str | None) -> None:
        """Note that what the chat keeps changes, and may have been read without that; see `Keeper`."""
        self._reads, self.values = False, None

    def words(self, chat: ChatAtArrival) -> str | None:
        """Return what is stored with the event; None if something waits or goes on in the chat."""
        if not chat.at_rest:
            return None
        if self._reads:
            self.values = of_authors(chat.data())
        return self._words


@final
class NoMemory(MutableMapping[object, object]):
    """What filters that count remember: nothing, and they are told so."""

    def __getitem__(self, key: object) -> object:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __delitem__(self, key: object) -> None:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __iter__(self) -> Iterator[object]:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __len__(self) -> int:
        raise TypeError("nothing is remembered of an event that isn't stored yet")


_NOTHING: Final = NoMemory()
