"""Properties that all operations of a class share; each class declares them once.

Code that encodes, decodes, orders, repeats or shows operations uses these properties. Such code checks an
operation's class only where these properties are not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs

from ..base.frozen import guarded
from .rules import JsonValue

Lane: TypeAlias = Literal["chat", "action", "answer", "invoice", "payment"]
Repeat: TypeAlias = Literal["freely", "as chosen", "never"]
ReadResult: TypeAlias = "Callable[[Any, JsonValue, bytes], Any]"

_ON_WIRE: Final = "on_wire"
OUTSIDE: Final[Mapping[str, object]] = {"outside": True}
"""Metadata of a field that the interface doesn't list."""


@final
@guarded
class Traits:
    """Common properties of the operations of one class.

    Attributes:
        result: function that makes the result from the operation, the answer's decoded JSON and the answer's
            bytes.
        lane: kind of lane. Operations of the same lane are sent one after the other. ``chat`` is for
            everything that a chat's users see. None: no lane, so the operation waits for no other operation.
        number: name of the operation's field that distinguishes the lanes of one kind; "" for the chat id.
        repeat: whether a request that may have taken effect is repeated. ``freely``: repeated, because a
            second request has no further effect. ``as chosen``: the setting `OnUnknown` decides. ``never``:
            not repeated.
        late: whether a late attempt is still useful. If False, only one attempt is made.
        money: whether the operation is a verify or an inquiry of a payment; the ledger then schedules further
            attempts.
        word: short name for people; "" for the path.
    """

    result: ReadResult
    lane: Lane | None = None
    number: str = ""
    repeat: Repeat = "as chosen"
    late: bool = True
    money: bool = False
    word: str = ""


def on_wire(*names: str) -> Mapping[str, object]:
    """Return attrs metadata that state a field's names on the wire."""
    return {_ON_WIRE: names}


def names_of(kind: type[object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield an operation class's field names in the interface's order, each with its names on the wire."""
    for field in attrs.fields(cast("Any", kind)):
        yield field.name, field.metadata.get(_ON_WIRE, (field.name,))


def promised(kind: type[object]) -> tuple[str, ...]:
    """Return the fields that the interface lists for an operation class, by their names on the wire."""
    outside = {field.name for field in attrs.fields(cast("Any", kind)) if field.metadata == OUTSIDE}
    return tuple(name for field, names in names_of(kind) if field not in outside for name in names)
