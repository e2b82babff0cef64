"""One commit for an event and for what it begins, where the chat is at rest.

Before an event is stored, the routing is asked who would take it. If that is a conversation that it starts,
in a chat of which nothing is in memory, the beginning is stored in the event's own row (`begun`). Whether the
chat is at rest is then looked at once more *in* the transaction that stores it, where nobody can come
between: no other event of it waits, and no conversation of it is stored. If not, the event is accepted as
every other, and goes its way. What the chat keeps is read there, too, for the conversation begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from ...errors import StoreError, StoreFullError
from ...seams import Alarm, ChatAtArrival, InboxRow, Store
from ...wire.events import Event, Join, Message
from ...wire.ids import ChatId
from ..conversation import Conversation
from ..data.keeping import of_authors
from ..data.slots import any_declared
from ..revival.opening import Opened, Opening, open_conversation
from ..routes.declarations import Per, RouteKind, Table
from ..routes.filters import Setting
from ..routes.routing import Start, decide
from ..running.waits import Delivery
from ..services import Services
from .answers import AnswerClaim, Answers
from .begun import words_of, write_out
from .unnumbered import HAS_NO_NUMBER, NoMemory

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher

_MOST_KEPT: Final = 64 * 1024


@final
class Claims:
    """Asked for every event that comes in from the platform."""

    def __init__(
        self,
        services: Services,
        table: Table,
        hall: Dispatcher,
        username: str | None,
    ) -> None:
        self._services = services
        self._table = table
        self._hall = hall
        self._username = username
        # Conversations are started from the store's task, and must not run in its context.
        self._context: Context | None = None
        # The chats of which an event is being stored as a beginning.
        self._claimed: dict[ChatId, EventClaim] = {}
        self._from_before: int | None = None
        self._answers = Answers(table, hall, username)

    async def write_out(self) -> None:
        """Write out what began in an earlier run, before anybody asks the store who goes on."""
        while self._from_before is None:
            try:
                self._from_before = await write_out(self._services.store)
            except StoreFullError:
                # Nothing may happen before it: what is under way would begin anew.
                text = "the store can't be written, so the bot can't start: free some space"
                self._services.raise_alarm(Alarm("store_unwritable", "store", text))
                await trio.sleep(1)

    async def open(self) -> None:
        """Let events begin conversations in this task's context, once what began before is written out."""
        if self._from_before is None:
            await self.write_out()
        self._context = copy_context()

    def began(self, row: InboxRow) -> bool:
        """Return whether something has begun with this row in this run, and may not be over."""
        if row.begun is None or self._from_before is None or row.seq <= self._from_before:
            return False
        return not self._answers.declined(row.seq)

    def stands(self, row: InboxRow) -> bool:
        """Return whether the record of which this row speaks may still be nowhere else."""
        life = self._hall.life(row.chat_id)
        worlds = () if life is None else [there.world for there in life.places.all()]
        return life is None or any(world is not None and world.is_held_in(row.seq) for world in worlds)

    def claim(self, event: Event, at: int) -> EventClaim | AnswerClaim | None:
        """Claim what is to become durable with this event; return None if nothing is."""
        if self._context is None or self._hall.stopping or not self._hall.keeps_up:
            return None
        with self._hall.care.claiming(event.chat_id) as may:
            return self._claim(event, at, self._context) if may else None

    def _claim(self, event: Event, at: int, context: Context) -> EventClaim | AnswerClaim | None:
        if (life := self._hall.life(event.chat_id)) is not None:
            return self._answers.claim(event, at, life, context)
        beginning = self._beginning(event, at)
        if beginning is None:
            return None
        claim = self._claimed[event.chat_id] = EventClaim(self, beginning)
        return claim

    def _beginning(self, event: Event, at: int) -> _Beginning | None:
        hall, chat_id = self._hall, event.chat_id
        if not isinstance(event, Message | Join):
            return None
        if chat_id in self._claimed or not hall.keeping.is_stored(chat_id):
            return None
        start = None if self._services.store.lease(chat_id) is None else self._start(event, at)
        if start is None:
            return None
        now, jumped = self._services.clock.now(), self._services.clock.jumped()
        opening = Opening(event, at, start.value)
        opened = open_conversation(start.route, opening, now=now, jumped=jumped, data={}, stored=True)
        if not opened.durable:
            return None
        return _Beginning(event, start, opened)

    def _start(self, event: Event, at: int) -> Start | None:
        """Return the conversation that would start if nothing went on in the chat; None if none would."""
        failures: list[str] = []
        setting = Setting(self._username, False, HAS_NO_NUMBER, at, NoMemory())
        decision = decide(event, setting, self._table, (), None, lambda name, error: failures.append(name))
        if failures or not isinstance(decision, Start) or decision.call is not None:
            return None
        return decision if decision.route.kind is RouteKind.CONVERSATION else None

    def begin(self, row: InboxRow, beginning: _Beginning, puts: Sequence[tuple[str, str | None]]) -> None:
        """Run a conversation whose beginning is durable.

        Args:
            puts: what others have put for the chat to keep since it was claimed.
        """
        if self._hall.stopping:
            return  # it is stored as something under way, and goes on after the next start
        # Whatever else could have brought the chat into memory has been kept from it, or was looked at in
        # the transaction. If this were wrong, what is stored would go on after the next start.
        assert self._hall.life(row.chat_id) is None, "the chat has come alive meanwhile"
        assert self._context is not None
        self._context.run(self._run, row, beginning, puts)

    def of(self, chat_id: ChatId) -> EventClaim | None:
        """Return the claim of this chat, if an event of it is about to be stored as a beginning."""
        return self._claimed.get(chat_id)

    def defers(self, chat_id: ChatId) -> bool:
        """Return whether an event of this chat is about to be stored as a beginning; recall it afterwards."""
        if (claim := self.of(chat_id)) is None:
            return False
        claim.recall = True
        return True

    def find_out(self, claim: EventClaim) -> None:
        """Find out, in a task of its own, what became of an event that the store has been given."""
        self._hall.beside(partial(claim.wait_out, self._services.store))

    def let_go(self, chat_id: ChatId, *, begun: bool) -> None:
        """Release the claim on this chat; recall the chat, if that was asked for and nothing has begun."""
        claim = self._claimed.pop(chat_id, None)
        if claim is not None and claim.recall and not begun:
            self._hall.recall(chat_id)

    def _run(self, row: InboxRow, beginning: _Beginning, puts: Sequence[tuple[str, str | None]]) -> None:
        life = self._hall.came_to(row)
        delivery = Delivery(row.seq, beginning.event, row.at)
        begun = Conversation(
            self._services,
            life,
            Start(beginning.start.route, beginning.opened.value),
            delivery,
            owner=beginning.owner,
            made=beginning.opened,
        )
        for key, value in puts:
            life.kept.put(key, value)
        if beginning.reads:
            life.kept.begin_with(beginning.opened.first.data)
        life.places.live[beginning.owner] = begun
        self._hall.count("taken_at_once")
        self._hall.start(begun)


@final
class EventClaim:
    """See `triobot.webhook.inbox.Claim`.

    Attributes:
        values: None: what the chat keeps is read in the transaction.
        recall: somebody wants the chat to be looked at, should nothing begin.
    """

    def __init__(self, claims: Claims, beginning: _Beginning) -> None:
        self._claims = claims
        self._chat_id = beginning.event.chat_id
        # Taken out of here by the store's thread, or by whoever gives up before that: never by both.
        self._offered = [beginning]
        self._beginning: _Beginning | None = None
        self._held = True
        self._puts: list[tuple[str, str | None]] = []
        self.values: Mapping[str, str] | None = None
        self.recall = False

    def put(self, key: str, value: str | None) -> None:
        """See `triobot.conversations.data.keeping.Keeper`: it may have been read without this."""
        self._puts.append((key, value))

    def beginning(self, chat: ChatAtArrival) -> str | None:
        """See `triobot.webhook.inbox.Claim`. Runs in the store's thread; the last run counts."""
        if self._beginning is None:
            try:
                self._beginning = self._offered.pop()
            except IndexError:
                return None
        return self._beginning.words(chat)

    def accepted(self, row: InboxRow) -> bool:
        """See `triobot.webhook.inbox.Claim`."""
        begun = row.begun is not None
        self._let_go(begun=begun)
        if self._beginning is None or not begun:
            return False
        self._claims.begin(row, self._beginning, self._puts)
        return True

    def over(self, *, known: bool) -> None:
        """See `triobot.webhook.inbox.Claim`."""
        try:
            self._offered.pop()
        except IndexError:
            if not known and self._held:
                self._claims.find_out(self)
                return
        self.give_up()

    async def wait_out(self, store: Store) -> None:
        """Wait until the store's thread, which has it, has stored it or not."""
        # What is asked later is answered later; only its failure would be told to nobody.
        with suppress(StoreError):
            await store.pending(self._chat_id, after=0, limit=1)
        self.give_up()

    def give_up(self) -> None:
        """Release the claim, unless that has been done: nothing begins."""
        self._let_go(begun=False)

    def _let_go(self, *, begun: bool) -> None:
        if self._held:
            self._held = False
            self._claims.let_go(self._chat_id, begun=begun)


@final
class _Beginning:
    """The beginning of a conversation that an event would start.

    Attributes:
        reads: what the chat keeps belongs to it.
    """

    def __init__(self, event: Event, start: Start, opened: Opened) -> None:
        self.event = event
        self.start = start
        self.opened = opened
        self.reads = any_declared()
        sender = event.sender
        self.owner = sender.id if sender is not None and start.route.per is Per.SENDER else None

    def words(self, chat: ChatAtArrival) -> str | None:
        """Encode what is stored with the event; return None if the chat isn't at rest, or keeps too much."""
        if not chat.at_rest:
            return None
        if self.reads:
            data = of_authors(chat.data())
            if sum(len(value) for value in data.values()) > _MOST_KEPT:
                return None
            self.opened = attrs.evolve(self.opened, first=attrs.evolve(self.opened.first, data=data))
        return words_of(self.opened, self.start.route.kind.value, self.owner)
