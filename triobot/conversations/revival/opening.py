"""How a conversation's journal begins: what it was started with, as its first record.

`stored.opening_of` reads it. The record is made before the conversation runs, or, for an event that finds its
chat at rest, before the event is stored (`claims`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import cast, final

import attrs

from ...errors import UnrecordableError
from ...journal.records import Jumped, Record, recordable
from ...journal.records import Start as StartRecord
from ...values import decode_value, encode_value
from ...wire.events import Event, Join, Message, Press, Submission
from ..routes.declarations import Route


@final
@attrs.frozen
class Opening:
    """What a conversation is started with.

    Attributes:
        at: when the event arrived.
        value: as what its route's filter took the event.
        args: what its function gets besides the chat.
        interrupted: the name of what it ended.
    """

    event: Event
    at: int
    value: object = attrs.field(repr=False)
    args: tuple[object, ...] = attrs.field(default=(), repr=False)
    interrupted: str | None = None


@final
@attrs.frozen
class Opened:
    """A beginning.

    Attributes:
        first: the first record; without its `event` if `told` has that.
        value: as the conversation's code sees it.
        jumped: by how much the time of day had jumped in all then (`triobot.journal.jumps`).
        durable: False if no record can hold what it was started with: then it lives as long as the process.
        told: what the record's `event` is to be, which is written down once it is asked for (`whole`).
    """

    first: StartRecord
    value: object = attrs.field(repr=False)
    durable: bool
    jumped: int = 0
    told: Mapping[str, object] | None = attrs.field(default=None, repr=False)

    @property
    def length(self) -> int:
        """Return how many records the beginning has."""
        return 2 if self.jumped else 1

    def records(self) -> Sequence[Record]:
        """Return the first record, as it is to be stored, and what goes with it."""
        first = self.first if self.told is None else attrs.evolve(self.first, event=encode_value(self.told))
        return [first, *beside(first, self.jumped)]


def beside(first: StartRecord, jumped: int) -> Sequence[Record]:
    """Return what goes with a first record."""
    return [Jumped(first.time, 0, jumped)] if jumped else []


def open_conversation(
    route: Route,
    opening: Opening,
    *,
    now: int,
    jumped: int = 0,
    data: Mapping[str, str],
    stored: bool = False,
) -> Opened:
    """Make the first record.

    Args:
        jumped: by how much the time of day has jumped in all.
        data: what the chat keeps.
        stored: the event is stored elsewhere, so that its text may wait, if it is sure to have one.
    """
    event = opening.event
    if stored and opening.value is event and route.durable and not opening.args and is_recordable(event):
        told = {"event": event, "interrupted": opening.interrupted, "at": opening.at}
        bare = StartRecord(now, route.name, route.version, secrets.token_hex(16), event="", data=dict(data))
        return Opened(bare, event, durable=True, jumped=jumped, told=told)
    told = {"event": opening.event, "interrupted": opening.interrupted, "at": opening.at}
    # The wire's own events are the same when they come back, and there is no need to say them twice.
    same = opening.value is opening.event and type(opening.event).__module__ == Join.__module__
    value, durable = opening.value, route.durable
    try:
        if same:
            text = recordable(told)
        else:
            text = recordable({**told, "value": value})
            value = cast("dict[str, object]", decode_value(text))["value"]
        args = recordable(list(opening.args)) if opening.args else "[1,[]]"
    except UnrecordableError:
        durable, text, args = False, "[1,null]", "[1,[]]"
    first = StartRecord(now, route.name, route.version, secrets.token_hex(16), args, text, dict(data))
    return Opened(first, value, durable, jumped)


def is_recordable(event: Event) -> bool:
    """Return whether this can be recorded, beyond doubt: what was sent may hold numbers that can't."""
    match event:
        case Message(content=content):
            return isinstance(content, str)
        case Press(value=value):
            return isinstance(value, str)
        case Join() | Submission():
            return True
        case _:
            return False
