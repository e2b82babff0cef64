"""One commit for an event and for what it begins.

Before an event is stored, the routing is asked who would take it. If that is a conversation that it starts,
in a chat of which nothing is in memory, its first record is stored in the event's own row (`begun`). Whether
the chat is at rest is looked at once more *in* the transaction that stores it, where nothing can come
between: no other event of it waits, and no conversation of it is stored. If not, the event is accepted as
every other, and goes its way.

Most conversations end well before anything more of them has to be known; then that row is all that was ever
stored of them. One that rests, or does more than one thing, is written down by itself (`JournalWriter`). What
was under way when the last process ended is written down by the next one, before anything else happens
there, and is revived as every other conversation.

Filters see an event then that isn't stored yet: it has no number by which they would know it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, MutableMapping
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Final, cast, final

import trio

from ...engine import Record, decode_record, encode_record
from ...engine.records import FORMAT, START, time_of
from ...errors import StoreFullError, UnreadableRecordError
from ...journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    ConversationRow,
    Journal,
    Lease,
    RunKind,
)
from ...seams import Alarm, ChatAtArrival, Consume, InboxRow, Store, Write
from ...wire.events import Event, Join, Message
from ...wire.ids import ChatId, SenderId
from ..codec import CODEC
from ..conversation import Conversation
from ..data.keeping import of_authors
from ..data.slots import any_declared
from ..routes.declarations import Per, RouteKind, Table
from ..routes.filters import Setting
from ..routes.routing import Start, decide
from ..running.waits import Delivery
from ..services import Services
from ..starting import Opening, open_run
from .consumption import stored_event

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher

log: Final = logging.getLogger("triobot.conversations")

_PAGE: Final = 256
_PLACES: Final = 9
HAS_NO_NUMBER: Final = -1


@final
class Claims:
    """Asked for every event that comes in from the platform."""

    def __init__(self, services: Services, table: Table, hall: Dispatcher, username: str | None) -> None:
        self._services = services
        self._table = table
        self._hall = hall
        self._username = username
        # Conversations are started from the store's task, and must not run in its context.
        self._context: Context | None = None
        # The chats of which an event is being stored as a beginning.
        self._beginnings: dict[ChatId, Beginning] = {}
        # Rows whose beginning came to nothing: they go their way like every other.
        self._declined: set[int] = set()
        self._from_before: int | None = None

    async def write_out(self) -> None:
        """Write down what began in an earlier run, before the store is asked who goes on."""
        while self._from_before is None:
            try:
                self._from_before = await _write_out(self._services.store)
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

    def claim(self, event: Event, at: int) -> Beginning | None:
        """Return what is to become durable with this event; None if nothing is."""
        if self._context is None or not self._hall.keeps_up:
            return None
        chat_id = event.chat_id
        if chat_id in self._beginnings or self._hall.life(chat_id) is not None:
            return None
        if not isinstance(event, Message | Join) or not self._hall.keeping.is_stored(chat_id):
            return None
        if self._services.store.lease(chat_id) is None:
            return None
        with self._hall.care.claiming(chat_id) as may:
            start = self._start(event, at) if may else None
        if start is None or not start.route.durable:
            return None
        opening, clock = Opening(event, at, start.value), self._services.clock
        first, value, durable = open_run(start.route, opening, now=clock.now(), jumped=clock.jumped())
        if not durable:
            return None
        claim = Beginning(self, event, Start(start.route, value), first, same=start.value is event)
        self._beginnings[chat_id] = claim
        return claim

    def _start(self, event: Event, at: int) -> Start | None:
        """Return the conversation that would start if nothing went on in the chat; None if none would."""
        failures: list[str] = []
        setting = Setting(self._username, False, HAS_NO_NUMBER, at, NoMemory())
        decision = decide(event, setting, self._table, (), None, lambda name, error: failures.append(name))
        if failures or not isinstance(decision, Start) or decision.call is not None:
            return None
        return decision if decision.route.kind is RouteKind.CONVERSATION else None

    def begin(self, claim: Beginning, row: InboxRow) -> bool:
        """Run a conversation whose beginning is durable; False if the chat has come alive meanwhile."""
        self.let_go(claim)
        if self._hall.stopping:
            return False  # it is stored as something under way, and goes on after the next start
        if self._context is None or self._hall.life(row.chat_id) is not None:
            self._declined.add(row.seq)
            return False
        self._context.run(self._run, claim, row)
        return True

    def let_go(self, claim: Beginning) -> None:
        """Let other events of the chat begin something."""
        if self._beginnings.get(claim.event.chat_id) is claim:
            del self._beginnings[claim.event.chat_id]

    def _run(self, claim: Beginning, row: InboxRow) -> None:
        life = self._hall.came_to(row)
        if claim.values is not None:
            life.kept.begin_with(claim.values)
        delivery = Delivery(row.seq, claim.event, row.at)
        self._hall.count("taken_at_once")
        life.begin_claimed(
            Conversation(self._services, life, claim.start, delivery, owner=claim.owner, in_row=claim.first)
        )


@final
class Beginning:
    """The beginning of a conversation that an event would start; see `triobot.webhook.inbox.Claim`.

    Attributes:
        first: its first record.
        values: what the chat keeps; None if it is to be read from the store.
    """

    def __init__(self, claims: Claims, event: Event, start: Start, first: Record, *, same: bool) -> None:
        self._claims = claims
        self.event = event
        self.start = start
        self.first = first
        sender = event.sender
        self.owner = sender.id if sender is not None and start.route.per is Per.SENDER else None
        self.values: Mapping[str, str] | None = None
        self._reads = any_declared()
        # The event's own bytes are in the row already.
        told = None if same else first[3]
        self._words = encode_record(
            [*first[:3], told, *first[4:], start.route.kind.value, start.route.version, self.owner]
        )

    def put(self, key: str, value: str | None) -> None:
        """Note that what the chat keeps changes, and may have been read without that; see `Keeper`."""
        self._reads, self.values = False, None

    def beginning(self, chat: ChatAtArrival) -> str | None:
        """Return what is stored with the event. Runs in the store's thread; the last run counts."""
        if not chat.at_rest:
            return None
        if self._reads:
            self.values = of_authors(chat.data())
        return self._words

    def accepted(self, row: InboxRow) -> bool:
        """Return whether it runs; else the event, durable now, is to be handed on."""
        if row.begun is None:
            self._claims.let_go(self)
            return False
        return self._claims.begin(self, row)

    def over(self, *, known: bool) -> None:
        """Let go of the chat: if its event is accepted all the same, the transaction looks who is there."""
        self._claims.let_go(self)


async def _write_out(store: Store) -> int:
    """Write down what began in an earlier run and was under way at its end; return the newest row's number.

    A row that can't be read stays, as that of an event which waits.
    """
    newest = 0
    while rows := await store.backlog(after=newest, limit=_PAGE):
        newest = rows[-1].seq
        writes: list[Write] = []
        for row in rows:
            lease = None if row.begun is None else store.lease(row.chat_id)
            journal = None if lease is None else begun_journal(row, lease)
            if journal is not None:
                it = journal.row
                begin = BeginConversation(
                    it.lease, it.id, it.chat_id, it.route, it.version, it.started_at, it.kind, it.sender_id
                )
                writes += [begin, AppendRecords(it.lease, it.id, 0, journal.records), Consume((row.seq,))]
        if writes:
            await store.commit(*writes)
    return newest


def begun_journal(row: InboxRow, lease: Lease, epoch: int = 0) -> Journal | None:
    """Return the journal of the conversation that this row stands for; None if it stands for none."""
    if row.begun is None:
        return None
    try:
        first, kind, version, owner = _read(row)
    except UnreadableRecordError as error:
        log.warning("event %d of chat %s is taken as new: %s", row.seq, row.chat_id, error)
        return None
    it = ConversationRow(
        id=ConversationId(row.seq),
        lease=lease,
        chat_id=row.chat_id,
        route=first[2],
        kind=kind,
        version=str(version),
        sender_id=owner,
        key=None,
        run=1,
        unfinished=True,
        wake_at=None,
        parked_because=None,
        error=None,
        in_hand=0,
        position=1,
        epoch=epoch,
        started_at=time_of(first),
        updated_at=time_of(first),
    )
    return Journal(it, 0, (encode_record(first),), {})


def _read(row: InboxRow) -> tuple[Record, RunKind, int, SenderId | None]:
    parts = decode_record(row.begun or "")
    if len(parts) != _PLACES or parts[0] != START:
        raise UnreadableRecordError("this is no beginning of a conversation")
    first, (kind, version, owner) = parts[:-3], parts[-3:]
    if first[5] != FORMAT:
        raise UnreadableRecordError(f"it has format {first[5]!r}; this program reads {FORMAT}")
    if first[3] is None:
        event = stored_event(row)
        if event is None:
            raise UnreadableRecordError("its event can't be read")
        first[3] = [CODEC.node_of(told) for told in (event, row.at, None)]
    return first, cast("RunKind", kind), version, owner


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
