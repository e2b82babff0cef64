"""The mailbox of a chat: the events that no conversation has taken, and the chat's position in the inbox.

The mailbox is pure data: `ChatActor` decides and acts. The mailbox is bounded. Once the mailbox is full, the
chat is *behind*: all its further events are read from the inbox, in order, until the inbox has no more of
them. Urgent events of a chat that is behind are handled before older events, and skipped (*passed*) when
they are read from the inbox.

An interrupt, a leave or a stop may be handled ahead of older events for the same conversation. In this case,
the older events are too late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, final

import attrs

from ..wire.events import Leave
from ..wire.ids import SenderId
from .calls.signals import Call, Halt, asked_of, is_signal
from .routes.routing import Delivery

# A person types only a few messages ahead. All further messages wait in the inbox.
MAILBOX: Final = 16
_BY_ROW: Final = attrgetter("seq")


def ends(halt: Halt, delivery: Delivery) -> bool:
    """Return whether a stop cancels the call in `delivery`; False if the event is no call."""
    asked = asked_of(delivery.event)
    return isinstance(asked, Call) and halt.ends(asked.name, asked.key)


@final
@attrs.define(eq=False, repr=False)
class Mailbox:
    """The events of one chat that no conversation has taken.

    Attributes:
        cursor: row up to which all the chat's events were routed.
        latest: newest row of the chat that the dispatcher has read; beyond `cursor` while the chat is behind.
        behind: whether events between `cursor` and `latest` wait in the inbox.
        passed: rows beyond `cursor` that were handled before older rows.
        waiting: events that wait here for a conversation, in the inbox's order.
        shown: the revived conversation that repeats its last turn, and the chat's waiting events in order.
            The repeated turn may take these events before they are routed. None if no turn is repeated.
    """

    cursor: int
    latest: int
    behind: bool = attrs.field(default=False, init=False)
    passed: frozenset[int] = attrs.field(default=frozenset(), init=False)
    waiting: Sequence[Delivery] = attrs.field(default=(), init=False)
    shown: tuple[object, Sequence[Delivery]] | None = attrs.field(default=None, init=False)
    _early: frozenset[int] = attrs.field(default=frozenset(), init=False)
    # Most chats never use these fields, so the fields are allocated at the first use.
    _ended_by: dict[SenderId | None, int] | None = attrs.field(default=None, init=False)
    _left_by: int = attrs.field(default=0, init=False)
    _halts: Sequence[tuple[int, Halt]] = attrs.field(default=(), init=False)

    # --- waiting events

    def put(self, delivery: Delivery) -> None:
        """Queue an event for a later wait."""
        self.waiting = sorted([*self.waiting, delivery], key=_BY_ROW)

    def take_out(self, which: Callable[[Delivery], bool] = lambda _: True) -> list[Delivery]:
        """Remove and return, in order, the waiting events for which `which` is true; by default all."""
        taken = [queued for queued in self.waiting if which(queued)]
        if taken:
            self.waiting = [queued for queued in self.waiting if queued not in taken]
        return taken

    @property
    def is_full(self) -> bool:
        """Whether the number of waiting events, signals included, has reached the limit."""
        return len(self.waiting) >= MAILBOX

    def has_room(self, beside: Callable[[Delivery], bool]) -> bool:
        """Return whether another event may wait.

        Signals don't count, because the number of a chat's signals is limited at their acceptance. Events for
        which `beside` is true don't count either.
        """
        counted = (queued for queued in self.waiting if not is_signal(queued.event) and not beside(queued))
        return not self.is_full or sum(1 for _ in counted) < MAILBOX

    # --- position in the inbox

    def caught_up(self, latest: int) -> None:
        """Move the cursor to `latest`: all events up to there were routed."""
        self.cursor = max(self.cursor, latest)
        self.passed = frozenset([seq for seq in self.passed if seq > self.cursor])
        self.behind = self.latest > self.cursor

    # --- events for a repeated turn

    def unseen(self, whose: object, since: int, turn: int) -> Sequence[Delivery]:
        """Return the events in `shown` that a conversation's repeated turn may take.

        These events came before the turn or in the same millisecond, and aren't handled yet.

        Args:
            whose: the conversation that repeats its turn.
            since: row of the conversation's start. Older events wait for another conversation, except
                signals.
            turn: time of the turn in wall milliseconds.
        """
        if self.shown is None or self.shown[0] is not whose:
            return ()
        return [
            delivery
            for delivery in self.shown[1]
            if delivery.seq not in self._early
            and delivery.seq not in self.passed
            and (delivery.seq >= since or is_signal(delivery.event))
            and delivery.at <= turn
            and not isinstance(delivery.event, Leave)
        ]

    def found(self, delivery: Delivery) -> None:
        """Mark an event as found by the repeated turn.

        If that turn takes the event, the event isn't routed again.
        """
        self._early |= {delivery.seq}

    def shows_no_more(self) -> None:
        """End the repeated turn: all waiting events are routed, except events that the turn has taken."""
        early, self._early, self.shown = self._early, frozenset(), None
        self.passed |= early.difference(queued.seq for queued in self.take_out(lambda one: one.seq in early))

    # --- events that are too late

    def ended(self, owner: SenderId | None, seq: int) -> None:
        """Mark events for this owner's conversation as too late if they came before row `seq`."""
        ended_by = self._ended_by = self._ended_by or {}
        ended_by[owner] = max(ended_by.get(owner, 0), seq)

    def left(self, seq: int) -> None:
        """Mark all events before row `seq` as too late, because the user has left."""
        self._left_by = max(self._left_by, seq)

    def halted(self, seq: int, halt: Halt) -> None:
        """Record a stop, which cancels its route's starts before row `seq`, even those still in the inbox."""
        self._halts = [*self._halts, (seq, halt)]

    def overtaken(self, delivery: Delivery, owner: SenderId | None) -> bool:
        """Return whether an interrupt or a leave has made an event too late; signals are never too late."""
        sender, ended_by = delivery.event.sender, self._ended_by or {}
        by = max(self._left_by, ended_by.get(owner, 0), 0 if sender is None else ended_by.get(sender.id, 0))
        return delivery.seq < by and not is_signal(delivery.event)

    def stopped(self, delivery: Delivery) -> bool:
        """Return whether a recorded stop cancels the call in `delivery`."""
        return any(delivery.seq < seq and ends(halt, delivery) for seq, halt in self._halts)
