"""Decode signals and arguments that another process sends as JSON to the author's classes. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import EnumType
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from ...base.fields import fields_of, has_fields, is_frozen
from ...errors import ConfigError
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
    return _read(kind, _loaded(text or "{}"), kind.__name__)


def read_start(table: Table, name: str, text: str) -> tuple[Route, tuple[object, ...]]:
    """Return the route with this name, and the arguments in the JSON `text`.

    Raises:
        ConfigError: there is no such route, or its function doesn't take these arguments.
    """
    if (route := table.named(name)) is None:
        known = ", ".join(one.name for one in (*table.interrupts, *table.asides, *table.conversations))
        raise ConfigError(f"there is no route {name!r}; the bot has {known}")
    loaded = _loaded(text or "[]")
    if not isinstance(loaded, list):
        raise ConfigError("the arguments of a route are a JSON list, such as '[7]'")
    given, hints = cast("list[object]", loaded), list(_hints(route.handler).values())[1:]
    args = [
        _read(hint, value, f"argument {number}")
        for number, (hint, value) in enumerate(zip([*hints, *[object] * len(given)], given, strict=False), 1)
    ]
    who = f"start {route_name(route.handler)}"
    return table.route_of(route.handler, tuple(args), who), tuple(args)


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


def _read(hint: Any, value: object, where: str) -> object:
    """Convert a JSON value to the type `hint`.

    Raises:
        ConfigError: the value doesn't fit the type.
    """
    origin: Any = get_origin(hint)
    kind: Any = getattr(hint, "__supertype__", hint)
    parts, sort = get_args(hint), type(value)
    if origin is Annotated:
        return _read(parts[0], value, where)
    if origin in (Union, UnionType):
        for part in parts:
            with suppress(ConfigError):
                return _read(part, value, where)
    if sort is dict and has_fields(kind):
        return _made(cast("type", kind), cast("dict[str, object]", value), where)
    if sort is list and origin in (list, tuple, Sequence):
        items = [_read(parts[0], one, where) for one in cast("list[object]", value)]
        return tuple(items) if origin is tuple else items
    if type(kind) is EnumType and (member := kind.__members__.get(str(value))) is not None:
        return cast("object", member)
    same = kind in (object, Any, sort) or (kind is float and sort is int)
    if same or (origin is Literal and value in parts) or (origin is dict and sort is dict):
        return value
    wanted = "a JSON object of its fields" if has_fields(kind) else getattr(kind, "__name__", kind)
    raise ConfigError(f"{where} takes {wanted}, and what is given is none")


def _made(kind: type[Any], given: dict[str, object], where: str) -> object:
    hints = _hints(kind)
    fields = {field.argument: hints.get(field.name, object) for field in fields_of(kind) if field.init}
    if unknown := given.keys() - fields.keys():
        raise ConfigError(f"{where} has no field {min(unknown)!r}; it has {', '.join(fields) or 'none'}")
    values = {name: _read(fields[name], value, f"{where}.{name}") for name, value in given.items()}
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where} can't be made of that: {error}") from None
