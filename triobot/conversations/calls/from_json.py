"""Decode signals and arguments that another process sends as JSON to the author's classes. Pure."""

from __future__ import annotations

import json
import sys
from typing import Any, cast, get_type_hints

from ...base.authors import contained, kind_of
from ...base.fields import has_fields, is_frozen
from ...errors import ConfigError
from ...wire.rules import JsonValue
from ..questions.keys import part_of
from ..routes.declarations import Route, Table, route_name


def read_signal(table: Table, name: str, text: str) -> object:
    """Decode a signal: return an instance of the class `name`, with the fields in the JSON `text`.

    `name` is the name of a class in a module of the bot's functions, such as ``Shipped``, or a name with a
    module, such as ``shop.Shipped``.

    Raises:
        ConfigError: there is no such class, or the fields don't fit.
    """
    module, _, cls = name.rpartition(".")
    modules = dict.fromkeys(function.__module__ for function in table.functions)
    within = [module] if module else list(modules)
    found = [value for one in within if has_fields(value := getattr(sys.modules.get(one), cls, None))]
    if not found or not is_frozen(kind := cast("type", found[0])):
        raise ConfigError(f"{name!r} is no frozen attrs class or dataclass of {', '.join(within)}")
    return _made(kind, _loaded(text or "{}"), kind.__name__)


def read_start(table: Table, name: str, text: str) -> tuple[Route, tuple[object, ...]]:
    """Return the route with this name, and the arguments in the JSON `text`.

    Raises:
        ConfigError: there is no such route, or the route's function doesn't take these arguments.
    """
    if (route := table.named(name)) is None:
        known = ", ".join(one.name for one in (*table.interrupts, *table.asides, *table.conversations))
        raise ConfigError(f"there is no route {name!r}; the bot has {known}")
    loaded = _loaded(text or "[]")
    if not isinstance(loaded, list):
        raise ConfigError("the arguments of a route are a JSON list, such as '[7]'")
    given, hints = cast("list[object]", loaded), list(_hints(route.handler).values())[1:]
    args = [
        _made(hint, value, f"argument {number}")
        for number, (hint, value) in enumerate(zip([*hints, *[object] * len(given)], given, strict=False), 1)
    ]
    return table.route_of(route.handler, tuple(args), f"start {route_name(route.handler)}"), tuple(args)


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"this is no JSON: {error}") from None


def _hints(of: object) -> dict[str, Any]:
    try:
        hints = get_type_hints(of, include_extras=True)
    except NameError:  # a name that is imported for type checkers only
        return {}
    hints.pop("return", None)
    return hints


def _made(kind: Any, value: object, what: str) -> object:
    try:
        return part_of(kind, cast("JsonValue", value))
    except BaseException as error:
        wrong = contained(error)
        raise ConfigError(f"{what} can't be made of that: {kind_of(wrong)}: {wrong}") from None
