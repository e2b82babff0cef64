"""The classes that authors make for values, and their fields: attrs classes and dataclasses alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, cast, final

import attrs

from .frozen import guarded

_found: Final[dict[type, tuple[ValueField, ...]]] = {}


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
