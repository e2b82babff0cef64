"""Typed reading of the control API's JSON bodies."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Collection, Mapping
from typing import TypeAlias, cast, final

from ..errors import TriobotError
from ..wire.rules import JsonValue

Given: TypeAlias = "JsonValue | Awaitable[JsonValue]"
"""What a route gives back: JSON, now or after waiting."""


@final
class BadAskError(TriobotError):
    """A request to the control API that can't be read; the text names the key."""


@final
class Asked:
    """The keys of one request; what is read is of the type that was asked for, or refused."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    @classmethod
    def read(cls, body: bytes) -> Asked:
        """Read a JSON object; an empty body is an empty one."""
        try:
            value: object = json.loads(body) if body.strip() else {}
        except (ValueError, RecursionError):
            raise BadAskError("the body must be JSON") from None
        if not isinstance(value, dict):
            raise BadAskError("the body must be a JSON object")
        return cls(cast("dict[str, object]", value))

    def only(self, names: Collection[str]) -> None:
        """Refuse keys that nobody reads: a misspelt one would be ignored in silence."""
        for name in self._values:
            if name not in names:
                raise BadAskError(f"{name!r} is not known here; known are {', '.join(sorted(names))}")

    def values(self) -> Mapping[str, object]:
        """Everything, unread."""
        return self._values

    def text(self, name: str) -> str:
        """Text that must be there."""
        if (value := self.optional_text(name)) is None:
            raise BadAskError(f"{name!r} must be given")
        return value

    def optional_text(self, name: str) -> str | None:
        """Text, or None when it isn't there."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise BadAskError(f"{name!r} must be text")
        return value

    def integer(self, name: str, default: int) -> int:
        """An integer, or the default."""
        value = self.optional_integer(name)
        return default if value is None else value

    def optional_integer(self, name: str) -> int | None:
        """An integer, or None when it isn't there."""
        value = self._values.get(name)
        if value is None:
            return None
        if type(value) is not int:
            raise BadAskError(f"{name!r} must be an integer")
        return value

    def seconds(self, name: str) -> float:
        """A number of seconds from 0 to a year, that must be there."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 366 * 86_400:
            raise BadAskError(f"{name!r} must be a number of seconds, at most a year")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false when it isn't there."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise BadAskError(f"{name!r} must be true or false")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """An object of texts; empty when it isn't there."""
        value = self._object(name)
        for entry in value.values():
            if not isinstance(entry, str):
                raise BadAskError(f"{name!r} must hold texts only")
        return cast("Mapping[str, str]", value)

    def integers(self, name: str) -> list[int]:
        """A list of integers; empty when it isn't there."""
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(type(item) is int for item in cast("list[object]", value)):
            raise BadAskError(f"{name!r} must be a list of integers")
        return cast("list[int]", value)

    def inner(self, name: str) -> Asked:
        """An object inside; empty when it isn't there."""
        return Asked(self._object(name))

    def _object(self, name: str) -> Mapping[str, object]:
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise BadAskError(f"{name!r} must be an object")
        return cast("dict[str, object]", value)


def as_number(name: str, value: object) -> int:
    """An integer out of an address, where everything is text."""
    text = str(value)
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= 18):
        raise BadAskError(f"{name!r} must be an integer")
    return int(text)
