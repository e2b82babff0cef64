"""`matches`: take texts that match a pattern, and convert the pattern's groups to the fields of a class."""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, Generic, Literal, Union, cast, final, get_args, get_origin, get_type_hints

import attrs
from typing_extensions import TypeVar

from ...base.fields import fields_of, has_fields
from ...base.frozen import guarded
from ...errors import ConfigError
from ...seams.values import expect, register
from ...wire.events import Event, Message, Sender
from ...wire.ids import ChatId
from .filters import Filter, Setting, any_of
from .typed import UNFIT, bare, seen

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@final
@guarded
class Match(Generic[T_co]):
    """A text that matched a pattern; see `triobot.filters.matches`.

    Attributes:
        content: the text as it arrived.
        value: instance of the class, made of the pattern's groups.
    """

    chat_id: ChatId
    content: str = attrs.field(repr=False)
    value: T_co = attrs.field(repr=False)
    sender: Sender | None = None


register(Match, name="triobot.Match")


def matches(pattern: str | re.Pattern[str], cls: type[T]) -> Filter[Match[T]]:
    r"""Take texts that match the whole pattern, and convert the groups to a value. Outer blanks are ignored.

    Each named group is a field of the class, and is converted to the field's type: text, a whole number, a
    number with a fraction, a `Decimal`, or an Enum or a Literal by its value. A group that may be missing
    needs a field with a default, such as None. A field with a default needs no group. ``\d`` and numbers
    accept Persian digits. A text is not taken if a field's type or validator refuses the group's text.

    Args:
        pattern: a regular expression with named groups.
        cls: a frozen attrs class or dataclass.

    Raises:
        ConfigError: the pattern is no regular expression, its groups are not the class's fields, or a field
            has another type.

    Examples:
        >>> @attrs.frozen
        ... class Track:
        ...     order: int
        >>> @bot.conversation(matches(r"track (?P<order>\d+)", Track))
        ... async def track(chat: Chat[Match[Track]]) -> None:
        ...     await chat.send(f"Order {chat.event.value.order} is on its way.")
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ConfigError(f"matches() takes a regular expression: {error}") from None
    reads = _readers(cls)
    _check_groups(compiled, cls, reads)
    expect(cls, "matches()")
    make = cast("Callable[..., T]", cls)

    def see(event: Event, setting: Setting) -> Match[T] | None:
        if not isinstance(event, Message) or not isinstance(event.content, str):
            return None
        # Try the text as typed first: a pattern may contain zero-width joiners, and groups keep their
        # joiners.
        for text in dict.fromkeys((bare(event.content), seen(event.content).strip())):
            if (found := compiled.fullmatch(text)) is None:
                continue
            given = {name: part for name, part in found.groupdict().items() if part is not None}
            with suppress(*UNFIT, TypeError):
                value = make(**{name: reads[name](part) for name, part in given.items()})
                return Match(event.chat_id, event.content, value, event.sender)
        return None

    name = f"matches({compiled.pattern!r}, {cls.__name__})"
    return Filter(see, name, kinds=any_of((Message, str, compiled, cls)))


def _readers(cls: type[object]) -> Mapping[str, Callable[[str], object]]:
    """Return a converter from text for each field of the class."""
    if not has_fields(cls):
        name = getattr(cls, "__name__", repr(cls))
        raise ConfigError(f"matches() takes a frozen attrs class or dataclass, and {name} is none")
    hints = get_type_hints(cls)
    return {
        field.argument: _reader(f"{cls.__name__}.{field.name}", hints[field.name])
        for field in fields_of(cls)
        if field.init
    }


def _reader(where: str, kind: object) -> Callable[[str], object]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        return _reader(where, next(one for one in arguments if one is not type(None)))
    if origin is Literal:
        return partial(_option, {str(option): option for option in arguments})
    if kind is str or kind is int or kind is float or kind is Decimal:
        return kind
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return partial(_option, {str(cast("Any", option).value): option for option in kind})
    raise ConfigError(
        f"matches() can't read {where}: a group is a str, int, float, Decimal, Enum or Literal, or one of "
        "them or None"
    )


def _option(options: Mapping[str, object], text: str) -> object:
    if text not in options:
        raise ValueError
    return options[text]


def _check_groups(pattern: re.Pattern[str], cls: type[Any], reads: Mapping[str, object]) -> None:
    groups = set(pattern.groupindex)
    if unknown := sorted(groups - reads.keys()):
        raise ConfigError(
            f"matches(): a group is called {unknown[0]!r}, and {cls.__name__} has no such field"
        )
    for field in fields_of(cls):
        if field.required and field.argument not in groups:
            raise ConfigError(
                f"matches(): {cls.__name__} has a field {field.argument!r}, and no group is called that"
            )
