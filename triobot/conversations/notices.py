"""Notices for developers: facts about conversations. `triobot.studio.advice` has the notices' texts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast, final

import attrs

from ..base.frozen import guarded
from ..seams.values import encode_value, encoded
from ..wire.events import Event
from .routes.declarations import Route
from .running.lines import calling_line


@final
@guarded
class Gift:
    """An action that may give a payment's goods: the author's line, and the values used there."""

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
    """Return the value as a `Copy`, if it can be changed in place; else None."""
    mutable = type(value) in (list, dict, set)
    return Copy(key, value, encode_value(value), calling_line()) if mutable else None


def added(before: object, after: object) -> Sequence[object]:
    """Return what an assignment adds: a difference, further items of a list, a text, a time, or nothing."""
    match before, after:
        case int() | float(), int() | float():
            return (after - before,)
        case list(), list():
            return cast("list[object]", after)[len(cast("list[object]", before)) :]
        case _:
            return (after,) if isinstance(after, str | dt.datetime) else ()


def is_changed(copy: Copy) -> bool:
    return encoded(copy.value) != copy.text


@final
@guarded
class Untaken:
    """An event came that no route takes.

    Attributes:
        routes: the routes that were tried.
        username: the bot's own username.
        begun: the route that the event would start, and the route of the live conversation, which prevents
            the start; None if there is no such start.
    """

    event: Event
    routes: Sequence[Route]
    username: str | None
    begun: tuple[Route, Route] | None


@final
@guarded
class Unheard:
    """A signal came to a room that doesn't run, and didn't start the room.

    Attributes:
        room: the room's name and key; None for the bot's own room.
        begins: the filters of the events that start the room.
    """

    event: object
    room: tuple[str, str] | None
    begins: Sequence[str]


@final
@guarded
class KnownKey:
    """A start did nothing: a run with the same key was started before, and has ended."""

    route: str
    key: str | None


@final
@guarded
class Slept:
    """A live conversation sleeps for some seconds, and takes no events of its chat in the meantime."""

    seconds: float


@final
@guarded
class Operated:
    """A conversation has begun this many operations."""

    count: int


@final
@guarded
class Unassigned:
    """A copy of a value was changed, but not assigned to its key."""

    copy: Copy


@final
@guarded
class Keyless:
    """An aside gave the paid goods by steps, and no step got the payment's key."""

    line: str


@final
@guarded
class Refused:
    """A conversation ended because the platform refused a message to the conversation's own chat."""

    route: str
    chat_id: int | str


Notice: TypeAlias = Untaken | Unheard | KnownKey | Slept | Operated | Unassigned | Keyless | Refused
Notify: TypeAlias = Callable[[Notice], None]
"""Called with each notice. A notice that names no line is about the author's line that is running."""
