"""Fields of authors' value classes, the same for attrs classes and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, cast, final, get_args, get_origin, get_type_hints

import attrs

from ..errors import ConfigError
from .frozen import guarded

_found: Final[dict[type, tuple[ValueField, ...]]] = {}


_hints: Final = cache(get_type_hints)


@final
@guarded
class ValueField:
    """A field of an attrs class or dataclass.

    Attributes:
        argument: name of the constructor's argument.
        init: whether the constructor accepts the field.
        required: whether the constructor needs the field.
        metadata: the author's metadata of the field.
    """

    name: str
    argument: str
    init: bool
    required: bool
    metadata: Mapping[Any, Any]


def has_fields(cls: object) -> bool:
    """Return whether `cls` is an attrs class or a dataclass."""
    return isinstance(cls, type) and (attrs.has(cls) or dataclasses.is_dataclass(cls))


def is_frozen(cls: type) -> bool:
    """Return whether values of the class refuse assignments to their fields."""
    if attrs.has(cls):
        return cls.__setattr__.__name__ == "_frozen_setattrs"
    return bool(cast("Any", cls).__dataclass_params__.frozen)


def fields_of(cls: type) -> tuple[ValueField, ...]:
    """Return the class's fields in their order."""
    if (fields := _found.get(cls)) is None:
        fields = _found[cls] = _find(cls)
    return fields


def _find(cls: type) -> tuple[ValueField, ...]:
    if attrs.has(cls):
        return tuple(
            ValueField(
                field.name,
                field.alias or field.name,
                field.init,
                field.init and field.default is attrs.NOTHING,
                field.metadata,
            )
            for field in attrs.fields(cls)
        )
    missing = dataclasses.MISSING
    return tuple(
        ValueField(
            field.name,
            field.name,
            field.init,
            field.init and field.default is missing and field.default_factory is missing,
            field.metadata,
        )
        for field in dataclasses.fields(cast("Any", cls))
    )


def check_types(made: object) -> None:
    """Check each field's value against the field's type annotation; an int is accepted for a float.

    Raises:
        ConfigError: a value has another type. The error names the field and both types, but never the value,
            which may be a secret.
    """
    for name, hint in _hints(cast("Any", type(made))).items():
        value: object = getattr(made, name)
        if not _is_of(value, hint):
            cls, kind = type(made), type(value).__name__
            right = next(one.__annotations__[name] for one in cls.__mro__ if name in one.__annotations__)
            raise ConfigError(f"{cls.__name__}({name}=) must be of type {right}, not {kind}")


def _is_of(value: object, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is_of(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(one, str) for one in cast("tuple[object]", value))
    kinds = (int, float) if kind is float else kind
    return isinstance(value, kinds) and (kind is bool or not isinstance(value, bool))
