"""Requests in both directions, newest last: the bot's operations, and the events posted to the bot.

For display. The token and the bytes of uploads are not kept. Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar, final

import attrs

from ..wire.rules import JsonValue
from .strictness import Liberty

KEPT: Final = 10_000
# Limit of all kept bodies together, in bytes. Only bots with long texts reach the limit: `KEPT` requests of
# usual length have a sixth of this size.
HELD: Final = 64 * 1024 * 1024
# Number of bytes to which a longer body is cut. A keyboard with a hundred buttons has a tenth of this size.
LONGEST: Final = 64 * 1024

Way: TypeAlias = Literal["operation", "event"]


class _Versioned(Protocol):
    number: int
    version: int


OneT = TypeVar("OneT", bound=_Versioned)


@final
@attrs.define(eq=False)
class RecordedCall:
    """One request, in progress or answered.

    Attributes:
        way: ``operation`` for a request of the bot, ``event`` for a request of the platform.
        name: the operation's path, or the event's type.
        at: wall milliseconds of the request's start.
        body: the request's body, cut to `LONGEST` bytes; empty for uploads.
        size: length of the whole body in bytes.
        status: HTTP status of the answer; None until the answer comes, or if no answer came.
        took: milliseconds until the answer, or until the request failed; None while in progress.
        note: description of the fault, if there was one.
        liberties: properties of the request that the interface doesn't promise to accept.
        delivery: for an event, the number of its `PostedEvent`.
        held: number of kept bytes; known at the request's end.
        version: number of the request's newest change.
    """

    number: int
    way: Way
    name: str
    at: int
    content_type: str = ""
    body: bytes = attrs.field(default=b"", repr=False)
    size: int = 0
    status: int | None = None
    answer: bytes = attrs.field(default=b"", repr=False)
    took: int | None = None
    note: str = ""
    liberties: tuple[Liberty, ...] = ()
    delivery: int | None = None
    held: int = 0
    version: int = 0


class Numbered(Generic[OneT]):
    """Numbered entries, oldest first. Each change of an entry gets a number, the entry's version.

    Attributes:
        made: number of entries so far, including dropped entries.
        version: number of the newest change.
    """

    def __init__(self) -> None:
        self.known: dict[int, OneT] = {}
        # Entries by version, oldest version first, to find changes without visiting every entry.
        self._changed: dict[int, OneT] = {}
        self.made = 0
        self.version = 0

    def touch(self, one: OneT) -> OneT:
        """Add an entry, or give a changed entry a new version."""
        self.known[one.number] = one
        self.version += 1
        self._changed.pop(one.version, None)
        one.version = self.version
        self._changed[one.version] = one
        return one

    def drop(self, number: int) -> OneT:
        """Remove and return an entry."""
        one = self.known.pop(number)
        self._changed.pop(one.version, None)
        return one

    def since(self, version: int) -> Sequence[OneT]:
        """Return the entries that were added or changed after `version`, in the order of their numbers."""
        found = takewhile(lambda one: one.version > version, reversed(self._changed.values()))
        return sorted(found, key=lambda one: one.number)

    def newest(self, count: int, *, before: int | None = None) -> Sequence[OneT]:
        """Return the `count` newest entries, oldest first; with `before`, only entries with lower numbers."""
        records = reversed(self.known.values())
        fitting = (one for one in records if before is None or one.number < before)
        return [*islice(fitting, count)][::-1]


@final
class Traffic(Numbered[RecordedCall]):
    """The newest requests: at most `KEPT` requests, with at most `HELD` bytes. Older requests are dropped."""

    _held = 0

    def begin(
        self,
        way: Way,
        name: str,
        at: int,
        *,
        content_type: str = "",
        body: bytes = b"",
        note: str = "",
        delivery: int | None = None,
    ) -> RecordedCall:
        """Add a request in progress."""
        self.made += 1
        call = RecordedCall(self.made, way, name, at, content_type, body[:LONGEST], len(body), note=note)
        call.delivery = delivery
        self.touch(call)
        self._forget()
        return call

    def end(self, call: RecordedCall, took: float, status: int | None, answer: bytes = b"") -> None:
        """Record a request's answer after `took` seconds; `status` is None if no answer came."""
        call.status, call.answer = status, answer[:LONGEST]
        call.took = round(took * 1_000)
        if call.number in self.known:
            call.held = len(call.body) + len(call.answer)
            self._held += call.held
            self.touch(call)
            self._forget()

    def has_older(self, number: int) -> bool:
        """Whether requests with lower numbers are still kept."""
        return bool(self.known) and next(iter(self.known)) < number

    def _forget(self) -> None:
        while len(self.known) > KEPT or (self._held > HELD and len(self.known) > 1):
            self._held -= self.drop(next(iter(self.known))).held


def view_call(call: RecordedCall) -> dict[str, JsonValue]:
    """Return a request as JSON, with its bodies as text."""
    texts = {"body": call.body.decode("utf-8", "replace"), "answer": call.answer.decode("utf-8", "replace")}
    return {**attrs.asdict(call, filter=_is_shown), **texts}


def _is_shown(attribute: attrs.Attribute[object], value: object) -> bool:
    return attribute.name not in ("held", "version")


def view_calls(calls: Sequence[RecordedCall], traffic: Traffic) -> dict[str, JsonValue]:
    """Return consecutive requests as JSON, and whether older requests are kept."""
    return {
        "calls": [view_call(call) for call in calls],
        "older_calls": bool(calls) and traffic.has_older(calls[0].number),
    }
