"""The conversations that run in a chat: the live conversations by owner, and the asides beside them.

A conversation belongs to the chat or, with ``per="sender"``, to one member. A member's event goes to the
member's own live conversation if there is one, else to the chat's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar, final

from ..wire.events import Event, Leave, Message, Press, Submission
from ..wire.ids import SenderId
from .conversation import Conversation, Ending
from .doors.calls import Halt, Place, is_signal
from .journal_writer import JournalWriter
from .mailbox import ends
from .routes.declarations import Per, Table
from .routes.filters import is_payment
from .routes.routing import Delivery, Start, Wait, Watch, concerns, interrupts, token_of

W = TypeVar("W", Wait, Watch)
Due: TypeAlias = tuple[Start, Delivery]
MANY: Final = 8
"""With fewer live conversations than this, every event is offered to all of them."""


def _saw(taker: Wait | Watch, event: Event, at: int | None) -> bool:
    """Return whether a wait or block was open when the event came.

    A message was typed for the questions that were open at that time. A wait that opened later, in another
    conversation, doesn't get the message. The arrival time decides this after a restart, too, when all
    waiting events are routed again. Events that aren't messages may be taken by later waits.
    """
    return at is None or taker.since <= at or not isinstance(event, Message)


@final
class Places:
    """The places of one chat, in which its conversations run.

    Attributes:
        live: live conversations by owner; the chat's own has the key None.
        asides: running asides, oldest first.
        asides_due: asides that start when fewer are running.
        next: by owner, the interrupt that starts when the interrupted conversation has ended.
    """

    __slots__ = ("_opened", "_table", "asides", "asides_due", "live", "next")

    def __init__(self, table: Table) -> None:
        self.live: Final[dict[SenderId | None, Conversation]] = {}
        # Most chats never use these: nothing is allocated until then.
        self.asides: Sequence[Conversation] = ()
        self.asides_due: Sequence[Due] = ()
        self.next: Final[dict[SenderId | None, Due]] = {}
        self._table = table
        self._opened = 0

    def take(self, conversation: Conversation) -> None:
        """Register a conversation: as an aside, or as its owner's live conversation."""
        if conversation.beside:
            self.asides = [*self.asides, conversation]
        else:
            self.live[conversation.owner] = conversation

    def all(self) -> list[Conversation]:
        """Return all conversations: the asides, newest first, then the live ones."""
        return [*self.asides[::-1], *self.live.values()]

    def concerned(self, event: Event) -> list[Conversation]:
        """Return the conversations that may see an event (`concerns`), the newest aside first.

        Other members' conversations are left out where possible: a group may have thousands of them.
        """
        sender = event.sender
        if sender is None or len(self.live) < MANY or is_signal(event) or is_payment(event):
            return self.all()
        own = [self.live[owner] for owner in (None, sender.id) if owner in self.live]
        if (token := token_of(event)) is not None:
            # A member may press the button of another member's question, and is then told that it isn't for
            # him.
            own += [
                one
                for one in self.live.values()
                for wait in one.waits
                if wait.token == token and one not in own
            ]
        return [*self.asides[::-1], *own]

    def writers(self) -> list[JournalWriter]:
        """Return the journal writers of all conversations."""
        return [conversation.writer for conversation in self.all() if conversation.writer is not None]

    # --- owners

    def owner_of(self, event: Event) -> SenderId | None:
        """Return the owner, as in `live`, of the conversation that an event is for."""
        sender = event.sender
        return sender.id if sender is not None and sender.id in self.live else None

    def owner_for(self, start: Start, event: Event) -> SenderId | None:
        """Return the owner of the conversation that `start` will begin; None for the chat."""
        sender = None if event.sender is None else event.sender.id
        if start.call is not None and start.call.place in (Place.LIVE, Place.SENDER):
            return sender if start.call.place is Place.SENDER else None
        if not interrupts(start):
            return sender if start.route.per is Per.SENDER else None
        chats_own = None in self.live or not self._table.per_sender
        return sender if sender in self.live or not chats_own else None

    def place_of(self, conversation: Conversation) -> Place:
        if conversation in self.asides:
            return Place.BESIDE
        return Place.LIVE if conversation.owner is None else Place.SENDER

    def is_for(self, delivery: Delivery, conversation: Conversation) -> bool:
        """Return whether a queued event waits for this conversation. A signal waits for any conversation."""
        if is_signal(delivery.event):
            return True
        mine = self.live.get(self.owner_of(delivery.event)) is conversation
        return mine and not self.is_typed_for_parked(delivery)

    # --- waits and blocks

    def opens(self, conversation: Conversation, taker: Wait | Watch) -> None:
        """Number a new wait or block, and set its opening time."""
        self._opened += 1
        taker.opened = conversation.seq, self._opened
        taker.since = conversation.run.since()

    def who_has(self, taker: Wait | Watch) -> Conversation | None:
        """Return the conversation that has this wait or block open; None if the wait or block has closed."""
        own = self.live.get(taker.owner)
        likely = [*self.asides, *([] if own is None else [own])]
        return next((it for it in likely if taker in it.waits or taker in it.watches), None)

    def waits(
        self, event: Event, at: int | None = None, seq: int | None = None
    ) -> tuple[list[Wait], list[Wait] | None]:
        """Return the waits that may take an event, and which of them belong to the event's live conversation.

        The second result is None if the event has no live conversation.

        Args:
            at: the event's arrival time: waits that other conversations opened later are left out.
            seq: the event's row: waits open at the event's arrival come before waits of a live conversation
                that began later.
        """
        if not self.asides and len(self.live) == 1 and (own := self.live.get(None)) and len(own.waits) == 1:
            return own.waits, own.waits  # there is nothing to choose
        conversations, owner = self.concerned(event), self.owner_of(event)
        if isinstance(event, Leave) and owner is not None:
            # The leave ends the member's own conversation.
            conversations, owner = [other for other in conversations if other.owner != owner], None
        own = self.live.get(owner)
        seen = [wait for one in conversations for wait in one.waits if one is own or _saw(wait, event, at)]
        waits = self._in_order(seen, event)
        if own is not None and seq is not None and own.seq > seq:
            waits.sort(key=lambda wait: wait in own.waits and not _saw(wait, event, at))
        if own is None:
            return waits, None
        mine = list(own.waits)
        if own.awaited:
            # An aside that delivers paid goods asks its questions in place of the conversation with the
            # waiting charge.
            mine += [wait for one in self.asides if self.waiting_for(one) is own for wait in one.waits]
        return waits, [wait for wait in waits if wait in mine]

    def waiting_for(self, aside: Conversation) -> Conversation | None:
        """Return the conversation with a charge that waits for this aside's delivery; None without one."""
        giving = aside.giving
        if giving is None or not giving.owes:
            return None
        return next((one for one in self.all() if giving.paid.id in one.awaited), None)

    def was_live(self, delivery: Delivery) -> bool:
        """Return whether the event's live conversation had already begun when the event came."""
        live = self.live.get(self.owner_of(delivery.event))
        return live is not None and live.seq < delivery.seq

    def kept_for(self, delivery: Delivery) -> list[Conversation]:
        """Return the parked conversations that may be waiting for an event.

        A press or a form may be for any parked conversation. A message may be for a parked aside, but only if
        the message has no live conversation: a live conversation gets all messages that come while it runs.
        """
        event = delivery.event
        if isinstance(event, Message):
            if self.was_live(delivery):
                return []
            return [conversation for conversation in reversed(self.asides) if conversation.stuck]
        if not isinstance(event, Press | Submission):
            return []
        return [
            conversation
            for conversation in self.concerned(event)
            if concerns(event, conversation.owner) and conversation.may_want(event)
        ]

    def is_typed_for_parked(self, delivery: Delivery) -> bool:
        """Return whether the event is a message that a parked aside may be waiting for."""
        return isinstance(delivery.event, Message) and bool(self.kept_for(delivery))

    def watches(self, event: Event, at: int | None = None) -> Sequence[Watch]:
        """Return all open blocks that an event may end; `at` as for `waits`."""
        if not self.asides and len(self.live) == 1 and (only := self.live.get(None)) and not only.watches:
            return only.watches  # there is nothing to choose
        own = self.live.get(self.owner_of(event))
        seen = [
            watch
            for one in self.concerned(event)
            for watch in one.watches
            if one is own or _saw(watch, event, at)
        ]
        return self._in_order(seen, event) if len(seen) > 1 else seen

    def _in_order(self, takers: list[W], event: Event) -> list[W]:
        """Sort waits or blocks: the event's sender's first, then the newest first."""
        sender = None if event.sender is None else event.sender.id

        def place(taker: W) -> tuple[bool, int, tuple[int, int]]:
            return sender is not None and taker.owner == sender, taker.since, taker.opened

        return sorted(takers, key=place, reverse=True)

    # --- stops

    def runs(self, halt: Halt) -> bool:
        """Return whether `halt` would stop something in this chat."""
        waiting = [*self.asides_due, *self.next.values()]
        waiting += [(it.start, it.delivery) for it in (one.successor for one in self.all()) if it is not None]
        return any(ends(halt, delivery) for _, delivery in waiting) or any(
            halt.ends(conversation.route.name, conversation.key)
            for conversation in self.all()
            # Skip a conversation when its code has returned; only its end isn't committed yet.
            if conversation.ending is None and not (conversation.begun and conversation.run.over)
        )

    def halt(self, halt: Halt) -> Sequence[Delivery]:
        """End the conversations that `halt` stops.

        Remove queued starts that it stops, and return their events.
        """
        dropped = [delivery for _, delivery in self.asides_due if ends(halt, delivery)]
        kept = [due for due in self.asides_due if due[1] not in dropped]
        self.asides_due = kept
        for owner, (_, delivery) in list(self.next.items()):
            if ends(halt, delivery):
                dropped.append(delivery)
                del self.next[owner]
        for conversation in self.all():
            if (successor := conversation.successor) is not None and ends(halt, successor.delivery):
                dropped.append(successor.delivery)
                conversation.successor = None
            if halt.ends(conversation.route.name, conversation.key):
                conversation.end(Ending.STOPPED)
        return dropped

    def clear(self) -> Sequence[Delivery]:
        """Remove all queued starts, and return their events."""
        waiting = [delivery for _, delivery in (*self.next.values(), *self.asides_due)]
        self.next.clear()
        self.asides_due = ()
        return waiting
