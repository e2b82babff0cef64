"""A wait: what a parked conversation would take, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias, final

import attrs

from ...journal.records import OperationId
from ...wire.events import Event, InvoiceCallback, PayCallback
from ...wire.ids import SenderId
from ..routes.filters import Setting


class Otherwise(Enum):
    """What to do with an event that doesn't fit the open wait."""

    DROP = "drop"
    """Count and forget it."""

    KEEP = "keep"
    """Leave it in the mailbox for a later wait."""


OtherwisePolicy: TypeAlias = str | Otherwise
"""A text to say, or one of `Otherwise`."""


@final
@attrs.frozen
class Hint:
    """A text to say while the chat is a private one, and nothing once it is a group.

    A chat becomes a group while a question is open, so what it is can be asked only when an event comes. Then
    the journal has the answer for every later run; asked at the question's beginning, it would differ.
    """

    text: str = attrs.field(repr=False)


@final
@attrs.frozen
class Delivery:
    """An event on its way to a conversation, with its place in the inbox and the time of its arrival.

    Attributes:
        turn: the time of the turn in which it is taken, if that was stored with it.
    """

    seq: int
    event: Event
    at: int = 0
    turn: int | None = None


@final
@attrs.frozen
class Taken:
    """The wait took this event, as this value."""

    delivery: Delivery
    value: object = attrs.field(repr=False)


@final
@attrs.frozen
class Unfit:
    """A message came that doesn't fit; the conversation says so, in its own order."""

    delivery: Delivery


@final
@attrs.frozen
class Broken:
    """The wait's filter failed on this event; the error is raised in the conversation that waits."""

    delivery: Delivery
    error: Exception = attrs.field(repr=False)


Answer: TypeAlias = Taken | Unfit | Broken


@final
@attrs.define(eq=False)
class Wait:
    """One open wait. It opens before its question is sent, so that a fast answer is not missed.

    Attributes:
        look: what it takes, and as what.
        otherwise: what becomes of the rest.
        question: it has buttons or a form of its own, which come before every other wait.
        token: what its buttons carry; empty without buttons.
        also: what a question takes besides its own buttons, as any wait does.
        since: the time of the turn in which it opened, which a revival doesn't change: the newest goes first.
        opened: its conversation's number, and one that grows with each opening in the chat; of those of one
            time that of the youngest conversation goes first, and of these the last, after a restart, too.
        owner: whose conversation waits; None when it is the chat's. It takes nothing of anybody else's.
        parked_as: the operation in which its task waits for nothing else; None before.
        given: told when it is given something while it is parked.
        parking: told each time that it is parked.
        answer: what came; a wait takes one event, then is closed until it is opened again.
        hints: payment callbacks that came while it was closed; they are looked at one by one.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    otherwise: OtherwisePolicy | Hint = attrs.field(repr=False)
    question: bool = False
    token: str = attrs.field(default="", repr=False)
    also: Callable[[Event, Setting], object | None] | None = attrs.field(default=None, repr=False)
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    parked_as: OperationId | None = attrs.field(default=None, init=False)
    given: Callable[[Wait], None] | None = attrs.field(default=None, init=False, repr=False)
    parking: Callable[[], None] | None = attrs.field(default=None, init=False, repr=False)
    answer: Answer | None = attrs.field(default=None, init=False)
    # Not a deque: an empty one takes 760 bytes, and each conversation that waits has one.
    hints: list[Taken] = attrs.field(factory=lambda: list[Taken](), init=False)

    @property
    def hint(self) -> str:
        """Return what is said of an event that doesn't fit."""
        return self.otherwise.text if isinstance(self.otherwise, Hint) else str(self.otherwise)

    @property
    def open(self) -> bool:
        """Return whether it can still take an event."""
        return self.answer is None

    @property
    def parked(self) -> bool:
        """Return whether its task waits for nothing else, and nothing has come yet."""
        return self.parked_as is not None and self.answer is None

    def give(self, answer: Answer) -> None:
        """Close the wait with this; the conversation takes it when its turn comes."""
        self.answer = answer
        if self.given is not None:
            self.given(self)


@final
@attrs.define(eq=False)
class Watch:
    """What would end an open block; asked before all waits, even while its conversation is busy.

    Attributes:
        look: what ends it, and as what.
        name: the filter's, for the log.
        end: ends the block with this.
        since, opened: as a wait's.
        owner: as a wait's.
        scope: the block's own number.
        cut: whether the block is on its way out, as its journal knows; after a restart, too.
        taken: what is to end it; it takes one event only.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    name: str
    end: Callable[[Taken], None] = attrs.field(repr=False)
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    scope: OperationId = attrs.field(default=OperationId(""), init=False)
    cut: Callable[[], bool] = attrs.field(default=lambda: False, kw_only=True, repr=False)
    taken: Taken | None = attrs.field(default=None, init=False)

    @property
    def open(self) -> bool:
        """Return whether an event can still end it."""
        return self.taken is None and not self.cut()

    def take(self, taken: Taken) -> None:
        """End the block with this."""
        self.taken = taken
        self.end(taken)


def is_payment(event: Event) -> bool:
    """Return whether this is a payment's callback: those never walk the routing table."""
    return isinstance(event, PayCallback | InvoiceCallback)
