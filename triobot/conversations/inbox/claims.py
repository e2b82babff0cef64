"""One commit for an event and for what it begins, where the chat is at rest.

Before an event is stored, the routing is asked who would take it. If that is a conversation that it starts,
in a chat of which nothing is in memory, the beginning is stored in the event's own row (`begun`). Whether the
chat is at rest is then looked at once more *in* the transaction that stores it, where nobody can come
between: no other event of it waits, and no conversation of it is stored. If not, the event is accepted as
every other, and goes its way.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Final, final

from ...seams import InboxRow
from ...wire.events import Event, Join, Message
from ...wire.ids import ChatId
from ..conversation import Conversation
from ..data.slots import any_declared
from ..revival.opening import Opened, Opening, open_conversation
from ..routes.declarations import Per, RouteKind, Table
from ..routes.filters import Setting
from ..routes.routing import Start, decide
from ..running.waits import Delivery
from ..services import Services
from .begun import words_of, write_out

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher

_HAS_NO_NUMBER: Final = -1


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
        # The chats of which an event is being stored as a beginning; True: somebody wants to recall it.
        self._claimed: dict[ChatId, bool] = {}
        self._from_before: int | None = None

    async def write_out(self) -> None:
        """Write out what began in an earlier run, before anybody asks the store who goes on."""
        self._from_before = await write_out(self._services.store)

    async def open(self) -> None:
        """From now on events begin conversations in this task's context; those before are written out."""
        if self._from_before is None:
            await self.write_out()
        self._context = copy_context()

    def began(self, row: InboxRow) -> bool:
        """Whether something has begun with this row in this run, and may not be over."""
        return row.begun is not None and self._from_before is not None and row.seq > self._from_before

    def claim(self, event: Event, at: int) -> EventClaim | None:
        """What is to become durable with this event; None if nothing is."""
        if self._context is None or self._hall.stopping:
            return None
        beginning = self._beginning(event, at)
        return None if beginning is None else EventClaim(self, beginning)

    def _beginning(self, event: Event, at: int) -> _Beginning | None:
        hall, chat_id = self._hall, event.chat_id
        if not isinstance(event, Message | Join) or any_declared() or not hall.at_rest(chat_id):
            return None
        if chat_id in self._claimed:
            return None
        start = None if self._services.store.lease(chat_id) is None else self._start(event, at)
        if start is None:
            return None
        now, jumped = self._services.clock.now(), self._services.clock.jumped()
        opening = Opening(event, at, start.value)
        opened = open_conversation(start.route, opening, now=now, jumped=jumped, data={}, stored=True)
        if not opened.durable:
            return None
        self._claimed[chat_id] = False
        return _Beginning(event, start, opened)

    def _start(self, event: Event, at: int) -> Start | None:
        """The conversation that would start if nothing went on here."""
        failures: list[str] = []
        setting = Setting(self._username, False, _HAS_NO_NUMBER, at, _NoMemory())
        decision = decide(event, setting, self._table, (), None, lambda name, error: failures.append(name))
        if failures or not isinstance(decision, Start) or decision.call is not None:
            return None
        return decision if decision.route.kind is RouteKind.CONVERSATION else None

    def begin(self, row: InboxRow, beginning: _Beginning) -> None:
        """The beginning is durable: let it run."""
        if self._hall.stopping:
            return  # it is stored as something under way, and goes on after the next start
        # Whatever else could have brought the chat into memory has been kept from it, or was looked at in
        # the transaction. If this were wrong, what is stored would go on after the next start.
        assert self._hall.life(row.chat_id) is None, "the chat has come alive meanwhile"
        assert self._context is not None
        self._context.run(self._run, row, beginning)

    def defers(self, chat_id: ChatId) -> bool:
        """Whether an event of this chat is about to be stored as a beginning: then recall it afterwards."""
        if chat_id not in self._claimed:
            return False
        self._claimed[chat_id] = True
        return True

    def let_go(self, chat_id: ChatId, *, begun: bool) -> None:
        """The event has been stored, or not."""
        if self._claimed.pop(chat_id, False) and not begun:
            self._hall.recall(chat_id)

    def _run(self, row: InboxRow, beginning: _Beginning) -> None:
        life = self._hall.come_alive(row)
        delivery = Delivery(row.seq, beginning.event, row.at)
        begun = Conversation(
            self._services,
            life,
            Start(beginning.start.route, beginning.opened.value),
            delivery,
            owner=beginning.owner,
            made=beginning.opened,
        )
        life.places.live[beginning.owner] = begun
        self._hall.count("taken_at_once")
        self._hall.start(begun)


@final
class EventClaim:
    """See `triobot.webhook.inbox.Claim`."""

    def __init__(self, claims: Claims, beginning: _Beginning) -> None:
        self._claims = claims
        self._chat_id = beginning.event.chat_id
        # Taken out of here by the store's thread, or by whoever gives up before that: never by both.
        self._offered = [beginning]
        self._beginning: _Beginning | None = None
        self._held = True

    def beginning(self) -> str | None:
        """See `triobot.webhook.inbox.Claim`. Runs in the store's thread; the last run counts."""
        if self._beginning is None:
            try:
                self._beginning = self._offered.pop()
            except IndexError:
                return None
        return self._beginning.words()

    def accepted(self, row: InboxRow) -> bool:
        """See `triobot.webhook.inbox.Claim`."""
        begun = row.begun is not None
        self._let_go(begun=begun)
        if self._beginning is None or not begun:
            return False
        self._claims.begin(row, self._beginning)
        return True

    def over(self, *, known: bool) -> None:
        """See `triobot.webhook.inbox.Claim`."""
        # What the store's thread has already is left to that.
        try:
            self._offered.pop()
        except IndexError:
            if not known:
                return
        self._let_go(begun=False)

    def _let_go(self, *, begun: bool) -> None:
        if self._held:
            self._held = False
            self._claims.let_go(self._chat_id, begun=begun)


@final
class _Beginning:
    """The beginning of a conversation that an event would start."""

    def __init__(self, event: Event, start: Start, opened: Opened) -> None:
        self.event = event
        self.start = start
        self.opened = opened
        sender = event.sender
        self.owner = sender.id if sender is not None and start.route.per is Per.SENDER else None

    def words(self) -> str:
        """What is stored with the event."""
        return words_of(self.opened, self.start.route, self.owner)


@final
class _NoMemory(MutableMapping[object, object]):
    """For filters that count: the event has no number yet by which they would know it again."""

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
