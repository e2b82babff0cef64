"""Values of the types that an author's functions say they return, made of what JSON has."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, cast

from ..errors import LocalProtocolError
from ..fields import fields_of, has_fields

UNKNOWN: Final = object()
"""Stands for a type that isn't said, and for a value that isn't of a type."""
_LISTS: Final[tuple[type[Any], ...]] = (list, tuple, set, frozenset)
_OBJECTS: Final[tuple[Any, ...]] = (dict, Mapping)
_SEQUENCES: Final[tuple[Any, ...]] = (Sequence, Iterable, Collection)


def returned_by(fn: Callable[..., object]) -> object:
    """Return the type that a function is said to return; `UNKNOWN` if it isn't."""
    try:
        return typing.get_type_hints(inspect.unwrap(fn)).get("return", UNKNOWN)
    except Exception:  # a name that exists for type checkers only, or a callable without hints
        return UNKNOWN


def shown(annotation: object) -> str:
    """Return a type as Python shows it; nothing for one that isn't said."""
    if annotation is UNKNOWN:
        return ""
    return annotation.__name__ if type(annotation) is type else str(annotation)


def of_type(value: object, annotation: object) -> object:
    """Return a value of this type, made of what JSON has for it if need be.

    An enum's member may be given by its name, and a class with fields by an object of them.

    Raises:
        LocalProtocolError: it is none.
    """
    made = _made(value, annotation)
    if made is UNKNOWN:
        raise LocalProtocolError("value", f"must be of the type {shown(annotation)}")
    return made


def _made(value: object, annotation: object) -> object:
    if annotation is UNKNOWN or annotation is Any or annotation is object:
        return value
    if annotation is None:
        return None if value is None else UNKNOWN
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return next((made for part in parts if (made := _made(value, part)) is not UNKNOWN), UNKNOWN)
    if origin is typing.Annotated:
        return _made(value, parts[0])
    if origin is typing.Literal:
        return value if value in parts else UNKNOWN
    kind: object = origin or annotation
    if not isinstance(kind, type):
        return value  # a type variable, or a protocol: nobody can tell
    return _of_class(value, cast("type[object]", kind), parts)


def _of_class(value: object, kind: type[object], parts: Sequence[object]) -> object:
    if kind in _OBJECTS:
        return _of_dict(value, parts)
    if kind in _LISTS or kind in _SEQUENCES:
        return _of_list(value, kind, parts)
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and isinstance(value, bool):
        return UNKNOWN
    if isinstance(value, kind):
        return value
    if issubclass(kind, Enum) and isinstance(value, str):
        return kind.__members__.get(value, UNKNOWN)
    if has_fields(kind) and isinstance(value, dict):
        return _of_fields(cast("dict[str, object]", value), kind)
    return UNKNOWN


def _of_dict(value: object, parts: Sequence[object]) -> object:
    if not isinstance(value, dict):
        return UNKNOWN
    key, member = parts if len(parts) == 2 else (UNKNOWN, UNKNOWN)
    pairs = cast("dict[object, object]", value).items()
    made = [(_made(one, key), _made(other, member)) for one, other in pairs]
    return UNKNOWN if any(UNKNOWN in pair for pair in made) else dict(made)


def _of_list(value: object, kind: type[object], parts: Sequence[object]) -> object:
    if not isinstance(value, _LISTS):
        return UNKNOWN
    members = list(cast("Sequence[object]", value))
    wanted = list(parts) if kind is tuple and parts and parts[-1] is not Ellipsis else None
    if wanted is None:
        wanted = [parts[0] if parts else UNKNOWN] * len(members)
    if len(wanted) != len(members):
        return UNKNOWN
    made = [_made(one, part) for one, part in zip(members, wanted, strict=True)]
    if any(one is UNKNOWN for one in made):
        return UNKNOWN
    return cast("Any", kind)(made) if kind in _LISTS else made


def _of_fields(given: Mapping[str, object], kind: type[object]) -> object:
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # a name that exists for type checkers only
        hints = {}
    arguments = {field.name: field.argument for field in fields_of(kind)}
    made = {name: _made(value, hints.get(name, UNKNOWN)) for name, value in given.items()}
    if not given.keys() <= arguments.keys() or any(value is UNKNOWN for value in made.values()):
        return UNKNOWN
    try:
        return cast("Any", kind)(**{arguments[name]: value for name, value in made.items()})
    except (TypeError, ValueError):
        return UNKNOWN
