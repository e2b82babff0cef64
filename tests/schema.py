"""Checks a value against a JSON schema. Supports only the keywords that triobot's own schemas use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN: Final = {
    "$schema",
    "$defs",
    "title",
    "description",
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "anyOf",
    "enum",
    "const",
}


def wrong(value: object, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = "") -> str | None:
    """Say where a value doesn't fit a schema; None if it does."""
    assert schema.keys() <= _KNOWN, f"this reads no {schema.keys() - _KNOWN}"
    if (ref := schema.get("$ref")) is not None:
        found: Any = root
        for part in ref.removeprefix("#/").split("/"):
            found = found[part]
        return wrong(value, found, root, at)
    if (either := schema.get("anyOf")) is not None:
        several = [wrong(value, one, root, at) for one in either]
        return None if None in several else f"{at}: none of {several}"
    if "const" in schema and value != schema["const"]:
        return f"{at}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at}: {value!r} is none of {schema['enum']}"
    if (kinds := schema.get("type")) is not None:
        allowed = [_TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        if not any(isinstance(value, one) and not (one == (int,) and value is True) for one in allowed):
            return f"{at}: {type(value).__name__} is no {kinds}"
    if isinstance(value, dict):
        return _wrong_object(value, schema, root, at)
    return _wrong_array(value, schema, root, at) if isinstance(value, list | tuple) else None


def _wrong_object(
    value: dict[str, object], schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> str | None:
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        return f"{at}: without {missing}"
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, member in value.items():
        inner = properties.get(name, others)
        if inner is False:
            return f"{at}: there is no {name!r}"
        if inner is not True and (found := wrong(member, inner, root, f"{at}.{name}")) is not None:
            return found
    return None


def _wrong_array(
    value: list[object] | tuple[object, ...], schema: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> str | None:
    first = schema.get("prefixItems", ())
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{at}: {len(value)} members"
    for n, member in enumerate(value):
        inner = first[n] if n < len(first) else schema.get("items", {})
        if (found := wrong(member, inner, root, f"{at}[{n}]")) is not None:
            return found
    return None
