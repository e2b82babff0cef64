"""The mailbox of a chat: the events that no conversation has taken, and how far the chat is in the inbox.

Pure: it knows no conversation, decides nothing and does nothing; `ChatLife` asks and acts. It is bounded.
Once it is full the chat is *behind*, and everything of it comes from the inbox, in order, until that is
empty. What can't wait is dealt with ahead of its turn, and *passed* when that comes.

What came before the end of what it was for (an interrupt, a leave or a stop went ahead of it) is too late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, final

import attrs

from ..wire.events import Leave
from ..wire.ids import SenderId
from .doors.calls import Call, Halt, asked_of, is_signal
from .routes.routing import Delivery

# A person types a handful of messages ahead; whatever is above that waits in the inbox.
MAILBOX: Final = 16
_BY_ROW: Final = attrgetter("seq")


def ends(halt: Halt, delivery: Delivery) -> bool:
    """Return whether a stop ends what this delivery is about to start."""
    asked = asked_of(delivery.event)
    return isinstance(asked, Call) and halt.ends(asked.name, asked.key)


@final
@attrs.define(eq=False, repr=False)
class Mailbox:
    """The events of one chat that nothing has taken.

    Attributes:
        cursor: every event of the chat up to this one was put on its way.
        latest: the newest that the dispatcher came to; when the chat is behind, it is beyond the cursor.
        behind: events between the two wait in the inbox.
        passed: those of them that were dealt with ahead of the others.
        waiting: events that wait for a conversation here, in the order of the inbox.
        shown: whose turn was cut off, and runs again before anything is routed; and what waits for the chat,
            in its order, which that turn is to find.
    """

    cursor: int
    latest: int
    behind: bool = attrs.field(default=False, init=False)
    passed: frozenset[int] = attrs.field(default=frozenset(), init=False)
    waiting: Sequence[Delivery] = attrs.field(default=(), init=False)
    shown: tuple[object, Sequence[Delivery]] | None = attrs.field(default=None, init=False)
    _early: frozenset[int] = attrs.field(default=frozenset(), init=False)
    # Few chats ever have any of these: until then there is nothing to make, nor to collect.
    _ended_by: dict[SenderId | None, int] | None = attrs.field(default=None, init=False)
    _left_by: int = attrs.field(default=0, init=False)
    _halts: Sequence[tuple[int, Halt]] = attrs.field(default=(), init=False)

    # --- what waits

    def put(self, delivery: Delivery) -> None:
        """Keep an event for a later wait."""
        self.waiting = sorted([*self.waiting, delivery], key=_BY_ROW)

    def take_out(self, which: Callable[[Delivery], bool] = lambda _: True) -> list[Delivery]:
        """Remove the waiting events of which this is true, by default all, and return them in their order."""
        taken = [queued for queued in self.waiting if which(queued)]
        if taken:
            self.waiting = [queued for queued in self.waiting if queued not in taken]
        return taken

    @property
    def is_full(self) -> bool:
        """Whether no more may wait, whatever it is."""
        return len(self.waiting) >= MAILBOX

    def has_room(self, beside: Callable[[Delivery], bool]) -> bool:
        """Return whether another event may wait.

        Signals are bounded where they come in, and take nobody else's place; nor does what is `beside`.
        """
        counted = (queued for queued in self.waiting if not is_signal(queued.event) and not beside(queued))
        return not self.is_full or sum(1 for _ in counted) < MAILBOX

    # --- in the inbox

    def caught_up(self, latest: int) -> None:
        """Go on behind `latest`: all up to there was put on its way."""
        self.cursor = max(self.cursor, latest)
        self.passed = frozenset([seq for seq in self.passed if seq > self.cursor])
        self.behind = self.latest > self.cursor

    # --- what a turn that runs again is to find

    def unseen(self, whose: object, since: int, turn: int) -> Sequence[Delivery]:
        """Return what was shown to this conversation, came before its turn, and has not been dealt with.

        Args:
            since: the row with which it began. What came before was kept for somebody else, who may go on
                again now; but signals are for whoever takes them.
        """
        if self.shown is None or self.shown[0] is not whose:
            return ()
        return [
            delivery
            for delivery in self.shown[1]
            if delivery.seq not in self._early
            and delivery.seq not in self.passed
            and (delivery.seq >= since or is_signal(delivery.event))
            and delivery.at < turn
            and not isinstance(delivery.event, Leave)
        ]

    def found(self, delivery: Delivery) -> None:
        """Note that an event was found before its turn: it is not routed again if it is taken by then."""
        self._early |= {delivery.seq}

    def shows_no_more(self) -> None:
        """Route all that waits from now on, but for what was found and taken out meanwhile."""
        early, self._early, self.shown = self._early, frozenset(), None
        self.passed |= early.difference(queued.seq for queued in self.take_out(lambda one: one.seq in early))

    # --- what came too late

    def ended(self, owner: SenderId | None, seq: int) -> None:
        """Note that what came for this owner's conversation before this row is of no use."""
        ended_by = self._ended_by = self._ended_by or {}
        ended_by[owner] = max(ended_by.get(owner, 0), seq)

    def left(self, seq: int) -> None:
        """Note that the chat was left: nothing before this row is of use."""
        self._left_by = max(self._left_by, seq)

    def halted(self, seq: int, halt: Halt) -> None:
        """Note what is to be stopped that was to start before this row, also where it is in the inbox yet."""
        self._halts = [*self._halts, (seq, halt)]

    def overtaken(self, delivery: Delivery, owner: SenderId | None) -> bool:
        """Return whether an interrupt or a leave has made an event useless; signals stay of use."""
        sender, ended_by = delivery.event.sender, self._ended_by or {}
        by = max(self._left_by, ended_by.get(owner, 0), 0 if sender is None else ended_by.get(sender.id, 0))
        return delivery.seq < by and not is_signal(delivery.event)

    def stopped(self, delivery: Delivery) -> bool:
        """Return whether code has stopped what this is to start."""
        return any(delivery.seq < seq and ends(halt, delivery) for seq, halt in self._halts)
