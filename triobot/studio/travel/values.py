"""Short texts of variables' values, for display.

Large values aren't copied, and an error in a value's own code is caught. Texts, collections and the total
length are limited. A value that contains itself is shown with dots. If a value's `__repr__` fails, only the
error's class is shown. Objects with fields are written field by field, so that the limits apply to nested
values too.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import islice
from types import (
    BuiltinFunctionType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any, Final, TypeAlias, cast, final

import attrs

from ...base.authors import contained, kind_of
from ...base.fields import fields_of, has_fields
from ...conversations.inspection.closed import Closed
from ...conversations.running.lines import is_authors

DOTS: Final = "\N{HORIZONTAL ELLIPSIS}"
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_DIGITS: Final = 400
"""Maximum size in bits of an integer that is written in digits; a larger integer would take too long."""
_OURS: Final = "triobot."
_NAMED: Final = (FunctionType, MethodType, BuiltinFunctionType, CoroutineType, GeneratorType)
PLAIN: Final = frozenset({str, int, float, bool, bytes, NoneType, complex})
"""Types with immutable values: the same object always has the same text."""
LETTERS: Final = 200
"""Maximum number of characters of one text."""
MEMBERS: Final = 20
"""Maximum number of members of one collection."""
_LEVELS: Final = 4
"""Maximum nesting depth."""
_VALUES: Final = 60
"""Maximum number of values in total."""
WHOLE: Final = 400
"""Maximum number of characters in total."""

_Write: TypeAlias = "Callable[[_Page, Any, int], None]"
_ways: Final[dict[type, _Write]] = {}


def shown(value: object) -> str:
    """Return a value as a text of limited length; an error in the value's own code is caught."""
    kind = type(value)
    if kind in _SHORT:
        return repr(value)
    writer = _Page()
    try:
        writer.write(value, 0)
    except BaseException as error:  # any error in the value's own code
        writer.add(f"<{_name(kind)}: {kind_of(contained(error))}>")
    return writer.text()


_SHORT: Final = frozenset({float, bool, NoneType})


@final
class _Page:
    """Writer of one value's text, within the limits."""

    def __init__(self) -> None:
        self.full = False
        self._room = WHOLE
        self._values = _VALUES
        self._parts: list[str] = []
        self._within: set[int] = set()

    def add(self, text: str) -> None:
        """Append a text, as far as the limit allows."""
        if len(text) > self._room:
            text, self.full = text[: max(self._room, 0)], True
        self._room -= len(text)
        self._parts.append(text)

    def text(self) -> str:
        return "".join(self._parts) + (DOTS if self.full else "")

    def write(self, value: object, level: int) -> None:
        self._values -= 1
        if self._values < 0 or self.full:
            self.full = True
            return
        kind = type(value)
        if kind is str and len(value) <= LETTERS:  # type: ignore[arg-type]
            self.add(repr(value))
            return
        way = _ways.get(kind)
        if way is None:
            way = _ways[kind] = _way_of(kind)
        if kind in PLAIN:
            way(self, value, level)
        elif id(value) in self._within or level > _LEVELS:
            self.add(DOTS)
        else:
            self._within.add(id(value))
            try:
                way(self, value, level)
            finally:
                self._within.discard(id(value))

    def members(
        self, open: str, members: Iterable[Any], close: str, level: int, write: Callable[[Any, int], None]
    ) -> None:
        """Append the first members of a collection, each by `write`."""
        between, left = open, MEMBERS
        for member in members:
            self.add(between)
            between = ", "
            if not left or self.full:
                self.add(DOTS)
                break
            left -= 1
            write(member, level + 1)
        self.add(close if between is not open else open + close)

    def named(self, member: tuple[str, object], level: int) -> None:
        self.add(f"{member[0]}=")
        self.write(member[1], level)

    def entry(self, member: tuple[object, object], level: int) -> None:
        self.write(member[0], level)
        self.add(": ")
        self.write(member[1], level)


def _name(kind: Any) -> str:
    return type.__dict__["__qualname__"].__get__(kind).rpartition("<locals>.")[2]  # type: ignore[no-any-return]


def _kind(value: Any) -> Any:
    return cast("Any", type(value))


def _way_of(kind: Any) -> _Write:
    """Return the function that writes values of a class."""
    for base, way in _WAYS.items():
        if issubclass(kind, base):
            return way
    own: Any = kind.__repr__
    if own in (Enum.__repr__, object.__repr__) and issubclass(kind, Enum):
        return _write_enum
    if has_fields(kind) and _is_generated(own, kind):
        return _write_fields
    if hasattr(kind, "_fields") and issubclass(kind, tuple):
        return _write_named
    if not is_authors(_file_of(own)):
        for base, collection in _COLLECTIONS.items():
            if issubclass(kind, base):
                return collection
    if own is object.__repr__:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<"
        return _write_attributes if is_authors(file) else _write_name
    return _write_own


def _is_generated(own: Any, kind: Any) -> bool:
    # All public fields of triobot's own classes are shown here, even fields that are hidden in logs.
    return kind.__module__.startswith(_OURS) or not is_authors(_file_of(own))


def _file_of(function: Any) -> str:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return "<" if code is None else str(code.co_filename)


def _write_repr(to: _Page, value: object, level: int) -> None:
    to.add(repr(value))


def _write_text(to: _Page, value: Any, level: int) -> None:
    base: Any = str if isinstance(value, str) else bytes if isinstance(value, bytes) else bytearray
    cut = base.__getitem__(value, slice(0, LETTERS + 1))
    if len(cut) > LETTERS:
        text = repr(cut[:LETTERS])
        to.add(f"{text[:-1]}{DOTS}{text[-1]}")
    else:
        to.add(repr(cut))


def _write_number(to: _Page, value: int, level: int) -> None:
    bits = int.bit_length(value)
    to.add(int.__repr__(value) if bits <= _DIGITS else f"<a number of {bits} bits>")


def _write_enum(to: _Page, value: Enum, level: int) -> None:
    name: str | None = value._name_
    to.add(f"{_name(type(value))}.{name}" if name else Enum.__repr__(value))


def _write_type(to: _Page, value: type, level: int) -> None:
    to.add(f"<class {_name(value)}>")


def _write_called(to: _Page, value: Any, level: int) -> None:
    to.add(f"<{type(value).__name__} {getattr(value, '__qualname__', '?')}>")


def _write_module(to: _Page, value: ModuleType, level: int) -> None:
    to.add(f"<module {ModuleType.__getattribute__(value, '__name__')}>")


def _write_closed(to: _Page, value: Closed, level: int) -> None:
    # The placeholder's `__repr__` would mark the placeholder as used.
    to.add(f"<{object.__getattribute__(value, '_name')}, closed>")


def _write_error(to: _Page, value: BaseException, level: int) -> None:
    to.members(f"{_name(type(value))}(", value.args, ")", level, to.write)


def _write_fields(to: _Page, value: object, level: int) -> None:
    ours = type(value).__module__.startswith(_OURS)
    hidden = () if ours else _hidden(type(value))
    names = [one.name for one in fields_of(type(value)) if one.name not in hidden]
    members = ((name, getattr(value, name, None)) for name in names if not (ours and name.startswith("_")))
    to.members(f"{_name(type(value))}(", members, ")", level, to.named)


def _hidden(kind: type) -> frozenset[str]:
    """Return the names of the fields that the author hides by ``repr=False``."""
    found: Any = attrs.fields(kind) if attrs.has(kind) else cast("Any", kind).__dataclass_fields__.values()
    return frozenset([one.name for one in found if one.repr is False])


def _write_named(to: _Page, value: Any, level: int) -> None:
    base: Any = tuple
    kind = _kind(value)
    members = zip(kind._fields, base.__iter__(value), strict=False)
    to.members(f"{_name(kind)}(", members, ")", level, to.named)


def _write_attributes(to: _Page, value: object, level: int) -> None:
    attributes: Mapping[str, object] = getattr(value, "__dict__", {})
    pairs = islice(((name, one) for name, one in attributes.items() if not name.startswith("_")), 100)
    to.members(f"<{_name(type(value))}{' ' if attributes else ''}", pairs, ">", level, to.named)


def _write_name(to: _Page, value: object, level: int) -> None:
    to.add(f"<{_name(type(value))}>")


def _write_own(to: _Page, value: object, level: int) -> None:
    """Append the result of the value's own `__repr__`."""
    kind = type(value)
    try:
        text: Any = kind.__repr__(value)
    except BaseException as error:
        to.add(f"<{_name(kind)}: its repr raised {kind_of(contained(error))}>")
        return
    if not isinstance(text, str):
        if isinstance(text, CoroutineType):
            cast("Any", text).close()
        to.add(f"<{_name(kind)}: its repr returned no text>")
        return
    to.add(_ADDRESS.sub("", str.__getitem__(text, slice(0, WHOLE + 1))))


def _write_members(to: _Page, value: Any, level: int) -> None:
    kind = _kind(value)
    base: Any = next(base for base in _BRACKETS if issubclass(kind, base))
    many: int = base.__len__(value)
    members: Iterable[object] = base.__iter__(value)
    open, close = _BRACKETS[base]
    if base is tuple and many == 1:
        close = ",)"
    if base in (set, frozenset):
        if not many:
            to.add(f"{base.__name__}()")
            return
        if many <= MEMBERS:
            # Sorted, since the order of a set differs between processes.
            members = sorted(members, key=shown)
    name = "" if kind is base or len(open) > 1 else _name(kind)
    to.members(f"{name}{open}", members, close, level, to.write)


def _write_dict(to: _Page, value: Any, level: int) -> None:
    base: Any = dict
    kind = _kind(value)
    open, close = ("{", "}") if kind is base else (f"{_name(kind)}({{", "})")
    to.members(open, base.items(value), close, level, to.entry)


_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    deque: ("deque([", "])"),
}
_WAYS: Final[dict[type, _Write]] = {
    bool: _write_repr,
    NoneType: _write_repr,
    type: _write_type,
    ModuleType: _write_module,
    Closed: _write_closed,
    **dict.fromkeys(_NAMED, _write_called),
}
_COLLECTIONS: Final[dict[type, _Write]] = {
    str: _write_text,
    bytes: _write_text,
    bytearray: _write_text,
    int: _write_number,
    float: _write_repr,
    complex: _write_repr,
    dict: _write_dict,
    **dict.fromkeys(_BRACKETS, _write_members),
    BaseException: _write_error,
}
