"""What holds for each operation of a class, said once where the class is declared.

Code that writes, reads, orders, repeats or shows operations asks for this, and names a class only where it
needs more.
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

_TOLD: Final = "told"
OUTSIDE: Final[Mapping[str, object]] = {"outside": True}
"""The metadata of a field that the interface doesn't list."""


@final
@guarded
class Traits:
    """What holds for each operation of a class.

    Attributes:
        result: gives the result of an operation from the JSON of its answer, and that answer's bytes.
        lane: those in an equal lane go one after the other; ``chat`` is what a chat's people see. None: an
            operation that waits for no other.
        number: the field by which such lanes differ; "" for its chat.
        repeat: whether an attempt that may have taken effect is followed by another: ``freely``, because
            twice is as good as once; ``as chosen`` by `OnUnknown`; ``never``.
        late: it is worth something when late; else the first attempt is the last.
        money: it asks about money, for which the ledger has a schedule.
        word: short, for people; "" for its path.
    """

    result: ReadResult
    lane: Lane | None = None
    number: str = ""
    repeat: Repeat = "as chosen"
    late: bool = True
    money: bool = False
    word: str = ""


def told(*names: str) -> Mapping[str, object]:
    """Return the metadata of a field with these names on the wire, be they several or none."""
    return {_TOLD: names}


def names_of(kind: type[object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the fields of an operation's class in the interface's order, each with its names on the wire."""
    for field in attrs.fields(cast("Any", kind)):
        yield field.name, field.metadata.get(_TOLD, (field.name,))


def promised(kind: type[object]) -> tuple[str, ...]:
    """Return the names on the wire that the interface lists."""
    outside = {field.name for field in attrs.fields(cast("Any", kind)) if field.metadata == OUTSIDE}
    return tuple(name for field, names in names_of(kind) if field not in outside for name in names)
