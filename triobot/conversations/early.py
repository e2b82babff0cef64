"""The early door: events of our own lane are looked at before they are stored, which saves a commit each.

A bot without this file is correct, and slower: each event is stored first, and comes through the inbox. At
one connection an echo takes twice the instructions then, and a turn of `ask` a third more. Only
`triobot.runtime.work` knows whether there is one.

An event that a conversation at rest waits for is given to it at once. The record that takes it is stored in
the same transaction, with all that it has led to by then; what is sent waits for that. If the store has no
room, or has had the event before, the chat is brought back as it is stored.

Of a conversation that begins nothing may be taken back: its code has not run before. If an event would start
one in a chat of which nothing is in memory, the first record is stored in the event's own row (`begun`).
Whether the chat is at rest is looked at once more *in* the transaction, where nothing can come between: no
other event of it waits, and no conversation of it is stored. Most conversations end well before anything more
of them has to be known; then that row is all that was ever stored of them. One that rests, or does more than
one thing, is written down by itself (`JournalWriter`). What was under way when the last process ended is
written down by the next one, before anything else happens there, and is revived as every other conversation.

Every other event is stored first. Filters see an event here that has no number yet by which they would know
it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from ..engine import Record, encode_record
from ..errors import StoreError
from ..seams.inbox import Acceptance, Arrival, HandOn, InboxRow, Quota, Redelivered, RedeliveredError
from ..seams.writes import JournalConflictError
from ..wire.events import Event, Join, Message
from ..wire.ids import ChatId, SenderId
from .beginnings import InRow
from .conversation import Conversation
from .data import any_declared, joined, of_authors
from .life import ChatLife
from .places import MANY
from .revival.care import CLAIMED
from .revival.stored import StartedWith, open_run
from .routes.declarations import Per, RouteKind
from .routes.filters import Setting
from .routes.routing import Case, Decision, Delivery, Give, Start, Taken, Wait, Watch, decide
from .routes.verdicts import Verdicts
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

LATELY: Final = 4096
"""Keys of events that were taken before they were stored: so many are remembered."""
_CONVERSATION: Final = RouteKind.CONVERSATION.value
_BEGINNERS: Final = frozenset({Message, Join})
_HAS_NO_NUMBER: Final = -1
# Not as a generator: it is asked for each answer.
_AT_REST: Final = attrgetter("at_rest")


@final
@attrs.define(eq=False, repr=False)
class Begins:
    """A conversation that begins in the transaction that stores its event.

    Attributes:
        first: the first record of the conversation.
        words: the same, as the event's row has it.
        owner: whose it will be.
        reads: what the chat keeps is to be read in the transaction.
        values: what the chat keeps; None if it is to be read from the store.
    """

    start: Start
    first: Record
    words: str
    owner: SenderId | None
    reads: bool = attrs.field(factory=any_declared)
    values: Mapping[str, str] | None = None


@final
class Coming:
    """An event that is being stored: no other one of its chat is taken meanwhile, nor begins anything.

    Attributes:
        begins: what begins with it.
    """

    def __init__(self, door: EarlyDoor, event: Event, asked: Verdicts, begins: Begins | None = None) -> None:
        self._door = door
        self._came = False
        self._asked = asked
        self.event, self.begins = event, begins
        door.coming[event.chat_id] = door.coming.get(event.chat_id, 0) + 1
        if begins is not None:
            door.beginnings[event.chat_id] = begins

    def beginning(self, read: Callable[[], Mapping[str, str]]) -> str | None:
        """Return what begins with the event; see `triobot.store.Store.accept`.

        Runs in the store's thread; the last run counts.
        """
        if (begins := self.begins) is None:
            return None
        if begins.reads:
            begins.values = of_authors(read())
        return begins.words

    def accepted(self, row: InboxRow) -> bool:
        """Return whether the event, durable now, has begun something; else it is to be handed on."""
        self._come()
        if row.begun is not None and self.begins and self._door.begin(self.event, self.begins, row):
            return True
        self._door.number(self._asked, row)
        return False

    def over(self, *, known: bool) -> None:
        """Note that the event is stored, or refused; if not `known`, it may still be stored."""
        if known:
            self._come()
        elif not self._came:
            self._door.find_out(self.event.chat_id, self._come)

    def _come(self) -> None:
        if not self._came:
            self._came = True
            self._door.came(self)


@final
class EarlyDoor:
    """Looks at each event of a dispatcher's chats before it is stored.

    Attributes:
        coming: the chats of which an event is being stored, with how many are.
        beginnings: what is to begin in which chat.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._services = dispatcher.services
        self._lives = dispatcher.lives
        self.coming: Final[dict[ChatId, int]] = {}
        self.beginnings: Final[dict[ChatId, Begins]] = {}
        # Rows whose beginning came to nothing: they go their way like every other.
        self._declined: set[int] = set()
        # Keys of events that were taken lately: what is delivered twice is for the store to tell.
        self._lately: dict[str, None] = {}
        # Conversations are started from the store's task, and must not run in its context.
        self._context: Context | None = None
        dispatcher.has_begun = self._has_begun
        dispatcher.keeping.changes = self._changes

    async def store(self, event: Event, arrival: Arrival, quota: Quota, hand_on: HandOn) -> Acceptance | None:
        """Store an event, with what it leads to; see `triobot.seams.inbox.StoreEarly`."""
        asked = Verdicts()
        coming = self.accept(event, arrival, asked)
        if isinstance(coming, EarlyEvent):
            await coming.known.wait()
            if coming.error is None:
                return None
            if isinstance(coming.error, RedeliveredError):
                return Redelivered()
            if not isinstance(coming.error, JournalConflictError):
                raise coming.error
            # Its conversation was brought back without the event, which is stored like every other.
            coming = Coming(self, event, asked)
        # A join that waits for its turn counts then: a leave may come before it.
        joins = [joined(event.chat_id)] if type(event) is Join and coming.begins is not None else ()
        commit = partial(hand_on, coming.accepted)
        try:
            acceptance = await self._services.store.accept(
                arrival, quota=quota, also=joins, beginning=coming.beginning, on_commit=commit
            )
        except BaseException as error:
            coming.over(known=not isinstance(error, trio.Cancelled))
            raise
        if not isinstance(acceptance, InboxRow):
            coming.over(known=True)
        return acceptance

    def accept(self, event: Event, arrival: Arrival, asked: Verdicts) -> EarlyEvent | Coming:
        """Give an event to the conversation that waits for it, or say with what it is to be stored."""
        if (
            type(event) in _BEGINNERS
            and event.chat_id not in self.coming
            and self._dispatcher.keeps_up
            and self._dispatcher.care.may_claim(event.chat_id)
        ):
            life = self._lives.get(event.chat_id)
            if life is None:
                return Coming(self, event, asked, self._begins(event, arrival.at, asked))
            if type(event) is Message and (taken := self._take(life, event, arrival, asked)) is not None:
                return taken
        return Coming(self, event, asked)

    # --- what is given to a conversation that waits

    def _take(self, life: ChatLife, event: Event, arrival: Arrival, asked: Verdicts) -> EarlyEvent | None:
        dispatcher, chat_id, key = self._dispatcher, event.chat_id, arrival.key
        if not dispatcher.has_routed_all or key in self._lately or not _may_take(life, arrival.sender_id):
            return None
        given = self._decide(event, arrival.at, life, asked)
        if type(given) is not Give or not given.wait.resting or given.wait.question:
            return None
        conversation = life.places.who_has(given.wait)
        if conversation is None or (writer := conversation.writer) is None or not writer.may_take:
            return None
        if key is not None:
            self._lately[key] = None
            if len(self._lately) > LATELY:
                del self._lately[next(iter(self._lately))]
        self._lives[chat_id] = self._lives.pop(chat_id)  # the newest last
        dispatcher.work.count("answered_at_once")
        taken = writer.take(arrival)
        conversation.give(given.wait, Taken(Delivery(_HAS_NO_NUMBER, event, arrival.at), given.value))
        return taken

    def _decide(self, event: Event, at: int, life: ChatLife | None, asked: Verdicts) -> Decision | None:
        """Return what would become of an event now; None if that can't be told before it is stored."""
        dispatcher = self._dispatcher
        failures: list[str] = []
        waits: list[Wait] = []
        live: list[Wait] | None = None
        watches: Sequence[Watch] = ()
        if life is not None:
            (waits, live), watches = life.places.waits(event), life.places.watches(event)
        group, kept = (False, None) if life is None else (life.group, life.kept.values)
        setting = Setting(dispatcher.shared.username, group, _HAS_NO_NUMBER, at, None, kept, asked)

        def failed(name: str, error: Exception) -> None:
            failures.append(name)

        at_work = dispatcher.care.at_work
        at_work[CLAIMED] = event.chat_id
        try:
            decision = decide(Case(event, setting, dispatcher.table, failed, waits, live, watches))
        finally:
            at_work[CLAIMED] = 0
        return None if failures else decision

    # --- what begins

    def _begins(self, event: Event, at: int, asked: Verdicts) -> Begins | None:
        dispatcher, services, chat_id = self._dispatcher, self._services, event.chat_id
        # What the chat keeps isn't known before the event is stored.
        if dispatcher.table.asks_kept or dispatcher.commits.has_data(chat_id):
            return None
        start = self._decide(event, at, None, asked)
        if type(start) is not Start or start.call is not None or not start.route.durable:
            return None
        if start.route.kind is not RouteKind.CONVERSATION:
            return None
        opening, jumped = StartedWith(event, at, start.value), services.clock.jumped()
        first, value, durable = open_run(start.route, opening, now=at, jumped=jumped, untold=True)
        if value is not start.value:
            start = Start(start.route, value)
        if not durable:
            return None
        owner = event.sender.id if event.sender is not None and start.route.per is Per.SENDER else None
        words = encode_record([*first, _CONVERSATION, start.route.version, owner])
        return Begins(start, first, words, owner)

    def begin(self, event: Event, begins: Begins, row: InboxRow) -> bool:
        """Run a conversation whose beginning is durable; False if the chat has come alive meanwhile."""
        work = self._dispatcher.work
        if work.stopping:
            return False  # it is stored as something under way, and goes on after the next start
        if work.nursery is None or row.chat_id in self._lives:
            self._declined.add(row.seq)
            return False
        if self._context is None:
            self._context = work.nursery.parent_task.context.copy()
        self._context.run(self._run, event, begins, row)
        return True

    def _run(self, event: Event, begins: Begins, row: InboxRow) -> None:
        dispatcher = self._dispatcher
        dispatcher.was_read(row.seq)
        life = dispatcher.new_life(row.chat_id, row.seq, row.at)
        if begins.values is not None:
            life.kept.begin_with(begins.values)
        dispatcher.work.count("taken_at_once")
        delivery, owner = Delivery(row.seq, event, row.at), begins.owner
        conversation = Conversation(life, begins.start, delivery, owner, InRow(begins.first))
        life.sender = None if event.sender is None else event.sender.id
        life.places.live[owner] = conversation
        life.calls.start(conversation)

    def _has_begun(self, row: InboxRow, from_before: int) -> bool:
        return row.begun is not None and row.seq > from_before and row.seq not in self._declined

    def _changes(self, chat_id: ChatId) -> None:
        """Note that a chat is about to keep something: what begins there reads the store once more."""
        if (begins := self.beginnings.get(chat_id)) is not None:
            begins.reads, begins.values = False, None

    # --- what is being stored

    def number(self, asked: Verdicts, row: InboxRow) -> None:
        """Keep the verdicts on an event under its number: its conditions are asked no more."""
        if (said := asked.said.get(_HAS_NO_NUMBER)) is not None:
            self._dispatcher.commits.asked.said[row.seq] = said

    def came(self, coming: Coming) -> None:
        """Note that an event is stored, or won't be: others of its chat may be taken, or begin something."""
        chat_id = coming.event.chat_id
        if (left := self.coming[chat_id] - 1) == 0:
            del self.coming[chat_id]
        else:
            self.coming[chat_id] = left
        if coming.begins is not None:
            del self.beginnings[chat_id]

    def find_out(self, chat_id: ChatId, then: Callable[[], None]) -> None:
        """Find out, in a task of its own, what became of an event that the store has been given."""

        async def wait_out() -> None:
            # What is asked later is answered later; only its failure would be told to nobody.
            with suppress(StoreError):
                await self._services.store.pending(chat_id, after=0, limit=1)
            then()

        self._dispatcher.work.beside(wait_out)


def _may_take(life: ChatLife, sender: SenderId | None) -> bool:
    """Return whether an event of this sender may be taken in a chat before it is stored.

    Nothing waits there, it doesn't make the chat a group, and all can be brought back as it is stored. Of
    many members' conversations hardly all are at rest, and all would be asked for each event.
    """
    if not (life.group or sender is None or sender == life.sender):
        return False
    places = life.places
    waiting = life.mailbox.waiting or life.mailbox.behind or life.loading or places.next or places.asides_due
    if waiting or len(places.live) >= MANY:
        return False
    return bool(places.live or places.asides) and all(map(_AT_REST, places.all()))
