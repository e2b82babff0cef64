"""What became of each event: waiting, delivered, refused or lost, with every attempt. Pure: moments come in.

Which answer settles an event is the pusher's to decide; here it is kept, for people who look on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias, final

import attrs

from ..base.frozen import guarded
from ..wire.encode import encode_event_data
from ..wire.events import Event
from ..wire.rules import JsonValue

KEPT: Final = 1_000
"""How many that are settled are remembered; those that wait are bounded by the queue."""
# An event that a bot refuses a hundred times says no more than its last attempts.
_ANSWERS: Final = 20

State: TypeAlias = Literal["waiting", "delivered", "refused", "lost"]


@final
@guarded
class Posting:
    """One posting that was answered, or that got no answer.

    Attributes:
        at: wall milliseconds of its start.
        status: the answer's; None without one.
        took: milliseconds.
    """

    at: int
    status: int | None
    took: int


@final
@attrs.define(eq=False)
class PostedEvent:
    """An event on its way to the bot, or how that ended.

    Attributes:
        at: wall milliseconds at which it happened.
        state: ``waiting`` until it is settled; ``delivered``, if an attempt was answered 200 to 299;
            ``refused``, if the bot answered otherwise; ``lost``, if it never got there.
        attempts: how often it was posted; 0 for one that was dropped on demand.
        answers: the newest attempts.
        again: the number of the delivery that was posted again with this one, at somebody's wish.
        changed: that one had other content.
        note: what was made to go wrong, in words.
        version: the number of its newest change.
    """

    number: int
    event: Event = attrs.field(repr=False)
    at: int
    again: int | None = None
    changed: bool = False
    state: State = "waiting"
    attempts: int = 0
    answers: list[Posting] = attrs.field(factory=list[Posting])
    note: str = ""
    version: int = 0

    @property
    def type(self) -> str:
        """Return the event's type."""
        return encode_event_data(self.event)[0]

    @property
    def status(self) -> int | None:
        """Return the last answer's status; None without one."""
        return self.answers[-1].status if self.answers else None


@final
class Deliveries:
    """The newest deliveries: all that wait, and as many as `KEPT` that are settled."""

    def __init__(self) -> None:
        self._known: dict[int, PostedEvent] = {}
        # By the number of their newest change, so that finding what is new doesn't visit all.
        self._changed: dict[int, PostedEvent] = {}
        self._settled: dict[int, None] = {}
        self._made = 0
        self.version = 0

    def begin(self, event: Event, at: int, *, again: int | None = None, changed: bool = False) -> PostedEvent:
        """Note that an event waits."""
        self._made += 1
        delivery = PostedEvent(self._made, event, at, again, changed)
        self._known[delivery.number] = delivery
        self._touch(delivery)
        return delivery

    def answer(self, delivery: PostedEvent, attempt: Posting) -> None:
        """Note how an attempt went."""
        delivery.attempts += 1
        delivery.answers = [*delivery.answers[1 - _ANSWERS :], attempt]
        self._touch(delivery)

    def settle(self, delivery: PostedEvent, state: State) -> None:
        """Note how it ended."""
        delivery.state = state
        self._touch(delivery)
        self._settled[delivery.number] = None
        while len(self._settled) > KEPT:
            oldest = self._known.pop(next(iter(self._settled)))
            del self._settled[oldest.number]
            self._changed.pop(oldest.version, None)

    def get(self, number: int) -> PostedEvent | None:
        """Find one that is still known."""
        return self._known.get(number)

    def since(self, version: int) -> Sequence[PostedEvent]:
        """Return what was begun or changed after this version, in the order of its beginning."""
        found: list[PostedEvent] = []
        for changed, delivery in reversed(self._changed.items()):
            if changed <= version:
                break
            found.append(delivery)
        return sorted(found, key=lambda delivery: delivery.number)

    def newest(self, count: int) -> Sequence[PostedEvent]:
        """Return the newest, oldest first."""
        return [*islice(reversed(self._known.values()), count)][::-1]

    def settled(self) -> Sequence[PostedEvent]:
        """Return those that are settled, in the order in which they were."""
        return [self._known[number] for number in self._settled]

    def _touch(self, delivery: PostedEvent) -> None:
        self.version += 1
        self._changed.pop(delivery.version, None)
        delivery.version = self.version
        self._changed[delivery.version] = delivery


def view_delivery(delivery: PostedEvent) -> dict[str, JsonValue]:
    """Return a delivery as JSON."""
    sender, (kind, data) = delivery.event.sender, encode_event_data(delivery.event)
    return {
        "number": delivery.number,
        "type": kind,
        "chat_id": delivery.event.chat_id,
        "user": None if sender is None else sender.id,
        "data": data,
        "at": delivery.at,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "status": delivery.status,
        "answers": [attrs.asdict(attempt) for attempt in delivery.answers],
        "again": delivery.again,
        "changed": delivery.changed,
        "note": delivery.note,
    }
