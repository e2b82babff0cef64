"""How a conversation begins: its first record, of what it was started with, and how that is read."""

from __future__ import annotations

import secrets
from functools import partial
from typing import cast, final

import attrs

from ..engine import Record, begun
from ..engine.records import START, Node
from ..errors import UnreadableRecordError, UnrecordableError
from ..wire.events import Event, Join
from .codec import CODEC
from .routes.declarations import Route


@final
@attrs.frozen
class StartedWith:
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


def open_run(
    route: Route, opening: StartedWith, *, now: int, jumped: int, untold: bool = False
) -> tuple[Record, object, bool]:
    """Return the first record, the value as the code sees it, and whether the record holds all that.

    What can't be recorded lives as long as the process; its record only says that it was there.

    Args:
        jumped: by how much the time of day has jumped in all, as the clock that says `now` knows.
        untold: leave out what it was started with if that is the event alone, a request's: `tell` puts it in.
    """
    value, seed = opening.value, secrets.token_hex(16)
    begins = partial(begun, route.name, time=now, seed=seed, codec=CODEC, jumped=jumped)
    # The wire's own events are the same when they come back, and there is no need to say them twice.
    same = value is opening.event and type(value).__module__ == Join.__module__
    if untold and same and not opening.args:
        return begins(), value, route.durable
    told: list[object] = [opening.event, opening.at, opening.interrupted]
    try:
        if not same or opening.args:
            told += [value, list(opening.args)]
        record = begins(*told)
        if not same:
            value = CODEC.value_of(record[3][3])
    except UnrecordableError:
        return begins(), value, False
    return record, value, route.durable


def tell(first: Record, event: Event, at: int) -> None:
    """Put into a first record what it was started with, if `open_run` left that out."""
    if not first[3]:
        first[3] = [CODEC.node_of(told) for told in (event, at, None)]


def opening_of(start: Record) -> StartedWith | None:
    """Read a first record; None if it doesn't hold what the conversation was started with.

    Raises:
        UnreadableRecordError: this program can't read it.
    """
    if not start or start[0] != START:
        raise UnreadableRecordError("this is no beginning of a conversation")
    nodes: list[Node] = start[3]
    if not nodes:
        return None
    told = [CODEC.value_of(node) for node in nodes]
    if len(told) not in (3, 5) or not isinstance(told[1], int):
        raise UnreadableRecordError("this is no beginning of a conversation")
    event = cast("Event", told[0])
    value, args = (told[3], tuple(cast("list[object]", told[4]))) if len(told) == 5 else (event, ())
    return StartedWith(event, told[1], value, args, cast("str | None", told[2]))
