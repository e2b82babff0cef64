"""Liberties of a request: properties that the platform may accept, unpromised by the interface. Pure.

Existing clients take such liberties, and the emulator accepts them. A strict emulator refuses a request with
a liberty, and the error names the first liberty. The liberties are always recorded with the request. The
module `requests` refuses requests that can't be parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from ..base.frozen import guarded
from ..wire.content import Descriptor
from ..wire.operations import OPERATIONS, AnswerCallback, EditMessage, SendAction, SendMessage
from ..wire.traits import promised
from .blobs import UploadedFiles


@final
@guarded
class Liberty:
    """One liberty.

    Attributes:
        field: the parameter; ``path`` and ``body`` stand for the request's path and body.
        rule: the interface's rule, as a phrase that follows the field's name. The phrase contains no sent
            data except names of fields and keys, and the content's type.
    """

    field: str
    rule: str


Found: TypeAlias = Iterator[Liberty]

_FIELDS: Final[Mapping[str, Collection[str]]] = {kind.path: promised(kind) for kind in OPERATIONS}
"""Fields that interface section 4 lists, by operation."""

# Only these operations accept a phone number in place of the chat's id (interface section 2.1).
_BY_PHONE: Final = (SendMessage.path, SendAction.path)
_REQUIRED: Final = {EditMessage.path: "data", AnswerCallback.path: "show_alert"}
_BUTTON: Final = ("text", "cb_data", "url", "amount", "currency", "ref_id", "desc")
_FIELD: Final = ("name", "type", "label", "options", "value")
_CONTENT: Final[Mapping[str, Collection[str]]] = {
    "contact": ("phone", "name"),
    "location": ("lat", "long", "desc"),
}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]*", re.ASCII)


def liberties(
    path: str, fields: Sequence[tuple[str, str]], uploads: UploadedFiles, *, as_json: bool = False
) -> tuple[Liberty, ...]:
    """Return the liberties of a request that could be parsed.

    Args:
        path: requested path, after the base URL's slash.
        fields: names and values of the request's fields; for an upload, of the multipart form's fields.
        uploads: the platform's files.
        as_json: whether the body was JSON instead of a form.
    """
    return tuple(_found(path, dict(fields), uploads, as_json=as_json))


def _found(path: str, given: Mapping[str, str], uploads: UploadedFiles, *, as_json: bool) -> Found:
    name = path.strip("/")
    if path not in (name, f"/{name}"):
        yield Liberty("path", "must have no slash at its end")
    if as_json:
        yield Liberty("body", "must be a form")
    known = _FIELDS.get(name)
    if known is None:
        yield Liberty("path", "is no operation of the interface")
        return
    for field in given:
        if field not in known:
            yield Liberty(field, f"is no field of {name}")
    required = _REQUIRED.get(name)
    if required is not None and required not in given:
        yield Liberty(required, "must be given")
    if given.get("chat_id", "").startswith("+") and name not in _BY_PHONE:
        yield Liberty("chat_id", "may be a phone number when sending only")
    if not _BASE64.fullmatch(given.get("ref_id", "")):
        yield Liberty("ref_id", "must be letters and digits of base64")
    for field, look in _LOOKS.items():
        if field in given and field in known:
            yield from look(json.loads(given[field]))
    if name == SendMessage.path:
        yield from _content(given["type"], given["data"], uploads)
    elif name == SendAction.path and given["type"] != given["type"].lower():
        yield Liberty("type", "must be in small letters")


def _content(type: str, data: str, uploads: UploadedFiles) -> Found:
    kind = type.lower()
    if kind != type:
        yield Liberty("type", "must be in small letters")
    if kind == "text":
        return
    value: dict[str, Any] = json.loads(data)
    if kind in _CONTENT:
        yield from _unknown("data", value, _CONTENT[kind], "the")
        for key in _CONTENT[kind]:
            if key not in value:
                yield Liberty("data", f"must have the key {key!r}")
            elif not isinstance(value[key], str):
                yield Liberty("data", f"must have text for {key!r}")
        if kind == "contact" and not str(value.get("phone")).startswith("+"):
            yield Liberty("data", "must have a phone number with a plus sign")
    elif not uploads.describes(Descriptor.from_object(value)):
        yield Liberty("data", "must be what upload has answered, with 'desc' at most")
    elif value.get("type") != kind:
        yield Liberty("data", f"must be what upload has answered for the type {kind}")


def _reply_keyboard(value: dict[str, Any]) -> Found:
    yield from _unknown("reply_keyboard", value, ("keyboard",), "the")
    if not value["keyboard"]:
        yield Liberty("reply_keyboard", "must have a row")


def _inline_keyboard(rows: list[list[dict[str, Any]]]) -> Found:
    if not rows:
        yield Liberty("inline_keyboard", "must have a row")
    for button in (button for row in rows for button in row):
        yield from _unknown("inline_keyboard", button, _BUTTON, "a button with the")
        if isinstance(button.get("amount"), str):
            yield Liberty("inline_keyboard", "must have a number for 'amount'")
        if not _BASE64.fullmatch(button.get("ref_id") or ""):
            yield Liberty("inline_keyboard", "must have letters and digits of base64 for 'ref_id'")


def _form(fields: list[dict[str, Any]]) -> Found:
    for field in fields:
        yield from _unknown("form", field, _FIELD, "a field with the")
        if field.get("value") is not None and field["type"] != "inbuilt":
            yield Liberty("form", "may have a 'value' for the type inbuilt only")
        if field["type"] == "submit" and "name" in field:
            yield Liberty("form", "must have no 'name' for the type submit")


_LOOKS: Final[Mapping[str, Callable[[Any], Found]]] = {
    "reply_keyboard": _reply_keyboard,
    "inline_keyboard": _inline_keyboard,
    "form": _form,
}


def _unknown(field: str, value: Mapping[str, object], known: Collection[str], what: str) -> Found:
    for key in value:
        if key not in known:
            yield Liberty(field, f"has {what} key {key!r}, which the interface doesn't know")
