"""A wait: what a parked conversation would take, and what becomes of the rest.

A wait is open from before its question is sent. What it is given lies in the run's mailbox until the task
parks; only then does a record take it. Until then it can be given back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, TypeAlias, final

import attrs
import trio

from ...engine import LEFT
from ...engine.operations import is_cut
from ...engine.records import Id
from ...wire.events import Event
from ...wire.ids import SenderId
from ..codec import CODEC
from ..routes.filters import Setting

KIND: Final = "receive"
"""As what a wait is recorded."""


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
class PrivateHint:
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
    """

    seq: int
    event: Event
    at: int = 0


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


def _nothing(event: Event, setting: Setting) -> None:
    """Take nothing."""


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
        rests: its task waits for nothing else.
        around: the scopes around it then.
        parking: told each time that it is parked.
        bring: gives an event to the run, which takes it once the wait is parked.
        ready: what it was given and has not taken, by row; a wait takes one event, then is closed until it is
            opened again. A payment's news has row 0.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    otherwise: OtherwisePolicy | PrivateHint = attrs.field(repr=False)
    question: bool = False
    token: str = attrs.field(default="", repr=False)
    also: Callable[[Event, Setting], object | None] | None = attrs.field(default=None, repr=False)
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    rests: bool = attrs.field(default=False, init=False)
    around: Sequence[trio.CancelScope] = attrs.field(default=(), init=False, repr=False)
    parking: Callable[[], None] | None = attrs.field(default=None, init=False, repr=False)
    bring: Callable[[Delivery], None] = attrs.field(default=lambda _: None, kw_only=True, repr=False)
    ready: dict[int, Answer] = attrs.field(factory=lambda: dict[int, Answer](), init=False)

    @property
    def hint(self) -> str:
        """Return what is said of an event that doesn't fit."""
        return self.otherwise.text if isinstance(self.otherwise, PrivateHint) else str(self.otherwise)

    @property
    def open(self) -> bool:
        """Whether it can still take an event."""
        return not self.ready

    @property
    def parked(self) -> bool:
        """Whether its task waits for nothing else, and nothing has come, nor cut it short."""
        return self.rests and not self.ready and not is_cut(self.around)

    def give(self, answer: Answer) -> None:
        """Close the wait with this; the conversation takes it when its turn comes."""
        self.ready[answer.delivery.seq] = answer
        self.bring(answer.delivery)

    def hear_no_more(self) -> None:
        """Take only what it is given from here on: its buttons are over, and what comes waits for others."""
        self.look, self.also, self.otherwise = _nothing, None, Otherwise.KEEP
        self.question, self.token = False, ""

    def takes(self, delivery: Delivery) -> object:
        """Return what is recorded of an event that it was given; `LEFT` for any other."""
        answer = self.ready.get(delivery.seq)
        if answer is None:
            return LEFT
        told = (delivery.event, delivery.seq, delivery.at)
        match answer:
            case Taken(_, value):
                return (*told, (value,))
            case Unfit():
                return (*told, None)
            case Broken(_, error):
                return (*told, None, CODEC.node_of_error(error))


@final
@attrs.define(eq=False)
class Watch:
    """What would end an open block; asked before all waits, even while its conversation is busy.

    Attributes:
        look: what ends it, and as what.
        name: the filter's, for the log.
        bring: gives an event to the run.
        since, opened: as a wait's.
        owner: as a wait's.
        scope: the block's own number.
        cut: whether the block is on its way out, as its journal knows; after a restart, too.
        taken: what is to end it; it takes one event only.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    name: str
    bring: Callable[[Delivery], None] = attrs.field(repr=False)
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    scope: Id = attrs.field(default="", init=False)
    cut: Callable[[], bool] = attrs.field(default=lambda: False, kw_only=True, repr=False)
    taken: Taken | None = attrs.field(default=None, init=False)

    @property
    def open(self) -> bool:
        """Return whether an event can still end it."""
        return self.taken is None and not self.cut()

    def take(self, taken: Taken) -> None:
        """End the block with this."""
        self.taken = taken
        self.bring(taken.delivery)

    def takes(self, delivery: Delivery) -> object:
        """Return what is recorded of the event that is to end it; `LEFT` for any other."""
        if self.taken is None or self.taken.delivery.seq != delivery.seq:
            return LEFT
        return (delivery.event, delivery.seq, delivery.at, (self.taken.value,))
