"""The delivery of each event, with attempts and outcome. Pure: times are arguments.

The pusher decides which answer settles an event. This module keeps the outcomes, for display.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, final

import attrs

from ..wire.encode import encode_event_data
from ..wire.events import Event
from ..wire.rules import JsonValue
from .traffic import Numbered

KEPT: Final = 1_000
"""Maximum number of settled deliveries that are kept. The queue's capacity limits the waiting deliveries."""

State: TypeAlias = Literal["waiting", "delivered", "refused", "lost"]


@final
@attrs.define(eq=False)
class PostedEvent:
    """An event with the state of its delivery to the bot.

    Attributes:
        at: wall milliseconds at which the event was queued.
        state: ``waiting`` until the delivery is settled; ``delivered`` after an answer from 200 to 299 (only
            200 if the platform is strict); ``refused`` after another answer below 500; ``lost`` without an
            answer below 500.
        attempts: number of attempts; 0 for an event that a fault dropped.
        status: HTTP status of the last answer; None without an answer.
        again: number of the earlier delivery that this delivery repeats, at a person's request.
        changed: whether this event differs from the event of the repeated delivery.
        note: description of the fault, if there was one.
        version: number of the delivery's newest change.
    """

    number: int
    event: Event = attrs.field(repr=False)
    at: int
    again: int | None = None
    changed: bool = False
    state: State = "waiting"
    attempts: int = 0
    status: int | None = None
    note: str = ""
    version: int = 0

    @property
    def type(self) -> str:
        return encode_event_data(self.event)[0]


@final
class Deliveries(Numbered[PostedEvent]):
    """All waiting deliveries, and the newest settled deliveries, at most `KEPT`."""

    def __init__(self) -> None:
        super().__init__()
        self._settled: dict[int, None] = {}

    def begin(self, event: Event, at: int, *, again: int | None = None, changed: bool = False) -> PostedEvent:
        """Add a delivery in the state ``waiting``, and return this delivery."""
        self.made += 1
        return self.touch(PostedEvent(self.made, event, at, again, changed))

    def answer(self, delivery: PostedEvent, status: int | None) -> None:
        """Record an attempt and its status. `Traffic` records the attempt's time and bodies."""
        delivery.attempts += 1
        delivery.status = status
        self.touch(delivery)

    def settle(self, delivery: PostedEvent, state: State) -> None:
        """Record the delivery's final state."""
        delivery.state = state
        self.touch(delivery)
        self._settled[delivery.number] = None
        while len(self._settled) > KEPT:
            del self._settled[self.drop(next(iter(self._settled))).number]

    def get(self, number: int) -> PostedEvent | None:
        """Return the delivery of this number; None if the delivery is no longer kept."""
        return self.known.get(number)

    def settled(self) -> Sequence[PostedEvent]:
        """Return the settled deliveries, in the order of settlement."""
        return [self.known[number] for number in self._settled]


def view_delivery(delivery: PostedEvent) -> dict[str, JsonValue]:
    sender, (kind, data) = delivery.event.sender, encode_event_data(delivery.event)
    fields = attrs.asdict(delivery, filter=lambda field, _: field.name not in ("event", "version"))
    user: JsonValue = None if sender is None else sender.id
    return {**fields, "type": kind, "chat_id": delivery.event.chat_id, "user": user, "data": data}
