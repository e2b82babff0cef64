"""Who runs in a chat, and whose they are: the live conversations by owner, and the asides beside them.

A conversation is the chat's, or with ``per="sender"`` a member's own. A member's event is for the member's
own conversation where there is one, else for the chat's.
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
"""With fewer live conversations than this, all of them are looked at for each event."""


def _saw(taker: Wait | Watch, event: Event, at: int | None) -> bool:
    """Return whether this was open when the event came.

    Who opens later, in an aside, is not shown what waits for the live conversation; nor after a restart, when
    all that waits is routed anew. What is not a person's words waits for whoever takes it.
    """
    return at is None or taker.since <= at or not isinstance(event, Message)


@final
class Places:
    """The places of one chat.

    Attributes:
        live: the live conversations by owner; that of None is the chat's.
        asides: what runs beside them, oldest first.
        asides_due: asides that wait until there are fewer.
        next: interrupts that wait for the end of what they interrupt, by owner.
    """

    __slots__ = ("_opened", "_table", "asides", "asides_due", "live", "next")

    def __init__(self, table: Table) -> None:
        self.live: Final[dict[SenderId | None, Conversation]] = {}
        # Few chats ever have any of these: until then there is nothing to make, nor to collect.
        self.asides: Sequence[Conversation] = ()
        self.asides_due: Sequence[Due] = ()
        self.next: Final[dict[SenderId | None, Due]] = {}
        self._table = table
        self._opened = 0

    def take(self, conversation: Conversation) -> None:
        """Give a conversation its place."""
        if conversation.beside:
            self.asides = [*self.asides, conversation]
        else:
            self.live[conversation.owner] = conversation

    def all(self) -> list[Conversation]:
        """Return every conversation, the newest aside first."""
        return [*self.asides[::-1], *self.live.values()]

    def concerned(self, event: Event) -> list[Conversation]:
        """Return those that may see an event (`concerns`), the newest aside first.

        A member's event concerns no other member's conversation, and a group may have thousands of these.
        """
        sender = event.sender
        if sender is None or len(self.live) < MANY or is_signal(event) or is_payment(event):
            return self.all()
        own = [self.live[owner] for owner in (None, sender.id) if owner in self.live]
        if (token := token_of(event)) is not None:
            # Whoever's question it is, the one who pressed the button hears that it is not for them.
            own += [
                one
                for one in self.live.values()
                for wait in one.waits
                if wait.token == token and one not in own
            ]
        return [*self.asides[::-1], *own]

    def writers(self) -> list[JournalWriter]:
        """Return those that write what the conversations do."""
        return [conversation.writer for conversation in self.all() if conversation.writer is not None]

    # --- whose it is

    def owner_of(self, event: Event) -> SenderId | None:
        """Return whose live conversation an event is for."""
        sender = event.sender
        return sender.id if sender is not None and sender.id in self.live else None

    def owner_for(self, start: Start, event: Event) -> SenderId | None:
        """Return whose conversation it will be that starts now."""
        sender = None if event.sender is None else event.sender.id
        if start.call is not None and start.call.place in (Place.LIVE, Place.SENDER):
            return sender if start.call.place is Place.SENDER else None
        if not interrupts(start):
            return sender if start.route.per is Per.SENDER else None
        chats_own = None in self.live or not self._table.per_sender
        return sender if sender in self.live or not chats_own else None

    def place_of(self, conversation: Conversation) -> Place:
        """Return in which place a conversation is."""
        if conversation in self.asides:
            return Place.BESIDE
        return Place.LIVE if conversation.owner is None else Place.SENDER

    def is_for(self, delivery: Delivery, conversation: Conversation) -> bool:
        """Return whether an event waits for this conversation; a signal waits for whoever takes it."""
        if is_signal(delivery.event):
            return True
        mine = self.live.get(self.owner_of(delivery.event)) is conversation
        return mine and not self.is_typed_for_parked(delivery)

    # --- what would take an event

    def opens(self, conversation: Conversation, taker: Wait | Watch) -> None:
        """Number a wait or a block that has just opened."""
        self._opened += 1
        taker.opened = conversation.seq, self._opened
        taker.since = conversation.run.since()

    def who_has(self, taker: Wait | Watch) -> Conversation | None:
        """Return the conversation whose wait or block this is; None if that is over, and its code goes on."""
        own = self.live.get(taker.owner)
        likely = [*self.asides, *([] if own is None else [own])]
        return next((it for it in likely if taker in it.waits or taker in it.watches), None)

    def waits(
        self, event: Event, at: int | None = None, seq: int | None = None
    ) -> tuple[list[Wait], list[Wait] | None]:
        """Return all waits, and those of the live conversation that the event is for; None if there is none.

        Args:
            at: when it came: what opened since, in another conversation, has not seen it.
            seq: its row: those that saw it come before a live conversation that began later.
        """
        if not self.asides and len(self.live) == 1 and (own := self.live.get(None)) and len(own.waits) == 1:
            return own.waits, own.waits  # there is nothing to choose
        conversations, owner = self.concerned(event), self.owner_of(event)
        if isinstance(event, Leave) and owner is not None:
            # The member's own conversation is on its way out.
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
            # The aside that gives what was paid for asks in the place of the charge that waits for it.
            mine += [wait for one in self.asides if self.waiting_for(one) is own for wait in one.waits]
        return waits, [wait for wait in waits if wait in mine]

    def waiting_for(self, aside: Conversation) -> Conversation | None:
        """Return the conversation whose charge waits for the goods that this aside gives, if it is one."""
        giving = aside.giving
        if giving is None or not giving.owes:
            return None
        return next((one for one in self.all() if giving.paid.id in one.awaited), None)

    def was_live(self, delivery: Delivery) -> bool:
        """Return whether there is a live conversation for an event that had begun when it came."""
        live = self.live.get(self.owner_of(delivery.event))
        return live is not None and live.seq < delivery.seq

    def kept_for(self, delivery: Delivery) -> list[Conversation]:
        """Return those that can't go on just now and may wait for this press, form or, asides, message.

        A live conversation has the messages that come while it is there.
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
        """Return whether this is a message that waits for an aside that can't go on."""
        return isinstance(delivery.event, Message) and bool(self.kept_for(delivery))

    def watches(self, event: Event, at: int | None = None) -> Sequence[Watch]:
        """Return all blocks that an event may end; `at` as for `waits`."""
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
        """Sort the sender's own first, then the newest."""
        sender = None if event.sender is None else event.sender.id

        def place(taker: W) -> tuple[bool, int, tuple[int, int]]:
            return sender is not None and taker.owner == sender, taker.since, taker.opened

        return sorted(takers, key=place, reverse=True)

    # --- what code stops

    def runs(self, halt: Halt) -> bool:
        """Return whether this stops something here."""
        waiting = [*self.asides_due, *self.next.values()]
        waiting += [(it.start, it.delivery) for it in (one.successor for one in self.all()) if it is not None]
        return any(ends(halt, delivery) for _, delivery in waiting) or any(
            halt.ends(conversation.route.name, conversation.key)
            for conversation in self.all()
            # The code of one that is over has returned, though its end may still be committed.
            if conversation.ending is None and not (conversation.begun and conversation.run.over)
        )

    def halt(self, halt: Halt) -> Sequence[Delivery]:
        """End what this stops; gives back what was waiting for its place."""
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
        """Give back whatever waits for a place."""
        waiting = [delivery for _, delivery in (*self.next.values(), *self.asides_due)]
        self.next.clear()
        self.asides_due = ()
        return waiting
