"""One commit for an event and for its being taken, by a conversation that does nothing but wait for it.

Before such an event is stored, the routing is asked who would take it, and the record that says so is stored
in the event's own row (`taken`): what the conversation does next need not wait for a second commit.

Nobody is held up meanwhile. Where the journal ends is looked at once more *in* the transaction; whatever has
happened by the time it is durable (a deadline, an interrupt, another event) goes first, and then the event is
one like any other. The row still says what it said. But it counts only as long as nothing else is durable at
that place of the journal, and until then nobody has seen anything of it.
"""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Final, final

from ...errors import UnrecordableError
from ...journals import ConversationId
from ...seams import ChatAtArrival, InboxRow
from ...values import encode_value
from ...wire.events import Event
from ..conversation import Conversation
from ..life import ChatLife
from ..revival.opening import is_recordable
from ..routes.declarations import Table
from ..routes.filters import Setting
from ..routes.routing import Give, decide
from ..running.waits import Delivery, Taken
from .taken import TakenWith
from .unnumbered import HAS_NO_NUMBER, NoMemory

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher


@final
class Answers:
    """Asked for events of chats in which something goes on."""

    def __init__(self, table: Table, hall: Dispatcher, username: str | None) -> None:
        self.hall: Final = hall
        self._table = table
        self._username = username
        # Events that went the common way after all: their rows say otherwise.
        self._declined: set[int] = set()

    def claim(self, event: Event, at: int, life: ChatLife, context: Context) -> AnswerClaim | None:
        """Claim what is to become durable with this event; return None if nothing is."""
        if not life.quiescent or not is_recordable(event):
            return None
        if not self.hall.keeping.is_stored(event.chat_id):
            return None  # what comes of it may be told of what isn't durable
        given = self._given(event, at, life)
        if given is None or not given.wait.open or given.wait.parked_as is None:
            return None
        there = next(there for there in life.places.all() if given.wait in there.waits)
        if there.world is None or not there.world.durable:
            return None
        turn = there.journal.next_turn(given.wait.parked_as)
        if turn is None:
            return None
        try:
            value = None if given.value is event else encode_value((given.value,))
        except UnrecordableError:
            return None
        taken = TakenWith(ConversationId(there.seq), there.world.position, given.wait.parked_as, turn, value)
        return AnswerClaim(self, Delivery(HAS_NO_NUMBER, event, at, turn), there, given, taken, context)

    def _given(self, event: Event, at: int, life: ChatLife) -> Give | None:
        """Return which wait would take the event, and as what; None if none would."""
        failures: list[str] = []
        setting = Setting(self._username, life.group, HAS_NO_NUMBER, at, NoMemory())
        waits, live = life.places.waits(event)
        decision = decide(
            event,
            setting,
            self._table,
            waits,
            live,
            lambda name, error: failures.append(name),
            watches=life.places.watches(event),
        )
        return decision if isinstance(decision, Give) and not failures else None

    def decline(self, seq: int) -> None:
        """Let this event go the common way."""
        self._declined.add(seq)

    def declined(self, seq: int) -> bool:
        """Return whether this event goes the common way, although its row says otherwise; and forget that."""
        declined = seq in self._declined
        self._declined.discard(seq)
        return declined


@final
class AnswerClaim:
    """See `triobot.webhook.inbox.Claim`."""

    def __init__(
        self,
        answers: Answers,
        delivery: Delivery,
        there: Conversation,
        given: Give,
        taken: TakenWith,
        context: Context,
    ) -> None:
        self._answers = answers
        self._delivery = delivery
        self._there = there
        self._given = given
        self._taken = taken
        self._context = context
        self._group = there.life.group
        self._latest = there.life.latest

    def beginning(self, chat: ChatAtArrival) -> str | None:
        """See `triobot.webhook.inbox.Claim`. Runs in the store's thread."""
        taken = self._taken
        if chat.waiting or chat.group is not self._group:
            return None
        return taken.words() if chat.position(taken.conversation) == taken.position else None

    def accepted(self, row: InboxRow) -> bool:
        """See `triobot.webhook.inbox.Claim`."""
        hall = self._answers.hall
        if row.begun is None:
            return False
        if hall.stopping:
            return True  # it is stored as something under way, and goes on after the next start
        if not self._stands():
            self._answers.decline(row.seq)
            return False
        self._context.run(self._take, row)
        return True

    def over(self, *, known: bool) -> None:
        """See `triobot.webhook.inbox.Claim`: nobody was held up."""

    def _stands(self) -> bool:
        """Return whether nothing has happened since the claim."""
        there, life, wait = self._there, self._there.life, self._given.wait
        return (
            self._answers.hall.life(life.chat_id) is life
            and life.latest == self._latest
            and not (life.behind or life.loading)
            and wait.open
            and wait.parked_as == self._taken.operation
            and there.world is not None
            and there.world.position == self._taken.position
            and there.journal.next_turn(self._taken.operation) is not None
        )

    def _take(self, row: InboxRow) -> None:
        there, taken = self._there, self._taken
        assert there.world is not None
        there.world.stands_in(row.seq, taken.operation, taken.time)
        self._answers.hall.came_to(row)
        self._answers.hall.count("answered_at_once")
        delivery = Delivery(row.seq, self._delivery.event, self._delivery.at, taken.time)
        there.life.give(self._given.wait, Taken(delivery, self._given.value))
