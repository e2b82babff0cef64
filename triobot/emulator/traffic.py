"""Every request in both directions, newest last: what the bot asked for, and what was posted to it.

For people who look on. The token is not kept, and neither are the bytes of uploads. Pure: moments come in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, final

import attrs

from ..wire.rules import JsonValue

KEPT: Final = 400
# A body longer than this is cut: a keyboard with a hundred buttons is a tenth of it.
LONGEST: Final = 64 * 1024

Way: TypeAlias = Literal["operation", "event"]


@final
@attrs.define(eq=False)
class Call:
    """One request, under way or answered.

    Attributes:
        way: an ``operation`` is the bot's, an ``event`` is the platform's.
        name: the operation's path, or the event's type.
        at: wall milliseconds of its start.
        body: what was sent, as it was on the wire; empty for uploads.
        size: how long that was, whatever was kept of it.
        status: the answer's, or None while there is none, or when none came.
        took: milliseconds until the answer, or until it was clear that none comes; None while under way.
        note: what was made to go wrong, in words.
        version: the number of its newest change.
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
    version: int = 0


@final
class Traffic:
    """The newest requests; older ones are forgotten."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=KEPT)
        self._made = 0
        self.version = 0

    def begin(
        self, way: Way, name: str, at: int, *, content_type: str = "", body: bytes = b"", note: str = ""
    ) -> Call:
        """Note that a request is under way."""
        self._made += 1
        call = Call(self._made, way, name, at, content_type, body[:LONGEST], len(body), note=note)
        self._calls.append(call)
        return self.touch(call)

    def touch(self, call: Call) -> Call:
        """Note that a call was changed."""
        self.version += 1
        call.version = self.version
        return call

    def end(self, call: Call, took: float, status: int | None, answer: bytes = b"") -> None:
        """Note how a request was answered, after how many seconds; without a status, that it was not."""
        call.status, call.answer = status, answer[:LONGEST]
        call.took = round(took * 1_000)
        self.touch(call)

    def since(self, version: int) -> Iterator[Call]:
        """What was begun or changed behind this version, in the order of their beginning."""
        return (call for call in self._calls if call.version > version)


def view_call(call: Call) -> dict[str, JsonValue]:
    """A request as JSON, with its bodies as text."""
    return {
        "number": call.number,
        "way": call.way,
        "name": call.name,
        "at": call.at,
        "content_type": call.content_type,
        "body": call.body.decode("utf-8", "replace"),
        "size": call.size,
        "status": call.status,
        "answer": call.answer.decode("utf-8", "replace"),
        "took": call.took,
        "note": call.note,
    }
