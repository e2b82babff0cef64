"""The classes that authors make for values, and their fields: attrs classes and dataclasses alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, cast, final, get_args, get_origin, get_type_hints

import attrs

from ..errors import ConfigError
from .frozen import guarded
from .secrets import Secret

_found: Final[dict[type, tuple[ValueField, ...]]] = {}


_hints: Final = cache(get_type_hints)
_WORDS: Final[dict[object, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    Secret: "a text",
    tuple[str, ...]: "a tuple of texts",
    NoneType: "None",
}


@final
@guarded
class ValueField:
    """A field of a class that is made for values.

    Attributes:
        argument: what the class's constructor calls it.
        init: the constructor takes it.
        required: the constructor doesn't do without it.
        metadata: what the author attached to it.
    """

    name: str
    argument: str
    init: bool
    required: bool
    metadata: Mapping[Any, Any]


def has_fields(cls: object) -> bool:
    """Return whether this is an attrs class or a dataclass."""
    return isinstance(cls, type) and (attrs.has(cls) or dataclasses.is_dataclass(cls))


def is_frozen(cls: type) -> bool:
    """Return whether the values of such a class can't be changed."""
    if attrs.has(cls):
        return cls.__setattr__.__name__ == "_frozen_setattrs"
    return bool(cast("Any", cls).__dataclass_params__.frozen)


def fields_of(cls: type) -> tuple[ValueField, ...]:
    """Return the fields of such a class, in their order."""
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
    """Refuse a value of a field that is not of the field's type; a whole number is a number, too.

    Raises:
        ConfigError: names the field and both types, and not the value, which may be a secret.
    """
    for name, hint in _hints(cast("Any", type(made))).items():
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        value: object = getattr(made, name)
        if not any(_is_of(value, kind) for kind in kinds):
            right = " or ".join(_WORDS.get(kind) or kind.__name__ for kind in kinds)
            wrong = type(value).__name__
            raise ConfigError(f"{type(made).__name__}({name}=) must be {right}, not {wrong}")


def _is_of(value: object, kind: Any) -> bool:
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(one, str) for one in cast("tuple[object]", value))
    kinds = (int, float) if kind is float else kind
    return isinstance(value, kinds) and (kind is bool or not isinstance(value, bool))
