"""The early door handles some events before they are stored, and so saves a commit for each such event.

A bot without this module is also correct, but slower: each event is stored first, and comes through the
inbox. With one connection, an echo then takes twice as many instructions, and a turn of `ask` takes a third
more. Only `triobot.runtime.work` knows whether there is an early door.

If a waiting conversation takes an event, the conversation gets the event at once. One transaction stores the
event, the record that takes the event, and all later records that exist by then. Sends wait for that
transaction. If the store has no room, or has stored the event before, the chat is reloaded from the store.

A new conversation could not be reloaded in that way, because the store has no record of it. So its code runs
only after its event is stored. If an event would start a conversation in a chat that isn't in memory, the
first record is stored in the event's own row (`begun`). The transaction itself checks again that the chat is
at rest: no other event of the chat waits, and no conversation is stored. Most conversations end normally
before any further record has to be durable. For such a conversation, only the event's row is ever stored. A
conversation that waits, or that has further records to store, gets a row and a journal of its own
(`JournalWriter`). If the process ends while a conversation is busy, the next process writes that row and
journal first, and then revives the conversation like any other.

All other events are stored first. A filter that runs here gets an event without a row number, and so can't
recognize the event later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Final, final

import attrs
import trio

from ..engine import Record, encode_record
from ..errors import StoreError
from ..seams.inbox import Acceptance, Arrival, HandOn, InboxRow, Quota, Redelivered, RedeliveredError
from ..seams.writes import JournalConflictError
from ..wire.events import Event, Join, Message
from ..wire.ids import ChatId, SenderId
from .beginnings import InRow
from .chat_actor import ChatActor
from .conversation import Conversation
from .data import any_declared, joined, of_authors
from .inbox_reader import InboxReader
from .registry import ChatRegistry
from .revival.crash_counts import LOOKED_AT, UNSTORED
from .revival.stored import StartedWith, open_run
from .routes.declarations import RouteKind
from .routes.filters import Setting
from .routes.routing import Case, Decision, Delivery, Give, Start, Taken, Wait, Watch, decide
from .running_set import MANY
from .shared import Shared
from .workload import EarlyEvent

LATELY: Final = 4096
"""Number of the newest early events with keys in memory; the keys show a second delivery."""
_CONVERSATION: Final = RouteKind.CONVERSATION.value
_BEGINNERS: Final = frozenset({Message, Join})
_HAS_NO_NUMBER: Final = -1
# Called for each early event; `map` with this function is faster than a generator.
_IS_PARKED: Final = attrgetter("seat.parked")


@final
@attrs.define(eq=False, repr=False)
class Begins:
    """A conversation that begins in the transaction that stores its event.

    Attributes:
        first: the first record of the conversation.
        words: the encoded first record, as stored in the event's row.
        owner: the conversation's owner.
        reads: whether the transaction is to read the chat's data.
        values: the chat's data; None if the data must be read from the store later.
    """

    start: Start
    first: Record
    words: str
    owner: SenderId | None
    reads: bool = attrs.field(factory=any_declared)
    values: Mapping[str, str] | None = None


@final
class Coming:
    """An event that is being stored. Meanwhile the event's chat takes no other event early.

    Attributes:
        begins: the conversation that begins with the event.
    """

    def __init__(self, door: EarlyDoor, event: Event, begins: Begins | None = None) -> None:
        self.event, self.begins = event, begins
        door.coming.setdefault(event.chat_id, []).append(self)

    def beginning(self, read: Callable[[], Mapping[str, str]]) -> str | None:
        """Return the text of the first record of the conversation that begins; see `Store.accept`.

        Runs in the store's thread, perhaps more than once; the last run counts.
        """
        if (begins := self.begins) is None:
            return None
        if begins.reads:
            begins.values = of_authors(read())
        return begins.words


@final
class EarlyDoor:
    """Handles events of chats before they are stored.

    Attributes:
        coming: events that are being stored, by chat.
    """

    def __init__(self, shared: Shared, inbox: InboxReader, chats: ChatRegistry) -> None:
        self._shared, self._inbox, self._chats = shared, inbox, chats
        self._services, self._actors = shared.services, chats.actors
        self.coming: Final[dict[ChatId, list[Coming]]] = {}
        # Rows with a stored beginning that was not started: they are routed like other rows.
        self._declined: set[int] = set()
        # Keys of events that were taken early. The store decides about a second delivery of such an event.
        self._lately: dict[str, None] = {}
        inbox.has_begun = self._has_begun
        shared.keeping.changes = self._changes

    async def store(self, event: Event, arrival: Arrival, quota: Quota, hand_on: HandOn) -> Acceptance | None:
        """Store an event with its consequences; see `triobot.seams.inbox.StoreEarly`."""
        coming = self.accept(event, arrival)
        if isinstance(coming, EarlyEvent):
            await coming.known.wait()
            if coming.error is None:
                return None
            if isinstance(coming.error, RedeliveredError):
                return Redelivered()
            if not isinstance(coming.error, JournalConflictError):
                raise coming.error
            # The conversation was reloaded without the event, which is now stored like any other event.
            coming = Coming(self, event)
        # A join that starts no conversation is recorded later, when the join is routed: a leave may be routed
        # before the join.
        joins = [joined(event.chat_id)] if type(event) is Join and coming.begins is not None else ()
        commit = partial(hand_on, partial(self._accepted, coming))
        try:
            acceptance = await self._services.store.accept(
                arrival, quota=quota, also=joins, beginning=coming.beginning, on_commit=commit
            )
        except BaseException as error:
            self.over(coming, known=not isinstance(error, trio.Cancelled))
            raise
        if not isinstance(acceptance, InboxRow):
            self.over(coming, known=True)
        return acceptance

    def accept(self, event: Event, arrival: Arrival) -> EarlyEvent | Coming:
        """Deliver an event early to a waiting conversation, or return a `Coming`.

        The event of a `Coming` must be stored before any conversation gets it.
        """
        if (
            type(event) in _BEGINNERS
            and event.chat_id not in self.coming
            and self._inbox.keeps_up
            and self._shared.crashes.claims
        ):
            actor = self._actors.get(event.chat_id)
            if actor is None:
                return Coming(self, event, self._begins(event, arrival.at))
            if type(event) is Message and (taken := self._take(actor, event, arrival)) is not None:
                return taken
        return Coming(self, event)

    # --- events for waiting conversations

    def _take(self, actor: ChatActor, event: Event, arrival: Arrival) -> EarlyEvent | None:
        chat_id, key = event.chat_id, arrival.key
        if (
            not self._inbox.has_routed_all
            or key in self._lately
            or not _can_deliver(actor, arrival.sender_id)
        ):
            return None
        given = self._decide(event, arrival.at, actor)
        if type(given) is not Give or type(given.answer) is not Taken:
            return None
        wait = given.taker
        if type(wait) is not Wait or not wait.resting or wait.question:
            return None
        conversation = actor.running.who_has(wait)
        if conversation is None or (writer := conversation.writer) is None or not writer.can_deliver_early:
            return None
        if key is not None:
            self._lately[key] = None
            if len(self._lately) > LATELY:
                del self._lately[next(iter(self._lately))]
        self._actors[chat_id] = self._actors.pop(chat_id)  # the chat with the newest event is last
        self._shared.work.count("answered_at_once")
        taken = writer.take(arrival, partial(self._chats.take_back, actor))
        delivery = Delivery(_HAS_NO_NUMBER, event, arrival.at)
        wait.give(delivery, given.answer)
        conversation.bring(delivery)
        return taken

    def _decide(self, event: Event, at: int, actor: ChatActor | None) -> Decision | None:
        """Return the decision about an event that isn't stored yet; None if a filter failed."""
        shared = self._shared
        failures: list[str] = []
        waits: list[Wait] = []
        live: list[Wait] | None = None
        watches: Sequence[Watch] = ()
        if actor is not None:
            (waits, live), watches = actor.running.waits(event), actor.running.watches(event)
        group, kept = (False, None) if actor is None else (actor.routing.group, actor.kept.values)
        setting = Setting(shared.username, group, _HAS_NO_NUMBER, at, None, kept)

        def failed(name: str, error: Exception) -> None:
            failures.append(name)

        # As in `ChatActor.deliver`, no `finally` resets this entry.
        shared.crashes.at_work[LOOKED_AT] = UNSTORED
        decision = decide(Case(event, setting, shared.table, failed, waits, live, watches))
        shared.crashes.at_work[LOOKED_AT] = 0
        return None if failures else decision

    # --- conversations that begin

    def _begins(self, event: Event, at: int) -> Begins | None:
        shared, services, chat_id = self._shared, self._services, event.chat_id
        # Before the event is stored, the chat's data can't be read.
        if shared.table.asks_kept or chat_id in shared.commits.data:
            return None
        start = self._decide(event, at, None)
        if type(start) is not Start or start.route.kind is not RouteKind.CONVERSATION:
            return None
        opening, jumped = StartedWith(event, at, start.value), services.clock.jumped()
        first, value, unrecordable = open_run(start.route, opening, at, jumped, untold=True)
        if value is not start.value:
            start = Start(start.route, value)
        if unrecordable is not None:
            return None
        owner = event.sender.id if event.sender is not None and start.route.per_sender else None
        words = encode_record([*first, _CONVERSATION, start.route.version, owner])
        return Begins(start, first, words, owner)

    def _accepted(self, coming: Coming, row: InboxRow) -> bool:
        """Start the conversation that begins with an event, which is durable now.

        Returns:
            False if no conversation began, for example because the chat came into memory while the event was
            being stored. Then the dispatcher must route the event.
        """
        self.over(coming, known=True)
        work = self._shared.work
        if coming.begins is None or row.begun is None or work.stopping:
            return False  # if the bot is stopping, its next start revives the conversation
        if work.nursery is None or row.chat_id in self._actors:
            self._declined.add(row.seq)
            return False
        # The store's task runs this code; a conversation's task must not inherit that task's context.
        work.nursery.parent_task.context.run(self._run, coming.event, coming.begins, row)
        return True

    def _run(self, event: Event, begins: Begins, row: InboxRow) -> None:
        self._inbox.was_read(row.seq)
        actor = self._chats.create(row.chat_id, row.seq, row.at)
        if begins.values is not None:
            actor.kept.begin_with(begins.values)
        self._shared.work.count("taken_at_once")
        delivery, owner = Delivery(row.seq, event, row.at), begins.owner
        begin = InRow(begins.first)
        conversation = Conversation.of(actor.shared, actor.kept, begins.start, delivery, owner, begin)
        actor.sender = None if event.sender is None else event.sender.id
        actor.calls.start(actor, conversation)

    def _has_begun(self, row: InboxRow) -> bool:
        newer = row.seq > self._inbox.from_before
        return newer and row.begun is not None and row.seq not in self._declined

    def _changes(self, chat_id: ChatId) -> None:
        """Make a conversation that is about to begin read the chat's data again, because the data changes."""
        for coming in self.coming.get(chat_id, ()):
            if coming.begins is not None:
                coming.begins.reads, coming.begins.values = False, None

    # --- events that are being stored

    def over(self, coming: Coming, *, known: bool) -> None:
        """Finish an event that was stored or refused: the event's chat may take other events early again.

        With ``known=False``, the store hasn't answered, and may still store the event later.
        """
        if not known:
            self._shared.work.beside(partial(self._find_out, coming))
            return
        events = self.coming.get(coming.event.chat_id, [])
        if coming in events:
            events.remove(coming)
            if not events:
                del self.coming[coming.event.chat_id]

    async def _find_out(self, coming: Coming) -> None:
        # The store works in order: when this read returns, the event is stored or refused. Nothing needs the
        # read's error.
        with suppress(StoreError):
            await self._services.store.pending(coming.event.chat_id, after=0, limit=1)
        self.over(coming, known=True)


def _can_deliver(actor: ChatActor, sender: SenderId | None) -> bool:
    """Return whether a chat may take an event of this sender before the event is stored.

    Nothing may be waiting in the chat, the event must not make the chat a group, and all the chat's
    conversations must be at rest. A chat with many live conversations is excluded: all of them are hardly
    ever at rest together, and each event would have to check every conversation.
    """
    if not (actor.routing.group or sender is None or sender == actor.sender):
        return False
    if len(actor.running.live) >= MANY or not actor.can_evict:
        return False
    return not any(map(_IS_PARKED, actor.running.all()))
