"""What conversations tell a developer of: facts, which `triobot.studio.advice` puts into words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast, final

import attrs

from ..base.frozen import guarded
from ..errors import UnrecordableError
from ..seams.values import encode_value
from ..wire.events import Event
from .routes.declarations import Route
from .running.lines import calling_line


@final
@guarded
class Gift:
    """What an aside has done for a payment, at a line of the author's, with these values."""

    line: str
    args: frozenset[str] = attrs.field(repr=False)


@final
@guarded
class Copy:
    """A value that was read from ``chat.data`` and can be changed in place."""

    key: str
    value: object = attrs.field(repr=False)
    text: str = attrs.field(repr=False)
    line: str


def copied(key: str, value: object) -> Copy | None:
    """Return what to remember of a value that was read, if it can be changed in place."""
    mutable = type(value) in (list, dict, set)
    return Copy(key, value, encode_value(value), calling_line()) if mutable else None


def added(before: object, after: object) -> Sequence[object]:
    """Return what is added to a value by putting another in its place; nothing if that can't be told."""
    match before, after:
        case int() | float(), int() | float():
            return (after - before,)
        case list(), list():
            return cast("list[object]", after)[len(cast("list[object]", before)) :]
        case _:
            return (after,) if isinstance(after, str | dt.datetime) else ()


def is_changed(copy: Copy) -> bool:
    """Return whether a copy is no longer what was read."""
    try:
        return encode_value(copy.value) != copy.text
    except UnrecordableError:
        return True


@final
@guarded
class Untaken:
    """An event came that no route takes.

    Attributes:
        routes: those that were asked.
        username: the bot's own.
        begun: the route that the event would have begun, and the live one that is in the way.
    """

    event: Event
    routes: Sequence[Route]
    username: str | None
    begun: tuple[Route, Route] | None


@final
@guarded
class Unheard:
    """A signal came to a room which doesn't run, and doesn't begin it.

    Attributes:
        room: the room's name and key; None for the bot's own.
        begins: what begins it.
    """

    event: object
    room: tuple[str, str] | None
    begins: Sequence[str]


@final
@guarded
class KnownKey:
    """A start began nothing: something was started with its key, and has ended."""

    route: str
    key: str | None


@final
@guarded
class Slept:
    """A live conversation sleeps for so many seconds, and its chat is deaf meanwhile."""

    seconds: float


@final
@guarded
class Operated:
    """A conversation has begun so many operations."""

    count: int


@final
@guarded
class Unassigned:
    """A copy was changed, and never assigned."""

    copy: Copy


@final
@guarded
class Keyless:
    """An aside gave what was paid for by steps, none of which got the payment's key."""

    line: str


@final
@guarded
class Declined:
    """A hook neither ran what is within it nor did anything else."""

    line: str
    hook: str
    route: str


@final
@guarded
class Refused:
    """A conversation ended since the platform refuses what it sends to its own chat."""

    route: str
    chat_id: int | str


Notice: TypeAlias = (
    Untaken | Unheard | KnownKey | Slept | Operated | Unassigned | Keyless | Declined | Refused
)
Notify: TypeAlias = Callable[[Notice], None]
"""Told at the line of the author's code that a notice is about, unless the notice names one."""
